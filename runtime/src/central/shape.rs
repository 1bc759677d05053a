//! Shapes: how large the objects of a cache are, how many a magazine of them holds, and how much a slot keeps.
//!
//! ```text
//!   bits 0–31   bytes of an object   32–39  pointers that a magazine holds at most   40–47  while the cache is cold
//!        48–55  granules of a span   56–63  0: the depot keeps what its budget allows; n: n − 1 magazines
//! ```
//!
//! One word for each cache, in the head of its chunk: so whoever reads it sees one shape, also while somebody tunes the
//! cache. Sizes and spans never change. Pure functions of the shape, of the miss rate of the cache in a slot, and of
//! how many slots share.

use super::load::HIGHEST_RATE;
use crate::page_heap::PAGE;
use machine::slot;

/// The largest capacity of a magazine: its memory less the link, the capacity and the bottom.
pub const MOST_POINTERS: usize = slot::ARRAY / 8 - 3;
/// Bytes of a magazine's worth of objects, at most.
const MAGAZINE_BUDGET: usize = 16 << 10;
/// The same for objects above 1 KiB: whoever uses those spends more time in them than in going for the next.
const MAGAZINE_BUDGET_ABOVE_1_KIB: usize = 8 << 10;
/// Bytes of objects that a shard keeps in magazines, while no more than so many slots are in use; then they share.
const DEPOT_BUDGET: usize = 256 << 10;
const DEPOTS_AT_FULL_BUDGET: usize = 4;
/// More slots than this keep less each.
pub const MANY_SLOTS: u32 = 16;

/// What is said of a cache in one word; zero is no cache's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Shape(u64);

impl Shape {
    /// That of no cache.
    pub const NONE: Self = Shape(0);

    /// Of a cache of objects of so many bytes, as long as nobody tunes it.
    pub const fn of(object_bytes: usize) -> Self {
        let budget = if object_bytes > 1 << 10 { MAGAZINE_BUDGET_ABOVE_1_KIB } else { MAGAZINE_BUDGET };
        // Cold: half a page of objects, or eight.
        let (most, cold) = (between(2, budget / object_bytes, MOST_POINTERS), between(1, PAGE / 2 / object_bytes, 8));
        let granules = match object_bytes {
            0..=0x1000 => 1,
            0x1001..=0x8000 => 4,
            _ => 16,
        };
        Shape(object_bytes as u64 | most << 32 | cold << 40 | granules << 48)
    }

    /// The same, but that a slot keeps at most `limit` objects, which move in batches of `batch`: two magazines, and
    /// full ones in its depot. None: no such thing.
    pub fn tuned(self, limit: usize, batch: usize) -> Option<Self> {
        let most = batch.min(limit / 2).max(1);
        let kept = (limit.saturating_sub(2 * most) / most) + 1;
        let possible = (1..=MOST_POINTERS).contains(&batch) && batch <= limit && kept <= u8::MAX as usize;
        let kept_as_is = self.0 & !(0xff00_ffff << 32);
        possible.then_some(Shape(kept_as_is | (most as u64 | (most as u64) << 8 | (kept as u64) << 24) << 32))
    }

    /// Objects that a slot keeps at most, in its magazines and its depot.
    pub fn limit(self) -> usize {
        self.most() * (2 + self.depot_limit(HIGHEST_RATE, self.batch(HIGHEST_RATE)))
    }

    /// The shape that a word of a chunk's head says.
    pub const fn from_word(word: u64) -> Self {
        Shape(word)
    }

    /// The word that says it.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Bytes of an object.
    #[inline]
    pub const fn object_bytes(self) -> usize {
        self.0 as u32 as usize
    }

    /// Objects that a magazine holds at most.
    #[inline]
    pub const fn most(self) -> usize {
        self.byte(32)
    }

    /// The same at a level (see `cpu_cache::resize`): twice as many at each, unless somebody tuned the cache.
    pub fn at_level(self, level: u8) -> usize {
        let is_tuned = self.byte(56) != 0;
        if is_tuned { self.most() } else { (self.most() << level.min(6)).min(MOST_POINTERS) }
    }

    /// Granules of a span.
    pub const fn granules(self) -> u8 {
        self.byte(48) as u8
    }

    const fn byte(self, shift: u32) -> usize {
        (self.0 >> shift) as u8 as usize
    }

    /// Pointers that a magazine has room for: few while the cache is cold, so that a program which uses many caches a
    /// little does not wander through fresh memory.
    pub fn batch(self, rate: u32) -> usize {
        // Where every thread has a slot, many of them rest: they share what two score of them might have.
        let rate =
            if slot::in_use() > MANY_SLOTS && slot::mode() == slot::Mode::PerThread { rate.min(1) } else { rate };
        self.most().min(self.byte(40) << rate)
    }

    /// Magazines of a capacity that a shard keeps: one while the cache is cold, up to a budget of bytes when it is hot;
    /// where many slots share the budget, perhaps none.
    pub fn depot_limit(self, rate: u32, capacity: usize) -> usize {
        if let Some(kept) = self.byte(56).checked_sub(1) {
            return kept;
        }
        // None is, as long as all threads that came had none.
        let slots = slot::in_use().max(1);
        let budget = DEPOT_BUDGET / (slots as usize).div_ceil(DEPOTS_AT_FULL_BUDGET);
        (budget / (capacity * self.object_bytes())).clamp(usize::from(slots <= MANY_SLOTS), 1 << rate)
    }
}

const fn between(least: usize, value: usize, most: usize) -> u64 {
    let value = if value < least { least } else { value };
    (if value > most { most } else { value }) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magazines_stay_within_their_budget() {
        for bytes in (16..=128 << 10).step_by(8) {
            let shape = Shape::of(bytes);
            assert_eq!(shape.object_bytes(), bytes);
            let most = shape.most();
            assert!(
                (2..=MOST_POINTERS).contains(&most) && (most == 2 || most * bytes <= MAGAZINE_BUDGET),
                "{bytes} bytes"
            );
            assert!((1..=8).contains(&shape.byte(40)) && shape.byte(40) <= most);
        }
    }

    #[test]
    fn spans_waste_at_most_an_eighth() {
        for bytes in (16..=128 << 10).step_by(8) {
            let span = Shape::of(bytes).granules() as usize * crate::page_heap::GRANULE;
            assert!((span % bytes) * 8 <= span, "{bytes} bytes");
        }
    }
}
