//! Real programs: each prints the same and ends the same with the library, in both modes, as without it.
//!
//! A program's work is a shell script in `programs/`, which prints nothing that differs from run to run. Each
//! run has an empty folder of its own and a fixed environment. The first run, without the library, must
//! succeed: it says what is right.

use dropin::compile::broken;
use dropin::run::{End, Outcome, Run};
use dropin::subject::{self, Library, Mode};
use dropin::{folder, scratch, skips};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
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
    assert!(expected.stdout.ends_with("all done\n"), "{}", expected.report("the script stops half-way"));
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
    for number in 1.. {
        match (expected.next(), found.next()) {
            (None, None) => break,
            (a, b) if a == b => {}
            (a, b) => return Some(format!("line {number}: expected {a:?}, found {b:?}")),
        }
    }
    None
}

fn outcome(name: &str, library: &Library, mode: Mode) -> Outcome {
    let folder = empty_folder(name);
    let script = script(name);
    let run = Run::new("/bin/sh").args([&script]).folder(&folder).limit(LIMIT);
    let outcome = prepared(name, run).with(library, mode);
    if outcome.end == End::Exited(0) {
        std::fs::remove_dir_all(&folder).expect("a test's own folder can be removed");
    }
    outcome
}

/// What single programs need in their environment.
fn prepared(name: &str, run: Run) -> Run {
    match name {
        "cargo" => run.env("PATH", &path_with_cargo()),
        _ => run,
    }
}

/// The folder of the cargo that runs this test holds the matching rustc too.
fn path_with_cargo() -> String {
    let cargo = PathBuf::from(std::env::var("CARGO").expect("cargo runs the tests"));
    let folder = cargo.parent().expect("a file is in a folder");
    format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display())
}

fn script(name: &str) -> PathBuf {
    folder().join("programs").join(format!("{name}.sh"))
}

/// Tests of the same script run at the same time, so folders are numbered.
fn empty_folder(name: &str) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    // Relaxed: each value is given out once, whatever the order.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = scratch("programs").join(format!("{name}-{}-{number}", std::process::id()));
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("a test's own folder can be removed");
    }
    std::fs::create_dir(&folder).expect("a folder can be made below the target folder");
    folder
}

#[test]
fn scripts_are_all_tests() {
    let files = std::fs::read_dir(folder().join("programs")).expect("the scripts are there");
    let stem = |path: &Path| path.file_stem().expect("a script has a name").to_string_lossy().into_owned();
    let scripts: BTreeSet<String> = files.map(|file| stem(&file.expect("a folder can be listed").path())).collect();
    let tests: BTreeSet<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(scripts, tests, "scripts in programs/ on the left, tests on the right");
}

/// A name that no test has excuses nothing and hides a mistake.
#[test]
fn skips_all_name_a_test() {
    let others = ["c++", "cmake", "pkg-config", "readelf", "set-user-id"];
    for (name, _) in skips::listed() {
        let known = NAMES.contains(&name.as_str()) || others.contains(&name.as_str());
        assert!(known, ".ci/skips lists {name:?}, which is no test; the tests are {NAMES:?} and {others:?}");
    }
}

#[test]
fn sound_allocator_agrees() {
    compare("sh", &broken("NONE")).unwrap_or_else(|report| panic!("{report}"));
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
