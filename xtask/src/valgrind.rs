//! The engine's own tests under Valgrind: it is unsafe code with stacks of its own, and no compiler checks it.

use std::path::Path;
use std::process::Command;

/// Where cargo looks for what runs tests.
const RUNNER: &str = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER";
/// Exploring forks workers that are ended when they take long, and under Valgrind they do; what it runs is what the others run.
const TESTS: [&str; 9] =
    ["--lib", "--test", "litmus", "--test", "exhaustive", "--test", "scheduler", "--test", "determinism"];
/// Valgrind's mremap neither grows a mapping in place nor keeps what was moved.
const SKIPPED: [&str; 2] = ["mappings_grow_where_there_is_room_and_shrink", "pages_move_and_leave_zeroes"];
/// A simulated thread that reads what was freed: only Valgrind sees that.
const PLANTED: &str = "planted_read";

/// Runs them; about ten minutes.
pub fn run(root: &Path) -> Result<(), String> {
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
    all.args(TESTS).args(["--", "--test-threads=1"]).args(SKIPPED.iter().flat_map(|name| ["--skip", *name]));
    let status = all.status().map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err("Valgrind found what stands above".into()) }
}

fn under_valgrind(root: &Path, what: &str) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args([what, "--package", "simulated"]).current_dir(root);
    command.env(RUNNER, "valgrind --quiet --error-exitcode=9");
    command
}
