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
//! **Two kinds of samples.** The profile has a mean gap, and so have guarded blocks. One gap serves both: it is drawn
//! with the sum of their rates, and its end says of which kind the sample is, or that it is of both.
//!
//! A magazine's way does not depend on later samples. So each allocation is counted in one gap, once. A rest that is
//! thrown away and drawn anew has the same distribution as one that is kept, because the geometric distribution has no
//! memory. `docs/design/profile.md` has the proof that estimates are unbiased.
//!
//! Runs at the same time: any thread. Relaxed: each word stands alone, and single steps change it.

use crate::central::CacheRef;
use crate::layout::{self, HeaderWord, Region, header};
use crate::page_heap::PAGE;
use crate::page_heap::guarded::mixed;
use crate::settings::{self, Key};
use machine::process;
use machine::sync::{AtomicU16, AtomicU64, Ordering::Relaxed};

/// Set in a gap's word if a sample comes after so many objects; else the next part of the gap is not drawn yet. So zero
/// is a gap of which nothing is drawn.
const SAMPLE: u16 = 1 << 15;
/// Most objects that are drawn at once. A refund fits above it.
pub const MOST: u16 = SAMPLE - 2048;

const PROFILE: Key = Key::of("profile");
const GAP_KIB: Key = Key::of("profile.gap_kib");
const GUARD: Key = Key::of("guard");

/// The mean gap of the heap profile that the settings say; 0: none is wanted from the start.
pub fn wanted_mean() -> u64 {
    const FILE: Key = Key::of("profile.file");
    let is_wanted = PROFILE.said().map_or(FILE.said().is_some(), |value| value != 0);
    if is_wanted { usual_mean() } else { 0 }
}

/// The mean gap of the settings, wanted or not.
pub fn usual_mean() -> u64 {
    GAP_KIB.get() << 10
}

/// Begins to sample in a region that is not installed yet, if the settings say so: no magazine exists.
pub fn begin_in(region: Region) {
    let at = region.at_offset(header::SAMPLING).cast::<Sampling>();
    // Other settings may exclude guarded blocks; they are applied when the heap exists.
    let guard = if settings::allow_no_heap() { GUARD.get() << 10 } else { 0 };
    // SAFETY: this part of the header is ours, zeroes are valid, and no other thread knows the region.
    unsafe {
        (*at).profile.store(wanted_mean(), Relaxed);
        (*at).guard.store(guard, Relaxed);
    }
}

/// Mean bytes between two samples of each kind; 0: none is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Means {
    /// Of the heap profile.
    pub profile: u64,
    /// Of guarded blocks, which are at most a page, of a size class.
    pub guard: u64,
}

impl Means {
    fn of(cache: CacheRef, sampling: &Sampling) -> Self {
        let means = sampling.means();
        let can_be_guarded = cache.chunk() == Region::of_process() && cache.object_bytes() <= PAGE;
        Means { guard: if can_be_guarded { means.guard } else { 0 }, ..means }
    }

    /// Mean bytes between two samples of any kind.
    fn of_both(self) -> f64 {
        match (self.profile, self.guard) {
            (one, 0) | (0, one) => one as f64,
            (profile, guard) => 1.0 / (1.0 / profile as f64 + 1.0 / guard as f64),
        }
    }

    /// The kinds of a sample of so many bytes, from random bits. Each kind has its own probability, and both are
    /// independent; but a sample is of one kind at least.
    fn choose(self, bits: u64, bytes: usize) -> Kinds {
        let [profile, guard] = [self.profile, self.guard].map(|mean| probability(mean as f64, bytes));
        let at = uniform(bits) * probability(self.of_both(), bytes);
        let is_profiled = self.guard == 0 || self.profile > 0 && at <= profile;
        let is_guarded = !is_profiled || self.guard > 0 && at <= profile * guard;
        Kinds { profiled: is_profiled.then_some(profile), is_guarded }
    }
}

/// The kinds of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kinds {
    /// The probability by which the profile samples a block of this size, if it samples this one.
    pub profiled: Option<f64>,
    /// Whether the block shall be guarded.
    pub is_guarded: bool,
}

/// When samples are taken. All-zero memory: never.
#[derive(Debug)]
#[repr(C)]
struct Sampling {
    profile: AtomicU64,
    guard: AtomicU64,
    /// Numbers drawn so far.
    turn: AtomicU64,
}

// SAFETY: atomic, and no other user has this part of the header.
const SAMPLING: HeaderWord<Sampling> = unsafe { HeaderWord::at(header::SAMPLING) };

/// When samples are taken now.
#[inline]
pub fn means() -> Means {
    SAMPLING.get().map_or_else(Means::default, Sampling::means)
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
    cache: CacheRef,
}

impl Gap {
    /// None: no samples are taken there.
    #[inline]
    pub fn of(cache: CacheRef, slot: u32) -> Option<Self> {
        let sampling = SAMPLING.get().filter(|sampling| sampling.means() != Means::default())?;
        Some(Gap { word: word_of(cache, slot), sampling, cache })
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

    /// As many of `most` objects as come before the next sample. Counts none of them.
    pub fn fitting(self, most: usize) -> usize {
        if usize::from(self.word.load(Relaxed) & !SAMPLE) >= most {
            return most;
        }
        let reserved = self.reserve(most);
        self.refund(reserved);
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
        if objects == 0 {
            return;
        }
        let add = |word: u16| Some(word & SAMPLE | (word & !SAMPLE).saturating_add(objects as u16).min(!SAMPLE));
        let _ = self.word.fetch_update(Relaxed, Relaxed, add);
    }

    #[cold]
    #[inline(never)]
    fn draw(self) -> u16 {
        drawn(self.sampling.random(), Means::of(self.cache, self.sampling).of_both(), self.cache.object_bytes())
    }

    /// The kinds of a sample that ended the gap.
    pub fn choose(self) -> Kinds {
        Means::of(self.cache, self.sampling).choose(self.sampling.random(), self.cache.object_bytes())
    }

    /// Whether the profile samples a block of so many bytes that is in no gap, and with which probability.
    pub fn draw_one(bytes: usize) -> Option<f64> {
        let sampling = SAMPLING.get()?;
        let probability = probability(sampling.means().profile as f64, bytes);
        (uniform(sampling.random()) <= probability).then_some(probability)
    }
}

impl Sampling {
    #[inline]
    fn means(&self) -> Means {
        Means { profile: self.profile.load(Relaxed), guard: self.guard.load(Relaxed) }
    }

    fn random(&self) -> u64 {
        mixed(process::randomness().wrapping_add(self.turn.fetch_add(1, Relaxed)))
    }
}

/// Above 0, at most 1.
fn uniform(bits: u64) -> f64 {
    ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

fn probability(mean: f64, bytes: usize) -> f64 {
    -libm::expm1(-(bytes as f64) / mean)
}

fn word_of(cache: CacheRef, slot: u32) -> &'static AtomicU16 {
    // SAFETY: these bytes of the slot's area serve nothing else, and zeroes are valid.
    unsafe { &*cache.chunk().in_area(slot, layout::GAP + 2 * cache.id()) }
}

/// The beginning of a gap for objects of so many bytes, from random bits. A mean of 0: no sample comes.
fn drawn(bits: u64, mean: f64, object_bytes: usize) -> u16 {
    if mean == 0.0 {
        return MOST;
    }
    let objects = -libm::log(uniform(bits)) * mean / object_bytes as f64;
    if objects >= f64::from(MOST) { MOST } else { objects as u16 | SAMPLE }
}

/// Sets when samples are taken from now on, and returns when they were before.
pub(super) fn set_means(means: Means) -> Means {
    let swap = |sampling: &Sampling| Means {
        profile: sampling.profile.swap(means.profile, Relaxed),
        guard: sampling.guard.swap(means.guard, Relaxed),
    };
    SAMPLING.get().map_or_else(Means::default, swap)
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
            let mean = f64::from(mean);
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
    /// Planted bugs that were seen here: a gap drawn with the smaller mean; the second kind where the first is not,
    /// with its whole probability.
    #[test]
    fn kinds_are_independent_and_have_their_own_probabilities() {
        for (profile, guard, bytes) in [(4096, 1024, 4096), (1000, 1000, 64), (1 << 19, 1 << 20, 4096), (0, 512, 64)] {
            let means = Means { profile, guard };
            let (mut objects, mut counts, mut random) = (0.0, [0.0; 3], 0);
            for _ in 0..300_000 {
                random += 2;
                let word = drawn(mixed(random), means.of_both(), bytes);
                objects += f64::from(word & !SAMPLE);
                if word & SAMPLE != 0 {
                    objects += 1.0;
                    let Kinds { profiled, is_guarded } = means.choose(mixed(random + 1), bytes);
                    let happened = [profiled.is_some(), is_guarded, profiled.is_some() && is_guarded];
                    counts.iter_mut().zip(happened).for_each(|(count, happened)| *count += f64::from(happened));
                    assert!(profiled.is_none_or(|p| p == probability(profile as f64, bytes)));
                    assert!(happened[0] || happened[1], "a sample of no kind");
                }
            }
            let of = |mean: u64| if mean == 0 { 0.0 } else { probability(mean as f64, bytes) };
            for (count, p) in counts.into_iter().zip([of(profile), of(guard), of(profile) * of(guard)]) {
                let expected = objects * p;
                assert!((count - expected).abs() < 6.0 * expected.sqrt().max(1.0), "{count} of {expected}: {means:?}");
            }
        }
    }
}
