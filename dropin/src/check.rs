//! A check: one line that runs a program of `c/`, as a test in both modes.
//!
//! A line is the program, the check's name in it and its arguments. Words in braces are filled in:
//! `{library}` is the name of the library's file, `{library_path}` its path, `{plugin}` the shared library
//! built from `c/plugin.cc`, and `{NAME}` in capitals the program built from `c/name.c`. A number in braces says
//! how much a stress check does, and is multiplied by the effort.

use crate::run::{End, Outcome, Run};
use crate::subject::{self, Library, Mode};
use crate::{compile, skips};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Time for a check; far more than it needs, as machines are slow at times.
const LIMIT: Duration = Duration::from_secs(600);

/// A line of this module's little language.
#[derive(Clone, Debug)]
pub struct Check {
    line: String,
    limit: Duration,
    variables: Vec<(&'static str, String)>,
}

/// The check of this line.
pub fn check(line: &str) -> Check {
    Check { line: line.to_owned(), limit: LIMIT.mul_f64(subject::effort().max(1.0)), variables: Vec::new() }
}

impl Check {
    pub fn limit(mut self, limit: Duration) -> Check {
        self.limit = limit;
        self
    }

    pub fn env(mut self, name: &'static str, value: impl Into<String>) -> Check {
        self.variables.push((name, value.into()));
        self
    }

    /// Must hold with the library under test.
    pub fn holds(&self, mode: Mode) {
        if self.is_possible() {
            self.verdict(subject::library(), mode).unwrap_or_else(|report| panic!("{report}"));
        }
    }

    /// Must end with this status and print these lines, in this order, among others.
    pub fn ends(&self, mode: Mode, status: i32, lines: &[&str]) {
        if !self.is_possible() {
            return;
        }
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

    /// As [`verdict`](Check::verdict) with the library under test filled in, but not preloaded.
    ///
    /// # Errors
    /// The report of a check that failed, crashed or hung.
    pub fn without_preload(&self, mode: Mode) -> Result<Outcome, String> {
        let words = self.words(subject::library());
        self.run(&words).with(&Library::none(), mode).ending(End::Exited(0))
    }

    pub fn outcome(&self, library: &Library, mode: Mode) -> Outcome {
        self.run(&self.words(library)).with(library, mode)
    }

    fn run(&self, words: &[String]) -> Run {
        let run = Run::new(&words[0]).args(&words[1..]).limit(self.limit);
        self.variables.iter().fold(run, |run, (name, value)| run.env(name, value))
    }

    /// Programs in C++ are skipped where there is no compiler for them.
    fn is_possible(&self) -> bool {
        let cxx = self.line.contains("{plugin}") || compile::is_cxx(self.program());
        !cxx || skips::has_tools("c++", &["g++"])
    }

    fn program(&self) -> &str {
        self.line.split_whitespace().next().expect("a check names a program")
    }

    fn words(&self, library: &Library) -> Vec<String> {
        let program = compile::program(self.program()).display().to_string();
        let arguments = self.line.split_whitespace().skip(1).map(|word| filled_in(word, library));
        std::iter::once(program).chain(arguments).collect()
    }
}

fn filled_in(word: &str, library: &Library) -> String {
    match word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
        Some("library") => library.name().to_owned(),
        Some("library_path") => library.path().expect("this check needs a library").display().to_string(),
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
    // Longer paths are left alone, so its name is short.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = crate::scratch(&format!("watched-{}-{number}", std::process::id()));
    let check = check(line).env("COMMENSAL_CONF", "observe:on,observe.interval_ms:20");
    check.env("XDG_RUNTIME_DIR", folder.display().to_string()).holds(mode);
    let had_one = folder.join("commensal").exists();
    for left in std::fs::read_dir(folder.join("commensal")).into_iter().flatten() {
        let bytes = std::fs::read(left.expect("a file").path()).expect("a page can be read");
        assert!(bytes.starts_with(b"cmstats"), "`{line}` left {} bytes that are no page", bytes.len());
    }
    std::fs::remove_dir_all(&folder).unwrap_or_else(|error| panic!("{} stays: {error}", folder.display()));
    had_one
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
