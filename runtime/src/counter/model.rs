//! The protocols of a counter, small enough to try every schedule of a few threads.
//!
//! Each thread is a program of atomic steps, one access to a shared word each. The explorer takes every step that any thread could take
//! next, from every state that this leads to, depth first, and comes to no state twice. Threads are few, additions one or two each, and all
//! words change at once for everybody: what compilers and processors reorder is not modelled, nor are restartable sections, fallback slots and
//! forks; tests/counters.rs and its neighbours meet those.
//!
//! | file | steps | stand for |
//! |---|---|---|
//! | `upgrade` | look, claim, local, remote, in the block | `words::Counters::add_in_range`, `add_slow`, `change_remote`, `slots::add_slow` |
//! | | take, publish, give back | `words::Counters::share_in` |
//! | | look, add up, look again | `words::Counters::settled` |
//! | | judge, freeze, judge again | `words::Counters::limited_add`, `limit::add_direct` |
//! | `stock` | judge, draw | `limit::add_within`, `slots::draw` |
//! | | raise, judge, put, mark, restart, settle | `slots::Edges::restock`, `limit::Edges::close_all`, `settle` |
//! | | judge without the lock | `limit::add_slow` in a signal handler |
//! | `refusal` | look, judge, look again, freeze, judge again | `words::Counters::limited_add`, `change_remote`, `limit::add_direct` |
//! | `reading` | announce, take, count, lower; raise, count, put | `limit::Edges::settle`, `slots::Edges::restock` |
//! | | look, look again, add up | `slots::read`, `steady`, `sum` |
//!
//! When one of those functions changes, its steps here have to. Planted variants of the protocols show that the explorer finds what is wrong.

#![cfg(test)]

mod reading;
mod refusal;
mod stock;
mod upgrade;

use core::hash::Hash;
use std::collections::{BTreeSet, HashMap};
use std::vec::Vec;

/// A state of everything.
trait World: Clone + Eq + Hash {
    /// What all steps lead to that any thread can take now.
    fn steps(&self) -> Vec<Self>;

    /// What is wrong with the state. `at_end`: nobody can take a step.
    fn wrong(&self, at_end: bool) -> Option<&'static str>;
}

/// What came of an exploration.
#[derive(Debug, Default)]
struct Found {
    states: usize,
    schedules: u128,
    wrong: BTreeSet<&'static str>,
}

/// Tries every schedule from a state on; one that went wrong goes no further.
fn explore<W: World>(start: &W) -> Found {
    fn schedules<W: World>(world: &W, seen: &mut HashMap<W, u128>, wrong: &mut BTreeSet<&'static str>) -> u128 {
        if let Some(&known) = seen.get(world) {
            return known;
        }
        let steps = world.steps();
        let complaint = world.wrong(steps.is_empty());
        wrong.extend(complaint);
        let count = if complaint.is_some() || steps.is_empty() {
            1
        } else {
            steps.iter().map(|next| schedules(next, seen, wrong)).sum()
        };
        seen.insert(world.clone(), count);
        count
    }
    let (mut seen, mut wrong) = (HashMap::new(), BTreeSet::new());
    let schedules = schedules(start, &mut seen, &mut wrong);
    Found { states: seen.len(), schedules, wrong }
}

/// Explores, says how much there was, and compares what is wrong with what is `expected` to be.
fn must_find<W: World>(what: &str, start: &W, expected: &[&'static str]) {
    let Found { states, schedules, wrong } = explore(start);
    std::println!("{what}: {states} states, {schedules} schedules, wrong: {wrong:?}");
    assert_eq!(wrong, expected.iter().copied().collect(), "{what}");
}
