//! How far a run has come and how long it will take: a bar on a terminal, nothing elsewhere. It is drawn between runs only.

use indicatif::{ProgressBar, ProgressStyle};

/// Parts into which something is divided that has no runs.
const PARTS: u64 = 1000;

/// The bar.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar that nothing is known of yet.
    pub fn new() -> Self {
        let style = ProgressStyle::with_template("{spinner} {msg} {wide_bar} {elapsed}, about {eta} left");
        Self(ProgressBar::new(PARTS).with_style(style.expect("the template is well-formed")))
    }

    /// A block begins, after `done` of so many, each of which has so many runs.
    pub fn block(&self, what: String, done: usize, planned: usize, runs: usize) {
        self.0.set_message(what);
        self.0.set_length((planned * runs) as u64);
        self.0.set_position((done * runs) as u64);
    }

    /// One run of the block is done.
    pub fn ran(&self) {
        self.0.inc(1);
    }

    /// So much of the whole is done, of something that has no blocks.
    pub fn part(&self, done: f64, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.set_position((done * PARTS as f64) as u64);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// Minutes and seconds.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    if seconds < 60 { format!("{seconds} s") } else { format!("{}:{:02} min", seconds / 60, seconds % 60) }
}
