//! How much the program holds, now and at its peak. Slow paths keep lazy counters.
//!
//! malloc and free count nothing. The tally counts magazines and single objects that leave the depot or a span, or come
//! back. One addition counts a hundred objects. So the tally includes the objects in the slots' magazines; a report
//! looks into those and subtracts them. Refills raise the peaks by readings of the tally. So peaks are off by the
//! objects in magazines, and with threads by the counters' error. Upkeep folds exact sums into them at intervals.
//!
//! Runs at the same time: any thread, also in signal handlers, and under any lock of the tiers.

use super::size_class::CLASSES;
use crate::counter::{self, CounterSet, LazyCounter};
use crate::observe::Events;
use crate::percpu::Area;

/// Unit of the byte counter: the size of any object is a multiple of it.
const UNIT: usize = 8;
/// In units. It holds some sixteen magazines of any class, so counting seldom touches what all CPUs share.
const BYTES_RANGE: i32 = 1 << 15;

#[derive(Debug)]
pub struct Tally {
    /// Objects of each class; at class 0, large blocks.
    objects: CounterSet<CLASSES>,
    /// Total bytes, in units.
    bytes: LazyCounter<BYTES_RANGE>,
    peak_objects: [Events; CLASSES],
    peak_bytes: Events,
}

impl Tally {
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

    /// Counts objects of a class, with their total bytes, that left the depot or a span, or came back.
    #[inline]
    pub fn count(&self, class: usize, objects: isize, bytes: isize) {
        if self.objects.add_changes_reading(class, objects as i64) && objects > 0 && counter::reads_at_once() {
            self.peak_objects[class].raise(self.objects.read_positive(class).value as u64);
        }
        self.count_bytes(bytes);
    }

    /// Counts large blocks that were given or taken back. A change of size counts as 0 blocks.
    pub fn count_large(&self, blocks: isize, bytes: isize) {
        self.count(0, blocks, bytes);
    }

    /// Counts bytes of any cache's objects.
    pub fn count_bytes(&self, bytes: isize) {
        if self.bytes.add_changes_reading(bytes as i64 / UNIT as i64) && bytes > 0 && counter::reads_at_once() {
            self.peak_bytes.raise(self.bytes.read_positive().value as u64);
        }
    }

    /// Raises the peaks to the exact sums now. Refills raise them by readings, which may be off.
    pub fn note_peaks(&self) {
        self.peak_objects.iter().enumerate().for_each(|(class, peak)| peak.raise(self.objects(class)));
        self.peak_bytes.raise(self.bytes.sum_positive() as u64);
    }

    /// Objects of a class that the program and the slots' magazines hold; for class 0, large blocks.
    pub fn objects(&self, class: usize) -> u64 {
        self.objects.sum_positive(class) as u64
    }

    pub fn peak_objects(&self, class: usize) -> u64 {
        self.peak_objects[class].get()
    }

    /// Bytes that the program and the slots' magazines hold, as a reading.
    pub fn bytes(&self) -> u64 {
        self.bytes.read_positive().value as u64 * UNIT as u64
    }

    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes.get() * UNIT as u64
    }
}
