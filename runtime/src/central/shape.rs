//! Shapes: the size of a cache's objects, the capacity of its magazines, and how much a slot keeps.
//!
//! ```text
//!   bits 0–31   bytes of an object   32–39  pointers that a magazine holds at most   40–47  while the cache is cold
//!        48–55  granules of a span   56–63  0: the depot keeps what its budget allows; n: n − 1 magazines
//! ```
//!
//! A chunk's head has one such word for each cache, so a reader sees one whole shape while a program tunes the cache.
//! Sizes and spans never change. Pure functions of the shape, a slot's miss rate, and the number of slots in use.

use super::load::HIGHEST_RATE;
use crate::page_heap::{GRANULE, PAGE};
use machine::slot;

/// The largest capacity of a magazine: its memory without the link, the capacity and the bottom.
pub const MOST_POINTERS: usize = slot::ARRAY / 8 - 3;
const MAGAZINE_BUDGET: usize = 16 << 10;
/// Above 1 KiB, a magazine of 16 KiB would hold few objects: each second or third free would be a miss.
const MAGAZINE_BUDGET_ABOVE_1_KIB: usize = 32 << 10;
/// Bytes of objects that a slot's depots keep, beyond one magazine each, for at most so many slots. More share it.
const DEPOT_BUDGET: usize = 8 << 20;
const DEPOTS_AT_FULL_BUDGET: u32 = 8;
/// Of the budget, a shard may have one part in this many.
const SHARDS_OF_BUDGET: usize = 4;
/// With more slots than this in use, each keeps less.
pub const MANY_SLOTS: u32 = 16;

/// The shape of a cache in one word. Zero belongs to no cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Shape(u64);

impl Shape {
    pub const NONE: Self = Shape(0);

    /// The shape of an untuned cache.
    pub const fn of(object_bytes: usize) -> Self {
        let budget = if object_bytes > 1 << 10 { MAGAZINE_BUDGET_ABOVE_1_KIB } else { MAGAZINE_BUDGET };
        // Cold: half a page of objects, at most eight.
        let (most, cold) = (between(2, budget / object_bytes, MOST_POINTERS), between(1, PAGE / 2 / object_bytes, 8));
        let granules = match object_bytes {
            0..=0x1000 => 1,
            0x1001..=0x8000 => 4,
            _ => 16,
        };
        Shape(object_bytes as u64 | most << 32 | cold << 40 | granules << 48)
    }

    /// The shape of a middle class. Its magazines hold nothing until its slot's budget grants a level. A span is the
    /// smallest run of granules without a rest.
    pub const fn of_middle(object_bytes: usize) -> Self {
        let granules = object_bytes.div_ceil(GRANULE);
        Shape(object_bytes as u64 | (granules as u64) << 48)
    }

    /// The same, with at most `limit` objects in a slot's magazines and depot, moved in batches. None: impossible.
    pub fn tuned(self, limit: usize, batch: usize) -> Option<Self> {
        let most = batch.min(limit / 2).max(1);
        let kept = (limit.saturating_sub(2 * most) / most) + 1;
        let possible = (1..=MOST_POINTERS).contains(&batch) && batch <= limit && kept <= u8::MAX as usize;
        let kept_as_is = self.0 & !(0xff00_ffff << 32);
        possible.then_some(Shape(kept_as_is | (most as u64 | (most as u64) << 8 | (kept as u64) << 24) << 32))
    }

    /// Most objects that a slot keeps, in its magazines and its depot.
    pub fn limit(self) -> usize {
        self.most() * (2 + self.depot_limit(HIGHEST_RATE, self.batch(HIGHEST_RATE)))
    }

    pub const fn from_word(word: u64) -> Self {
        Shape(word)
    }

    pub const fn word(self) -> u64 {
        self.0
    }

    #[inline]
    pub const fn object_bytes(self) -> usize {
        self.0 as u32 as usize
    }

    /// Largest capacity of a magazine, in objects; 0: only levels have room.
    #[inline]
    pub const fn most(self) -> usize {
        self.byte(32)
    }

    /// The same at a level (see `cpu_cache::resize`). It doubles with each level, unless the cache is tuned.
    pub fn at_level(self, level: u8) -> usize {
        match self.most() {
            0 => (1 << level.min(7) >> 1).min(MOST_POINTERS),
            most if self.is_tuned() => most,
            most => (most << level.min(6)).min(MOST_POINTERS),
        }
    }

    pub const fn granules(self) -> u8 {
        self.byte(48) as u8
    }

    /// Granules of a shard's first span: room for two objects. Most programs use few objects of each large size, and a
    /// long span for them would take the free run where a large block was, whose pages are dirty.
    pub fn first_granules(self) -> u8 {
        self.granules().min((2 * self.object_bytes()).div_ceil(GRANULE) as u8)
    }

    const fn byte(self, shift: u32) -> usize {
        (self.0 >> shift) as u8 as usize
    }

    /// Capacity of a magazine, in pointers. Small for cold caches, so that light use touches little fresh memory.
    pub fn batch(self, rate: u32) -> usize {
        // With a slot for each thread, many slots rest. Together they get as much as some forty slots would.
        let many_rest = slot::in_use() > MANY_SLOTS && slot::mode() == slot::Mode::PerThread;
        self.most().min(self.byte(40) << if many_rest { rate.min(1) } else { rate })
    }

    /// Number of magazines of a capacity that a shard keeps at most: one for a cold cache, up to a byte budget for a
    /// hot one.
    pub fn depot_limit(self, rate: u32, capacity: usize) -> usize {
        if let Some(kept) = self.byte(56).checked_sub(1) {
            return kept;
        }
        if self.most() == 0 {
            return 0;
        }
        // With many slots, the depot may keep none.
        let budget = depot_budget() / SHARDS_OF_BUDGET;
        (budget / (capacity * self.object_bytes())).clamp(usize::from(slot::in_use() <= MANY_SLOTS), 1 << rate)
    }

    /// Whether its depot keeps as many magazines as it was tuned to, no matter what others keep.
    pub fn is_tuned(self) -> bool {
        self.byte(56) != 0
    }
}

/// Bytes of objects that a slot's depots keep beyond one magazine each, unless they are tuned.
pub fn depot_budget() -> usize {
    // Zero slots are in use while no thread has had one.
    DEPOT_BUDGET / slot::in_use().div_ceil(DEPOTS_AT_FULL_BUDGET).max(1) as usize
}

const fn between(least: usize, value: usize, most: usize) -> u64 {
    let value = if value < least { least } else { value };
    (if value > most { most } else { value }) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magazines_stay_within_their_budget_and_spans_waste_at_most_an_eighth() {
        for bytes in (16..=128 << 10).step_by(8) {
            let shape = Shape::of(bytes);
            assert_eq!(shape.object_bytes(), bytes);
            let (most, cold) = (shape.most(), shape.byte(40));
            assert!((2..=MOST_POINTERS).contains(&most), "{bytes} bytes");
            let budget = if bytes > 1 << 10 { MAGAZINE_BUDGET_ABOVE_1_KIB } else { MAGAZINE_BUDGET };
            assert!(most == 2 || most * bytes <= budget, "{bytes} bytes");
            assert!((1..=8).contains(&cold) && cold <= most, "{bytes} bytes");
            let [span, first] = [shape.granules(), shape.first_granules()].map(|granules| granules as usize * GRANULE);
            assert!((span % bytes) * 8 <= span, "{bytes} bytes");
            assert!(first <= span && first / bytes >= 2, "{bytes} bytes");
            assert_eq!(Shape::of_middle(bytes).first_granules(), Shape::of_middle(bytes).granules(), "{bytes} bytes");
        }
    }
}
