//! How far a run has come and how long it will take: a bar on a terminal, nothing elsewhere. It is drawn between runs only.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Parts into which a block is divided.
const PARTS: u64 = 1000;

/// The bar.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Parts of the blocks before this one.
    base: u64,
    runs: u64,
    /// When this block began, and how many there are from it on; none if it is known already how long it takes.
    unknown: Option<(Instant, usize)>,
}

impl Progress {
    /// A bar that nothing is known of yet.
    pub fn new() -> Self {
        let style = ProgressStyle::with_template("{spinner} {msg} {wide_bar} {elapsed}{prefix}");
        let bar = ProgressBar::new(PARTS).with_style(style.expect("the template is well-formed"));
        Self { bar, base: 0, runs: 0, unknown: None }
    }

    /// A block begins that will not count.
    pub fn dropped(&mut self, number: usize) {
        self.begin(0, 1);
        self.bar.set_message(format!("warm-up {number}"));
    }

    /// A block begins, after `done` of so many, each of which takes about as long, if that is known.
    pub fn block(&mut self, done: usize, planned: usize, of_one: Option<Duration>) {
        self.begin(done, planned);
        self.bar.set_message(format!("block {} of {planned}", done + 1));
        match of_one {
            Some(of_one) => self.tell(of_one.as_secs_f64() * (planned - done) as f64),
            None => self.unknown = Some((Instant::now(), planned - done)),
        }
    }

    fn tell(&self, left: f64) {
        self.bar.set_prefix(format!(", about {} left", duration(left)));
    }

    fn begin(&mut self, done: usize, planned: usize) {
        (self.base, self.runs, self.unknown) = (done as u64 * PARTS, 0, None);
        self.bar.set_position(self.base);
        self.bar.set_length(planned as u64 * PARTS);
    }

    /// One of so many runs of a block is done.
    pub fn ran(&mut self, of: usize) {
        self.runs += 1;
        self.bar.set_position(self.base + self.runs * PARTS / of as u64);
        if let Some((begun, blocks)) = self.unknown {
            let done = self.runs as f64 / of as f64;
            self.tell(begun.elapsed().as_secs_f64() * (blocks as f64 / done - 1.0));
        }
    }

    /// So much of the whole is done, of something that has no blocks; `since` it began.
    pub fn part(&mut self, done: f64, what: &str, since: Instant) {
        self.bar.set_length(PARTS);
        self.bar.set_position((done * PARTS as f64) as u64);
        self.bar.set_message(what.to_owned());
        if done > 0.0 {
            self.tell(since.elapsed().as_secs_f64() * (1.0 / done - 1.0));
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Minutes and seconds.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    if seconds < 60 { format!("{seconds} s") } else { format!("{}:{:02} min", seconds / 60, seconds % 60) }
}
