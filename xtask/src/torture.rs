//! Tests that are hard on what they test: RCU's torture test for as long as one likes, of which
//! runtime/tests/torture/main.rs tells how to read what it prints, and the simulated machine's under Valgrind.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::nightly::watch;

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
        Build::Release => &["--release", "--package", "commensal-runtime"],
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

/// Where cargo looks for what runs tests.
const RUNNER: &str = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER";
/// Exploring forks workers that are ended when they take long, and under Valgrind they do; what it runs is what the others run.
const TESTS: [&str; 7] = ["--lib", "--test", "exhaustive", "--test", "scheduler", "--test", "determinism"];
/// A simulated thread that reads what was freed: only Valgrind sees that.
const PLANTED: &str = "planted_read";

/// Runs the simulated machine's own tests under Valgrind, about ten minutes: it is unsafe code with stacks of its own,
/// and no compiler checks it.
pub fn run_under_valgrind(root: &Path) -> Result<(), String> {
    let found = Command::new("valgrind").arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        return Err("found no valgrind; install it (Debian: apt-get install valgrind)".into());
    }
    let mut planted = under_valgrind(root, "run");
    let output = planted.args(["--example", PLANTED]).output().map_err(|error| format!("cargo: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || !said.contains("Invalid read of size") {
        return Err(format!("Valgrind does not find what is planted in examples/{PLANTED}.rs:\n{said}"));
    }
    println!("valgrind: found what is planted");
    let mut all = under_valgrind(root, "test");
    all.args(TESTS).args(["--", "--test-threads=1"]);
    let status = all.status().map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err("Valgrind found what stands above".into()) }
}

fn under_valgrind(root: &Path, what: &str) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args([what, "--package", "simulated"]).current_dir(root);
    command.env(RUNNER, "valgrind --quiet --error-exitcode=9");
    command
}
