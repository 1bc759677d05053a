//! A lock of the runtime's that nobody else wants: with what would account for a wait, and without.

use std::hint::black_box;

use anyhow::{Result, bail};
use commensal::machine::sync::{Acquired, Contention, Lock};
use commensal::machine::{here, thread};

use super::timing::best_ns;

const ROUNDS: usize = 1000;
const PASSES: u64 = 4000;

/// Takes and gives it back.
pub fn pass(words: &[&str]) -> Result<Vec<f64>> {
    thread::enter();
    let (lock, contention) = (Lock::<3>::new(), Contention::new());
    let (lock, contention) = (black_box(&lock), black_box(&contention));
    let ns = match words {
        ["without-accounting"] => pass_ns(lock, || lock.try_acquire()),
        ["with-accounting"] => pass_ns(lock, || lock.acquire(contention, here!()) == Acquired::Clean),
        _ => bail!("found {words:?}; expected with-accounting or without-accounting"),
    };
    Ok(vec![ns])
}

#[inline(never)]
fn pass_ns(lock: &Lock<3>, acquire: impl Fn() -> bool) -> f64 {
    best_ns(ROUNDS, PASSES, |passes| {
        for _ in 0..passes {
            assert!(acquire(), "nobody else has the lock");
            // SAFETY: acquired above.
            unsafe { lock.release() };
        }
    })
}
