//! Each protocol is explored for some runs, each made twice, and each of its canaries is found.
//!
//! `COMMENSAL_TEST_EFFORT` multiplies the number of runs. Seeds are always the same here: `cargo xtask explore` takes others.

use exploration::{Canary, Protocol, protocols, replay_command};
use machine::simulation::explore::{Searched, Until, Verdict};
use std::time::Duration;

/// Of each protocol.
const RUNS: f64 = 40.0;
/// What a canary may take to be found: far more than the slowest takes in the mean, since one in a thousand takes seven times that.
const PATIENCE: Duration = Duration::from_secs(1200);
const SEED: u64 = 1;

fn runs() -> u64 {
    let set = std::env::var("COMMENSAL_TEST_EFFORT").ok();
    let effort = set.map_or(1.0, |text| text.parse().expect("COMMENSAL_TEST_EFFORT is a number"));
    (RUNS * effort).ceil() as u64
}

fn holds(protocol: &Protocol) {
    match protocol.explore(None, 1, SEED, Until::Runs { from: 0, to: runs() }, |_| {}) {
        Verdict::Nothing { runs, steps } => println!("{}: {runs} runs, {steps} steps", protocol.name),
        Verdict::Found(finding) => panic!("{finding}\nreplay: {}", replay_command(&finding, None)),
    }
}

fn finds(protocol: &Protocol, canary: Canary) -> Option<String> {
    let Searched { runs, what, .. } = protocol.search(canary, SEED, Until::Time(PATIENCE));
    match what {
        None => Some(format!("{} misses {canary:?} in {runs} runs\n", protocol.name)),
        Some(what) => {
            println!("{} finds {canary:?} in run {runs}: {what}", protocol.name);
            None
        }
    }
}

macro_rules! tests {
    ($($test:ident $name:literal)*) => {
        mod holds {
            $(#[test] fn $test() { super::holds(exploration::find($name).unwrap()); })*
        }
        mod finds {
            $(#[test] fn $test() {
                let protocol = exploration::find($name).unwrap();
                let missed: Vec<_> = protocol.canaries.iter().filter_map(|&canary| super::finds(protocol, canary)).collect();
                assert!(missed.is_empty(), "{}", missed.concat());
            })*
        }
        const TESTED: &[&str] = &[$($name),*];
    };
}

tests! {
    heap_upgrade "heap upgrade"
    first_blocks "first blocks"
    depot_exchange "depot exchange"
    remote_drain "remote drain"
    sampled_heap "sampled heap"
    sampled_forks "sampled forks"
    guarded_blocks "guarded blocks"
    span_owners "span owners"
    page_map "page map"
    signals "signals"
    hardened_heap "hardened heap"
    generations "generations"
    slots_of_the_dead "slots of the dead"
    refusals "refusals"
    cache_tuning "cache tuning"
    cache_creation "cache creation"
    array_sizes "array sizes"
    middle_sizes "middle sizes"
    watched_cache "watched cache"
    groups "groups"
    group_limits "group limits"
    group_forks "group forks"
    process_limit "process limit"
    process_limit_forks "process limit forks"
    counter_upgrade "counter upgrade"
    counter_limits "counter limits"
    fork "fork"
    fork_in_handlers "fork in handlers"
    counter_forks "counter forks"
    lock_ranks "lock ranks"
    grace_periods "grace periods"
    hand_over_hand "hand over hand"
    sections_in_sections "sections in sections"
    sections_without_kicks "sections without kicks"
    watched_slots "watched slots"
    section_forks "section forks"
    section_forks_in_handlers "section forks in handlers"
    deferred "deferred"
    worker "worker"
    deferred_forks "deferred forks"
    cell_updates "cell updates"
    registered "registered"
    registered_forks "registered forks"
    typesafe "typesafe"
    upkeep "upkeep"
    upkeep_refused "upkeep refused"
    upkeep_forks "upkeep forks"
}

#[test]
fn protocols_are_all_tested_and_have_canaries() {
    for protocol in protocols() {
        assert!(TESTED.contains(&protocol.name) && !protocol.canaries.is_empty(), "{}", protocol.name);
    }
}
