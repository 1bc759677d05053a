//! A thread's identity, in this process and after a fork.
//!
//! A thread gets a unique identity on its first [`enter`], and a new one in a fork child. It names a lock's holder.
//!
//! **Fork without handlers.** A child made by `_Fork` or the bare system call runs no fork handler, and inherits locks
//! whose holders do not exist there. One word in a page that the kernel wipes in children holds the *generation* of the
//! process. Zero means a child that has not noticed yet. The first thread that finds zero declares all earlier
//! identities gone and starts the next generation. Each thread compares its own generation on each slow path, so the
//! forking thread, too, gets a new identity before it takes a lock.
//!
//! Runs at the same time: all threads; the generation changes only in a fresh child.

use super::block::block;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence, spin_loop};
use crate::{process, sandbox, slot, syscall, vm};
use core::ptr::null_mut;
use core::sync::atomic as own;

/// The thread's block; all zero when the thread starts. Core's atomics, always relaxed: only handlers of the thread use
/// it too.
#[repr(C)]
pub struct Block {
    /// Free for this use: the words up to `slot` stand in for the kernel's area, and operations skip this one.
    slotless: own::AtomicU32,
    stand_in: [u32; 3],
    /// The kernel's area has flags here, and its node behind, which no operation reads.
    region: own::AtomicU32,
    node: u32,
    slot: own::AtomicU32,
    generation: own::AtomicU32,
    identity: own::AtomicU64,
    held_ranks: own::AtomicU64,
    tid: own::AtomicU32,
    pub(super) level: own::AtomicI32,
    local: own::AtomicUsize,
}

/// Size of [`Block`], and offset of the slot for restartable operations.
const _: () = assert!(core::mem::size_of::<Block>() == 64 && core::mem::offset_of!(Block, slot) == 24);

/// The generation before any noticed fork.
pub const FIRST_GENERATION: u32 = 1;
/// A thread is declaring the parent's identities gone.
const CHANGING: u32 = u32::MAX;

process_state! {
    static IN_PLACE_MARK: AtomicU32 = AtomicU32::new(FIRST_GENERATION);
    static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const IN_PLACE_MARK).cast_mut());
    static GENERATION: AtomicU32 = AtomicU32::new(FIRST_GENERATION);
    static NEXT_IDENTITY: AtomicU64 = AtomicU64::new(1);
    static GONE: AtomicU64 = AtomicU64::new(0);
    static WHEN_FORKED: AtomicPtr<fn()> = AtomicPtr::new(null_mut());
}

/// Sets work for the thread that forked, to be run by [`forked`] when it notices that it is in a child.
pub fn when_forked(work: &'static fn()) {
    WHEN_FORKED.store((&raw const *work).cast_mut(), Ordering::Release);
}

/// Runs the work of [`when_forked`].
#[cold]
pub fn forked() {
    // SAFETY: null, or what `when_forked` was given.
    if let Some(work) = unsafe { WHEN_FORKED.load(Ordering::Acquire).as_ref() } {
        work();
    }
}

#[inline]
fn mark() -> &'static AtomicU32 {
    // Acquire pairs with the release in `notice_forks`.
    // SAFETY: MARK points to a static or to a page that is never unmapped.
    unsafe { &*MARK.load(Ordering::Acquire) }
}

/// Starts a slow path: afterwards [`identity`] is this thread's, in this process. Returns true, once, if this is the
/// thread that forked and it had entered in the parent.
#[inline]
pub fn enter() -> bool {
    let own = block().generation.load(Ordering::Relaxed);
    // Relaxed: the word changes only in a child. Its other threads start after the change, or find CHANGING or zero and
    // go to `renew`, which acquires.
    // Zero is a thread that never entered, which must not pass for one of a child that has not noticed its fork.
    if own == mark().load(Ordering::Relaxed) && own != 0 { false } else { renew(own) }
}

#[cold]
#[unsafe(link_section = ".text.first")]
fn renew(own: u32) -> bool {
    let block = block();
    loop {
        // Acquire pairs with the release below: a thread that sees the new generation also sees the new GONE.
        let generation = match mark().load(Ordering::Acquire) {
            0 => {
                begin_generation();
                continue;
            }
            CHANGING => {
                spin_loop();
                continue;
            }
            generation => generation,
        };
        // A newer identity replaces that of a signal handler here.
        block.identity.store(next_identity(), Ordering::Relaxed);
        // In a fork child the kernel gives the thread the number of the process.
        block.tid.store(if own != 0 && sandbox::is_on() { process::id() } else { 0 }, Ordering::Relaxed);
        block.generation.store(generation, Ordering::Relaxed);
        // A handler may have forked since the look at the mark: then this is the child, and locks that are taken now
        // would have another holder's identity after the next handler.
        compiler_fence(Ordering::SeqCst);
        if mark().load(Ordering::Relaxed) == generation {
            return own != 0;
        }
    }
}

/// A new identity whose low half, as lock words hold it, is not zero.
fn next_identity() -> u64 {
    loop {
        let identity = NEXT_IDENTITY.fetch_add(1, Ordering::Relaxed);
        if low_half(identity) != 0 {
            return identity;
        }
    }
}

fn begin_generation() {
    without_signals(change_generation);
}

fn change_generation() {
    // Relaxed on failure: the caller loads again.
    if mark().compare_exchange(0, CHANGING, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    GONE.store(NEXT_IDENTITY.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    // A grandchild forked here finds zero again and the higher number: no generation is used twice.
    let next = GENERATION.fetch_add(1, Ordering::Relaxed) + 1;
    mark().store(next, Ordering::Release);
}

/// Number of noticed forks of the process and its ancestors. Call [`enter`] before.
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Lets children notice forks without handlers, also of running threads. Once is enough. False: they will not.
pub fn notice_forks() -> bool {
    // The mark is copied below, so no thread may be about to change it, as in a child that has not noticed yet.
    if enter() {
        slot::claim();
        forked();
    }
    let in_place = (&raw const IN_PLACE_MARK).cast_mut();
    if MARK.load(Ordering::Relaxed) != in_place {
        return true;
    }
    let Some(page) = vm::reserve(core::ptr::null_mut(), vm::PAGE, vm::Access::ReadWrite) else {
        return false;
    };
    // SAFETY: the page is fresh and ours.
    let is_wiped = unsafe {
        (*page.cast::<AtomicU32>()).store(mark().load(Ordering::Relaxed), Ordering::Relaxed);
        vm::wipe_on_fork(page, vm::PAGE)
    };
    // Release pairs with the acquire in `mark`: a thread that sees the page sees its contents, not zero.
    if is_wiped && MARK.compare_exchange(in_place, page.cast(), Ordering::Release, Ordering::Relaxed).is_ok() {
        return true;
    }
    // SAFETY: no other thread has seen ours.
    unsafe { vm::release(page, vm::PAGE) };
    is_wiped
}

/// The thread's identity: never zero, never given twice. Call [`enter`] before.
#[inline]
pub fn identity() -> u64 {
    block().identity.load(Ordering::Relaxed)
}

/// A word of the thread for the runtime; 0 at first. A fork child's thread has its parent's.
#[inline]
pub fn local() -> usize {
    block().local.load(Ordering::Relaxed)
}

/// Sets [`local`].
#[inline]
pub fn set_local(value: usize) {
    block().local.store(value, Ordering::Relaxed);
}

/// A number of the thread for the runtime; 0 at first. A fork child's thread has its parent's.
#[inline]
pub fn region() -> u32 {
    block().region.load(Ordering::Relaxed)
}

/// Sets [`region`].
#[inline]
pub fn set_region(region: u32) {
    block().region.store(region, Ordering::Relaxed);
}

/// The thread's level: its calls of [`ascend`](super::ascend) minus those of [`descend`](super::descend), unless the
/// runtime set another one. A fork child's thread has its parent's.
#[inline]
pub fn level() -> i32 {
    block().level.load(Ordering::Relaxed)
}

/// Sets [`level`].
#[inline]
pub fn set_level(level: i32) {
    block().level.store(level, Ordering::Relaxed);
}

#[inline]
pub(crate) fn lock_identity() -> u32 {
    low_half(identity())
}

fn low_half(identity: u64) -> u32 {
    identity as u32 & !crate::sync::WAITERS
}

/// Whether the thread with this lock identity vanished in a fork.
pub(crate) fn is_gone(lock_identity: u32) -> bool {
    // Relaxed: our own `enter` ordered us after the change of generation.
    is_up_to(GONE.load(Ordering::Relaxed), lock_identity, NEXT_IDENTITY.load(Ordering::Relaxed))
}

/// Whether a lock identity is one of those up to `last`. Of all identities with this low half, the youngest is meant. A
/// thread that has seen 2^31 others start looks younger than it is, and so alive, which it is. A weak machine may show
/// a lock that was taken with an identity that `next` does not count yet: that one is the youngest of all.
fn is_up_to(last: u64, lock_identity: u32, next: u64) -> bool {
    let age = low_half(next).wrapping_sub(lock_identity) & !crate::sync::WAITERS;
    next.checked_sub(age.into()).is_some_and(|identity| (1..=last).contains(&identity))
}

/// Number of locks of each rank that this thread holds, one byte each. A fork child's thread keeps them: the fork was
/// in a handler then, and the interrupted code goes on.
#[inline]
pub(crate) fn held_ranks() -> u64 {
    block().held_ranks.load(Ordering::Relaxed)
}

/// Whether this thread holds a lock. Then code that interrupted it must not create a thread: in a child that the
/// handler forked, that thread might find the lock's holder gone.
pub fn holds_locks() -> bool {
    held_ranks() != 0
}

#[inline]
pub(crate) fn set_held_ranks(counts: u64) {
    block().held_ranks.store(counts, Ordering::Relaxed);
}

/// This thread's slot in fallback mode; zero: none yet.
pub(crate) fn fallback_slot() -> &'static own::AtomicU32 {
    &block().slot
}

/// Slow paths on which the thread will not look for a slot.
pub(crate) fn slotless() -> &'static own::AtomicU32 {
    &block().slotless
}

/// Set in the number of a thread that could not ask the kernel, whose numbers are lower.
const UNASKED: u32 = 1 << 30;

/// The kernel's number of this thread, asked for once in each process. In a sandbox it is a unique number, or
/// [`process::id`] for the thread that forked. Call [`enter`] before.
pub(crate) fn tid() -> u32 {
    let tid = &block().tid;
    while tid.load(Ordering::Relaxed) == 0 {
        let before = identity();
        let made_up = UNASKED | before as u32 & (UNASKED - 1);
        // SAFETY: gettid has no effects on memory.
        let number = unsafe { syscall::call(syscall::GETTID, []) }.map_or(made_up, |number| number as u32);
        // A signal handler may have forked, and this may be the child, where the number is another one.
        if identity() == before {
            tid.store(number, Ordering::Relaxed);
        }
    }
    tid.load(Ordering::Relaxed)
}

/// Forgets this thread's number, because the process may have forked unnoticed since it was asked for.
pub fn forget_number() {
    block().tid.store(0, Ordering::Relaxed);
}

/// Whether the thread `tid` still lives in this process. True if in doubt.
pub(crate) fn is_alive(tid: u32) -> bool {
    // SAFETY: signal 0 delivers nothing.
    let asked = unsafe { syscall::call(syscall::TGKILL, [process::id() as usize, tid as usize]) };
    asked != Err(syscall::Errno::NO_SUCH_PROCESS)
}

/// Runs `work` while no signal handler can interrupt this thread.
pub fn without_signals<R>(work: impl FnOnce() -> R) -> R {
    const BLOCK: usize = 0;
    const SET: usize = 2;
    const SET_BYTES: usize = 8;
    let (all, mut before) = (u64::MAX, 0u64);
    let change = |how, from: *const u64, to: *mut u64| {
        // SAFETY: the kernel reads and writes one set of signals.
        let _ = unsafe { syscall::call(syscall::RT_SIGPROCMASK, [how, from as usize, to as usize, SET_BYTES]) };
    };
    change(BLOCK, &all, &mut before);
    let result = work();
    change(SET, &before, core::ptr::null_mut());
    result
}

/// Declares the calling process a new fork child, for kernels that do not wipe the mark.
pub fn declare_forked() {
    mark().store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_gone_up_to_the_last_of_a_parent() {
        const WRAP: u64 = 1 << 31;
        for (last, identity, next, expected) in [
            (0, 5, 6, false),
            (0, 6, 6, false),
            (0, 9, 6, false),
            (4, 9, 6, false),
            (4, 3, 6, true),
            (4, 4, 6, true),
            (4, 5, 6, false),
            (WRAP + 2, WRAP + 2, WRAP + 5, true),
            (WRAP + 2, WRAP + 3, WRAP + 5, false),
            (WRAP + 2, WRAP - 1, WRAP + 5, true),
        ] {
            assert_eq!(is_up_to(last, low_half(identity), next), expected, "{identity} of {next}, with {last} gone");
        }
    }
}
