//! Wrong operations, each of which the body of its name must find.
//!
//! They are plain code on the words: right while nobody interferes.

use super::Operations;
use super::region::{DRAINING, WORDS};
use machine::kick;
use machine::slot::{self, AREA, AREAS, ARRAY, MAX, Mode, Stored};
use machine::sync::{AtomicUsize, Ordering};

pub(super) const OTHER_MODE: &str = "says the other mode";
pub(super) const ALWAYS_ONE: &str = "one slot for all threads";
pub(super) const NOTHING: &str = "decides nothing";
pub(super) const ANEW: &str = "decides anew";
pub(super) const ONE: &str = "one";
pub(super) const FROZEN: &str = "does not rise";
pub(super) const LOST_STORE: &str = "an exchange in two steps";
pub(super) const PLAIN: &str = "not restartable";
pub(super) const ONE_FOR_ALL: &str = "the same slot for all threads";
pub(super) const ANY_SLOT: &str = "does not compare the slot";
pub(super) const TWO_STEPS: &str = "load, then store";
pub(super) const UNCOMPARED: &str = "its second half does not look";
pub(super) const HALF: &str = "one word of two";
pub(super) const NONE_GIVEN: &str = "nobody has one";
pub(super) const GIVES: &str = "gives one";
pub(super) const UNCOUNTED: &str = "does nothing";
pub(super) const REMEMBERED: &str = "remembered";
pub(super) const NO_KICK: &str = "no restart";
pub(super) const FENCE: &str = "a fence in place of the restart";
pub(super) const SLOT_ZERO: &str = "slot 0 for who has none";
pub(super) const OF_LIVING: &str = "also of the living";
pub(super) const UNTOLD: &str = "nobody says so";

pub(super) fn other_mode() -> Operations {
    let mode = || if slot::mode() == Mode::PerThread { Mode::ConcurrencyId } else { Mode::PerThread };
    Operations { mode, ..Operations::MACHINE }
}

/// The mode is the fallback then.
pub(super) fn undecided() -> Operations {
    Operations { initialise: || (), ..Operations::MACHINE }
}

/// Whoever comes second decides, and otherwise.
pub(super) fn decides_anew() -> Operations {
    static TIMES: AtomicUsize = AtomicUsize::new(0);
    let initialise = || {
        slot::initialise();
        TIMES.fetch_add(1, Ordering::Relaxed);
    };
    let mode = || if TIMES.load(Ordering::Relaxed) > 1 { (other_mode().mode)() } else { slot::mode() };
    Operations { initialise, mode, ..Operations::MACHINE }
}

pub(super) fn one_possible() -> Operations {
    Operations { possible: || 1, ..Operations::MACHINE }
}

pub(super) fn always_one() -> Operations {
    Operations { current: || slot::current().map(|_| 1), ..Operations::MACHINE }
}

pub(super) fn frozen_bound() -> Operations {
    Operations { in_use: || slot::in_use().min(1), ..Operations::MACHINE }
}

pub(super) fn lost_store() -> Operations {
    Operations { exchange: load_then_store, ..Operations::MACHINE }
}

pub(super) fn plain_pop() -> Operations {
    Operations { pop, ..Operations::MACHINE }
}

pub(super) fn plain_push() -> Operations {
    Operations { push, ..Operations::MACHINE }
}

pub(super) fn plain_compare_store() -> Operations {
    Operations { compare_store, ..Operations::MACHINE }
}

pub(super) fn plain_change() -> Operations {
    Operations { change_places: plain_change_places, ..Operations::MACHINE }
}

pub(super) fn half_a_change() -> Operations {
    Operations { change_places: change_take_word, ..Operations::MACHINE }
}

/// Slot 1 for whoever comes: which slot a thread is in makes no difference to what is not restartable.
pub(super) fn one_for_all() -> Operations {
    Operations { pop: pop_from_one, push: push_to_one, ..Operations::MACHINE }
}

pub(super) fn any_slot() -> Operations {
    Operations { compare_store: store_in_any_slot, ..Operations::MACHINE }
}

pub(super) fn two_steps() -> Operations {
    Operations { exchange: load_then_store, ..Operations::MACHINE }
}

pub(super) fn uncompared() -> Operations {
    Operations { compare_exchange: exchange_anyway, ..Operations::MACHINE }
}

pub(super) fn none_given() -> Operations {
    Operations { current_if_given: || None, ..Operations::MACHINE }
}

pub(super) fn gives() -> Operations {
    Operations { current_if_given: slot::current, ..Operations::MACHINE }
}

pub(super) fn uncounted() -> Operations {
    Operations { count_as_used: |_| (), ..Operations::MACHINE }
}

pub(super) fn no_kick() -> Operations {
    Operations { restart: |_| Ok(()), ..Operations::MACHINE }
}

pub(super) fn fence() -> Operations {
    Operations { restart: |_| kick::fence_all(), ..Operations::MACHINE }
}

pub(super) fn slot_zero() -> Operations {
    Operations { pop, push, compare_store, ..Operations::MACHINE }
}

pub(super) fn of_living() -> Operations {
    let while_dead = |slot, work: &mut dyn FnMut()| {
        let given = slot > 0 && slot < slot::in_use();
        if given {
            work();
        }
        given
    };
    Operations { while_dead, ..Operations::MACHINE }
}

pub(super) fn untold() -> Operations {
    Operations { claim: || (), ..Operations::MACHINE }
}

/// # Safety
/// `base` is the base of a region.
unsafe fn cell<'a>(base: *mut u8, offset: usize) -> &'a AtomicUsize {
    // SAFETY: passed on.
    unsafe { &*base.wrapping_add(offset).cast() }
}

fn word(slot: u32, index: usize) -> usize {
    debug_assert!((slot as usize) < MAX && index < WORDS);
    AREAS + slot as usize * AREA + index * 8
}

/// # Safety
/// As for the machine's pop.
unsafe fn pop(base: *mut u8, index: usize) -> *mut u8 {
    // SAFETY: passed on.
    unsafe { pop_at(base, word(slot::current().unwrap_or(0), index)) }
}

/// # Safety
/// As for the machine's pop.
unsafe fn pop_from_one(base: *mut u8, index: usize) -> *mut u8 {
    // SAFETY: passed on.
    unsafe { pop_at(base, word(1, index)) }
}

/// # Safety
/// `at` is the offset of a take word.
unsafe fn pop_at(base: *mut u8, at: usize) -> *mut u8 {
    // SAFETY: passed on.
    unsafe {
        let top = cell(base, at).load(Ordering::Relaxed);
        let object = cell(base, top).load(Ordering::Relaxed);
        if object != 0 {
            cell(base, at).store(top - 8, Ordering::Relaxed);
        }
        object as *mut u8
    }
}

/// # Safety
/// As for the machine's push.
unsafe fn push(base: *mut u8, index: usize, object: *mut u8) -> bool {
    // SAFETY: passed on.
    unsafe { push_at(base, word(slot::current().unwrap_or(0), index + 1), object) }
}

/// # Safety
/// As for the machine's push.
unsafe fn push_to_one(base: *mut u8, index: usize, object: *mut u8) -> bool {
    // SAFETY: passed on.
    unsafe { push_at(base, word(1, index + 1), object) }
}

/// # Safety
/// `at` is the offset of a give word.
unsafe fn push_at(base: *mut u8, at: usize, object: *mut u8) -> bool {
    // SAFETY: passed on.
    unsafe {
        let top = cell(base, at).load(Ordering::Relaxed);
        if top.is_multiple_of(ARRAY) {
            return false;
        }
        cell(base, top).store(object as usize, Ordering::Relaxed);
        cell(base, at).store(top + 8, Ordering::Relaxed);
        true
    }
}

/// # Safety
/// As for the machine's compare_store.
unsafe fn compare_store(base: *mut u8, slot: u32, index: usize, expected: usize, new: usize) -> Stored {
    if slot::current().unwrap_or(0) != slot {
        return Stored::Elsewhere;
    }
    // SAFETY: passed on.
    unsafe { store_if_equal(base, slot, index, expected, new) }
}

/// # Safety
/// As for the machine's compare_store.
unsafe fn store_in_any_slot(base: *mut u8, slot: u32, index: usize, expected: usize, new: usize) -> Stored {
    // SAFETY: passed on.
    unsafe { store_if_equal(base, slot, index, expected, new) }
}

/// # Safety
/// As for the machine's compare_store.
unsafe fn store_if_equal(base: *mut u8, slot: u32, index: usize, expected: usize, new: usize) -> Stored {
    // SAFETY: passed on.
    let cell = unsafe { cell(base, word(slot, index)) };
    if cell.load(Ordering::Relaxed) != expected {
        return Stored::Differs;
    }
    cell.store(new, Ordering::Relaxed);
    Stored::Done
}

/// # Safety
/// As for the machine's change_places.
unsafe fn plain_change_places(base: *mut u8, index: usize, take: usize, give: usize) -> *mut u8 {
    let Some(slot) = slot::current() else { return core::ptr::null_mut() };
    // SAFETY: passed on.
    unsafe {
        let (takes, gives) = (cell(base, word(slot, index)), cell(base, word(slot, index + 1)));
        let as_expected = takes.load(Ordering::Relaxed) == take && gives.load(Ordering::Relaxed) == give;
        if !as_expected || cell(base, take).load(Ordering::Relaxed) != 0 {
            return core::ptr::null_mut();
        }
        let object = cell(base, give - 8).load(Ordering::Relaxed);
        if object != 0 {
            takes.store(give - 16, Ordering::Relaxed);
            gives.store(take + 8, Ordering::Relaxed);
        }
        object as *mut u8
    }
}

/// # Safety
/// As for the machine's change_places.
unsafe fn change_take_word(base: *mut u8, index: usize, take: usize, give: usize) -> *mut u8 {
    // SAFETY: passed on.
    unsafe {
        let object = cell(base, give - 8).load(Ordering::Relaxed);
        let as_expected = slot::current().is_some_and(|slot| {
            cell(base, word(slot, index + 1)).load(Ordering::Relaxed) == give
                && slot::compare_store(base, slot, index, take, give - 16) == Stored::Done
        });
        if as_expected { object as *mut u8 } else { core::ptr::null_mut() }
    }
}

/// # Safety
/// As for the machine's compare_exchange.
unsafe fn exchange_anyway(base: *mut u8, slot: u32, index: usize, _: usize, new: usize) -> bool {
    // SAFETY: passed on.
    unsafe { slot::exchange(base, slot, index, new) };
    true
}

/// # Safety
/// As for the machine's exchange.
unsafe fn load_then_store(base: *mut u8, slot: u32, index: usize, value: usize) -> usize {
    // SAFETY: passed on.
    let cell = unsafe { cell(base, word(slot, index)) };
    let old = cell.load(Ordering::Relaxed);
    if value != DRAINING || old != DRAINING {
        cell.store(value, Ordering::Relaxed);
    }
    old
}
