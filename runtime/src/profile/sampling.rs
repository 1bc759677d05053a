//! Samples: when one is taken, with its stack and labels, and when its block is freed.

use super::state::{PLACE, Profile};
use super::table::{Figures, Labels};
use crate::caches::{calls, enter, heap, known_at};
use crate::central::CacheRef;
use crate::cpu_cache::{Claim, Gap, Means, means};
use core::ptr::{with_exposed_provenance_mut, without_provenance_mut};
use machine::sync::Ordering;
use machine::{clock, probe, process, slot, thread};

/// Begins to sample, with a mean of so many bytes between two samples, or changes the mean. Figures of an earlier
/// profile of the process stay. False: no memory.
///
/// Not for signal handlers. Safe after fork. Takes some microseconds, and 10 MiB of address space the first time.
pub fn start(mean: u64) -> bool {
    let is_ready = begin_sampling(mean);
    if let Some(profile) = known_at(&PLACE) {
        profile.is_followed.store(false, Ordering::Relaxed);
    }
    is_ready
}

/// [`start`], for the program or for a tracer.
pub(super) fn begin_sampling(mean: u64) -> bool {
    if !enter() {
        return false;
    }
    let Some(profile) = Profile::ready() else { return false };
    profile.pace.begin(mean.max(1));
    heap().cpu.begin_sampling(Means { profile: mean.max(1), ..means() });
    true
}

/// Stops sampling, until a tracer asks for samples. Blocks that were sampled are told as live until they are freed.
pub fn stop() {
    if is_on() {
        heap().cpu.begin_sampling(Means { profile: 0, ..means() });
    }
}

/// Whether samples are taken for the profile.
#[inline]
pub fn is_on() -> bool {
    means().profile > 0
}

/// Whether samples of any kind are taken, for [`sample`].
#[inline(always)]
pub(crate) fn takes_samples() -> bool {
    means() != Means::default()
}

/// Who allocates.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Caller<'a> {
    /// The address that the call returns to; 0: not known.
    pub from: usize,
    /// The name of the group that is charged; empty: none.
    pub group: &'a str,
}

impl Caller<'_> {
    pub const fn at(from: usize) -> Self {
        Caller { from, group: "" }
    }
}

/// A block for an allocation that the slot's magazines of a cache cannot serve, if it is sampled. `run` makes it, a
/// large block, unless it is guarded. None: it is not sampled, and counted in the slot's gap, or there is no memory.
pub(crate) fn sample(
    cache: CacheRef, (bytes, alignment): (usize, usize), caller: Caller<'_>, run: impl FnOnce() -> Option<*mut u8>,
) -> Option<*mut u8> {
    let gap = Gap::of(cache, heap().cpu.depot.slot_or_none(slot::current()))?;
    if gap.claim() == Claim::Plain {
        return None;
    }
    let kinds = gap.choose();
    let guarded = if kinds.is_guarded { heap().take_guarded(bytes, alignment, caller.from) } else { None };
    let Some(probability) = kinds.profiled else { return guarded };
    let block = guarded.or_else(run)?;
    born(Some(block), bytes, probability, caller);
    Some(block)
}

/// Samples a large block, which no gap has counted, by the probability of its length.
#[inline]
pub(crate) fn draw(block: *mut u8, bytes: usize, caller: Caller<'_>) {
    if is_on()
        && let Some(probability) = Gap::draw_one(bytes)
    {
        born(Some(block), bytes, probability, caller);
    }
}

/// Counts objects of a cache that a program made, which no magazine has reserved. A sample is told as allocated and
/// never as live: its free looks nothing up.
pub(crate) fn count_objects(cache: u32, objects: usize, from: usize) {
    // First, as the look-up of a cache reads what others write. Objects of such caches are never guarded.
    if !is_on() {
        return;
    }
    let cache = heap().central().cache(cache);
    let Some(gap) = Gap::of(cache, heap().cpu.depot.slot_or_none(slot::current())) else { return };
    let samples = (0..objects).filter(|_| gap.claim() == Claim::Sample).count();
    let probabilities = (0..samples).filter_map(|_| gap.choose().profiled);
    probabilities.for_each(|probability| born(None, cache.object_bytes(), probability, Caller::at(from)));
}

/// Treats a large block of a group that has a new length like one that was freed and allocated.
pub(crate) fn resized(block: *mut u8, bytes: usize, group: &str) {
    died(block);
    draw(block, bytes, Caller { from: 0, group });
}

/// Notes that a block was allocated and sampled, of which one in `1 / probability` is. With `block`, a large block, the
/// profile learns when it is freed; without, it is never told as live.
#[inline(never)]
fn born(block: Option<*mut u8>, bytes: usize, probability: f64, caller: Caller<'_>) {
    let Some(profile) = Profile::ready() else { return };
    let labels = Labels::of(caller.group, thread::region());
    // SAFETY: null, or memory that stays.
    let rows = unsafe { profile.rows.load(Ordering::Acquire).as_ref() };
    calls(rows, caller.from, &mut |stack| profile.born_at(stack, labels, block, bytes, probability));
    profile.pace.count();
}

impl Profile {
    /// The same as [`born`], at a stack.
    fn born_at(&self, stack: &[usize], labels: Labels, block: Option<*mut u8>, bytes: usize, probability: f64) {
        let (figures, now) = (Figures::of(bytes, probability), clock::now_ns());
        let noted = self.locked(|tables| {
            let thread = tables.name_of_thread(thread::identity(), now, process::thread_name)?;
            let site = tables.allocated(stack, labels.of_thread(thread), figures)?;
            let index = block.and_then(|_| tables.note(site, figures, now));
            if index.is_none() {
                tables.not_live(site, figures);
            }
            (index.is_some() || block.is_none()).then_some(index)
        });
        let Some(noted) = noted.flatten() else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let (Some(block), Some(index)) = (block, noted) else { return };
        self.tag_place(index).store(heap().tag(block).expose_provenance(), Ordering::Relaxed);
        heap().note_tags();
        // SAFETY: the block is the caller's.
        if unsafe { heap().set_tag(block, without_provenance_mut(index as usize * 2 + 1)) } {
            // Only of a block whose free will be told, so that tracers do not see leaks that are none.
            probe::allocated(block, bytes, (figures.bytes + 0.5) as u64);
        } else {
            self.forget(index);
        }
    }
}

/// Forgets a large or guarded block, if it was sampled. Its owner calls this before it gives the block up.
pub(crate) fn died(block: *mut u8) {
    let Some(profile) = known_at(&PLACE) else { return };
    let Some(index) = index_of(heap().tag(block)) else { return };
    probe::freed(block);
    let before = with_exposed_provenance_mut(profile.tag_place(index).load(Ordering::Relaxed));
    // SAFETY: the block is the caller's, and had a tag already.
    unsafe { heap().set_tag(block, before) };
    profile.forget(index);
}

impl Profile {
    fn forget(&self, index: u32) {
        if self.locked(|tables| tables.forget(index, clock::now_ns())).is_none() {
            self.defer(index);
        }
    }
}

/// The tag of a large block, whether it is sampled or not.
pub(crate) fn tag_of(block: *mut u8) -> *mut u8 {
    let tag = heap().tag(block);
    match (index_of(tag), known_at(&PLACE)) {
        (Some(index), Some(profile)) => with_exposed_provenance_mut(profile.tag_place(index).load(Ordering::Relaxed)),
        _ => tag,
    }
}

/// The sample that a tag names.
fn index_of(tag: *mut u8) -> Option<u32> {
    (tag.addr() % 2 == 1).then_some((tag.addr() / 2) as u32)
}
