//! Runs the fuzz targets of `fuzz/`, by libFuzzer, which a stable compiler can instrument for.

use std::path::Path;
use std::process::Command;

use crate::library::succeeds;

/// Each with the longest input, in bytes.
const TARGETS: [(&str, u32); 5] =
    [("malloc", 4096), ("settings", 512), ("page", 4096), ("profile", 16384), ("pack", 4096)];

/// Lines of a target that failed which are shown.
const SHOWN: usize = 60;

/// What cargo-fuzz passes, without a sanitizer: these need a nightly compiler.
const FLAGS: [&str; 6] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Runs each target for its part of so many minutes. Inputs that reached new code stay in `target/fuzz/corpus`, and the
/// next run begins with them; one that fails is in `target/fuzz/found`.
pub fn run(root: &Path, minutes: f64, only: Option<&str>) -> Result<(), String> {
    let chosen: Vec<_> = TARGETS.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)).collect();
    if chosen.is_empty() {
        let names = TARGETS.map(|(name, _)| name).join(", ");
        return Err(format!("found no target '{}'; expected one of {names}", only.unwrap_or_default()));
    }
    let place = root.join("target/fuzz");
    // A target of its own for the compiler, so that build scripts are not instrumented.
    let compiler = crate::package::said(Command::new("rustc").arg("-vV"))?;
    let host = compiler.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc does not tell its host")?;
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--release", "--quiet", "--locked", "--target", host, "--target-dir"]).arg(&place);
    build.env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f")).current_dir(root.join("fuzz"));
    succeeds(&mut build)?;
    let seconds = (minutes * 60.0 / chosen.len() as f64).ceil();
    for (name, longest) in chosen {
        println!("fuzz: {name} for {seconds} s");
        let [corpus, found] = ["corpus", "found"].map(|folder| place.join(folder).join(name));
        for folder in [&corpus, &found] {
            std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let mut target = Command::new(place.join(host).join("release").join(name));
        target.arg(&corpus).arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={longest}"));
        target.args(["-print_final_stats=1"]).arg(format!("-artifact_prefix={}/", found.display()));
        let output = target.output().map_err(|error| format!("{name} cannot be run: {error}"))?;
        let told = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let lines: Vec<&str> = told.lines().collect();
            let last = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
            return Err(format!("{last}\n{name} failed; run the input that {} has", found.display()));
        }
        let number =
            |key: &str| told.lines().find_map(|line| line.strip_prefix(&format!("stat::{key}:"))).map(str::trim);
        let (runs, new) = (number("number_of_executed_units"), number("new_units_added"));
        println!("fuzz: {name}: {} runs, {} inputs reached new code", runs.unwrap_or("?"), new.unwrap_or("?"));
    }
    Ok(())
}
