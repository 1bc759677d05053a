//! A lock that nobody else wants, taken and given back: with what would account for a wait, and without. One measurement in a process of
//! its own.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use commensal::machine::sync::{Acquired, Contention, Lock};
use commensal::machine::{here, thread};

/// This program's first word when it makes one measurement for that.
pub const WORD: &str = "measure-lock";
/// The arms: the one that the other is held against first.
pub const ARMS: [&str; 2] = [WITHOUT, WITH];
const WITHOUT: &str = "without accounting";
pub const WITH: &str = "with accounting";

const PASSES: u32 = 4000;
const BUDGET: Duration = Duration::from_millis(20);

/// Makes one measurement, and prints it: nanoseconds of one pass.
pub fn probe(arm: Option<String>) -> Result<bool> {
    thread::enter();
    let (lock, contention) = (Lock::<3>::new(), Contention::new());
    let (lock, contention) = (black_box(&lock), black_box(&contention));
    let ns = match arm.as_deref() {
        Some(WITHOUT) => pass_ns(lock, || lock.try_acquire()),
        Some(WITH) => pass_ns(lock, || lock.acquire(contention, here!()) == Acquired::Clean),
        other => bail!("{WORD} wants one of {ARMS:?}; found {other:?}"),
    };
    println!("{ns:.5}");
    Ok(true)
}

/// The best round.
#[inline(never)]
fn pass_ns(lock: &Lock<3>, acquire: impl Fn() -> bool) -> f64 {
    let (start, mut best) = (Instant::now(), Duration::MAX);
    while start.elapsed() < BUDGET {
        let round = Instant::now();
        for _ in 0..PASSES {
            assert!(acquire(), "nobody else has the lock");
            // SAFETY: acquired above.
            unsafe { lock.release() };
        }
        best = best.min(round.elapsed());
    }
    best.as_nanos() as f64 / f64::from(PASSES)
}
