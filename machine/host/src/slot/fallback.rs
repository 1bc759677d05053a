//! Slots without the kernel's help: each thread owns one, from its first slow path to its death.
//!
//! A slot stores the kernel's number of its owner. There is no thread-exit hook, because it would allocate in the C
//! library. Instead, a thread that needs a slot first looks at a few old ones. If one's owner is dead, it adopts the
//! slot with its contents. Slot 0 is never assigned, so a thread with a zero block finds "empty" and "full".
//!
//! In a fork child the kernel gives the forking thread a new number, so its slot looks like a dead thread's until it
//! calls [`claim`]. Until then, the child's other threads leave all old slots alone.
//!
//! In a sandbox a thread cannot ask for numbers, nor whether a thread lives. There a slot stores its owner's
//! [`thread::id`], and goes to the next thread of that id. The C library gives the id again when the owner is dead.
//! Slots of other ids keep their contents; the most threads at a time bound these.
//!
//! The kernel reuses the numbers of dead threads. So an owner's word also counts its writes: an adopter that found an
//! owner dead does not replace a newer one with the same number.
//!
//! Runs at the same time: any number of threads adopt; only compare-and-swap replaces an owner.

use super::layout::MAX;
use super::number::{Mode, mode};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::{process, sandbox, thread};

process_state! {
    /// The owner's number, of 42 bits; above it, the count of writes.
    static OWNERS: [AtomicU64; MAX] = [const { AtomicU64::new(0) }; MAX];
    /// Slots from 1 up to here have had an owner.
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    static CURSOR: AtomicU32 = AtomicU32::new(0);
    /// The generation in which the forking thread has claimed its slot, or had none.
    static CLAIMED: AtomicU32 = AtomicU32::new(thread::FIRST_GENERATION);
}

/// Old slots to look at before a new one is given: enough when threads come and go in turn.
const GLANCES: u32 = 4;
/// Slow paths that a thread without a slot skips before it looks again; they take less time than a look.
const SLOTLESS: u32 = 1024;

/// The owner is the only thread, whose number is the process's. Forks, which go unnoticed then, change that number.
const FIRST_THREAD: u64 = BORROWED - 1;
/// No thread's number: the slot is taken for a while.
const BORROWED: u64 = (1 << NUMBER_BITS) - 1;
/// Set in the number of a thread that could not ask the kernel.
const BY_ID: u64 = 1 << (NUMBER_BITS - 1);
const NUMBER_BITS: u32 = 42;

/// Gives the calling thread a slot, if there is one.
#[cold]
pub(super) fn adopt_slot() -> Option<u32> {
    debug_assert!(mode() == Mode::PerThread);
    let (slotless, own_slot) = (thread::slotless(), thread::fallback_slot());
    let skips = slotless.load(Ordering::Relaxed);
    if skips > 0 {
        slotless.store(skips - 1, Ordering::Relaxed);
        return None;
    }
    let me = if thread::is_alone() { FIRST_THREAD } else { own_number() };
    if me == FIRST_THREAD || thread::tid() == process::id() {
        // The thread that forked, or the first one ever: it has no slot yet.
        CLAIMED.store(thread::generation(), Ordering::Relaxed);
    }
    let Some(slot) = adopt_old(me).or_else(|| give_new(me)) else {
        slotless.store(SLOTLESS, Ordering::Relaxed);
        return None;
    };
    own_slot.store(slot, Ordering::Relaxed);
    if me != FIRST_THREAD && me != own_number() {
        // A signal handler has forked meanwhile, and this is the child.
        claim();
    }
    Some(slot)
}

/// In a fork child: the slot stays with its thread, which has a new number.
pub(super) fn claim() {
    let slot = thread::fallback_slot().load(Ordering::Relaxed);
    if slot != 0 {
        let owner = &OWNERS[slot as usize];
        owner.store(after(owner.load(Ordering::Relaxed), own_number()), Ordering::Relaxed);
        // Release pairs with the acquire in `is_settled`: a thread that sees the claim sees the slot's owner.
        CLAIMED.store(thread::generation(), Ordering::Release);
    }
}

/// Runs `work` while no thread can adopt a dead thread's slot.
pub(super) fn while_dead<R>(slot: u32, work: impl FnOnce() -> R) -> Option<R> {
    let owner = &OWNERS[slot as usize];
    let old = owner.load(Ordering::Relaxed);
    if !is_dead(number(old)) {
        return None;
    }
    let borrowed = after(old, BORROWED);
    // Acquire as in `adopt_dead`; the release below pairs with it.
    owner.compare_exchange(old, borrowed, Ordering::Acquire, Ordering::Relaxed).ok()?;
    let result = work();
    owner.store(after(borrowed, number(old)), Ordering::Release);
    Some(result)
}

/// Tells the calling thread from all other living ones.
fn own_number() -> u64 {
    const OF_ALIGNMENT: u32 = 6;
    if sandbox::is_on() { BY_ID | thread::id() >> OF_ALIGNMENT } else { thread::tid().into() }
}

fn number(owner: u64) -> u64 {
    owner & BORROWED
}

fn after(owner: u64, number: u64) -> u64 {
    ((owner >> NUMBER_BITS) + 1) << NUMBER_BITS | number
}

/// Whether each living thread's slot has its number.
fn is_settled() -> bool {
    CLAIMED.load(Ordering::Acquire) == thread::generation()
}

fn is_dead(owner: u64) -> bool {
    if !is_settled() {
        return false;
    }
    match owner {
        0 | BORROWED => false,
        // In a child that has noticed its fork, a first thread that forked has claimed its slot by now.
        FIRST_THREAD => thread::generation() != thread::FIRST_GENERATION || !thread::is_alive(process::id()),
        number => number & BY_ID == 0 && number != own_number() && !thread::is_alive(number as u32),
    }
}

fn adopt_old(me: u64) -> Option<u32> {
    let given = GIVEN.load(Ordering::Relaxed).min(MAX as u32 - 1);
    if sandbox::is_on() {
        let was_mine = |&slot: &u32| number(OWNERS[slot as usize].load(Ordering::Relaxed)) == me;
        return adopt_dead((1..=given).find(was_mine)?, me);
    }
    let next = || (given > 0).then(|| 1 + CURSOR.fetch_add(1, Ordering::Relaxed) % given);
    (0..GLANCES).find_map(|_| adopt_dead(next()?, me))
}

fn adopt_dead(slot: u32, me: u64) -> Option<u32> {
    let owner = &OWNERS[slot as usize];
    let old = owner.load(Ordering::Relaxed);
    if !is_settled() || (number(old) != me && !is_dead(number(old))) {
        return None;
    }
    // Acquire: the kernel said that the owner is dead, so its writes are visible. This orders us after another adopter
    // that took the slot, released nothing, and died too.
    owner.compare_exchange(old, after(old, me), Ordering::Acquire, Ordering::Relaxed).is_ok().then_some(slot)
}

fn give_new(me: u64) -> Option<u32> {
    let bump = |given| (given + 1 < MAX as u32).then_some(given + 1);
    let slot = GIVEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, bump).ok()? + 1;
    OWNERS[slot as usize].store(me, Ordering::Relaxed);
    Some(slot)
}
