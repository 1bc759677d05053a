//! `machine::sync`: an order between a change and a look.

use crate::case::{Findings, Outcome, demand, operations};
use crate::runner::{Placement, Runner, crowd, wait_until};
use machine::sync::{AtomicU32, Ordering, order_after_change};

operations! {
    /// Changes a word, and calls `order_after_change`.
    ///
    /// ```text
    /// change_and_order(word, value):
    ///     atomically: old = word; word = value
    ///     a full fence
    /// ```
    ///
    /// `order_reads` and `order_writes` have no case: both machines keep these orders, so doing nothing passes.
    change_and_order: fn(&AtomicU32, u32) = |word, value| {
        word.swap(value, Ordering::Relaxed);
        order_after_change();
    },
}

crate::cases! {
    CASES of Operations::MACHINE;
    "sync::order_after_change" => ordered, {
        "behind a mere store" { change_and_order: |word, value| {
            word.store(value, Ordering::Relaxed);
            order_after_change();
        } }
    }
}

/// Two threads change a word each and look at the other's. One sees the change.
pub fn ordered(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let pair = || [AtomicU32::new(0), AtomicU32::new(0)];
    let (words, seen, turns, rounds, findings) = (pair(), pair(), pair(), AtomicU32::new(0), Findings::new());
    let meet = |own: usize| {
        let turn = turns[own].fetch_add(1, Ordering::SeqCst) + 1;
        wait_until(runner, || turns[1 - own].load(Ordering::SeqCst) >= turn);
    };
    let job = |own: usize| {
        for round in 1.. {
            // The first says whether there is another round.
            if own == 0 && runner.goes_on() && findings.none() {
                rounds.store(round, Ordering::SeqCst);
            }
            meet(own);
            if rounds.load(Ordering::SeqCst) < round {
                return;
            }
            (operations.change_and_order)(&words[own], round);
            seen[own].store(words[1 - own].load(Ordering::Relaxed), Ordering::SeqCst);
            meet(own);
            let [first, second] = seen.each_ref().map(|word| word.load(Ordering::SeqCst));
            let is_seen = first >= round || second >= round;
            demand!(findings, is_seen, "neither saw the other's change: round, seen", round, first, second);
        }
    };
    runner.run(Placement::Apart, crowd(2, &job), None);
    findings.outcome()
}
