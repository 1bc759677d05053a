//! draw and replace_pair: threads draw from a cell, and fill it up.
//!
//! Step by step on one thread, then on all at once: threads migrate, handlers that draw interrupt them, and one thread
//! restarts all slots repeatedly. [`super::stock`] says how a wrong draw is found.

use super::Operations;
use super::cached::under_restarts;
use super::rows::{MARK, RANGE, Rows};
use super::stock::Stock;
use crate::case::{Outcome, ensure};
use crate::runner::{Runner, alone};
use machine::slot::{Mode, Pair, Stored, WINDOW};
use machine::sync::{AtomicI64, Ordering};

/// The body of [`Operations::draw`], which relies on no other operation.
pub fn drawn(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let stock = Stock::new(operations)?;
    alone(runner, || one_draws(runner, &stock.rows, operations))?;
    stock.fill(runner);
    all_draw(runner, operations, &stock, false);
    stock.account()
}

/// The body of [`Operations::replace_pair`]. All rows begin with zeroes.
pub fn refilled(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let stock = Stock::new(operations)?;
    alone(runner, || one_replaces(&stock.rows, operations))?;
    stock.rows.prepare_all(ZERO);
    all_draw(runner, operations, &stock, true);
    stock.account()
}

fn all_draw(runner: &dyn Runner, operations: &Operations, stock: &Stock<'_>, refills: bool) {
    let turn = AtomicI64::new(0);
    // One up, one down.
    let handler = || stock.interrupt(turn.fetch_add(1, Ordering::Relaxed) % 2 * 2 - 1);
    let work = |thread| {
        (operations.current)();
        stock.work(runner, thread, refills);
    };
    under_restarts(runner, operations, &handler, &work);
}

const ZERO: Pair = Pair { left: 0, edge: 0 };
/// The largest amount.
const MOST: i64 = WINDOW as i64 / 2 - 1;
/// The largest step within the range, and the last word of the window.
const STEP: i64 = RANGE as i64 - 1;
const LAST: u64 = WINDOW + STEP as u64;

/// What is left, an amount, and what is left when it has been drawn, if it can be.
const DRAWS: &[(u64, i64, Option<u64>)] = &[
    (WINDOW, 0, Some(WINDOW)),
    (WINDOW + 1, 1, Some(WINDOW)),
    (WINDOW + 1, 2, None),
    (WINDOW + 1, -1, Some(WINDOW + 2)),
    (WINDOW, -STEP, Some(LAST)),
    (WINDOW, -STEP - 1, None),
    (LAST, STEP, Some(WINDOW)),
    (LAST, STEP + 1, None),
    (LAST, -1, None),
    (LAST, MOST, None),
    (LAST, -MOST, None),
    (0, 0, None),
    (0, 1, None),
    (0, -1, None),
    (0, MOST, None),
    (0, -MOST, None),
    (WINDOW / 2, -MOST, None),
    (MARK, 0, None),
    (MARK | (WINDOW + 1), 1, None),
    (MARK | (WINDOW + 1), -1, None),
    (MARK | LAST, MOST, None),
    (MARK | WINDOW, -MOST, None),
    (1 << 63, 1, None),
    (1 << 63 | (WINDOW + 1), 1, None),
    (1 << 63 | (WINDOW + 1), -1, None),
    (u64::MAX, -1, None),
    (u64::MAX, -MOST, None),
];

/// What the specification says, draw by draw, where nobody disturbs.
fn one_draws(runner: &dyn Runner, rows: &Rows, operations: &Operations) -> Result<(), String> {
    if runner.mode() == Mode::PerThread {
        rows.prepare_all(Pair { left: WINDOW + 1, edge: 7 });
        // SAFETY: every slot has a row, and the amount is small.
        let early = unsafe { (operations.draw)(rows.cell(), 1) };
        ensure!(!early, "a thread that was given no slot drew");
    }
    ensure!((operations.current)().is_some(), "a thread that entered has no slot");
    DRAWS.iter().try_for_each(|&(left, amount, rest)| draw_once(rows, operations, left, amount, rest))
}

/// By ids the thread may be anywhere: all rows hold the same.
fn draw_once(rows: &Rows, operations: &Operations, left: u64, amount: i64, rest: Option<u64>) -> Result<(), String> {
    let (before, after) = (Pair { left, edge: 7 }, rest.map(|left| Pair { left, edge: 7 }));
    rows.prepare_all(before);
    // SAFETY: every slot has a row, and the amounts are below the window's half.
    let done = unsafe { (operations.draw)(rows.cell(), amount) };
    ensure!(done == rest.is_some(), "a draw of {amount} where left was {left:#x} said {done}");
    let changed: Vec<Pair> = rows.slots().map(|slot| rows.pair(slot)).filter(|&pair| pair != before).collect();
    let expected: Vec<Pair> = after.into_iter().filter(|&pair| pair != before).collect();
    ensure!(changed == expected, "a draw of {amount} where left was {left:#x} made {changed:x?} of the pairs");
    Ok(())
}

/// What the specification says, step by step.
fn one_replaces(rows: &Rows, operations: &Operations) -> Result<(), String> {
    let (first, second) = (Pair { left: WINDOW + 1, edge: i64::MIN + 1 }, Pair { left: 1 << 63, edge: -1 });
    // SAFETY: every slot has a row, and nobody else works.
    let replace = |slot, expected, new| unsafe { (operations.replace_pair)(rows.cell(), slot, expected, new) };
    // By ids the thread may have left the slot meanwhile.
    let here = (0..10_000).find_map(|_| {
        let slot = (operations.current)()?;
        (replace(slot, 0, first) == Stored::Done).then_some(slot)
    });
    let here = here.ok_or("a thread never meets the slot that it is in")?;
    ensure!(rows.pair(here) == first, "{first:x?} was put in a row, and there is {:x?}", rows.pair(here));
    let differs = (0..10_000).map(|_| replace(here, WINDOW, second)).find(|&outcome| outcome != Stored::Elsewhere);
    ensure!(
        differs.is_none_or(|outcome| outcome == Stored::Differs),
        "a pair with another left than expected was replaced: {differs:?}"
    );
    let elsewhere = replace(rows.last(), 0, second);
    ensure!(elsewhere == Stored::Elsewhere, "a pair was put in a row where no thread is: {elsewhere:?}");
    let others = rows.slots().filter(|&slot| rows.pair(slot) != if slot == here { first } else { ZERO });
    let others: Vec<u32> = others.collect();
    ensure!(others.is_empty(), "pairs changed in rows {others:?}, and were not to be replaced");
    Ok(())
}
