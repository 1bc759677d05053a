//! How much the program holds, now and at most: lazy counters that slow paths keep.
//!
//! malloc and free count nothing. What is counted is every magazine, and every single object, that leaves the depot or
//! a span, or comes back there: a hundred objects by one addition. So the tally says what the program holds together
//! with what lies in the slots' magazines; a report looks into those and subtracts. Peaks are of the tally as it was
//! read at each refill, so they are off by what the magazines of the slots hold, and in a process with threads by as
//! much as its counters' readings; once in an interval upkeep folds exact sums into them.
//!
//! Runs at the same time: any thread, also in signal handlers, and under any lock of the tiers.

use super::size_class::CLASSES;
use crate::counter::{self, CounterSet, LazyCounter};
use crate::observe::Events;
use crate::percpu::Area;

/// Bytes are counted in these: every object is a multiple of it.
const UNIT: usize = 8;
/// In units. A magazine of any class fits some sixteen times: so seldom does counting touch what all CPUs share.
const BYTES_RANGE: i32 = 1 << 15;

/// The counters.
#[derive(Debug)]
pub struct Tally {
    /// Objects of each class; large blocks in place of class 0, which is none.
    objects: CounterSet<CLASSES>,
    /// Their bytes together, in units.
    bytes: LazyCounter<BYTES_RANGE>,
    peak_objects: [Events; CLASSES],
    peak_bytes: Events,
}

impl Tally {
    /// Nothing yet.
    pub const fn new() -> Self {
        Tally {
            objects: CounterSet::new(),
            bytes: LazyCounter::with_range(),
            peak_objects: [const { Events::new() }; CLASSES],
            peak_bytes: Events::new(),
        }
    }

    /// Makes the counters per-CPU, in an area. False: no memory.
    pub fn share_in(&self, area: &'static Area) -> bool {
        self.objects.share_in(area, 0).is_ok() && self.bytes.share_in(area).is_ok()
    }

    /// Counts objects of a class, of so many bytes together, that left the depot or a span, or came back.
    #[inline]
    pub fn count(&self, class: usize, objects: isize, bytes: isize) {
        // No statistic is worth the program that it is of: what cannot be counted is not.
        let _ = self.objects.try_add(class, objects as i64);
        if objects > 0 && counter::reads_at_once() {
            self.peak_objects[class].raise(self.objects.read_positive(class).value as u64);
        }
        self.count_bytes(bytes);
    }

    /// Counts a large block that is given or taken back, or one that changes its size, as 0 blocks.
    pub fn count_large(&self, blocks: isize, bytes: isize) {
        self.count(0, blocks, bytes);
    }

    /// Counts bytes of objects of any cache.
    pub fn count_bytes(&self, bytes: isize) {
        let _ = self.bytes.try_add(bytes as i64 / UNIT as i64);
        if bytes > 0 && counter::reads_at_once() {
            self.peak_bytes.raise(self.bytes.read_positive().value as u64);
        }
    }

    /// Raises the peaks to what there is now, exactly: at refills they are raised by readings, which may be off.
    pub fn note_peaks(&self) {
        self.peak_objects.iter().enumerate().for_each(|(class, peak)| peak.raise(self.objects(class)));
        self.peak_bytes.raise(self.bytes.sum_positive() as u64);
    }

    /// Objects of a class that the program and the slots' magazines hold; of class 0, large blocks.
    pub fn objects(&self, class: usize) -> u64 {
        self.objects.sum_positive(class) as u64
    }

    /// The most that [`objects`](Self::objects) was.
    pub fn peak_objects(&self, class: usize) -> u64 {
        self.peak_objects[class].get()
    }

    /// Bytes that the program and the slots' magazines hold, as a reading.
    pub fn bytes(&self) -> u64 {
        self.bytes.read_positive().value as u64 * UNIT as u64
    }

    /// The most bytes that the program and the slots' arrays held.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes.get() * UNIT as u64
    }
}
