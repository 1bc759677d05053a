//! The engine's own tests under Valgrind: it is unsafe code with stacks of its own, and no compiler checks it.

use std::path::Path;
use std::process::Command;

/// Where cargo looks for what runs tests.
const RUNNER: &str = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER";
/// Exploring forks workers that are ended when they take long, and under Valgrind they do; what it runs is what the others run.
const TESTS: [&str; 7] = ["--lib", "--test", "litmus", "--test", "exhaustive", "--test", "determinism"];
const SKIPPED: [&str; 3] = [
    // Valgrind's mremap neither grows a mapping in place nor keeps what was moved.
    "mappings_grow_where_there_is_room_and_shrink",
    "pages_move_and_leave_zeroes",
    // As long as all others together, and `its_own_choices_repeat_a_run` does the same.
    "the_same_seed_gives_the_same_trace",
];
/// A simulated thread that reads what was freed: only Valgrind sees that.
const PLANTED: &str = "planted_a_read_of_what_was_freed";

/// Runs them; about ten minutes.
pub fn run(root: &Path) -> Result<(), String> {
    let found = Command::new("valgrind").arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        return Err("found no valgrind; install it (Debian: apt-get install valgrind)".into());
    }
    let mut planted = tests(root, &["--test", "litmus"]);
    let output = planted.args(["--ignored", PLANTED]).output().map_err(|error| format!("cargo: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || !said.contains("Invalid read of size") {
        return Err(format!("Valgrind does not find what is planted in {PLANTED}:\n{said}"));
    }
    println!("valgrind: found what is planted");
    let mut all = tests(root, &TESTS);
    all.args(SKIPPED.iter().flat_map(|name| ["--skip", *name]));
    let status = all.status().map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err("Valgrind found what stands above".into()) }
}

fn tests(root: &Path, which: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--package", "commensal-machine-simulated"]).args(which);
    command.args(["--", "--test-threads=1"]).env(RUNNER, "valgrind --quiet --error-exitcode=9").current_dir(root);
    command
}
