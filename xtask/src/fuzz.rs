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

/// The targets have a lock file of their own, which changes with the dependencies of what is fuzzed.
pub fn check_lock(folder: &Path) -> Result<(), String> {
    let mut metadata = Command::new(env!("CARGO"));
    metadata.args(["metadata", "--format-version", "1", "--locked"]).current_dir(folder);
    crate::package::said(&mut metadata).map(drop).map_err(|why| {
        format!("{why}; if the lock file is old, run 'cargo update --workspace' in {}", folder.display())
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn lock_file_without_a_dependency_is_refused() {
        let folder = std::env::temp_dir().join(format!("commensal-xtask-lock-{}", std::process::id()));
        for name in [".", "a"] {
            fs::create_dir_all(folder.join(name).join("src")).unwrap();
            fs::write(folder.join(name).join("src/lib.rs"), "").unwrap();
        }
        let manifest = |name: &str, rest: &str| format!("[package]\nname = '{name}'\nedition = '2024'\n{rest}");
        let locked = |name: &str, rest: &str| format!("[[package]]\nname = \"{name}\"\nversion = \"0.0.0\"\n{rest}\n");
        let put = |path: &str, text: String| fs::write(folder.join(path), text).unwrap();
        put("a/Cargo.toml", manifest("a", ""));
        put("Cargo.toml", manifest("b", "[workspace]\n[dependencies]\na = { path = 'a' }\n"));
        put("Cargo.lock", format!("version = 4\n\n{}", locked("b", "")));
        assert!(check_lock(&folder).is_err_and(|why| why.contains("run 'cargo update --workspace' in")));
        put(
            "Cargo.lock",
            format!("version = 4\n\n{}{}", locked("a", ""), locked("b", "dependencies = [\n \"a\",\n]\n")),
        );
        assert_eq!(check_lock(&folder), Ok(()));
        fs::remove_dir_all(folder).unwrap();
    }
}
