//! A flush that did not help.

use machine::clock;
use machine::sync::{AtomicU64, Ordering};

/// When a flush did not help, and the pages then in use. For some time another flush helps only if fewer are in use.
#[derive(Debug)]
pub(super) struct VainFlush {
    at_ns: AtomicU64,
    pages: AtomicU64,
}

impl VainFlush {
    const INTERVAL_NS: u64 = 10_000_000;

    // Relaxed: a hint. A thread that reads half of an update flushes once too often, or too seldom.
    pub fn tells_against_another(&self, pages: u64) -> bool {
        let at = self.at_ns.load(Ordering::Relaxed);
        at != 0 && pages >= self.pages.load(Ordering::Relaxed) && clock::now_ns() - at < Self::INTERVAL_NS
    }

    pub fn note(&self, pages: u64) {
        self.pages.store(pages, Ordering::Relaxed);
        self.at_ns.store(clock::now_ns(), Ordering::Relaxed);
    }
}
