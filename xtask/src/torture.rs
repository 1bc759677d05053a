//! RCU's torture test for as long as one likes; runtime/tests/torture/main.rs tells how to read what it prints.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::nightly::watch;

/// What is tortured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// The runtime as users have it.
    Release,
    /// As `cargo test --workspace` has built it already.
    OfTests,
}

/// Runs all modes at the same time, for so many minutes.
pub fn run(root: &Path, minutes: f64, build: Build) -> Result<(), String> {
    if minutes.is_nan() || minutes <= 0.0 {
        return Err(format!("found {minutes} minutes; expected more than none"));
    }
    let which: &[&str] = match build {
        Build::Release => &["--release", "--package", "runtime"],
        Build::OfTests => &["--workspace"],
    };
    let cargo = || {
        let mut command = Command::new(env!("CARGO"));
        command.args(["test", "--quiet"]).args(which).args(["--test", "torture"]).current_dir(root);
        command
    };
    let failed = |error| format!("cargo cannot be started: {error}");
    let built = cargo().arg("--no-run").status().map_err(failed)?;
    if !built.success() {
        return Err("the test cannot be built".into());
    }
    let all = Duration::from_secs_f64(minutes * 60.0);
    let mut command = cargo();
    // Three modes, and the planted bugs, however few CPUs there are. Without more effort a mode takes a second.
    command
        .args(["--", "--nocapture", "--test-threads", "16"])
        .env("COMMENSAL_TEST_EFFORT", all.as_secs_f64().to_string());
    let status = watch(&mut command, |time| {
        println!("torture: about {} min left", all.saturating_sub(time).as_secs().div_ceil(60));
    })?;
    if status.success() { Ok(()) } else { Err("torture found what stands above".into()) }
}
