//! What the tests share.
//!
//! The heap under test is `commensal::heap`, one for each process; the tests themselves allocate from the system's allocator. So
//! each test runs itself again in a process of its own ([`child`]), or each of its cases in a fork of that ([`forked`]).

#![allow(dead_code, reason = "each test binary uses its part")]

pub mod accounts;
pub mod blocks;
pub mod child;
pub mod disturbed;
pub mod forked;
pub mod forks;
pub mod model;
pub mod peak;
pub mod planted;
pub mod programs;
pub mod random;

use commensal::machine::test_support;
use std::thread;

/// What a thread does.
pub type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs jobs at the same time, each as a thread of its own, on this computer or on the simulated machine. Panics if one of them does.
pub fn run(jobs: Vec<Job<'_>>) {
    test_support::run(jobs, |jobs| thread::scope(|scope| jobs.into_iter().for_each(|job| drop(scope.spawn(job)))));
}

/// Seconds that the longer tests take: what COMMENSAL_STRESS_SECONDS says, else `usual`.
pub fn seconds(usual: f64) -> f64 {
    let set = std::env::var("COMMENSAL_STRESS_SECONDS").ok();
    set.map_or(usual, |text| text.parse().expect("COMMENSAL_STRESS_SECONDS is a number"))
}
