//! local_add and local_increment: a thread adds to its word, its handlers add to the same, and others read it.
//!
//! Each amount has equal halves and never carries from one into the other, so a reader recognises a torn sum. The
//! thread subtracts what it added. So the word ends with what its interrupts added, and they count themselves.

use super::Operations;
use crate::case::{Findings, Outcome, demand, ensure};
use crate::runner::{Placement, Places, Runner, crowd};
use machine::sync::{AtomicI64, AtomicU64, Ordering};

/// One in each half.
const UNIT: i64 = 1 << 32 | 1;
/// Additions in one direction, between two looks at the words of others.
const BURST: usize = 256;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Word {
    sum: AtomicI64,
    interrupts: AtomicU64,
}

pub(super) fn added(runner: &dyn Runner, operations: &Operations) -> Outcome {
    changed(runner, operations.local_add, UNIT, true)
}

pub(super) fn incremented(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let increment = |word: &AtomicI64, amount: i64| match amount {
        1 => (operations.local_increment)(word),
        _ => (Operations::MACHINE.local_add)(word, amount),
    };
    changed(runner, increment, 1, false)
}

fn changed(runner: &dyn Runner, add: impl Fn(&AtomicI64, i64) + Sync, unit: i64, has_halves: bool) -> Outcome {
    let words: Places<Word> = Places::new(runner.width());
    let findings = Findings::new();
    let handler = || {
        if let Some(own) = words.own() {
            add(&own.sum, unit);
            own.interrupts.fetch_add(1, Ordering::Relaxed);
        }
    };
    let look = |word: &Word| {
        // Relaxed: only this word is looked at.
        let sum = word.sum.load(Ordering::Relaxed) as u64;
        demand!(findings, sum >> 32 == sum & 0xffff_ffff || !has_halves, "a sum was read in part: sum", sum);
    };
    let job = |number| {
        let own = words.settle(number);
        while runner.goes_on() && findings.none() {
            for amount in [unit, -unit] {
                (0..BURST).for_each(|_| add(&own.sum, amount));
                words.all().for_each(look);
            }
        }
    };
    runner.run(Placement::Moved, crowd(runner.width(), &job), Some(&handler));
    findings.outcome()?;
    let mut interrupts = 0;
    for word in words.all() {
        let (sum, own) = (word.sum.load(Ordering::Relaxed), word.interrupts.load(Ordering::Relaxed));
        ensure!(sum == own as i64 * unit, "{own} interrupts have added to a word, and left {sum:#x}");
        interrupts += own;
    }
    ensure!(interrupts > 0, "no thread was interrupted");
    Ok(())
}
