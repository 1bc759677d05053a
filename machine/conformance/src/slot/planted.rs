//! The table of the slots' cases, and the wrong operations in it.
//!
//! Plain code on the words, correct while no other thread interferes, except for the planted bug. It is private to the
//! table, and the bodies keep the machine's own contract: the SAFETY comments below rely on that.

use super::region::{DRAINING, WORDS};
use super::rows::{load_in_two, pair_in, store_in_two};
use super::{Operations, added, adopted, counted, drained, drawn, held_up, paired, popped, pushed, replaced, words};
use crate::case::{BY_IDS, PER_THREAD};
use machine::kick;
use machine::slot::{self, AREA, AREAS, ARRAY, COUNTS, Counted, MARK, MAX, Mode, Pair, Stored};
use machine::sync::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::hint::{black_box, spin_loop};
use std::ptr::null_mut;

const RIGHT: Operations = Operations::MACHINE;
/// A planted operation that is not restartable spins so often in its middle.
const PAUSES: usize = 100;

crate::cases! {
    CASES of RIGHT;
    "slot::mode" => words::initialised, {
        "says the other mode" { mode: other_mode }
    }
    "slot::current" => words::current, {
        "one slot for all threads" { current: || slot::current().map(|_| 1) }
    }
    "slot::in_use" => words::bounds, {
        "does not rise" { in_use: || slot::in_use().min(1) }
    }
    "slot::current_if_given" => words::given, {
        "nobody has one" { current_if_given: || None }
        "gives one" in PER_THREAD { current_if_given: slot::current }
    }
    "slot::count_as_used" => words::counted, {
        "does nothing" { count_as_used: |_| () }
    }
    "slot::load" => words::load, {
        "an exchange in two steps" { exchange: load_then_store }
    }
    "slot::pop" => popped, {
        "not restartable" in BY_IDS { pop: |base, index| pop_at(base, own(index)) }
        "the same slot for all threads" { pop: pop_from_one, push: push_to_one }
    }
    "slot::push" => pushed, {
        "not restartable" in BY_IDS { push: |base, index, object| push_at(base, own(index + 1), object) }
        "the same slot for all threads" { pop: pop_from_one, push: push_to_one }
    }
    "slot::compare_store" => replaced, {
        "not restartable" in BY_IDS { compare_store: store_if_there }
        "the same slot for all threads" { pop: pop_from_one, push: push_to_one }
        "does not compare the slot" { compare_store: store_if_equal }
    }
    "slot::change_places" => replaced, {
        "not restartable" in BY_IDS { change_places: change_in_steps }
        "one word of two" { change_places: change_take_word }
    }
    "slot::change_and_push" => replaced, {
        "not restartable" in BY_IDS { change_and_push: change_in_steps_and_push }
        "one word of two" { change_and_push: change_give_word }
    }
    "slot::exchange" in BY_IDS => drained::drained, {
        "load, then store" { exchange: load_then_store }
        "its second half does not look" { compare_exchange: exchange_anyway }
    }
    "slot::initialise" => words::initialised, {
        // The mode is the fallback then.
        "decides nothing" in BY_IDS { initialise: || () }
        // Whoever comes second decides, and otherwise.
        "decides anew" {
            initialise: || (slot::initialise(), TIMES.fetch_add(1, Ordering::Relaxed), ()).2,
            mode: || if TIMES.load(Ordering::Relaxed) > 1 { other_mode() } else { slot::mode() }
        }
    }
    "slot::possible" => words::bounds, {
        "one" { possible: || 1 }
    }
    "slot::local_add" => added::added, {
        "load, then store" { local_add: add_in_two_steps }
        "one half after the other" { local_add: add_halves }
    }
    "slot::local_increment" => added::incremented, {
        "load, then store" { local_increment: |word| add_in_two_steps(word, 1) }
    }
    "slot::count" in BY_IDS => counted::counted, {
        "load, look where, then store" { count: count_in_two_steps }
        "says where it is afterwards" { count: count_and_look }
        "looks before where counts lead" { count: count_much_later }
    }
    "slot::count_in" in BY_IDS => counted::counted_in, {
        "load, look where, then store" { count_in: count_if_there }
        "in any slot" { count_in: count_anywhere }
    }
    "slot::draw" => drawn::drawn, {
        "not restartable" in BY_IDS { draw: |cell, amount| draw_in(cell, own_slot(), amount) }
        "the same slot for all threads" { draw: |cell, amount| draw_in(cell, 1, amount) }
        "no window" { draw: draw_anything }
    }
    "slot::draw while cells are closed" in BY_IDS => drawn::marked, {
        "sees no marks" { draw: draw_past_marks }
    }
    "slot::replace_pair" => drawn::refilled, {
        "not restartable" in BY_IDS { replace_pair: compare_rest_replace }
        "does not compare the slot" { replace_pair: replace_anywhere }
        "does not compare what is left" { replace_pair: replace_anyway }
        "one word of two" { replace_pair: replace_left }
    }
    "slot::load_pair" => paired::replaced, {
        "two loads" { load_pair: load_in_two }
        "pairs are replaced one word after the other" { replace_pair: replace_in_two }
    }
    "slot::store_pair" => paired::stored, {
        "one word after the other" { store_pair: store_in_two }
    }
    "kick::restart" in BY_IDS => held_up::held_up, {
        "no restart" { restart: |_| Ok(()) }
        "a fence in place of the restart" { restart: |_| kick::fence_all() }
    }
    "slot::none" in BY_IDS => words::none, {
        "slot 0 for who has none" {
            pop: |base, index| pop_at(base, own(index)),
            push: |base, index, object| push_at(base, own(index + 1), object),
            compare_store: store_if_there
        }
        "slot 0 for who draws without one" { draw: |cell, amount| draw_in(cell, own_slot(), amount) }
    }
    "slot::while_dead" in PER_THREAD => adopted::while_dead, {
        "also of the living" {
            while_dead: |slot, work| {
                let is_given = slot > 0 && slot < slot::in_use();
                is_given.then(work);
                is_given
            }
        }
    }
    "thread::forget_number" in PER_THREAD => adopted::forgotten, {
        "remembered" { forget_number: || () }
    }
    "slot::claim" in PER_THREAD => adopted::claimed, {
        "nobody says so" { claim: || () }
    }
}

/// Where one slot would do, all are restarted.
const RESTARTING_ALL: Operations = Operations { restart: |_| kick::restart_all(), ..RIGHT };

crate::cases! {
    RESTARTS_OF_ALL of RESTARTING_ALL;
    "kick::restart_all" in BY_IDS => held_up::held_up, {
        "a fence in place of the restart" { restart: |_| kick::fence_all() }
    }
}

static TIMES: AtomicUsize = AtomicUsize::new(0);

fn other_mode() -> Mode {
    if slot::mode() == Mode::PerThread { Mode::ConcurrencyId } else { Mode::PerThread }
}

fn cell<'a>(base: *mut u8, offset: usize) -> &'a AtomicUsize {
    // SAFETY: `base` is the base of a region, and the offset that of a word of a slot or an array.
    unsafe { &*base.wrapping_add(offset).cast() }
}

fn word(slot: u32, index: usize) -> usize {
    debug_assert!((slot as usize) < MAX && index < WORDS);
    AREAS + slot as usize * AREA + index * 8
}

fn own_slot() -> u32 {
    slot::current().unwrap_or(0)
}

fn own(index: usize) -> usize {
    word(own_slot(), index)
}

/// Slot 1 for whoever comes: which slot a thread is in makes no difference to what is not restartable.
fn pop_from_one(base: *mut u8, index: usize) -> *mut u8 {
    pop_at(base, word(1, index))
}

fn push_to_one(base: *mut u8, index: usize, object: *mut u8) -> bool {
    push_at(base, word(1, index + 1), object)
}

fn pop_at(base: *mut u8, at: usize) -> *mut u8 {
    let top = cell(base, at).load(Ordering::Relaxed);
    let object = cell(base, top).load(Ordering::Relaxed);
    if object != 0 {
        cell(base, at).store(top - 8, Ordering::Relaxed);
    }
    object as *mut u8
}

fn push_at(base: *mut u8, at: usize, object: *mut u8) -> bool {
    let top = cell(base, at).load(Ordering::Relaxed);
    if top.is_multiple_of(ARRAY) {
        return false;
    }
    cell(base, top).store(object as usize, Ordering::Relaxed);
    cell(base, at).store(top + 8, Ordering::Relaxed);
    true
}

fn store_if_there(base: *mut u8, slot: u32, index: usize, expected: usize, new: usize) -> Stored {
    if own_slot() == slot { store_if_equal(base, slot, index, expected, new) } else { Stored::Elsewhere }
}

fn store_if_equal(base: *mut u8, slot: u32, index: usize, expected: usize, new: usize) -> Stored {
    let cell = cell(base, word(slot, index));
    if cell.load(Ordering::Relaxed) != expected {
        return Stored::Differs;
    }
    (0..PAUSES).for_each(|_| spin_loop());
    cell.store(new, Ordering::Relaxed);
    Stored::Done
}

fn change_in_steps(base: *mut u8, index: usize, take: usize, give: usize) -> *mut u8 {
    let Some(slot) = slot::current() else { return null_mut() };
    let (takes, gives) = (cell(base, word(slot, index)), cell(base, word(slot, index + 1)));
    let as_expected = takes.load(Ordering::Relaxed) == take && gives.load(Ordering::Relaxed) == give;
    if !as_expected || cell(base, take).load(Ordering::Relaxed) != 0 {
        return null_mut();
    }
    let object = cell(base, give - 8).load(Ordering::Relaxed);
    if object != 0 {
        takes.store(give - 16, Ordering::Relaxed);
        gives.store(take + 8, Ordering::Relaxed);
    }
    object as *mut u8
}

fn change_take_word(base: *mut u8, index: usize, take: usize, give: usize) -> *mut u8 {
    let object = cell(base, give - 8).load(Ordering::Relaxed);
    let as_expected = slot::current().is_some_and(|slot| {
        cell(base, word(slot, index + 1)).load(Ordering::Relaxed) == give
            && (RIGHT.compare_store)(base, slot, index, take, give - 16) == Stored::Done
    });
    if as_expected { object as *mut u8 } else { null_mut() }
}

fn change_in_steps_and_push(base: *mut u8, index: usize, take: usize, give: usize, object: *mut u8) -> bool {
    let Some(slot) = slot::current() else { return false };
    let (takes, gives) = (cell(base, word(slot, index)), cell(base, word(slot, index + 1)));
    let is_as_expected = takes.load(Ordering::Relaxed) == take && gives.load(Ordering::Relaxed) == give;
    if is_as_expected {
        cell(base, take + 8).store(object as usize, Ordering::Relaxed);
        takes.store(give - 8, Ordering::Relaxed);
        gives.store(take + 16, Ordering::Relaxed);
    }
    is_as_expected
}

fn change_give_word(base: *mut u8, index: usize, take: usize, give: usize, object: *mut u8) -> bool {
    cell(base, take + 8).store(object as usize, Ordering::Relaxed);
    slot::current().is_some_and(|slot| (RIGHT.compare_store)(base, slot, index + 1, give, take + 16) == Stored::Done)
}

fn exchange_anyway(base: *mut u8, slot: u32, index: usize, _: usize, new: usize) -> bool {
    (RIGHT.exchange)(base, slot, index, new);
    true
}

fn load_then_store(base: *mut u8, slot: u32, index: usize, value: usize) -> usize {
    let cell = cell(base, word(slot, index));
    let old = cell.load(Ordering::Relaxed);
    if value != DRAINING || old != DRAINING {
        cell.store(value, Ordering::Relaxed);
    }
    old
}

fn add_in_two_steps(word: &AtomicI64, amount: i64) {
    // A compiler that sees that this is an addition makes one instruction of both.
    word.store(black_box(word.load(Ordering::Relaxed)) + amount, Ordering::Relaxed);
}

/// Each half in one step, so that no addition is lost. The halves never carry.
fn add_halves(word: &AtomicI64, amount: i64) {
    // SAFETY: a word is two halves, the lower one first.
    let [low, high] = unsafe { &*word.as_ptr().cast::<[AtomicU32; 2]>() };
    low.fetch_add(amount as u32, Ordering::Relaxed);
    high.fetch_add(((amount - amount as i32 as i64) >> 32) as u32, Ordering::Relaxed);
}

fn count_in_two_steps(counts: &AtomicPtr<AtomicU64>) -> Counted {
    let slot = own_slot();
    let counts: *mut u8 = counts.load(Ordering::Relaxed).cast();
    let at = counts.wrapping_add(slot as usize * COUNTS);
    add_one(at);
    Counted { at, slot }
}

fn count_and_look(counts: &AtomicPtr<AtomicU64>) -> Counted {
    Counted { slot: own_slot(), ..(RIGHT.count)(counts) }
}

/// Drawn out between the look and the count, so that a handler comes in between.
fn count_much_later(counts: &AtomicPtr<AtomicU64>) -> Counted {
    let counts = AtomicPtr::new(counts.load(Ordering::Relaxed));
    rest();
    (RIGHT.count)(&counts)
}

fn count_if_there(counted: Counted) -> bool {
    slot::current() == Some(counted.slot) && count_anywhere(counted)
}

fn count_anywhere(counted: Counted) -> bool {
    add_one(counted.at.wrapping_add(counted::OTHER));
    true
}

fn add_one(word: *mut u8) {
    // SAFETY: a word of counts.
    add_in_two_steps(unsafe { &*word.cast() }, 1);
}

fn rest() {
    const STEPS: usize = 50;
    (0..STEPS).for_each(|_| spin_loop());
}

fn rest_of(left: u64, amount: i64) -> Option<u64> {
    let [room, stock] = [(left >> 32) as i32, left as i32].map(i64::from);
    let rest = [room + amount, stock - amount].map(|half| u32::try_from(half).ok().filter(|&half| half < 1 << 31));
    Some(u64::from(rest[0]?) << 32 | u64::from(rest[1]?))
}

fn draw_in(cell: *mut u8, slot: u32, amount: i64) -> bool {
    let (left, _) = pair_in(cell, slot);
    let rest = rest_of(left.load(Ordering::Relaxed), amount);
    if let Some(rest) = rest {
        left.store(rest, Ordering::Relaxed);
    }
    rest.is_some()
}

fn draw_anything(cell: *mut u8, amount: i64) -> bool {
    slot::current()
        .map(|slot| {
            pair_in(cell, slot).0.fetch_add(((amount as u64) << 32).wrapping_sub(amount as u64), Ordering::Relaxed)
        })
        .is_some()
}

/// Atomic, so that no draw is lost.
fn draw_past_marks(cell: *mut u8, amount: i64) -> bool {
    let draw = |left: u64| rest_of(left & !MARK, amount).map(|rest| rest | left & MARK);
    slot::current()
        .is_some_and(|slot| pair_in(cell, slot).0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, draw).is_ok())
}

/// Drawn out between the comparison and the store, so that somebody comes in between.
fn compare_rest_replace(cell: *mut u8, slot: u32, expected: u64, new: Pair) -> Stored {
    let outcome = (RIGHT.replace_pair)(cell, slot, expected, (RIGHT.load_pair)(cell, slot));
    if outcome == Stored::Done {
        rest();
        (RIGHT.store_pair)(cell, slot, new);
    }
    outcome
}

fn replace_anywhere(cell: *mut u8, slot: u32, expected: u64, new: Pair) -> Stored {
    replace_by(RIGHT.store_pair, cell, slot, expected, new)
}

fn replace_by(store: fn(*mut u8, u32, Pair), cell: *mut u8, slot: u32, expected: u64, new: Pair) -> Stored {
    if (RIGHT.load_pair)(cell, slot).left != expected {
        return Stored::Differs;
    }
    store(cell, slot, new);
    Stored::Done
}

fn replace_in_two(cell: *mut u8, slot: u32, expected: u64, new: Pair) -> Stored {
    if slot::current() != Some(slot) {
        return Stored::Elsewhere;
    }
    replace_by(store_in_two, cell, slot, expected, new)
}

fn replace_anyway(cell: *mut u8, slot: u32, _: u64, new: Pair) -> Stored {
    loop {
        let stored = (RIGHT.replace_pair)(cell, slot, (RIGHT.load_pair)(cell, slot).left, new);
        if stored != Stored::Differs {
            return stored;
        }
    }
}

fn replace_left(cell: *mut u8, slot: u32, expected: u64, new: Pair) -> Stored {
    (RIGHT.replace_pair)(cell, slot, expected, Pair { edge: (RIGHT.load_pair)(cell, slot).edge, ..new })
}
