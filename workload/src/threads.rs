//! Threads, which only the caller has, and how they meet.

use machine::clock::now_ns;
use machine::sync::{AtomicU32, Ordering, spin_loop, wait};

/// Whoever can run something in several threads at once.
pub trait Threads: Sync {
    /// Runs `work` in `count` threads at the same time, each on a CPU of its own and with a number of its own from 0
    /// on; returns when all have ended. None of them is the calling thread.
    fn run(&self, count: u32, work: &(dyn Fn(u32) + Sync));

    /// Keeps the calling thread's CPU busy for so long, with nothing.
    fn busy(&self, ns: u64) {
        let start = now_ns();
        while now_ns() - start < ns {
            spin_loop();
        }
    }

    /// The calling thread leaves its CPU to others for so long, or a little longer.
    fn rest(&self, ns: u64) {
        let (nobody, end) = (AtomicU32::new(0), now_ns() + ns);
        // Nobody wakes whoever waits for this word, but the wait may end for no reason.
        while let Some(left) = end.checked_sub(now_ns()).filter(|left| *left > 0) {
            wait(&nobody, 0, left);
        }
    }
}

/// Where threads wait for each other, by looking again and again: a thread that slept would come late by more than what
/// is timed.
pub(crate) struct Meeting {
    threads: u32,
    arrived: AtomicU32,
}

impl Meeting {
    pub(crate) fn of(threads: u32) -> Self {
        Self { threads, arrived: AtomicU32::new(0) }
    }

    /// Returns when every thread has called it as often as this one.
    pub(crate) fn wait(&self) {
        // Both acquire and release: what each did before it came is seen by all who go on.
        let before = self.arrived.fetch_add(1, Ordering::AcqRel);
        let all = (before / self.threads + 1) * self.threads;
        while self.arrived.load(Ordering::Acquire) < all {
            spin_loop();
        }
    }
}

/// Threads of the standard library, for tests.
#[cfg(test)]
pub(crate) struct OfStd;

#[cfg(test)]
impl Threads for OfStd {
    fn run(&self, count: u32, work: &(dyn Fn(u32) + Sync)) {
        std::thread::scope(|scope| (0..count).for_each(|number| drop(scope.spawn(move || work(number)))));
    }
}
