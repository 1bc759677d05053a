//! Cases: a body with the operations that it is given, and what came of it.

use crate::runner::Runner;
use machine::slot::Mode;
use machine::sync::{AtomicBool, AtomicU64, Ordering};
use std::cell::Cell;

/// What a body found: counts of what it did if all was well, else what was wrong.
pub type Outcome = Result<String, String>;

/// One run of one body.
#[derive(Debug)]
pub struct Case {
    /// The operation, as `module::operation`.
    pub name: &'static str,
    /// What is wrong with it; none: it is the machine's own.
    pub planted: Option<&'static str>,
    /// The only slot mode in which the case makes sense, if it is not both.
    pub only: Option<Mode>,
    /// The body with its operations.
    pub run: fn(&dyn Runner) -> Outcome,
}

impl Case {
    /// The machine's own operation.
    pub const fn machine(name: &'static str, run: fn(&dyn Runner) -> Outcome) -> Self {
        Case { name, planted: None, only: None, run }
    }

    /// A wrong operation, which the body must find.
    pub const fn planted(name: &'static str, what: &'static str, run: fn(&dyn Runner) -> Outcome) -> Self {
        Case { name, planted: Some(what), only: None, run }
    }

    /// The case in one slot mode only.
    pub const fn only(self, mode: Mode) -> Self {
        Case { only: Some(mode), ..self }
    }

    /// Whether the case makes sense in a slot mode.
    pub fn fits(&self, mode: Mode) -> bool {
        self.only.is_none_or(|only| only == mode)
    }
}

/// Returns an [`Outcome`] with a message unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            return Err(format!($($message)*));
        }
    };
}
pub(crate) use ensure;

/// The first thing that any of several threads found wrong, also from a signal handler: nothing in here allocates or waits.
#[derive(Debug, Default)]
pub struct Findings {
    found: AtomicBool,
    written: AtomicBool,
    what: Cell<&'static str>,
    numbers: [AtomicU64; 3],
}

// SAFETY: `what` is written by the one thread that won `found`, and read by those that see `written`.
unsafe impl Sync for Findings {}

impl Findings {
    /// Nothing found yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports something wrong, with numbers that explain it. Only the first report is kept.
    #[cold]
    pub fn add(&self, what: &'static str, numbers: [u64; 3]) {
        // Relaxed: decides who writes, publishes nothing.
        if self.found.swap(true, Ordering::Relaxed) {
            return;
        }
        self.what.set(what);
        for (cell, number) in self.numbers.iter().zip(numbers) {
            cell.store(number, Ordering::Relaxed);
        }
        // Release pairs with the acquire in `outcome`.
        self.written.store(true, Ordering::Release);
    }

    /// Reports `what` unless the condition holds.
    #[inline]
    pub fn demand(&self, condition: bool, what: &'static str, numbers: [u64; 3]) {
        if !condition {
            self.add(what, numbers);
        }
    }

    /// Whether nothing was found so far.
    #[inline]
    pub fn none(&self) -> bool {
        !self.found.load(Ordering::Relaxed)
    }

    /// What was found, else nothing wrong. The threads that report have ended.
    pub fn outcome(&self) -> Result<(), String> {
        if !self.written.load(Ordering::Acquire) {
            return Ok(());
        }
        let [a, b, c] = self.numbers.each_ref().map(|number| number.load(Ordering::Relaxed));
        Err(format!("{} ({a}, {b}, {c})", self.what.get()))
    }
}
