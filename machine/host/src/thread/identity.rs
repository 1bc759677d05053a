//! Who a thread is, in this process and after a fork.
//!
//! An identity is given on the thread's first [`enter`], and never given again, not even after fork: it tells who
//! holds a lock in *this* process.
//!
//! **Fork without handlers.** A child made by `_Fork` or the bare system call runs no fork handler, and inherits locks
//! whose holders do not exist there. One word in a page that the kernel wipes in children holds the *generation* of the
//! process; zero means that this is a child that has not noticed yet. The first thread that finds zero declares all
//! earlier identities gone and starts the next generation. Every thread compares its own generation on each slow path,
//! so the forking thread, too, gets a new identity before it takes a lock.
//!
//! Runs at the same time: all threads; the generation changes only in a fresh child.

use super::block::block;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, spin_loop};
use crate::{process, sandbox, slot, syscall, vm};
use core::ptr::null_mut;

/// The thread's block; all zero when the thread starts.
#[repr(C)]
pub struct Block {
    /// The first word of what the kernel would have there, of which operations use others.
    slotless: u32,
    stand_in: [u32; 5],
    slot: u32,
    generation: u32,
    identity: u64,
    held_ranks: u64,
    tid: u32,
    pub(super) level: u32,
    local: usize,
}

/// What [`Block`] takes, and where the restartable operations find the slot in it.
const _: () = assert!(core::mem::size_of::<Block>() == 64 && core::mem::offset_of!(Block, slot) == 24);

/// The generation before any fork was noticed.
pub const FIRST_GENERATION: u32 = 1;
/// Somebody is declaring the identities of the parent gone.
const CHANGING: u32 = u32::MAX;

process_state! {
    static IN_PLACE_MARK: AtomicU32 = AtomicU32::new(FIRST_GENERATION);
    static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const IN_PLACE_MARK).cast_mut());
    static GENERATION: AtomicU32 = AtomicU32::new(FIRST_GENERATION);
    static NEXT_IDENTITY: AtomicU64 = AtomicU64::new(1);
    static GONE: AtomicU64 = AtomicU64::new(0);
    static WHEN_FORKED: AtomicPtr<()> = AtomicPtr::new(null_mut());
}

/// Has `work` done by the thread that forked, when it notices that it is in a child: by whoever calls [`forked`] then.
pub fn when_forked(work: fn()) {
    WHEN_FORKED.store(work as *mut (), Ordering::Release);
}

/// Does what [`when_forked`] said.
#[cold]
pub fn forked() {
    let work = WHEN_FORKED.load(Ordering::Acquire);
    if !work.is_null() {
        // SAFETY: it is a function of this type.
        unsafe { core::mem::transmute::<*mut (), fn()>(work)() };
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
    // SAFETY: the block is this thread's own.
    let own = unsafe { (*block()).generation };
    // Relaxed: the word changes only in a child whose other threads are born after the change, or find CHANGING or zero
    // and come along `renew`, which acquires.
    // Zero is a thread that never entered, and must not be taken for one of a child that nobody noticed.
    if own == mark().load(Ordering::Relaxed) && own != 0 { false } else { renew(own) }
}

#[cold]
fn renew(own: u32) -> bool {
    let generation = loop {
        // Acquire pairs with the release below: who sees the new generation also sees the new GONE.
        match mark().load(Ordering::Acquire) {
            0 => begin_generation(),
            CHANGING => spin_loop(),
            generation => break generation,
        }
    };
    let identity = next_identity();
    // SAFETY: the block is this thread's own; a signal handler that interrupts here gives itself an identity, which is
    // then replaced by a newer one: both are unique.
    unsafe {
        (*block()).identity = identity;
        // In a fork child the kernel calls the thread by another number, which is that of the process.
        (*block()).tid = if own != 0 && sandbox::is_on() { process::id() } else { 0 };
        (*block()).generation = generation;
    }
    own != 0
}

/// One that was never given; its low half, as lock words hold it, is not zero.
fn next_identity() -> u64 {
    loop {
        let identity = NEXT_IDENTITY.fetch_add(1, Ordering::Relaxed);
        if low_half(identity) != 0 {
            return identity;
        }
    }
}

/// In a fresh child: declares everybody gone.
fn begin_generation() {
    without_signals(change_generation);
}

fn change_generation() {
    // Relaxed on failure: the caller loads again.
    if mark().compare_exchange(0, CHANGING, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    GONE.store(NEXT_IDENTITY.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    // A grandchild that is forked right here finds zero again and the higher number: no generation is used twice.
    let next = GENERATION.fetch_add(1, Ordering::Relaxed) + 1;
    mark().store(next, Ordering::Release);
}

/// How often forks were noticed in the process and its ancestors. Call [`enter`] before.
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Lets children notice forks without handlers, also of running threads. Once is enough. False if they will not.
pub fn notice_forks() -> bool {
    // The mark is copied below: so nobody may be about to change it, as in a child that has not noticed yet.
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
    // Release pairs with the acquire in `mark`: who sees the page sees its contents, and takes no zero for a fork.
    if is_wiped && MARK.compare_exchange(in_place, page.cast(), Ordering::Release, Ordering::Relaxed).is_ok() {
        return true;
    }
    // SAFETY: nobody has seen ours.
    unsafe { vm::release(page, vm::PAGE) };
    is_wiped
}

/// The thread's identity: never zero, never given twice. Call [`enter`] before.
#[inline]
pub fn identity() -> u64 {
    // SAFETY: the block is this thread's own.
    unsafe { (*block()).identity }
}

/// A word of the thread's that the runtime may use; 0 at first. A fork child's thread has its parent's.
#[inline]
pub fn local() -> usize {
    // SAFETY: the block is this thread's own. Volatile: handlers of the same thread read and write it too.
    unsafe { (&raw const (*block()).local).read_volatile() }
}

/// Sets [`local`].
#[inline]
pub fn set_local(value: usize) {
    // SAFETY: as above.
    unsafe { (&raw mut (*block()).local).write_volatile(value) };
}

/// The thread's level: how often it called [`ascend`](super::ascend) minus how often it called
/// [`descend`](super::descend), unless the runtime set another one. A fork child's thread has its parent's.
#[inline]
pub fn level() -> i32 {
    // SAFETY: the block is this thread's own. Volatile: handlers of the same thread read and write it too.
    unsafe { (&raw const (*block()).level).read_volatile() as i32 }
}

/// Sets [`level`].
#[inline]
pub fn set_level(level: i32) {
    // SAFETY: as above.
    unsafe { (&raw mut (*block()).level).write_volatile(level as u32) };
}

/// The low half of an identity, as lock words hold it.
#[inline]
pub(crate) fn lock_identity() -> u32 {
    low_half(identity())
}

fn low_half(identity: u64) -> u32 {
    identity as u32 & !crate::sync::WAITERS
}

/// Whether the thread with this lock identity vanished in a fork.
pub(crate) fn is_gone(lock_identity: u32) -> bool {
    // Relaxed: our own `enter` ordered us behind the change of generation. Of all identities with this low half, the
    // youngest is meant. A thread that has seen 2^31 others start looks younger than it is, and so alive, which it is.
    let next = NEXT_IDENTITY.load(Ordering::Relaxed);
    let age = low_half(next).wrapping_sub(lock_identity) & !crate::sync::WAITERS;
    next.saturating_sub(age as u64) <= GONE.load(Ordering::Relaxed)
}

/// How many locks of each rank this thread holds, one byte each. A fork child's thread holds what it held before: the
/// fork was in a handler then, and the interrupted code goes on.
#[inline]
pub(crate) fn held_ranks() -> u64 {
    // SAFETY: the block is this thread's own. Volatile: handlers of the same thread read and write it too.
    unsafe { (&raw const (*block()).held_ranks).read_volatile() }
}

/// Whether this thread holds any lock. Code that interrupted it must not create a thread then: in a child that the
/// handler forked, that thread might find the lock's holder gone.
pub fn holds_locks() -> bool {
    held_ranks() != 0
}

#[inline]
pub(crate) fn set_held_ranks(counts: u64) {
    // SAFETY: as above.
    unsafe { (&raw mut (*block()).held_ranks).write_volatile(counts) };
}

/// This thread's own slot in fallback mode; zero: none yet.
pub(crate) fn fallback_slot() -> *mut u32 {
    // SAFETY: only the address is taken.
    unsafe { &raw mut (*block()).slot }
}

/// How often the thread will do without a slot before it looks for one again.
pub(crate) fn slotless() -> *mut u32 {
    // SAFETY: as above.
    unsafe { &raw mut (*block()).slotless }
}

/// In the number of a thread that could not ask for the kernel's, which has none so high.
const UNASKED: u32 = 1 << 30;

/// The kernel's number of this thread, which is asked for once in each process; in a sandbox, one that no other thread
/// has, and [`process::id`] for the one that forked. Call [`enter`] before.
pub(crate) fn tid() -> u32 {
    // SAFETY: gettid has no effects on memory, and the block is this thread's own.
    unsafe {
        while (*block()).tid == 0 {
            let before = identity();
            let made_up = UNASKED | before as u32 & (UNASKED - 1);
            let number = syscall::call(syscall::GETTID, [0; 6]).map_or(made_up, |number| number as u32);
            // A signal handler may have forked, and this may be the child: there the number is another one.
            if (&raw const (*block()).identity).read_volatile() == before {
                (*block()).tid = number;
            }
        }
        (*block()).tid
    }
}

/// Forgets the number of this thread: the process may have forked unnoticed since it was asked for.
pub fn forget_number() {
    // SAFETY: as above.
    unsafe { (*block()).tid = 0 };
}

/// Whether the thread that the kernel calls `tid` still lives in this process. When in doubt, true.
pub(crate) fn is_alive(tid: u32) -> bool {
    // SAFETY: signal 0 delivers nothing.
    let asked = unsafe { syscall::call(syscall::TGKILL, [process::id() as usize, tid as usize, 0, 0, 0, 0]) };
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
        let _ = unsafe { syscall::call(syscall::RT_SIGPROCMASK, [how, from as usize, to as usize, SET_BYTES, 0, 0]) };
    };
    change(BLOCK, &all, &mut before);
    let result = work();
    change(SET, &before, core::ptr::null_mut());
    result
}

/// Tells the calling process that it is a new fork child, where nothing else does.
pub fn declare_forked() {
    mark().store(0, Ordering::Relaxed);
}
