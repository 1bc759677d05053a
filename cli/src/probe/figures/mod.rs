//! What the words of the command line ask for, measured. These files are compiled for each machine, with its workload.

mod cache;
mod counters;
mod grace;
mod stagger;

use super::workload::caches::Source;
use super::workload::counters::Calls;
use super::workload::kicks::{groups, replacements};
use super::workload::primitives::primitive_ns;
use super::workload::{Threads, sections};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// What the machine has to give.
pub trait Machine: Sync {
    /// As many threads, each on a CPU of its own.
    fn threads(&self, count: u32) -> Result<impl Threads, String>;

    /// The counters of a library in C.
    fn calls(&self) -> Result<Calls, String>;

    /// malloc and free of whichever library serves the process.
    fn general_calls(&self, bytes: usize) -> Result<impl Source, String>;

    /// The functions of a library in C for a cache, which is made here, with or without a constructor.
    fn cache_calls(&self, bytes: usize, has_constructor: bool) -> Result<impl Source, String>;

    /// Bytes of this process in memory.
    fn resident(&self) -> Result<u64, String>;

    /// Interrupts by which all CPUs were told to call a function, since the machine began.
    fn interrupts(&self) -> Result<u64, String>;
}

/// Measures what the words say for a probe: the figures, or what is wrong with the words.
pub fn measure(probe: &str, words: &[&str], machine: &impl Machine) -> Result<Vec<f64>, String> {
    match probe {
        "counters" => counters::measure(words, machine),
        "cache" => cache::measure(words, machine),
        "grace" => grace::measure(words, machine),
        "primitives" => primitives(words, machine),
        "sections" => readers(words, machine),
        "stagger" => stagger::measure(words, machine),
        _ => kicks(words, machine),
    }
}

pub fn unexpected<T>(words: &[&str], expected: &str) -> Result<T, String> {
    Err(format!("the arguments are {words:?}; expected {expected}"))
}

fn named<T: FromStr<Err = &'static [&'static str]>>(word: &str) -> Result<T, String> {
    word.parse().map_err(|all: &[&str]| format!("the arm is `{word}`; expected one of {}", all.join(", ")))
}

/// The most threads that work together, and still leave a slot to whoever waits for them.
const MOST_THREADS: u32 = 1023;

/// How many threads are to be at work at once.
fn threads(word: &str) -> Result<u32, String> {
    number("number of threads", word, 1..=MOST_THREADS)
}

pub fn number<T: FromStr + PartialOrd + Display>(
    what: &str, word: &str, range: RangeInclusive<T>,
) -> Result<T, String> {
    let number = word.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("the {what} is `{word}`; expected {} to {}", range.start(), range.end()))
}

/// One arm of one row of `lab kicks`.
fn kicks(words: &[&str], machine: &impl Machine) -> Result<Vec<f64>, String> {
    // Whether they can be counted at all is known beforehand.
    machine.interrupts()?;
    let interrupts = || machine.interrupts().unwrap_or(0);
    let times = |word| number("number of groups or replacements", word, 1..=1_000_000);
    let busy_threads = |word| number("number of busy threads", word, 0..=MOST_THREADS);
    let figures = match *words {
        ["groups", many, busy, arm] => {
            let (many, kick, busy) = (times(many)?, named(arm)?, busy_threads(busy)?);
            groups(many, kick, (busy, &machine.threads(busy + 1)?), &interrupts).map(Vec::from)
        }
        ["replace", many, busy] => {
            let (many, busy) = (times(many)?, busy_threads(busy)?);
            replacements(many, (busy, &machine.threads(busy + 1)?), &interrupts).map(Vec::from)
        }
        _ => {
            return unexpected(
                words,
                "groups GROUPS BUSY ARM or replace TIMES BUSY, so many threads being busy meanwhile",
            );
        }
    };
    figures.ok_or_else(|| format!("{words:?} gave no figures: no memory, or the kernel refuses membarrier"))
}

/// A machine's own operations, for profiles.
fn primitives(words: &[&str], machine: &impl Machine) -> Result<Vec<f64>, String> {
    let [word] = *words else { return unexpected(words, "the name of a primitive") };
    let primitive: super::workload::primitives::Primitive = named(word)?;
    let threads = machine.threads(primitive.threads())?;
    Ok(vec![primitive_ns(primitive, &threads).ok_or("there is no memory for it, or the machine refuses")?])
}

/// Readers, and one that waits for them.
fn readers(words: &[&str], machine: &impl Machine) -> Result<Vec<f64>, String> {
    let [count] = *words else { return unexpected(words, "THREADS") };
    let count = threads(count)?;
    Ok(sections::sections((count, &machine.threads(count)?)).into())
}
