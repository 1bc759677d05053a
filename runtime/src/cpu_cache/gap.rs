//! Gaps between samples: how many objects of a cache a slot hands out before the next one is sampled.
//!
//! The heap profile samples each byte with the same probability, one in the mean gap. So an object of `s` bytes is
//! sampled with probability `p = 1 − e^(−s/mean)`, and the number of objects before the next sample is geometric. That
//! number is drawn ahead for each slot and cache, and the fast path learns nothing of it:
//!
//! ```text
//!   gap    ├── reserved by the allocation magazine ──┼── left: the gap's word ──┤ the sample
//!   claim    takes one of what is left, for an allocation on the slow path; if none is left, that one is the sample
//!   reserve  takes as many as a magazine has that becomes the slot's allocation magazine; one with more is cut
//!   refund   gives back those of a magazine that leaves the slot before they are handed out
//! ```
//!
//! A magazine's way does not depend on later samples. So each allocation is counted in one gap, once. A rest that is
//! thrown away and drawn anew has the same distribution as one that is kept, because the geometric distribution has no
//! memory. `docs/design/profile.md` has the proof that estimates are unbiased.
//!
//! Runs at the same time: any thread. Relaxed: each word stands alone, and single steps change it.

use crate::central::CacheRef;
use crate::layout::{self, HeaderWord, header};
use crate::page_heap::guarded::mixed;
use machine::process;
use machine::sync::{AtomicU16, AtomicU64, Ordering::Relaxed};

/// Set in a gap's word if a sample comes after so many objects; else the next part of the gap is not drawn yet. So zero
/// is a gap of which nothing is drawn.
const SAMPLE: u16 = 1 << 15;
/// Most objects that are drawn at once. A refund fits above it.
pub const MOST: u16 = SAMPLE - 2048;

/// When samples are taken. All-zero memory: never.
#[derive(Debug)]
#[repr(C)]
struct Sampling {
    /// Mean bytes between two samples; 0: none is taken.
    mean: AtomicU64,
    /// Numbers drawn so far.
    turn: AtomicU64,
}

// SAFETY: atomic, and no other user has this part of the header.
const SAMPLING: HeaderWord<Sampling> = unsafe { HeaderWord::at(header::SAMPLING) };

/// Mean bytes between two samples; 0: none is taken.
#[inline]
pub fn mean_gap() -> u64 {
    SAMPLING.get().map_or(0, |sampling| sampling.mean.load(Relaxed))
}

/// Whether an allocation is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is one of the gap's.
    Plain,
    /// It ends the gap.
    Sample,
}

/// The gap of a cache in a slot, while samples are taken.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    word: &'static AtomicU16,
    sampling: &'static Sampling,
    object_bytes: usize,
}

impl Gap {
    /// None: no samples are taken.
    #[inline]
    pub fn of(cache: CacheRef, slot: u32) -> Option<Self> {
        let sampling = SAMPLING.get().filter(|sampling| sampling.mean.load(Relaxed) > 0)?;
        Some(Gap { word: word_of(cache, slot), sampling, object_bytes: cache.object_bytes() })
    }

    /// Counts an allocation that no magazine has reserved.
    #[cold]
    #[inline(never)]
    pub fn claim(self) -> Claim {
        match self.reserve(1) {
            1 => Claim::Plain,
            // The next gap is drawn when it is needed.
            _ if self.word.compare_exchange(SAMPLE, 0, Relaxed, Relaxed).is_ok() => Claim::Sample,
            _ => self.claim(),
        }
    }

    /// Counts objects that a magazine will hand out: as many of `most` as come before the next sample.
    #[cold]
    #[inline(never)]
    pub fn reserve(self, most: usize) -> usize {
        let mut reserved = 0;
        while reserved < most {
            let old = self.word.load(Relaxed);
            let word = if old == 0 { self.draw() } else { old };
            let taken = usize::from(word & !SAMPLE).min(most - reserved);
            if self.word.compare_exchange(old, word - taken as u16, Relaxed, Relaxed).is_ok() {
                reserved += taken;
                if word == SAMPLE {
                    break;
                }
            }
        }
        reserved
    }

    /// Counts all of so many objects, or none: false.
    #[inline]
    pub fn reserve_all(self, objects: usize) -> bool {
        let reserved = self.reserve(objects);
        if reserved < objects {
            self.refund(reserved);
        }
        reserved == objects
    }

    /// Takes back that so many objects were counted, which were not handed out.
    #[cold]
    #[inline(never)]
    pub fn refund(self, objects: usize) {
        let add = |word: u16| Some(word & SAMPLE | (word & !SAMPLE).saturating_add(objects as u16).min(!SAMPLE));
        let _ = self.word.fetch_update(Relaxed, Relaxed, add);
    }

    fn draw(self) -> u16 {
        drawn(self.sampling.random(), self.sampling.mean.load(Relaxed), self.object_bytes)
    }

    /// The probability by which one of the cache's objects is sampled.
    pub fn probability(self) -> f64 {
        probability(self.sampling.mean.load(Relaxed), self.object_bytes)
    }

    /// Whether a block of so many bytes is sampled that is in no gap, and with which probability.
    pub fn draw_one(bytes: usize) -> Option<f64> {
        let sampling = SAMPLING.get()?;
        let probability = probability(sampling.mean.load(Relaxed), bytes);
        (uniform(sampling.random()) <= probability).then_some(probability)
    }
}

impl Sampling {
    fn random(&self) -> u64 {
        mixed(process::randomness().wrapping_add(self.turn.fetch_add(1, Relaxed)))
    }
}

/// Above 0, at most 1.
fn uniform(bits: u64) -> f64 {
    ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

fn probability(mean: u64, bytes: usize) -> f64 {
    -libm::expm1(-(bytes as f64) / mean as f64)
}

fn word_of(cache: CacheRef, slot: u32) -> &'static AtomicU16 {
    // SAFETY: these bytes of the slot's area serve nothing else, and zeroes are valid.
    unsafe { &*cache.chunk().in_area(slot, layout::GAP + 2 * cache.id()) }
}

/// The beginning of a gap for objects of so many bytes, from random bits.
fn drawn(bits: u64, mean: u64, object_bytes: usize) -> u16 {
    let objects = -libm::log(uniform(bits)) * mean as f64 / object_bytes as f64;
    if objects >= f64::from(MOST) { MOST } else { objects as u16 | SAMPLE }
}

/// Sets the mean gap, and returns the one before. 0: no sample is taken.
pub(super) fn set_mean_gap(mean: u64) -> u64 {
    SAMPLING.get().map_or(0, |sampling| sampling.mean.swap(mean, Relaxed))
}

/// Objects that a gap has left, of those drawn; for checks. A draw without a sample has [`MOST`].
pub fn left_of_gap(cache: CacheRef, slot: u32) -> usize {
    usize::from(word_of(cache, slot).load(Relaxed) & !SAMPLE)
}

/// Throws the gap of a cache in a slot away.
pub(super) fn forget_gap(cache: CacheRef, slot: u32) {
    word_of(cache, slot).store(0, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Planted bugs that were seen here: a sample after each part of a long gap; a mean of objects, not of bytes.
    #[test]
    fn objects_are_sampled_by_the_probability_of_their_size() {
        for (mean, bytes) in [(1 << 19, 16), (1 << 19, 4096), (1 << 12, 64), (1 << 12, 32768), (1 << 24, 16)] {
            let (mut objects, mut samples) = (0_u64, 0_u64);
            for turn in 0..400_000 {
                let word = drawn(mixed(turn), mean, bytes);
                let is_sample = word & SAMPLE != 0;
                objects += u64::from(word & !SAMPLE) + u64::from(is_sample);
                samples += u64::from(is_sample);
            }
            let expected = objects as f64 * probability(mean, bytes);
            // Six standard deviations, or of a rare one, more.
            let error = (samples as f64 - expected).abs();
            assert!(error < 6.0 * expected.sqrt().max(5.0), "{samples} of {expected}: mean {mean}, {bytes} bytes");
        }
    }
}
