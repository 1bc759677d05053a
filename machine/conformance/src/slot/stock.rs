//! A stock in each row of a cell, from which threads draw, and put back, and of which an account is kept.
//!
//! ```text
//!   total of a row = edge − (left − WINDOW)          a draw adds its amount; a refill moves left and edge by the same
//!   Σ totals       = Σ amounts that draw said yes to
//! ```
//!
//! A draw that is lost, done twice, or done in a row that another thread draws from makes the sums differ. One thread
//! at a time moves the edge of a row, as [`Operations::replace_pair`] demands; a second one does something else.

use super::Operations;
use super::rows::{MARK, RANGE, Rows, total};
use crate::case::{Findings, ensure};
use crate::runner::{Runner, random};
use machine::slot::{Pair, Stored, WINDOW};
use machine::sync::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Draws between two looks at the clock.
const BURST: usize = 64;

/// A cell with its account.
#[derive(Debug)]
pub struct Stock<'a> {
    /// Where it lies.
    pub rows: Rows,
    operations: &'a Operations,
    /// For each row, whether somebody moves its edge.
    moving: Vec<AtomicBool>,
    drawn: AtomicI64,
    accepted: AtomicU64,
    refused: AtomicU64,
    refilled: AtomicU64,
    findings: Findings,
}

impl<'a> Stock<'a> {
    /// A zeroed cell, of which nothing can be drawn.
    pub fn new(operations: &'a Operations) -> Result<Self, String> {
        let rows = Rows::new()?;
        let moving = (0..=rows.last()).map(|_| AtomicBool::new(false)).collect();
        let [accepted, refused, refilled] = [const { AtomicU64::new(0) }; 3];
        let drawn = AtomicI64::new(0);
        Ok(Stock { rows, operations, moving, drawn, accepted, refused, refilled, findings: Findings::new() })
    }

    /// What was found so far.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Puts something in all rows, while nobody works.
    pub fn fill(&self, runner: &dyn Runner) {
        let mut random = random(runner, usize::MAX >> 2);
        self.rows.slots().for_each(|slot| self.rows.prepare(slot, refill(Pair { left: 0, edge: 0 }, &mut random)));
    }

    /// What a signal handler does: one draw.
    pub fn interrupt(&self, amount: i64) {
        if self.draw(amount) {
            // Relaxed: read when the threads have ended.
            self.drawn.fetch_add(amount, Ordering::Relaxed);
            self.accepted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Draws as long as the runner goes on; if `refills`, what was drawn is filled up.
    pub fn work(&self, runner: &dyn Runner, thread: usize, refills: bool) {
        let mut random = random(runner, thread);
        let (mut drawn, mut accepted, mut refused) = (0, 0, 0);
        while runner.goes_on() && self.findings.none() {
            for _ in 0..BURST {
                // Mostly by one, so that many are drawn between two refusals.
                let most = if random.u8(0..8) == 0 { RANGE as i64 } else { 1 };
                let amount = random.i64(-most..=most);
                if self.draw(amount) {
                    drawn += amount;
                    accepted += 1;
                } else {
                    refused += 1;
                }
                if refills && random.bool() {
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
        // SAFETY: every slot has a row; amounts are at most RANGE, which is far below the window's half.
        unsafe { (self.operations.draw)(self.rows.cell(), amount) }
    }

    fn refill_own(&self, random: &mut fastrand::Rng) {
        let Some(slot) = (self.operations.current)() else { return };
        let replace = || {
            let old = self.load(slot);
            // SAFETY: every slot has a row; nobody else moves this edge.
            unsafe { (self.operations.replace_pair)(self.rows.cell(), slot, old.left, refill(old, random)) }
        };
        let done = self.moving_edge(slot, replace) == Some(Stored::Done);
        self.refilled.fetch_add(done as u64, Ordering::Relaxed);
    }

    /// Writes a pair in a row without drawers, after it was closed with `old` in it, during a move of its edge.
    pub fn open(&self, slot: u32, old: Pair, random: &mut fastrand::Rng) {
        // SAFETY: every slot has a row; nobody draws from a marked cell, and nobody else moves this edge.
        unsafe { (self.operations.store_pair)(self.rows.cell(), slot, refill(old, random)) };
    }

    /// The pair in any row.
    pub fn load(&self, slot: u32) -> Pair {
        // SAFETY: every slot has a row.
        unsafe { (self.operations.load_pair)(self.rows.cell(), slot) }
    }

    /// Does what moves the edge in a row, unless somebody else does.
    pub fn moving_edge<R>(&self, slot: u32, work: impl FnOnce() -> R) -> Option<R> {
        let moving = &self.moving[slot as usize];
        // Acquire pairs with the release below: who comes next sees the pair as it was left.
        if moving.swap(true, Ordering::Acquire) {
            return None;
        }
        let result = work();
        moving.store(false, Ordering::Release);
        Some(result)
    }

    /// Nobody runs: what is in the rows is what was not drawn. Returns what was done.
    pub fn account(&self) -> Result<String, String> {
        self.findings.outcome()?;
        let pairs = || self.rows.slots().map(|slot| (slot, self.rows.pair(slot)));
        let outside = pairs().find(|(_, pair)| pair.left != 0 && !is_open(*pair));
        ensure!(outside.is_none(), "draws and refills have left {outside:?}, of which nothing can be drawn");
        let (kept, drawn) = (pairs().map(|(_, pair)| total(pair)).sum::<i64>(), self.drawn.load(Ordering::Relaxed));
        ensure!(kept == drawn, "draws that sum to {drawn} were accepted, and the rows say {kept}");
        let [accepted, refused, refilled] =
            [&self.accepted, &self.refused, &self.refilled].map(|count| count.load(Ordering::Relaxed));
        ensure!(accepted > 0 && refused > 0, "{accepted} draws were accepted, and {refused} refused");
        Ok(format!("{accepted} draws accepted, {refused} refused, {refilled} refills"))
    }
}

/// The same total with something else left.
fn refill(old: Pair, random: &mut fastrand::Rng) -> Pair {
    let left = random.i64(0..RANGE as i64);
    Pair { left: WINDOW + left as u64, edge: total(Pair { left: old.left & !MARK, ..old }) + left }
}

fn is_open(pair: Pair) -> bool {
    (WINDOW..WINDOW + RANGE as u64).contains(&pair.left)
}
