//! The heap profile: which call sites allocate and hold memory, from samples.
//!
//! [`cpu_cache::Gap`](crate::cpu_cache) says which allocations are sampled. A sampled block of any size is a large
//! block, so that its free takes a slow path, and no other free looks anything up. The block's tag leads to its entry
//! in the tables here:
//!
//! ```text
//!   block ──▶ tag: 2 × index + 1 ──▶ sample ──▶ site: stack, labels, figures
//!                                    └▶ the tag that the block had before: of its group
//! ```
//!
//! Runs at the same time: any thread, in signal handlers too, and in fork children, which go on with their parent's
//! samples. A handler above the lock's holder loses its sample, which is counted; a block that it frees waits for the
//! next holder.

mod table;

pub use table::{DEPTH, Figures, LIFETIMES, Labels, Site};

use crate::caches::{enter, heap, known_at, made_at};
use crate::central::CacheRef;
use crate::cpu_cache::{Claim, Gap, mean_gap};
use crate::layout::{HeaderWord, header};
use crate::page_heap::guarded;
use core::cell::UnsafeCell;
use core::ptr::{with_exposed_provenance_mut, without_provenance_mut};
use machine::sync::{Acquired, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Lock, Ordering};
use machine::{clock, here, slot, vm};
use table::{Arrays, SAMPLES, Tables};

/// Above the page heap's; a holder takes no further lock.
const RANK: u8 = 6;

/// The state. All-zero memory: no profile was started yet.
#[repr(C)]
struct Profile {
    lock: Lock<RANK>,
    /// A sample that was freed above the lock's holder, plus 1; its tag leads to the next one. 0: none.
    forgotten: AtomicU32,
    /// Samples that are in no table.
    lost: AtomicU64,
    tags: AtomicPtr<Tags>,
    tables: UnsafeCell<Tables>,
}

// SAFETY: zeroes are valid, and no other user has this part of the header.
const PLACE: HeaderWord<AtomicPtr<Profile>> = unsafe { HeaderWord::at(header::PROFILE) };

/// The memory of a profile.
#[repr(C)]
struct Memory {
    arrays: Arrays,
    tags: Tags,
}

/// The tags that sampled blocks had before, by the number of the sample; of one that waits, the next one that waits.
/// Only a block's owner uses them.
#[repr(transparent)]
struct Tags([AtomicUsize; SAMPLES]);

impl Profile {
    /// None in a signal handler above the lock's holder.
    fn locked<R>(&self, work: impl FnOnce(&mut Tables) -> R) -> Option<R> {
        // A holder that vanished in a fork leaves at most figures without an event.
        if self.lock.acquire(&heap().page_heap().locks().profile, here!()) == Acquired::WouldDeadlock {
            return None;
        }
        // SAFETY: this thread holds the lock.
        let tables = unsafe { &mut *self.tables.get() };
        if self.forgotten.load(Ordering::Relaxed) != 0 {
            self.forget_deferred(tables);
        }
        let result = work(tables);
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }

    fn tag_place(&self, index: u32) -> &AtomicUsize {
        // SAFETY: a sample exists, so the memory was published before; it is never unmapped.
        unsafe { &(&*self.tags.load(Ordering::Acquire)).0[index as usize] }
    }

    fn defer(&self, index: u32) {
        // Release pairs with the acquire in `forget_deferred`, which reads the link.
        let _ = self.forgotten.fetch_update(Ordering::Release, Ordering::Relaxed, |next| {
            self.tag_place(index).store(next as usize, Ordering::Relaxed);
            Some(index + 1)
        });
    }

    #[cold]
    fn forget_deferred(&self, tables: &mut Tables) {
        let mut next = self.forgotten.swap(0, Ordering::Acquire);
        while let Some(index) = next.checked_sub(1) {
            next = self.tag_place(index).load(Ordering::Relaxed) as u32;
            tables.forget(index, clock::now_ns());
        }
    }
}

/// Begins to sample, with a mean of so many bytes between two samples, or changes the mean. Figures of an earlier
/// profile of the process stay. False: no memory.
///
/// Not for signal handlers. Safe after fork. Takes some microseconds, and 10 MiB of address space the first time.
pub fn start(mean: u64) -> bool {
    if !enter() {
        return false;
    }
    let Some(profile) = made_at(&PLACE) else { return false };
    let has_memory = |tables: &mut Tables| tables.arrays.is_some() || profile.map_memory(tables);
    let is_ready = profile.locked(has_memory) == Some(true);
    if is_ready {
        heap().cpu.begin_sampling(mean.max(1));
    }
    is_ready
}

/// Stops sampling. Blocks that were sampled are told as live until they are freed.
pub fn stop() {
    if is_on() {
        heap().cpu.begin_sampling(0);
    }
}

impl Profile {
    fn map_memory(&self, tables: &mut Tables) -> bool {
        let bytes = size_of::<Memory>().next_multiple_of(vm::PAGE);
        let place = heap().page_heap().place(bytes);
        let Some(memory) = guarded::map(place, bytes, vm::PAGE).map(<*mut u8>::cast::<Memory>) else { return false };
        // SAFETY: a fresh mapping, and zeroes are valid.
        let memory = unsafe { &mut *memory };
        // Release pairs with the acquire in `tag_place`.
        self.tags.store(&raw mut memory.tags, Ordering::Release);
        tables.arrays = Some(&mut memory.arrays);
        true
    }
}

/// Whether samples are taken.
#[inline(always)]
pub fn is_on() -> bool {
    mean_gap() > 0
}

/// A block for an allocation that the slot's magazines of a cache cannot serve, if it is sampled. `run` makes it, a
/// large block. None: it is not sampled, and counted in the slot's gap, or there is no memory.
///
/// `from` is the caller's address.
pub(crate) fn sample(
    cache: CacheRef, bytes: usize, from: usize, run: impl FnOnce() -> Option<*mut u8>,
) -> Option<*mut u8> {
    let gap = Gap::of(cache, heap().cpu.depot.slot_or_none(slot::current()))?;
    if gap.claim() == Claim::Plain {
        return None;
    }
    let block = run()?;
    born(Some(block), bytes, gap.probability(), &[from], Labels::default());
    Some(block)
}

/// Samples a large block, which no gap has counted, by the probability of its length.
#[inline]
pub(crate) fn draw(block: *mut u8, bytes: usize, from: usize) {
    if is_on()
        && let Some(probability) = Gap::draw_one(bytes)
    {
        born(Some(block), bytes, probability, &[from], Labels::default());
    }
}

/// Counts objects of a cache that a program made, which no magazine has reserved. A sample is told as allocated and
/// never as live: its free looks nothing up.
pub(crate) fn count_objects(cache: u32, objects: usize, from: usize) {
    // First, as the look-up of a cache reads what others write.
    if !is_on() {
        return;
    }
    let cache = heap().central().cache(cache);
    let Some(gap) = Gap::of(cache, heap().cpu.depot.slot_or_none(slot::current())) else { return };
    let samples = (0..objects).filter(|_| gap.claim() == Claim::Sample).count();
    (0..samples).for_each(|_| born(None, cache.object_bytes(), gap.probability(), &[from], Labels::default()));
}

/// Treats a large block that has a new length like one that was freed and allocated.
pub(crate) fn resized(block: *mut u8, bytes: usize) {
    died(block);
    draw(block, bytes, 0);
}

/// Notes that a block was allocated and sampled, of which one in `1 / probability` is. With `block`, a large block, the
/// profile learns when it is freed; without, it is never told as live.
pub(crate) fn born(block: Option<*mut u8>, bytes: usize, probability: f64, stack: &[usize], labels: Labels) {
    let Some(profile) = known_at(&PLACE) else { return };
    let (figures, now) = (Figures::of(bytes, probability), clock::now_ns());
    let noted = profile.locked(|tables| {
        let site = tables.allocated(stack, labels, figures)?;
        let index = block.and_then(|_| tables.note(site, figures, now));
        if index.is_none() {
            tables.not_live(site, figures);
        }
        (index.is_some() || block.is_none()).then_some(index)
    });
    let Some(noted) = noted.flatten() else {
        profile.lost.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let (Some(block), Some(index)) = (block, noted) else { return };
    let page_heap = heap().page_heap();
    profile.tag_place(index).store(page_heap.tag(block).expose_provenance(), Ordering::Relaxed);
    heap().note_tags();
    // SAFETY: the block is the caller's.
    if !unsafe { page_heap.set_tag(block, without_provenance_mut(index as usize * 2 + 1)) } {
        profile.forget(index);
    }
}

/// Forgets a large block, if it was sampled. Its owner calls this before it gives the block up.
pub(crate) fn died(block: *mut u8) {
    let Some(profile) = known_at(&PLACE) else { return };
    let page_heap = heap().page_heap();
    let Some(index) = index_of(page_heap.tag(block)) else { return };
    let before = with_exposed_provenance_mut(profile.tag_place(index).load(Ordering::Relaxed));
    // SAFETY: the block is the caller's, and had a tag already.
    unsafe { page_heap.set_tag(block, before) };
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
    let tag = heap().page_heap().tag(block);
    match (index_of(tag), known_at(&PLACE)) {
        (Some(index), Some(profile)) => with_exposed_provenance_mut(profile.tag_place(index).load(Ordering::Relaxed)),
        _ => tag,
    }
}

/// The sample that a tag names.
fn index_of(tag: *mut u8) -> Option<u32> {
    (tag.addr() % 2 == 1).then_some((tag.addr() / 2) as u32)
}

/// Samples that the tables had no room for, or that a signal handler met while another thread changed them.
pub fn lost() -> u64 {
    known_at(&PLACE).map_or(0, |profile| profile.lost.load(Ordering::Relaxed))
}

/// A call site, as a reader gets it.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Its labels and figures.
    pub site: Site,
    /// Return addresses, innermost first; the first `depth` count.
    pub stack: [usize; DEPTH],
    /// How many there are.
    pub depth: usize,
    /// Live there when the most bytes were live in all.
    pub at_peak: Figures,
}

/// The call sites known so far, each read by itself under the lock.
pub fn sites() -> impl Iterator<Item = Reading> {
    let profile = known_at(&PLACE);
    (0..).map_while(move |number| {
        profile?.locked(|tables| {
            let (site, frames, at_peak) = tables.site(number)?;
            let mut stack = [0; DEPTH];
            stack[..frames.len()].copy_from_slice(frames);
            Some(Reading { site: *site, stack, depth: frames.len(), at_peak })
        })?
    })
}
