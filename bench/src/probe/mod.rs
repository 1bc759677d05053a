//! What is measured within one process: `bench probe NAME WORDS…` does it and prints the figures.

mod big;
mod blocks;
mod rcu;
mod recorder;
pub mod tail;
mod timing;

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use commensal_runtime::group::Group;
use commensal_runtime::machine::sync::{Acquired, Contention, Lock};
use commensal_runtime::machine::{here, thread};
use timing::{best_ns, mean_ns};

/// This program's first word when it is a probe.
pub const WORD: &str = "probe";

/// A probe and what its words are.
type Probe = (&'static str, &'static str, fn(&[&str]) -> Result<Vec<f64>>);

const ALL: [Probe; 11] = [
    ("big", "BLOCKS LARGE CACHES GIB: ns of the longest hold of each class of locks in a big heap", big::holds),
    ("crowd", "THREADS: ns of a malloc and a free, by a thread beside so many", blocks::crowd),
    ("full-group", "GROUPS: ns of an allocation that a full group refuses, so many alive", full_group),
    ("handover", "BYTES THREADS: ns of a block that one thread allocates and another frees", blocks::handover),
    ("idle", "THREADS KB: kB resident of threads that allocated so much each, freed it and sleep", blocks::idle),
    ("lock", "ARM: ns of taking and giving back a lock that nobody else wants", pass),
    ("many", "BYTES COUNT: how many blocks there may be", blocks::many),
    ("rcu", "read 0|1 ARM, synchronize ARM, checkpoint ARM or retire ARM: ns of one", rcu::figures),
    ("recorder", "THREADS ARM: ns of an increment of a counter that a registry has", recorder::figures),
    ("refused", "MIB: ns of a malloc that is refused with so much dirty, and MiB that it cost", blocks::refused),
    ("tail", "PROGRAM WORDS: ns of its mallocs and frees, p99.9 first", tail::figures),
];

/// Does what the words say.
pub fn run(words: &[&str]) -> Result<()> {
    let (name, words) = words.split_first().context("expected the name of a probe")?;
    let Some((_, about, measure)) = ALL.iter().find(|(known, ..)| known == name) else {
        bail!("found no probe {name}; expected one of {}", ALL.map(|(name, ..)| name).join(", "));
    };
    let figures = measure(words).with_context(|| format!("{name} {about}"))?;
    println!("{}", figures.iter().map(|figure| format!("{figure:.5}")).collect::<Vec<_>>().join(" "));
    Ok(())
}

/// A word that is a number above 0.
fn number(word: &str) -> Result<usize> {
    word.parse().ok().filter(|number| *number > 0).with_context(|| format!("found `{word}`; expected a number above 0"))
}

const BUDGET: Duration = Duration::from_millis(100);
const BYTES: usize = 64;

/// A full group of the runtime, which is inside of this program, beside many that have something.
fn full_group(words: &[&str]) -> Result<Vec<f64>> {
    let [groups] = words else { bail!("found {words:?}") };
    let group = || Group::new("tenant").ok().context("no more groups");
    let groups = (0..number(groups)?).map(|_| group()).collect::<Result<Vec<_>>>()?;
    let alive: Vec<_> = groups.iter().map(|group| group.alloc([0_u8; BYTES]).ok()).collect();
    let full = group()?;
    full.set_limit(Some(1 << 16));
    // Until it is full.
    let held: Vec<_> = std::iter::from_fn(|| full.alloc([0_u8; BYTES]).ok()).collect();
    let ns = mean_ns(BUDGET, 3, || assert!(full.alloc([0_u8; BYTES]).is_err(), "the group is full"));
    drop((held, alive));
    Ok(vec![ns])
}

const ROUNDS: usize = 1000;
const PASSES: u64 = 4000;

/// A lock of the runtime's that nobody else wants: with what would account for a wait, and without.
fn pass(words: &[&str]) -> Result<Vec<f64>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_no_probe_knows_are_told() {
        let told = |words: &[&str]| format!("{:#}", run(words).expect_err("they are wrong"));
        assert!(told(&["dinner"]).contains("found no probe dinner; expected one of big"));
        assert!(told(&["handover", "64"]).contains("BYTES THREADS"));
        assert!(told(&["idle", "0", "1"]).contains("found `0`"));
        assert!(told(&["rcu", "read", "0", "dinner"]).contains("dinner"));
        assert!(told(&["lock", "dinner"]).contains("dinner"));
        assert!(told(&["recorder", "1", "dinner"]).contains("dinner"));
    }

    #[test]
    fn full_group_refuses() {
        assert_eq!(full_group(&["3"]).expect("it is refused").len(), 1);
        assert!(full_group(&["many"]).is_err());
    }
}
