//! One bar for the whole run with the time left, from what each step is expected to take.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};

/// Milliseconds done, of milliseconds expected.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar on standard error, or a line at each start of a part where that isn't a terminal.
    pub fn new(expected_ms: u64) -> Progress {
        let style = ProgressStyle::with_template("{msg:10} {wide_bar} {percent:>3} %, {eta} left")
            .expect("the template is well-formed");
        Progress { bar: ProgressBar::new(expected_ms).with_style(style) }
    }

    /// For tests.
    #[cfg(test)]
    pub fn hidden() -> Progress {
        Progress { bar: ProgressBar::hidden() }
    }

    /// Names the part that follows.
    pub fn part(&self, name: &'static str) {
        self.bar.set_message(name);
        if !stderr().is_terminal() {
            eprintln!("measuring: {name}");
        }
    }

    pub fn advance(&self, estimate_ms: u64) {
        self.bar.inc(estimate_ms);
    }

    /// Takes the bar away, for the tables.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}
