//! load_pair, replace_pair and store_pair: a pair is read as it was written, never half of one and half of another.
//!
//! Every written pair has an edge that follows from its left, so a reader recognises torn pairs. Some threads write all
//! the time. Others read all rows in use: from another CPU, or in the middle of an interrupted write.

use super::Operations;
use super::cached::interrupts;
use super::rows::{Rows, WIDTH, stocked};
use crate::case::{Findings, Outcome, demand, ensure};
use crate::runner::{Placement, Runner, crowd};
use machine::slot::{DRAWN, MARK, Pair, Stored, WIDEST};
use machine::sync::{AtomicU64, Ordering};

const BURST: usize = 64;

/// The body of [`Operations::load_pair`], with pairs that threads replace in their own slots.
pub(super) fn replaced(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let table = Table::new(operations)?;
    let next = AtomicU64::new(0);
    let replace = || {
        let Some(slot) = (operations.current)() else { return false };
        let new = pair_of(stocked(next.fetch_add(1, Ordering::Relaxed) as u32 % (WIDTH + 1), 0).left);
        (operations.replace_pair)(table.rows.cell(), slot, table.load(slot).left, new) == Stored::Done
    };
    let handler = || {
        replace();
    };
    let read = || (0..(operations.in_use)()).for_each(|slot| table.look(slot));
    table.write_and_read(runner, interrupts(runner, &handler), &|_, _| replace(), &read)
}

/// The body of [`Operations::store_pair`], with pairs from which nobody draws, though many try.
pub(super) fn stored(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let table = Table::new(operations)?;
    // A row for each writer: nobody else may write it. Who runs there does not matter.
    let store = |writer: usize, number: u64| {
        (operations.store_pair)(table.rows.cell(), writer as u32, pair_of(MARK | (number % u64::from(WIDEST)) << 32));
        true
    };
    let handler = || table.try_to_draw(1);
    let read = || {
        (0..runner.width() as u32).for_each(|slot| table.look(slot));
        (operations.current)();
        [1, -1, DRAWN - 1].into_iter().for_each(|amount| table.try_to_draw(amount));
    };
    table.write_and_read(runner, interrupts(runner, &handler), &store, &read)
}

/// A pair whose halves belong together; the zeroed one is one of them.
fn pair_of(left: u64) -> Pair {
    Pair { left, edge: left.wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64 }
}

struct Table<'a> {
    rows: Rows,
    operations: &'a Operations,
    findings: Findings,
}

impl<'a> Table<'a> {
    fn new(operations: &'a Operations) -> Result<Self, String> {
        Ok(Table { rows: Rows::new()?, operations, findings: Findings::new() })
    }

    fn load(&self, slot: u32) -> Pair {
        (self.operations.load_pair)(self.rows.cell(), slot)
    }

    fn look(&self, slot: u32) {
        let pair = self.load(slot);
        let what = "a pair was seen whose halves do not belong together: slot, left, edge";
        demand!(self.findings, pair == pair_of(pair.left), what, slot, pair.left, pair.edge);
    }

    fn try_to_draw(&self, amount: i64) {
        let done = (self.operations.draw)(self.rows.cell(), amount);
        demand!(self.findings, !done, "somebody drew where nothing is to be drawn: amount", amount);
    }

    /// Half of the threads write: they get their number, and how often they have written. The others read.
    fn write_and_read(
        &self, runner: &dyn Runner, interrupt: Option<&(dyn Fn() + Sync)>, write: &(dyn Fn(usize, u64) -> bool + Sync),
        read: &(dyn Fn() + Sync),
    ) -> Outcome {
        let (writes, reads) = (AtomicU64::new(0), AtomicU64::new(0));
        let job = |thread: usize| {
            let mut done = 0;
            while runner.goes_on() && self.findings.none() {
                for _ in 0..BURST {
                    if thread.is_multiple_of(2) {
                        done += write(thread, done) as u64;
                    } else {
                        read();
                        done += 1;
                    }
                }
            }
            let count = if thread.is_multiple_of(2) { &writes } else { &reads };
            count.fetch_add(done, Ordering::Relaxed);
        };
        runner.run(Placement::Moved, crowd(runner.width(), &job), interrupt);
        self.findings.outcome()?;
        let (writes, reads) = (writes.into_inner(), reads.into_inner());
        ensure!(writes > 0 && reads > 0, "nothing was tested: {writes} pairs written, rows read {reads} times");
        Ok(())
    }
}
