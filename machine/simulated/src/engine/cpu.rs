//! A simulated CPU: its thread, the threads that wait for it, and its stores that other CPUs do not see yet.

use std::collections::VecDeque;

/// A waiting store: its bytes, and the contents of memory when it was made.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    pub at: usize,
    pub size: u8,
    pub value: u128,
    pub before: u128,
}

impl Waiting {
    /// Whether it touches any of these bytes.
    pub fn overlaps(&self, at: usize, size: u8) -> bool {
        self.at < at + size as usize && at < self.at + self.size as usize
    }

    /// The bytes as this store leaves them, if it writes all of them.
    pub fn covers(&self, at: usize, size: u8) -> Option<u128> {
        let inside = self.at <= at && at + size as usize <= self.at + self.size as usize;
        inside.then(|| self.value >> (8 * (at - self.at)) & mask(size))
    }
}

/// The low bits of so many bytes.
pub fn mask(size: u8) -> u128 {
    if size >= 16 { u128::MAX } else { (1 << (8 * size)) - 1 }
}

#[derive(Default)]
pub struct Cpu {
    /// Picoseconds.
    pub time: u64,
    /// Whether its thread waits for a line, so that its next step has no time yet.
    pub waits_for_line: bool,
    pub thread: Option<usize>,
    pub queue: VecDeque<usize>,
    pub is_offline: bool,
    /// The slot of its last thread.
    pub last_slot: Option<u32>,
    /// When the thread may have to leave, in picoseconds.
    pub slice_end: u64,
    /// Oldest first.
    pub stores: VecDeque<Waiting>,
}

impl Cpu {
    pub fn load(&self) -> usize {
        self.queue.len() + usize::from(self.thread.is_some())
    }
}
