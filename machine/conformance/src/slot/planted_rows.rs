//! Wrong operations on cells and on words of threads, each of which the body of its name must find.
//!
//! They are plain code on the words: right while nobody interferes, but for the one thing that is planted.

use super::Operations;
use super::rows::{MARK, RANGE};
use machine::slot::{self, Pair, ROW, Stored, WINDOW};
use machine::sync::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::hint::black_box;

pub(super) const PLAIN: &str = "not restartable";
pub(super) const SLOT_ZERO: &str = "slot 0 for who draws without one";
pub(super) const ONE_FOR_ALL: &str = "the same slot for all threads";
pub(super) const NO_WINDOW: &str = "no window";
pub(super) const PAST_MARKS: &str = "sees no marks";
pub(super) const ANY_SLOT: &str = "does not compare the slot";
pub(super) const UNCOMPARED: &str = "does not compare what is left";
pub(super) const HALF: &str = "one word of two";
pub(super) const TWO_LOADS: &str = "two loads";
pub(super) const TORN_REPLACE: &str = "pairs are replaced one word after the other";
pub(super) const TORN_STORE: &str = "one word after the other";
pub(super) const TWO_STEPS: &str = "load, then store";
pub(super) const HALVES: &str = "one half after the other";

pub(super) fn plain_draw() -> Operations {
    Operations { draw, ..Operations::MACHINE }
}

pub(super) fn one_for_all() -> Operations {
    Operations { draw: draw_from_one, ..Operations::MACHINE }
}

pub(super) fn no_window() -> Operations {
    Operations { draw: draw_anything, ..Operations::MACHINE }
}

pub(super) fn past_marks() -> Operations {
    Operations { draw: draw_past_marks, ..Operations::MACHINE }
}

pub(super) fn plain_replace() -> Operations {
    Operations { replace_pair, ..Operations::MACHINE }
}

pub(super) fn any_slot() -> Operations {
    Operations { replace_pair: replace_in_any_slot, ..Operations::MACHINE }
}

pub(super) fn uncompared() -> Operations {
    Operations { replace_pair: replace_anyway, ..Operations::MACHINE }
}

pub(super) fn half_a_pair() -> Operations {
    Operations { replace_pair: replace_left, ..Operations::MACHINE }
}

pub(super) fn two_loads() -> Operations {
    Operations { load_pair: load_in_two, ..Operations::MACHINE }
}

pub(super) fn torn_replace() -> Operations {
    Operations { replace_pair: replace_in_two, ..Operations::MACHINE }
}

pub(super) fn torn_store() -> Operations {
    Operations { store_pair: store_in_two, ..Operations::MACHINE }
}

pub(super) fn add_in_two_steps() -> Operations {
    let local_add = |word: &AtomicI64, amount| {
        // A compiler that sees that this is an addition makes one instruction of both, which is right.
        let sum = black_box(word.load(Ordering::Relaxed)) + amount;
        word.store(sum, Ordering::Relaxed);
    };
    Operations { local_add, ..Operations::MACHINE }
}

pub(super) fn add_by_halves() -> Operations {
    Operations { local_add: add_halves, ..Operations::MACHINE }
}

/// # Safety
/// `cell` is a cell in slot 0's row, and the slot has a row.
unsafe fn words<'a>(cell: *mut u8, slot: u32) -> (&'a AtomicU64, &'a AtomicI64) {
    let pair = cell.wrapping_add(slot as usize * ROW);
    // SAFETY: passed on.
    unsafe { (&*pair.cast(), &*pair.wrapping_add(size_of::<u64>()).cast()) }
}

fn rest_of(left: u64, amount: i64) -> Option<u64> {
    let rest = left.wrapping_sub(amount as u64);
    (WINDOW..WINDOW + RANGE as u64).contains(&rest).then_some(rest)
}

/// # Safety
/// As for the machine's draw, and the slot has a row.
unsafe fn draw_in(cell: *mut u8, slot: u32, amount: i64) -> bool {
    // SAFETY: passed on.
    let (left, _) = unsafe { words(cell, slot) };
    let rest = rest_of(left.load(Ordering::Relaxed), amount);
    if let Some(rest) = rest {
        left.store(rest, Ordering::Relaxed);
    }
    rest.is_some()
}

/// # Safety
/// As for the machine's draw.
unsafe fn draw(cell: *mut u8, amount: i64) -> bool {
    // SAFETY: passed on.
    unsafe { draw_in(cell, slot::current().unwrap_or(0), amount) }
}

/// # Safety
/// As for the machine's draw.
unsafe fn draw_from_one(cell: *mut u8, amount: i64) -> bool {
    // SAFETY: passed on.
    unsafe { draw_in(cell, 1, amount) }
}

/// # Safety
/// As for the machine's draw.
unsafe fn draw_anything(cell: *mut u8, amount: i64) -> bool {
    let Some(slot) = slot::current() else { return false };
    // SAFETY: passed on.
    let (left, _) = unsafe { words(cell, slot) };
    left.fetch_sub(amount as u64, Ordering::Relaxed);
    true
}

/// Atomic, so that no draw is lost.
///
/// # Safety
/// As for the machine's draw.
unsafe fn draw_past_marks(cell: *mut u8, amount: i64) -> bool {
    let Some(slot) = slot::current() else { return false };
    // SAFETY: passed on.
    let (left, _) = unsafe { words(cell, slot) };
    let draw = |left: u64| rest_of(left & !MARK, amount).map(|rest| rest | left & MARK);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, draw).is_ok()
}

/// Drawn out between the comparison and the store, so that somebody comes in between.
///
/// # Safety
/// As for the machine's replace_pair.
unsafe fn replace_pair(cell: *mut u8, slot: u32, expected: u64, new: Pair) -> Stored {
    const REST: usize = 50;
    // SAFETY: passed on.
    let outcome = unsafe { slot::replace_pair(cell, slot, expected, slot::load_pair(cell, slot)) };
    if outcome == Stored::Done {
        (0..REST).for_each(|_| core::hint::spin_loop());
        // SAFETY: passed on.
        unsafe { slot::store_pair(cell, slot, new) };
    }
    outcome
}

/// # Safety
/// As for the machine's replace_pair.
unsafe fn replace_in_any_slot(cell: *mut u8, slot: u32, expected: u64, new: Pair) -> Stored {
    // SAFETY: passed on.
    unsafe {
        if slot::load_pair(cell, slot).left != expected {
            return Stored::Differs;
        }
        slot::store_pair(cell, slot, new);
    }
    Stored::Done
}

/// # Safety
/// As for the machine's replace_pair.
unsafe fn replace_anyway(cell: *mut u8, slot: u32, _: u64, new: Pair) -> Stored {
    loop {
        // SAFETY: passed on.
        let stored = unsafe { slot::replace_pair(cell, slot, slot::load_pair(cell, slot).left, new) };
        if stored != Stored::Differs {
            return stored;
        }
    }
}

/// # Safety
/// As for the machine's replace_pair.
unsafe fn replace_left(cell: *mut u8, slot: u32, expected: u64, new: Pair) -> Stored {
    // SAFETY: passed on.
    unsafe {
        let edge = slot::load_pair(cell, slot).edge;
        slot::replace_pair(cell, slot, expected, Pair { edge, ..new })
    }
}

/// # Safety
/// As for the machine's load_pair.
unsafe fn load_in_two(cell: *mut u8, slot: u32) -> Pair {
    // SAFETY: passed on.
    let (left, edge) = unsafe { words(cell, slot) };
    Pair { left: left.load(Ordering::Relaxed), edge: edge.load(Ordering::Relaxed) }
}

/// # Safety
/// As for the machine's replace_pair.
unsafe fn replace_in_two(cell: *mut u8, slot: u32, expected: u64, new: Pair) -> Stored {
    // SAFETY: passed on.
    unsafe {
        if slot::current() != Some(slot) {
            return Stored::Elsewhere;
        }
        if slot::load_pair(cell, slot).left != expected {
            return Stored::Differs;
        }
        store_in_two(cell, slot, new);
    }
    Stored::Done
}

/// # Safety
/// As for the machine's store_pair.
unsafe fn store_in_two(cell: *mut u8, slot: u32, new: Pair) {
    // SAFETY: passed on.
    let (left, edge) = unsafe { words(cell, slot) };
    edge.store(new.edge, Ordering::Relaxed);
    left.store(new.left, Ordering::Relaxed);
}

/// Each half in one step, so that no addition is lost. The halves never carry.
fn add_halves(word: &AtomicI64, amount: i64) {
    // SAFETY: a word is two halves, the lower one first.
    let [low, high] = unsafe { &*word.as_ptr().cast::<[AtomicU32; 2]>() };
    low.fetch_add(amount as u32, Ordering::Relaxed);
    high.fetch_add(((amount - amount as i32 as i64) >> 32) as u32, Ordering::Relaxed);
}
