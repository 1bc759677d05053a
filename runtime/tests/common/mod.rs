//! What the tests share.
//!
//! The heap under test is `commensal_runtime::heap`, one for each process; the tests themselves allocate from the system's allocator. So
//! each test runs itself again in a process of its own ([`child`]), or each of its cases in a fork of that ([`forked`]). `COMMENSAL_TEST_EFFORT` multiplies how
//! long the longer ones take in each mode of the machine. "Planted" are bugs that a test was seen to find.

#![allow(dead_code, reason = "each test binary uses its part")]

pub mod blocks;
pub mod child;
pub mod disturbed;
pub mod forked;
pub mod forks;
pub mod model;
pub mod pages;
pub mod peak;
pub mod programs;
pub mod random;
pub mod subject;

use commensal_runtime::machine::test_support;
use std::thread;
use std::time::{Duration, Instant};

pub type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs jobs at the same time, each as a thread of its own, on this computer or on the simulated machine. Panics if one of them does.
pub fn run(jobs: Vec<Job<'_>>) {
    test_support::run(jobs, |jobs| thread::scope(|scope| jobs.into_iter().for_each(|job| drop(scope.spawn(job)))));
}

/// The process is to have had a second thread.
pub fn have_threads() {
    thread::spawn(|| ()).join().expect("no panic");
}

/// What may pass before something counts as hanging: far more than a busy machine needs.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// Seconds that one of the longer tests takes: `usual`, times what `COMMENSAL_TEST_EFFORT` says.
pub fn seconds(usual: f64) -> f64 {
    let set = std::env::var("COMMENSAL_TEST_EFFORT").ok();
    usual * set.map_or(1.0, |text| text.parse::<f64>().expect("COMMENSAL_TEST_EFFORT is a number"))
}

/// Whether something that is done again and again goes on: until `end`, and longer where not enough was done yet.
pub fn goes_on(end: Instant, is_enough: bool) -> bool {
    let now = Instant::now();
    now < end || !is_enough && now < end + PATIENCE
}
