//! What the owners of slots do with pop, push and compare_store together, as an allocator does.
//!
//! Each kind of object has a take word and a give word in each slot. When the take array is empty, the give array takes
//! its place: by one change_places, or step by step if there is nothing to exchange. What is too much goes to a depot
//! under a lock. A thread first makes an array private, by one compare_store that takes it out of its word, and then
//! works on it. Whatever fails ends with the array in the depot, so nothing has to be undone.

use super::Operations;
use super::cached::under_restarts;
use super::region::{Array, CAPACITY, DRAINING, Region};
use super::tokens::{INTERRUPT, Tokens, holder};
use crate::case::{Findings, Outcome, ensure};
use crate::runner::{Runner, alone, random};
use machine::here;
use machine::slot::{MAX, Stored};
use machine::sync::{Acquired, AtomicU64, AtomicUsize, Contention, Lock, Ordering};
use std::cell::UnsafeCell;

pub const KINDS: usize = 2;
/// Tokens that a thread holds at most.
const HELD: usize = 24;

pub struct Owners<'a> {
    pub region: Region,
    pub tokens: Tokens,
    pub replaced: AtomicU64,
    operations: &'a Operations,
    depot: Depot,
}

impl<'a> Owners<'a> {
    /// `count` arrays, `stride` apart, half of them full, all in the depot.
    pub fn new(operations: &'a Operations, count: usize, stride: usize, seed: u64) -> Result<Self, String> {
        let region = Region::new(count, stride)?;
        let tokens = Tokens::new(count * CAPACITY / 4);
        let depot = Depot::default();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut next = 0;
        for number in 0..count {
            // Arrays are small, so that their ends come often. An array keeps its capacity, so a word that was read
            // before means the same later.
            let mut array =
                region.array(number, if random.bool() { random.usize(1..8) } else { random.usize(8..=CAPACITY) });
            if number % 2 == 0 {
                tokens.fill(&region, &mut array, &mut next);
            }
            depot.put(array, &region);
        }
        Ok(Owners { region, tokens, replaced: AtomicU64::new(0), operations, depot })
    }

    pub fn findings(&self) -> &Findings {
        self.tokens.findings()
    }

    /// Takes and gives tokens as long as `goes_on`; returns how often it succeeded.
    pub fn work(&self, runner: &dyn Runner, thread: usize, goes_on: &dyn Fn() -> bool) -> u64 {
        let mut random = random(runner, thread);
        let mut held = Vec::with_capacity(HELD);
        let mut moves = 0;
        while goes_on() && self.findings().none() {
            // Runs in one direction empty and fill arrays; single steps in both meet the same word again and again.
            let takes = random.bool();
            for _ in 0..random.usize(1..HELD) {
                moves += self.step(thread, takes, &mut held, &mut random);
            }
        }
        held.into_iter().for_each(|token| self.tokens.drop_loose(token, holder(thread)));
        moves
    }

    fn step(&self, thread: usize, takes: bool, held: &mut Vec<usize>, random: &mut fastrand::Rng) -> u64 {
        let kind = random.usize(0..KINDS);
        if takes && held.len() < HELD {
            let token = self.take(kind, holder(thread)).or_else(|| self.pick_loose(random, holder(thread)));
            held.extend(token);
            return token.is_some() as u64;
        }
        let Some(token) = held.pop() else { return 0 };
        self.give(kind, token, holder(thread)) as u64
    }

    pub fn interrupt(&self, kind: usize) {
        let pointer = self.pop(kind);
        if pointer.is_null() {
            return;
        }
        if let Some(token) = self.tokens.popped(pointer, INTERRUPT)
            && !self.push(kind, self.tokens.will_push(token, INTERRUPT))
        {
            self.tokens.not_pushed(token);
        }
    }

    fn take(&self, kind: usize, holder: u32) -> Option<usize> {
        let mut pointer = self.pop(kind);
        if pointer.is_null() {
            pointer = self.take_slow(kind)?;
        }
        self.tokens.popped(pointer, holder)
    }

    fn take_slow(&self, kind: usize) -> Option<*mut u8> {
        let slot = (self.operations.current)()?;
        let pointer = self.change_places(slot, kind);
        if !pointer.is_null() {
            self.replaced.fetch_add(2, Ordering::Relaxed);
            return Some(pointer);
        }
        let mut array = self.take_given(slot, kind).or_else(|| self.depot.get_filled())?;
        let pointer = array.pop(&self.region);
        self.install_to_take(slot, kind, array);
        pointer
    }

    fn change_places(&self, slot: u32, kind: usize) -> *mut u8 {
        let (take, give) = (self.word(slot, takes(kind)), self.word(slot, gives(kind)));
        if Array::of_take_word(take).is_none() || Array::of_give_word(give).is_none() {
            return std::ptr::null_mut();
        }
        (self.operations.change_places)(self.region.base(), takes(kind), take, give)
    }

    fn take_given(&self, slot: u32, kind: usize) -> Option<Array> {
        let word = self.word(slot, gives(kind));
        let array = Array::of_give_word(word)?;
        (!array.is_empty(&self.region) && self.replace(slot, gives(kind), word, 0)).then_some(array)
    }

    fn install_to_take(&self, slot: u32, kind: usize, array: Array) {
        let word = self.word(slot, takes(kind));
        let old = Array::of_take_word(word);
        let replaceable = word != DRAINING && old.is_none_or(|old| old.is_empty(&self.region));
        if !replaceable || !self.replace(slot, takes(kind), word, array.take_word()) {
            return self.depot.put(array, &self.region);
        }
        if let Some(old) = old
            && !self.replace(slot, gives(kind), 0, old.give_word())
        {
            self.depot.put(old, &self.region);
        }
    }

    /// Gives a token back. Where there is no room, it becomes loose: false.
    fn give(&self, kind: usize, token: usize, holder: u32) -> bool {
        let pointer = self.tokens.will_push(token, holder);
        let done = self.push(kind, pointer) || self.give_slow(kind, pointer);
        if !done {
            self.tokens.not_pushed(token);
        }
        done
    }

    fn give_slow(&self, kind: usize, pointer: *mut u8) -> bool {
        let Some(slot) = (self.operations.current)() else { return false };
        let word = self.word(slot, gives(kind));
        let given = Array::of_give_word(word);
        if word == DRAINING || given.is_some_and(|given| !given.is_full()) {
            return self.push(kind, pointer);
        }
        if given.is_some() && self.change_and_push(slot, kind, word, pointer) {
            self.replaced.fetch_add(2, Ordering::Relaxed);
            return true;
        }
        let Some(mut next) = self.find_roomy(slot, kind) else { return false };
        let done = next.push(&self.region, pointer);
        if !self.replace(slot, gives(kind), word, next.give_word()) {
            self.depot.put(next, &self.region);
        } else if let Some(full) = given {
            self.depot.put(full, &self.region);
        }
        done
    }

    fn change_and_push(&self, slot: u32, kind: usize, give: usize, pointer: *mut u8) -> bool {
        let take = self.word(slot, takes(kind));
        Array::of_take_word(take).is_some_and(|array| !array.is_full())
            && (self.operations.change_and_push)(self.region.base(), takes(kind), take, give, pointer)
    }

    fn find_roomy(&self, slot: u32, kind: usize) -> Option<Array> {
        let word = self.word(slot, takes(kind));
        match Array::of_take_word(word) {
            Some(array) if array.is_empty(&self.region) && self.replace(slot, takes(kind), word, 0) => Some(array),
            _ => self.depot.get_empty(),
        }
    }

    pub fn keep(&self, array: Array) {
        self.depot.put(array, &self.region);
    }

    fn pick_loose(&self, random: &mut fastrand::Rng, holder: u32) -> Option<usize> {
        let token = random.usize(0..self.tokens.count());
        self.tokens.pick_loose(token, holder).then_some(token)
    }

    fn pop(&self, kind: usize) -> *mut u8 {
        (self.operations.pop)(self.region.base(), takes(kind))
    }

    fn push(&self, kind: usize, pointer: *mut u8) -> bool {
        (self.operations.push)(self.region.base(), takes(kind), pointer)
    }

    pub fn word(&self, slot: u32, index: usize) -> usize {
        (self.operations.load)(self.region.base(), slot, index)
    }

    fn replace(&self, slot: u32, index: usize, old: usize, new: usize) -> bool {
        let done = (self.operations.compare_store)(self.region.base(), slot, index, old, new) == Stored::Done;
        self.replaced.fetch_add(done as u64, Ordering::Relaxed);
        done
    }

    /// Nobody runs: every array is in one place, every token where it should be.
    pub fn account(&self) -> Outcome {
        self.findings().outcome()?;
        let mut arrays = self.depot.all();
        for slot in 0..MAX as u32 {
            arrays.extend((0..2 * KINDS).filter_map(|index| Array::of_word(self.word(slot, index), index)));
        }
        let mut seen = vec![false; self.region.count()];
        for &array in &arrays {
            let number = self.region.number(array).ok_or_else(|| format!("a word names no array: {array:?}"))?;
            if std::mem::replace(&mut seen[number], true) {
                return Err(format!("array {number} is in two places"));
            }
        }
        if let Some(lost) = seen.iter().position(|seen| !seen) {
            return Err(format!("array {lost} was lost: it is in no slot and not in the depot"));
        }
        self.tokens.account(&self.region, arrays.into_iter())
    }
}

fn takes(kind: usize) -> usize {
    kind * 2
}

fn gives(kind: usize) -> usize {
    kind * 2 + 1
}

#[derive(Default)]
struct Depot {
    lock: Lock<1>,
    contention: Contention,
    stacks: UnsafeCell<[Vec<Array>; 2]>,
}

// SAFETY: the stacks are used under the lock only.
unsafe impl Sync for Depot {}

impl Depot {
    fn put(&self, array: Array, region: &Region) {
        let stack = array.is_empty(region) as usize;
        self.locked(|stacks| stacks[stack].push(array));
    }

    fn get_filled(&self) -> Option<Array> {
        self.locked(|[filled, _]| filled.pop())
    }

    fn get_empty(&self) -> Option<Array> {
        self.locked(|[_, empty]| empty.pop())
    }

    fn all(&self) -> Vec<Array> {
        self.locked(|stacks| stacks.concat())
    }

    fn locked<R>(&self, work: impl FnOnce(&mut [Vec<Array>; 2]) -> R) -> R {
        machine::thread::enter();
        let acquired = self.lock.acquire(&self.contention, here!());
        assert_eq!(acquired, Acquired::Clean, "only threads of one process use the depot's lock");
        // SAFETY: we hold the lock.
        let result = work(unsafe { &mut *self.stacks.get() });
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        result
    }
}

/// Arrays for each thread: few, so that they come round.
const ARRAYS: usize = 12;

/// Arrays change places while pops and pushes run on them. A handler in a slow path finds words of every kind.
pub fn replaced(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let owners = Owners::new(operations, runner.width() * ARRAYS, machine::slot::ARRAY, runner.seed())?;
    alone(runner, || one_replaces(&owners, operations))?;
    let (moves, turn) = (AtomicU64::new(0), AtomicUsize::new(0));
    let work = |thread| {
        moves.fetch_add(owners.work(runner, thread, &|| runner.goes_on()), Ordering::Relaxed);
    };
    let handler = || owners.interrupt(turn.fetch_add(1, Ordering::Relaxed) % KINDS);
    under_restarts(runner, operations, &handler, &work);
    owners.account()?;
    let (moves, replaced) = (moves.into_inner(), owners.replaced.load(Ordering::Relaxed));
    ensure!(moves > 0 && replaced > 0, "nothing moved: {moves} tokens, {replaced} arrays");
    Ok(())
}

fn one_replaces(owners: &Owners<'_>, operations: &Operations) -> Outcome {
    const INDEX: usize = 2 * KINDS;
    let store = |slot| (operations.compare_store)(owners.region.base(), slot, INDEX, 0, 8);
    let here = stored_once(operations, MAX as u32 - 1, store)?;
    ensure!(owners.word(here, INDEX) == 8, "a word that was stored to reads as {}", owners.word(here, INDEX));
    ensure!(owners.word(MAX as u32 - 1, INDEX) == 0, "a store that was elsewhere was done");
    Ok(())
}

/// A store on one thread, which replaces nothing but zero: it is done where the thread is, once, and not in `last`.
pub fn stored_once(operations: &Operations, last: u32, store: impl Fn(u32) -> Stored) -> Result<u32, String> {
    // By ids the thread may have left the slot meanwhile.
    let here = (0..10_000).find_map(|_| (operations.current)().filter(|&slot| store(slot) == Stored::Done));
    let here = here.ok_or("a thread never meets the slot that it is in")?;
    let again = (0..10_000).map(|_| store(here)).find(|&outcome| outcome != Stored::Elsewhere);
    ensure!(again.is_none_or(|outcome| outcome == Stored::Differs), "what was not expected was replaced: {again:?}");
    let elsewhere = store(last);
    ensure!(elsewhere == Stored::Elsewhere, "a store to a slot that no thread is in: {elsewhere:?}");
    Ok(here)
}
