//! The package in `examples/greeter`, which the book shows: built as its readers build it, and run.

use dropin::folder;
use dropin::run::{End, Run};
use dropin::subject::{self, Library, Mode};
use std::path::PathBuf;
use std::process::Command;

/// What it prints; the book shows the same file.
const ANSWER: &str = include_str!("../../examples/greeter/answer.txt");

/// Builds the package, whose target folder stays from one test to the next; returns its program.
fn build() -> PathBuf {
    let root = folder().parent().expect("this package lies in the repository");
    let target = root.join("target/examples");
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args([
            "build",
            "--quiet",
            "--release",
            "--locked",
            "--offline",
            "--manifest-path",
            "examples/greeter/Cargo.toml",
        ])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(root)
        .output()
        .expect("cargo runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "examples/greeter is not built without a word:\n{stderr}");
    target.join("release/greeter")
}

#[test]
fn the_rust_package_says_what_the_book_shows() {
    if !subject::is_commensal() {
        return;
    }
    let program = build();
    for mode in [Mode::Normal, Mode::Fallback] {
        let outcome = Run::new(&program).with(&Library::none(), mode);
        let outcome = outcome.ending(End::Exited(0)).unwrap_or_else(|report| panic!("{report}"));
        assert_eq!(outcome.stdout, ANSWER, "{}", outcome.report("the example says something else"));
    }
}
