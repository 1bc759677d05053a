//! draw, replace_pair and store_pair: threads draw from a cell, fill it up, and close it while others draw.
//!
//! Step by step on one thread, then on all at once: threads migrate, handlers that draw interrupt them, and one thread
//! restarts all slots repeatedly. Each row of the cell has a *stock*, of which an account is kept.
//!
//! ```text
//!   total of a row = edge − stock                    a draw adds its amount; a refill moves stock and edge by the same
//!   Σ totals       = Σ amounts that draw said yes to
//! ```
//!
//! A draw that is lost, done twice, or done in a row that another thread draws from makes the sums differ. One thread
//! at a time moves the edge of a row, as [`Operations::replace_pair`] demands; a second one does something else.

use super::Operations;
use super::cached::{interrupts, under_restarts};
use super::owners::stored_once;
use super::rows::{Rows, WIDTH, stocked};
use crate::case::{Findings, Outcome, demand, ensure};
use crate::runner::{Placement, Runner, alone, crowd, random, stay};
use machine::slot::{DRAWN, MARK, Mode, Pair, WIDEST};
use machine::sync::{AtomicBool, AtomicI64, AtomicU64, Ordering};

const BURST: usize = 64;

struct Stock<'a> {
    rows: Rows,
    operations: &'a Operations,
    refills: bool,
    /// For each row, whether somebody moves its edge.
    moving: Vec<AtomicBool>,
    drawn: AtomicI64,
    accepted: AtomicU64,
    refused: AtomicU64,
    findings: Findings,
}

impl<'a> Stock<'a> {
    fn new(operations: &'a Operations) -> Result<Self, String> {
        let rows = Rows::new()?;
        let moving = (0..=rows.last()).map(|_| AtomicBool::new(false)).collect();
        let [accepted, refused] = [const { AtomicU64::new(0) }; 2];
        let (drawn, findings) = (AtomicI64::new(0), Findings::new());
        Ok(Stock { rows, operations, refills: true, moving, drawn, accepted, refused, findings })
    }

    fn fill(&self, runner: &dyn Runner) {
        let mut random = random(runner, usize::MAX >> 2);
        self.rows.slots().for_each(|slot| self.rows.prepare(slot, refill(Pair { left: 0, edge: 0 }, &mut random)));
    }

    fn interrupt(&self, amount: i64) {
        if self.draw(amount) {
            // Relaxed: read when the threads have ended.
            self.drawn.fetch_add(amount, Ordering::Relaxed);
            self.accepted.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn work(&self, runner: &dyn Runner, thread: usize) {
        let mut random = random(runner, thread);
        let (mut drawn, mut accepted, mut refused) = (0, 0, 0);
        while runner.goes_on() && self.findings.none() {
            for _ in 0..BURST {
                // Mostly by one, so that many are drawn between two refusals.
                let most = if random.u8(0..8) == 0 { i64::from(WIDTH) + 1 } else { 1 };
                let amount = random.i64(-most..=most);
                if self.draw(amount) {
                    drawn += amount;
                    accepted += 1;
                } else {
                    refused += 1;
                }
                if self.refills && random.bool() {
                    self.refill_own(&mut random);
                }
            }
        }
        // Relaxed: read when the threads have ended.
        self.drawn.fetch_add(drawn, Ordering::Relaxed);
        self.accepted.fetch_add(accepted, Ordering::Relaxed);
        self.refused.fetch_add(refused, Ordering::Relaxed);
    }

    fn draw(&self, amount: i64) -> bool {
        (self.operations.draw)(self.rows.cell(), amount)
    }

    fn refill_own(&self, random: &mut fastrand::Rng) {
        let Some(slot) = (self.operations.current)() else { return };
        self.moving_edge(slot, || {
            let old = self.load(slot);
            (self.operations.replace_pair)(self.rows.cell(), slot, old.left, refill(old, random));
        });
    }

    fn load(&self, slot: u32) -> Pair {
        (self.operations.load_pair)(self.rows.cell(), slot)
    }

    /// Does what moves the edge in a row, unless somebody else does.
    fn moving_edge<R>(&self, slot: u32, work: impl FnOnce() -> R) -> Option<R> {
        let moving = &self.moving[slot as usize];
        // Acquire pairs with the release below: who comes next sees the pair as it was left.
        if moving.swap(true, Ordering::Acquire) {
            return None;
        }
        let result = work();
        moving.store(false, Ordering::Release);
        Some(result)
    }

    /// Nobody runs: what is in the rows is what was not drawn.
    fn account(&self) -> Outcome {
        self.findings.outcome()?;
        let pairs = || self.rows.slots().map(|slot| (slot, self.rows.pair(slot)));
        let outside = pairs().find(|(_, pair)| pair.left != 0 && !is_open(*pair));
        ensure!(outside.is_none(), "draws and refills have left {outside:?}, of which nothing can be drawn");
        let (kept, drawn) = (pairs().map(|(_, pair)| pair.total()).sum::<i64>(), self.drawn.load(Ordering::Relaxed));
        ensure!(kept == drawn, "draws that sum to {drawn} were accepted, and the rows say {kept}");
        let [accepted, refused] = [&self.accepted, &self.refused].map(|count| count.load(Ordering::Relaxed));
        ensure!(accepted > 0 && refused > 0, "{accepted} draws were accepted, and {refused} refused");
        Ok(())
    }
}

fn refill(old: Pair, random: &mut fastrand::Rng) -> Pair {
    let stock = random.u32(0..=WIDTH);
    stocked(stock, old.total() + i64::from(stock))
}

fn is_open(pair: Pair) -> bool {
    pair.stock() <= WIDTH && pair == stocked(pair.stock(), pair.edge)
}

/// The body of [`Operations::draw`], which relies on no other operation.
pub fn drawn(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let stock = Stock { refills: false, ..Stock::new(operations)? };
    alone(runner, || one_draws(runner, &stock.rows, operations))?;
    stock.fill(runner);
    all_draw(runner, operations, &stock);
    stock.account()
}

/// The body of [`Operations::replace_pair`]. All rows begin with zeroes.
pub fn refilled(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let stock = Stock::new(operations)?;
    alone(runner, || one_replaces(&stock.rows, operations))?;
    stock.rows.prepare_all(ZERO);
    all_draw(runner, operations, &stock);
    stock.account()
}

fn all_draw(runner: &dyn Runner, operations: &Operations, stock: &Stock<'_>) {
    let turn = AtomicI64::new(0);
    // One up, one down.
    let handler = || stock.interrupt(turn.fetch_add(1, Ordering::Relaxed) % 2 * 2 - 1);
    let work = |thread| {
        (operations.current)();
        stock.work(runner, thread);
    };
    under_restarts(runner, operations, &handler, &work);
}

const ZERO: Pair = Pair { left: 0, edge: 0 };
const MOST: i64 = DRAWN - 1;
const WIDE: i64 = WIDEST as i64;

/// Stock and room, an amount, and the stock when it has been drawn, if it can be.
const DRAWS: &[([u32; 2], i64, Option<u32>)] = &[
    ([0, 3], 0, Some(0)),
    ([1, 2], 1, Some(0)),
    ([1, 2], 2, None),
    ([1, 2], -1, Some(2)),
    ([0, 3], -3, Some(3)),
    ([0, 3], -4, None),
    ([3, 0], 3, Some(0)),
    ([3, 0], 4, None),
    ([3, 0], -1, None),
    ([3, 0], MOST, None),
    ([3, 0], -MOST, None),
    ([0, 0], 0, Some(0)),
    ([0, 0], 1, None),
    ([0, 0], -1, None),
    ([0, 0], MOST, None),
    ([0, 0], -MOST, None),
    ([WIDEST, 0], WIDE, Some(0)),
    ([WIDEST, 0], MOST, None),
    ([0, WIDEST], -WIDE, Some(WIDEST)),
    ([0, WIDEST], -MOST, None),
    ([WIDEST / 2, WIDEST / 2], 1, Some(WIDEST / 2 - 1)),
];
/// Nothing is drawn from a marked cell.
const MARKED: &[([u32; 2], i64)] = &[
    ([0, 0], 0),
    ([1, 2], 1),
    ([1, 2], -1),
    ([3, 0], MOST),
    ([0, 3], -MOST),
    ([0, WIDEST], MOST),
    ([WIDEST, 0], -MOST),
];

fn one_draws(runner: &dyn Runner, rows: &Rows, operations: &Operations) -> Outcome {
    if runner.mode() == Mode::PerThread {
        rows.prepare_all(stocked(1, 7));
        ensure!(!(operations.draw)(rows.cell(), 1), "a thread that was given no slot drew");
    }
    ensure!((operations.current)().is_some(), "a thread that entered has no slot");
    let left = |[stock, room]: [u32; 2]| Pair::new(stock, room, 7).left;
    DRAWS.iter().try_for_each(|&(halves, amount, rest)| {
        let rest = rest.map(|rest| left([rest, halves[0] + halves[1] - rest]));
        draw_once(rows, operations, left(halves), amount, rest)
    })?;
    MARKED.iter().try_for_each(|&(halves, amount)| draw_once(rows, operations, MARK | left(halves), amount, None))
}

/// By ids the thread may be anywhere: all rows hold the same.
fn draw_once(rows: &Rows, operations: &Operations, left: u64, amount: i64, rest: Option<u64>) -> Outcome {
    let (before, after) = (Pair { left, edge: 7 }, rest.map(|left| Pair { left, edge: 7 }));
    rows.prepare_all(before);
    let done = (operations.draw)(rows.cell(), amount);
    ensure!(done == rest.is_some(), "a draw of {amount} where left was {left:#x} said {done}");
    let changed: Vec<Pair> = rows.slots().map(|slot| rows.pair(slot)).filter(|&pair| pair != before).collect();
    let expected: Vec<Pair> = after.into_iter().filter(|&pair| pair != before).collect();
    ensure!(changed == expected, "a draw of {amount} where left was {left:#x} made {changed:x?} of the pairs");
    Ok(())
}

fn one_replaces(rows: &Rows, operations: &Operations) -> Outcome {
    let first = stocked(1, i64::MIN + 1);
    let here = stored_once(operations, rows.last(), |slot| (operations.replace_pair)(rows.cell(), slot, 0, first))?;
    ensure!(rows.pair(here) == first, "{first:x?} was put in a row, and there is {:x?}", rows.pair(here));
    let other = rows.slots().find(|&slot| rows.pair(slot) != if slot == here { first } else { ZERO });
    ensure!(other.is_none(), "a pair changed in row {other:?}, and was not to be replaced");
    Ok(())
}

const CLOSERS: usize = 2;
/// One in so many closings makes no restart.
const REFUSED: u32 = 4;
const CLOSINGS: usize = 16;
/// How long a cell stays closed at most.
const CLOSED_NS: u64 = 20_000;

/// Threads close cells while others draw, by the protocol of [`Operations::draw`], and open them again. No thread draws
/// from a closed cell. Some closings are given up without a restart, as if it were refused.
pub fn marked(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let stock = Stock::new(operations)?;
    stock.fill(runner);
    let (workers, turn, closed) = (runner.width(), AtomicI64::new(0), AtomicU64::new(0));
    let job = |thread| {
        (operations.current)();
        if thread < workers {
            stock.work(runner, thread);
        } else {
            closed.fetch_add(stock.close_cells(runner, thread), Ordering::Relaxed);
        }
    };
    let handler = || stock.interrupt(turn.fetch_add(1, Ordering::Relaxed) % 2 * 2 - 1);
    runner.run(Placement::Moved, crowd(workers + CLOSERS, &job), interrupts(runner, &handler));
    stock.account()?;
    ensure!(closed.into_inner() > 0, "no cell could be closed");
    Ok(())
}

impl Stock<'_> {
    /// Closes cells and opens them again; returns how many.
    fn close_cells(&self, runner: &dyn Runner, thread: usize) -> u64 {
        let (mut random, mut closed) = (random(runner, thread), 0);
        // Once at least, however late this thread begins.
        loop {
            for _ in 0..CLOSINGS {
                let slot = random.u32(0..(self.operations.in_use)().max(1));
                closed += u64::from(self.moving_edge(slot, || self.close(slot, &mut random)) == Some(true));
            }
            if !runner.goes_on() || !self.findings.none() {
                return closed;
            }
            runner.pause();
        }
    }

    fn close(&self, slot: u32, random: &mut fastrand::Rng) -> bool {
        let left = self.rows.left(slot);
        // AcqRel: what threads drew before is in the pair that we read below. Relaxed would do on this machine, whose
        // read-modify-writes are fences, and whose restart is one.
        let old = left.fetch_or(MARK, Ordering::AcqRel);
        if random.u32(0..REFUSED) == 0 {
            // Relaxed: whoever draws next reads this word only.
            left.fetch_and(!MARK, Ordering::Relaxed);
            return false;
        }
        let restarted = (self.operations.restart)(slot);
        demand!(self.findings, restarted.is_ok(), "a restart was refused", slot);
        let closed = self.load(slot);
        if closed.left & MARK == 0 {
            // Somebody committed over it.
            return false;
        }
        let what = "a cell is not as it was when it was closed: slot, left before, left after";
        demand!(self.findings, closed.left == old | MARK, what, slot, old, closed.left);
        stay(random.u64(0..CLOSED_NS));
        let now = self.load(slot);
        let what = "a closed cell was drawn from: slot, left before, left after";
        demand!(self.findings, now == closed, what, slot, closed.left, now.left);
        (self.operations.store_pair)(self.rows.cell(), slot, refill(closed, random));
        true
    }
}
