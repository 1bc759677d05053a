//! A check: one line that runs a program of `c/`, as a test in both modes.
//!
//! A line is the program, the check's name in it and its arguments. Words in braces are filled in:
//! `{library}` is the name of the library's file, `{library_path}` its path, `{plugin}` the shared library
//! built from `c/plugin.cc`, and `{NAME}` in capitals the program built from `c/name.c`. A number in braces says
//! how much a stress check does, and is multiplied by the effort.

use crate::compile;
use crate::run::{End, Outcome, Run};
use crate::subject::{self, Library, Mode};
use std::time::Duration;

/// A line of this module's little language.
#[derive(Clone, Debug)]
pub struct Check {
    line: String,
    /// What is run, without its words.
    run: Run,
}

/// The check of this line.
pub fn check(line: &str) -> Check {
    let mut words = line.split_whitespace();
    let program = compile::program(words.next().expect("a check names a program"));
    let run = Run::new(program).args(words.map(filled_in));
    Check { line: line.to_owned(), run: run.limit(Run::LIMIT.mul_f64(subject::effort().max(1.0))) }
}

impl Check {
    pub fn limit(mut self, limit: Duration) -> Check {
        self.run = self.run.limit(limit);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Check {
        self.run = self.run.env(name, value);
        self
    }

    /// Must hold with the library under test.
    pub fn holds(&self, mode: Mode) {
        self.ends(mode, 0, &[]);
    }

    /// Must end with this status and print these lines, in this order, among others.
    pub fn ends(&self, mode: Mode, status: i32, lines: &[&str]) {
        let outcome = self.outcome(subject::library(), mode).ending(End::Exited(status));
        let outcome = outcome.unwrap_or_else(|report| panic!("`{}` failed: {report}", self.line));
        let mut printed = outcome.stdout.lines();
        for expected in lines {
            let found = printed.any(|line| line == *expected);
            assert!(found, "`{}` failed: {}", self.line, outcome.report(&format!("expected the line {expected:?}")));
        }
    }

    /// Success with this library, or a report.
    ///
    /// # Errors
    /// The report of a check that failed, crashed or hung.
    pub fn verdict(&self, library: &Library, mode: Mode) -> Result<Outcome, String> {
        let outcome = self.outcome(library, mode).ending(End::Exited(0));
        outcome.map_err(|report| format!("`{}` failed: {report}", self.line))
    }

    pub fn outcome(&self, library: &Library, mode: Mode) -> Outcome {
        self.run.clone().with(library, mode)
    }
}

fn filled_in(word: &str) -> String {
    let library = subject::library;
    match word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
        Some("library") => library().name().to_owned(),
        Some("library_path") => library().path().expect("Commensal is a file").display().to_string(),
        Some("plugin") => compile::shared_library("plugin", "plugin", &[]).display().to_string(),
        Some(word) => match word.parse::<f64>() {
            Ok(number) => (number * subject::effort()).to_string(),
            Err(_) => compile::program(&word.to_lowercase()).display().to_string(),
        },
        None => word.to_owned(),
    }
}

/// The check holds while the library writes its statistics page as often as it can, and it has made one.
pub fn watched(line: &str) -> impl Fn(Mode) {
    move |mode| assert!(holds_watched(line, mode), "`{line}` made no page")
}

/// The same where there can be none, and nobody may have tried to make one.
pub fn unwatched(line: &str) -> impl Fn(Mode) {
    move |mode| assert!(!holds_watched(line, mode), "`{line}` tried to make a page")
}

/// The same where there can be none, or for a part of the time.
pub fn hardly_watched(line: &str) -> impl Fn(Mode) {
    move |mode| _ = holds_watched(line, mode)
}

/// Whether there was a page, or somebody came as far as its folder. What is left of pages is whole.
fn holds_watched(line: &str, mode: Mode) -> bool {
    // Longer paths are left alone; this one is short.
    let folder = crate::empty_folder();
    let check = check(line).env("COMMENSAL_CONF", "observe:on,observe.interval_ms:20");
    check.env("XDG_RUNTIME_DIR", &folder.display().to_string()).holds(mode);
    for left in std::fs::read_dir(folder.join("commensal")).into_iter().flatten() {
        let bytes = std::fs::read(left.expect("a file").path()).expect("a page can be read");
        assert!(bytes.starts_with(b"cmstats"), "`{line}` left {} bytes that are no page", bytes.len());
    }
    folder.join("commensal").exists()
}

/// Makes each `name: body;` a test in module `normal` and another in module `fallback`; the body is called with
/// the [`Mode`]. A function of the test file is `super::function`. A body of the form `"line"` is short for a [`check`] that holds.
#[macro_export]
macro_rules! in_both_modes {
    ($($(#[$meta:meta])* $name:ident: $body:expr;)*) => {
        mod normal {
            #[allow(unused_imports)]
            use super::*;
            $($(#[$meta])* #[test] fn $name() {
                $crate::check::Body::run(&$body, $crate::subject::Mode::Normal);
            })*
        }
        mod fallback {
            #[allow(unused_imports)]
            use super::*;
            $($(#[$meta])* #[test] fn $name() {
                $crate::check::Body::run(&$body, $crate::subject::Mode::Fallback);
            })*
        }
    };
}

/// What [`in_both_modes!`](crate::in_both_modes) takes as the body of a test.
pub trait Body {
    fn run(&self, mode: Mode);
}

impl Body for &str {
    fn run(&self, mode: Mode) {
        check(self).holds(mode);
    }
}

impl<F: Fn(Mode)> Body for F {
    fn run(&self, mode: Mode) {
        self(mode);
    }
}
