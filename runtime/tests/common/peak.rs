//! Loads that come to a peak, each in a process of its own, and what is in memory of it.

use super::PATIENCE;
use commensal_runtime::heap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

pub const MIB: usize = 1 << 20;
/// Of blocks, in turn.
pub const SIZES: [usize; 8] = [24, 100, 400, 1500, 5000, 12_000, 28_000, 90_000];

/// Bytes of this process in memory.
pub fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/smaps_rollup").expect("the kernel tells");
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).expect("it names Rss");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("it is a number");
    kib << 10
}

pub struct Blocks(pub Vec<*mut u8>);

impl Blocks {
    /// Of about `total` bytes together, each of which is written.
    pub fn new(total: usize) -> Self {
        Self::of(total, &SIZES)
    }

    /// The same, of these sizes in turn.
    pub fn of(total: usize, sizes: &[usize]) -> Self {
        let one = |index: usize| {
            let bytes = sizes[index % sizes.len()];
            let block = heap::allocate(bytes);
            assert!(!block.is_null(), "no memory for {bytes} bytes");
            // SAFETY: the block is ours.
            unsafe { block.write_bytes(1, bytes) };
            block
        };
        Blocks((0..total * sizes.len() / sizes.iter().sum::<usize>()).map(one).collect())
    }

    /// One is freed, and another one of its size allocated, from place to place.
    pub fn churn(&mut self, place: usize) {
        let (place, bytes) = (place % self.0.len(), SIZES[place % self.0.len() % SIZES.len()]);
        // SAFETY: the block is ours.
        unsafe { heap::free(self.0[place]) };
        self.0[place] = heap::allocate(bytes);
        assert!(!self.0[place].is_null(), "no memory for {bytes} bytes");
        // SAFETY: as above.
        unsafe { self.0[place].write_bytes(1, bytes) };
    }

    pub fn free(self) {
        // SAFETY: the blocks are ours.
        self.0.into_iter().for_each(|block| unsafe { heap::free(block) });
    }
}

/// Waits for something; true if it came.
pub fn comes(mut it: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if it() {
            return true;
        }
        thread::sleep(Duration::from_millis(5));
    }
    it()
}

/// Threads that have data which stays, and come to a peak together; afterwards they sleep, and `look` looks.
pub fn after_a_peak(live: usize, peak: usize, peak_for: Duration, look: impl FnOnce()) {
    const THREADS: usize = 4;
    let (at_peak, over) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let stays = Blocks::new(live / THREADS);
                let end = Instant::now() + peak_for;
                let mut most = Blocks::new(peak / THREADS);
                (0..).take_while(|_| Instant::now() < end).for_each(|place| most.churn(place));
                at_peak.wait();
                most.free();
                over.wait();
                over.wait();
                stays.free();
            });
        }
        at_peak.wait();
        over.wait();
        // Whoever waits would wait for ever.
        let looked = catch_unwind(AssertUnwindSafe(look));
        over.wait();
        looked.unwrap_or_else(|failure| resume_unwind(failure));
    });
}
