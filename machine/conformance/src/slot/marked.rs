//! draw, replace_pair and store_pair with restart: threads close cells while others draw, and open them again.
//!
//! Closers run the protocol of [`Operations::draw`] on random rows while threads draw and refill as in `drawn`. No
//! thread draws from a closed cell, however long it stays closed. Some closings are given up without a restart, as if
//! it were refused.

use super::Operations;
use super::cached::interrupts;
use super::rows::MARK;
use super::stock::Stock;
use crate::case::{Outcome, demand, ensure};
use crate::runner::{Placement, Runner, crowd, random};
use machine::clock;
use machine::slot::Pair;
use machine::sync::{AtomicI64, AtomicU64, Ordering};

const CLOSERS: usize = 2;
/// One in so many closings makes no restart.
const REFUSED: u32 = 4;
/// Closings before others are let run.
const BURST: usize = 16;
/// How long a cell stays closed at most.
const CLOSED_NS: u64 = 20_000;

/// The body of the protocol of [`Operations::draw`].
pub fn marked(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let stock = Stock::new(operations)?;
    stock.fill(runner);
    let (workers, turn) = (runner.width(), AtomicI64::new(0));
    let closer = Closer { stock: &stock, operations, closed: AtomicU64::new(0), lost: AtomicU64::new(0) };
    let job = |thread| {
        (operations.current)();
        if thread < workers { stock.work(runner, thread, true) } else { closer.work(runner, thread) }
    };
    let handler = || stock.interrupt(turn.fetch_add(1, Ordering::Relaxed) % 2 * 2 - 1);
    runner.run(Placement::Moved, crowd(workers + CLOSERS, &job), interrupts(runner, &handler));
    let (closed, lost) = (closer.closed.into_inner(), closer.lost.into_inner());
    let account = stock.account()?;
    ensure!(closed > 0, "no cell could be closed; {lost} marks were lost");
    Ok(format!("{account}; {closed} cells closed, {lost} marks lost"))
}

struct Closer<'a> {
    stock: &'a Stock<'a>,
    operations: &'a Operations,
    closed: AtomicU64,
    lost: AtomicU64,
}

impl Closer<'_> {
    fn work(&self, runner: &dyn Runner, thread: usize) {
        let mut random = random(runner, thread);
        while runner.goes_on() && self.stock.findings().none() {
            for _ in 0..BURST {
                let slot = random.u32(0..(self.operations.in_use)().max(1));
                self.stock.moving_edge(slot, || self.close(slot, &mut random));
            }
            runner.pause();
        }
    }

    fn close(&self, slot: u32, random: &mut fastrand::Rng) {
        let left = self.stock.rows.left(slot);
        // AcqRel: what threads drew before is in the pair that we read below. Relaxed would do on this machine, whose
        // read-modify-writes are fences, and whose restart is one.
        let old = left.fetch_or(MARK, Ordering::AcqRel);
        if random.u32(0..REFUSED) == 0 {
            // Relaxed: whoever draws next reads this word only.
            left.fetch_and(!MARK, Ordering::Relaxed);
            return;
        }
        let restarted = (self.operations.restart)(slot);
        demand!(self.stock.findings(), restarted.is_ok(), "a restart was refused", slot);
        let closed = self.stock.load(slot);
        if closed.left & MARK == 0 {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.stay_closed(slot, old, closed, random);
        self.stock.open(slot, closed, random);
        self.closed.fetch_add(1, Ordering::Relaxed);
    }

    /// Nobody changes a closed pair.
    fn stay_closed(&self, slot: u32, old: u64, closed: Pair, random: &mut fastrand::Rng) {
        let what = "a cell is not as it was when it was closed: slot, left before, left after";
        demand!(self.stock.findings(), closed.left == old | MARK, what, slot, old, closed.left);
        let end = clock::now_ns() + random.u64(0..CLOSED_NS);
        while clock::now_ns() < end {}
        let now = self.stock.load(slot);
        let what = "a closed cell was drawn from: slot, left before, left after";
        demand!(self.stock.findings(), now == closed, what, slot, closed.left, now.left);
    }
}
