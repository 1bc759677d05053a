//! Real programs: each prints the same and ends the same with the library, in both modes, as without it.
//!
//! A program's work is a shell script in `programs/`, which prints nothing that differs from run to run. Each
//! run has an empty folder of its own and a fixed environment. The first run, without the library, must
//! succeed: it says what is right.

use dropin::compile::broken;
use dropin::run::{End, Outcome, Run};
use dropin::subject::{self, Library, Mode};
use dropin::{empty_folder, skips};
use std::collections::BTreeSet;
use std::time::Duration;

/// Far above what the longest of them takes.
const LIMIT: Duration = Duration::from_secs(900);

/// Each test is the script of its name and the programs without which it cannot run.
macro_rules! programs {
    ($($name:ident: $($tool:literal)+;)*) => {
        $(#[test] fn $name() {
            agrees(stringify!($name), &[$($tool),+]);
        })*

        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

programs! {
    sh: "sh" "awk" "tar" "gzip";
    git: "git";
    gcc: "gcc" "g++" "ar" "objdump";
    python: "python3";
    python_tests: "python3";
    perl: "perl";
    node: "node";
    java: "java" "javac";
    cargo: "cargo" "gcc";
    openssh: "/usr/sbin/sshd" "ssh" "ssh-keygen";
    redis: "redis-server" "redis-cli" "redis-benchmark";
    sqlite: "sqlite3";
    xz: "xz";
    sort: "sort" "gzip";
}

fn agrees(name: &str, tools: &[&str]) {
    if skips::has_tools(name, tools) && has_python_tests(name) {
        compare(name, subject::library()).unwrap_or_else(|report| panic!("{report}"));
    }
}

/// Debian has the tests of Python's standard library in a package of their own.
fn has_python_tests(name: &str) -> bool {
    let present = name != "python_tests"
        || Run::new("python3").args(["-c", "import test.test_list"]).with(&Library::none(), Mode::Without).end
            == End::Exited(0);
    if !present {
        skips::skip(name, "Python's own tests are not installed; dropin/install.sh installs them");
    }
    present
}

/// Runs the script three times; an error is the report of the first difference.
fn compare(name: &str, library: &Library) -> Result<(), String> {
    let expected = outcome(name, library, Mode::Without).ending(End::Exited(0))?;
    for mode in [Mode::Normal, Mode::Fallback] {
        let found = outcome(name, library, mode).ending(expected.end)?;
        if let Some(difference) = first_difference(&expected.stdout, &found.stdout) {
            return Err(found.report(&format!("{name} prints something else than without the library: {difference}")));
        }
    }
    Ok(())
}

fn first_difference(expected: &str, found: &str) -> Option<String> {
    let (mut expected, mut found) = (expected.lines(), found.lines());
    let pairs = (1..).map(|number| (number, expected.next(), found.next()));
    let mut pairs = pairs.take_while(|(_, expected, found)| expected.is_some() || found.is_some());
    let (number, expected, found) = pairs.find(|(_, expected, found)| expected != found)?;
    Some(format!("line {number}: expected {expected:?}, found {found:?}"))
}

fn outcome(name: &str, library: &Library, mode: Mode) -> Outcome {
    let folder = empty_folder();
    let script = dropin::folder().join("programs").join(format!("{name}.sh"));
    let run = Run::new("/bin/sh").args(["-eu".into(), script]).folder(&folder).limit(LIMIT).env("CARGO", env!("CARGO"));
    let outcome = run.with(library, mode);
    if outcome.end == End::Exited(0) {
        std::fs::remove_dir_all(&folder).expect("a test's own folder can be removed");
    }
    outcome
}

#[test]
fn scripts_are_all_tests() {
    let files = std::fs::read_dir(dropin::folder().join("programs")).expect("the scripts are there");
    let scripts = files.map(|file| file.expect("a folder can be listed").file_name().into_string().expect("a name"));
    let tests = NAMES.iter().map(|name| format!("{name}.sh"));
    assert_eq!(scripts.collect::<BTreeSet<_>>(), tests.collect(), "scripts on the left, tests on the right");
}

#[test]
fn surplus_line_of_output_is_found() {
    let report = compare("sh", &broken("CHATTY")).expect_err("more output was missed");
    assert!(report.contains("something else"), "it fails for another reason: {report}");
}

#[test]
fn another_status_is_found() {
    compare("sh", &broken("CHANGES_STATUS")).expect_err("another exit status was missed");
}
