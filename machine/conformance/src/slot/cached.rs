//! Pop and push, each for itself: all threads pop what lies in the slots, or push until all slots are full.
//!
//! Words are prepared before threads run, and arrays stay, so each of the two bodies needs its own operation only.
//! Threads migrate, handlers interrupt them with the same operation, and one thread restarts all slots repeatedly.

use super::Operations;
use super::region::{Array, CAPACITY, Region};
use super::tokens::{INTERRUPT, Tokens, holder};
use crate::case::{Outcome, ensure};
use crate::runner::{Placement, Runner, alone, crowd, random, repeat};
use machine::slot::{ARRAY, Mode};
use machine::sync::{AtomicUsize, Ordering};

/// Arrays in each slot. Threads go through them in the same order, so that those in one slot meet at the same word.
const ARRAYS: usize = 128;

/// Handlers use no slots where nobody watches for them.
pub(super) fn interrupts<'a>(runner: &dyn Runner, handler: &'a (dyn Fn() + Sync)) -> Option<&'a (dyn Fn() + Sync)> {
    (runner.mode() == Mode::ConcurrencyId).then_some(handler)
}

pub fn popped(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let region = Region::new(runner.slots() * ARRAYS, ARRAY)?;
    alone(runner, || one_pops(&region, operations))?;
    let mut random = random(runner, 0);
    repeat(runner, || {
        let tokens = Tokens::new(region.count() * CAPACITY / 2);
        let mut next = 0;
        for number in 0..region.count() {
            let mut array = region.array(number, random.usize(1..=CAPACITY));
            tokens.fill(&region, &mut array, &mut next);
            set(&region, operations, number, 0, array.take_word());
        }
        pop_all(runner, operations, &region, &tokens);
        tokens.account(&region, arrays(&region, operations, 0, Array::of_take_word))
    })
}

pub fn pushed(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let region = Region::new(runner.slots() * ARRAYS, ARRAY)?;
    alone(runner, || one_pushes(&region, operations))?;
    let mut random = random(runner, 0);
    repeat(runner, || {
        let tokens = Tokens::new(region.count() * CAPACITY / 2);
        for number in 0..region.count() {
            set(&region, operations, number, 1, region.array(number, random.usize(1..=CAPACITY)).give_word());
        }
        push_all(runner, operations, &region, &tokens);
        tokens.account(&region, arrays(&region, operations, 1, Array::of_give_word))
    })
}

fn one_pops(region: &Region, operations: &Operations) -> Outcome {
    ensure!((operations.current)().is_some(), "a thread that entered has no slot");
    let mut array = region.array(0, 3);
    let pointers = [0, 1, 2].map(Tokens::pointer);
    pointers.iter().for_each(|&pointer| assert!(array.push(region, pointer)));
    // By ids the thread may be elsewhere by now: all slots get the same array, and the thread is alone.
    (0..region.count() / ARRAYS).for_each(|slot| set(region, operations, slot * ARRAYS, 0, array.take_word()));
    let got = [(); 4].map(|()| (operations.pop)(region.base(), 0));
    let [first, second, third] = pointers;
    ensure!(got[..3] == [third, second, first], "pops gave {got:?} from an array of {pointers:?}");
    ensure!(got[3].is_null(), "the bottom of an array was popped: {:?}", got[3]);
    let from_nothing = (operations.pop)(region.base(), 2);
    ensure!(from_nothing.is_null(), "a zero word gave {from_nothing:?}");
    Ok(())
}

fn one_pushes(region: &Region, operations: &Operations) -> Outcome {
    ensure!((operations.current)().is_some(), "a thread that entered has no slot");
    let array = region.array(0, 2);
    (0..region.count() / ARRAYS).for_each(|slot| set(region, operations, slot * ARRAYS, 1, array.give_word()));
    let went = [0, 1, 2].map(|token| (operations.push)(region.base(), 0, Tokens::pointer(token)));
    ensure!(went == [true, true, false], "pushes on an array with room for two went {went:?}");
    let filled = Array::of_take_word(array.take_word() + 16).ok_or("an array lies in the header")?;
    let held: Vec<_> = region.pointers(filled).collect();
    ensure!(held == [1, 0].map(Tokens::pointer), "two pushes left {held:?}");
    ensure!(!(operations.push)(region.base(), 2, Tokens::pointer(3)), "a push on a zero word succeeded");
    Ok(())
}

/// Sets the word of array `number`, while nobody runs; `odd` is 0 for its take word, 1 for its give word.
fn set(region: &Region, operations: &Operations, number: usize, odd: usize, word: usize) {
    let (slot, index) = (number / ARRAYS, number % ARRAYS * 2 + odd);
    (operations.exchange)(region.base(), slot as u32, index, word);
}

fn arrays(
    region: &Region, operations: &Operations, odd: usize, of: fn(usize) -> Option<Array>,
) -> impl Iterator<Item = Array> {
    (0..region.count()).filter_map(move |number| {
        let (slot, index) = (number / ARRAYS, number % ARRAYS * 2 + odd);
        of((operations.load)(region.base(), slot as u32, index))
    })
}

fn pop_all(runner: &dyn Runner, operations: &Operations, region: &Region, tokens: &Tokens) {
    let pop = |array| (operations.pop)(region.base(), array * 2);
    let latest = AtomicUsize::new(0);
    let handler = || {
        let pointer = pop(latest.load(Ordering::Relaxed));
        if !pointer.is_null() {
            tokens.popped(pointer, INTERRUPT);
        }
    };
    let work = |thread| {
        (operations.current)();
        for array in (0..ARRAYS).chain(0..ARRAYS) {
            latest.store(array, Ordering::Relaxed);
            loop {
                let pointer = pop(array);
                if pointer.is_null() || tokens.popped(pointer, holder(thread)).is_none() {
                    break;
                }
            }
        }
    };
    under_restarts(runner, operations, &handler, &work);
}

fn push_all(runner: &dyn Runner, operations: &Operations, region: &Region, tokens: &Tokens) {
    let (latest, next) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let push_next = |array: usize, holder| {
        let token = next.fetch_add(1, Ordering::Relaxed);
        if token >= tokens.count() || !tokens.pick_loose(token, holder) {
            return false;
        }
        let pointer = tokens.will_push(token, holder);
        let done = (operations.push)(region.base(), array * 2, pointer);
        if !done {
            tokens.not_pushed(token);
        }
        done
    };
    let handler = || {
        push_next(latest.load(Ordering::Relaxed), INTERRUPT);
    };
    let work = |thread| {
        (operations.current)();
        for array in (0..ARRAYS).chain(0..ARRAYS) {
            latest.store(array, Ordering::Relaxed);
            while push_next(array, holder(thread)) && tokens.findings().none() {}
        }
    };
    under_restarts(runner, operations, &handler, &work);
}

pub(super) fn under_restarts(
    runner: &dyn Runner, operations: &Operations, handler: &(dyn Fn() + Sync), work: &(dyn Fn(usize) + Sync),
) {
    let workers = runner.width();
    let at_work = AtomicUsize::new(workers);
    let job = |number| {
        if number < workers {
            work(number);
            // Relaxed: only stops the restarts.
            at_work.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        while at_work.load(Ordering::Relaxed) > 0 {
            // Refused by machines that cannot: then there is one disturbance less.
            let _ = (operations.restart)(0);
            runner.pause();
        }
    };
    runner.run(Placement::Moved, crowd(workers + 1, &job), interrupts(runner, handler));
}
