//! What the words of the command line ask for, measured. These files are compiled for each machine, with its workload.

mod cache;
mod counters;
mod grace;
mod stagger;

use super::workload::caches::Source;
use super::workload::counters::Calls;
use super::workload::kicks::{Happened, Kick, groups, replacements};
use super::workload::primitives::{Primitive, primitive_ns};
use super::workload::sections::Sections;
use super::workload::{self, Threads};
use core::ops::RangeInclusive;

/// What the machine has to give.
pub trait Machine: Sync {
    /// Its threads.
    type Threads: Threads;

    /// As many threads, each on a CPU of its own.
    fn threads(&self, count: u32) -> Result<Self::Threads, String>;

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
        "sections" => sections(words, machine),
        "stagger" => stagger::measure(words, machine),
        _ => kicks(words, machine),
    }
}

fn named<T: Copy>(word: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    let found = all.iter().copied().find(|one| name(*one) == word);
    let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
    found.ok_or_else(|| format!("the arm is `{word}`; expected one of {}", names.join(", ")))
}

/// The most threads that work together, and still leave a slot to whoever waits for them.
const MOST_THREADS: usize = 1023;

/// How many threads are to be at work at once.
fn threads(word: &str) -> Result<u32, String> {
    number("number of threads", word, MOST_THREADS).map(|number| number as u32)
}

fn number(what: &str, word: &str, most: usize) -> Result<usize, String> {
    number_in(what, word, 1..=most)
}

fn number_in(what: &str, word: &str, range: RangeInclusive<usize>) -> Result<usize, String> {
    let number = word.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("the {what} is `{word}`; expected {} to {}", range.start(), range.end()))
}

const EXPECTED_OF_KICKS: &str =
    "groups GROUPS BUSY ARM or replace TIMES BUSY, where so many threads are busy meanwhile";
/// The most groups, and replacements.
const MOST_TIMES: usize = 1_000_000;

/// One arm of one row of `lab kicks`.
fn kicks(words: &[&str], machine: &impl Machine) -> Result<Vec<f64>, String> {
    // Whether they can be counted at all is known beforehand.
    machine.interrupts()?;
    let interrupts = || machine.interrupts().unwrap_or(0);
    let figures = match *words {
        ["groups", many, busy, arm] => {
            let (many, kick, busy) = (times(many)?, named(arm, &Kick::ALL, Kick::word)?, busy_threads(busy)?);
            groups(many, kick, (busy, &machine.threads(busy + 1)?), &interrupts).map(|of| {
                let mut figures = happened(of.happened);
                figures.extend([of.first_object_ns, of.warm_first_object_ns, of.teardown_ns as f64 / 1e9]);
                figures
            })
        }
        ["replace", many, busy] => {
            let (many, busy) = (times(many)?, busy_threads(busy)?);
            replacements(many, (busy, &machine.threads(busy + 1)?), &interrupts).map(happened)
        }
        _ => return Err(format!("the arguments are {words:?}; expected {EXPECTED_OF_KICKS}")),
    };
    figures.ok_or_else(|| {
        format!("{words:?} gave no figures: there is no memory for it, or the kernel refuses membarrier")
    })
}

fn happened(of: Happened) -> Vec<f64> {
    let own = (of.interrupts as f64 - of.background).max(0.0);
    vec![of.kicks as f64, own, of.background, of.elapsed_ns as f64 / 1e9]
}

fn times(word: &str) -> Result<usize, String> {
    number("number of groups or replacements", word, MOST_TIMES)
}

fn busy_threads(word: &str) -> Result<u32, String> {
    Ok(number_in("number of busy threads", word, 0..=MOST_THREADS)? as u32)
}

/// A machine's own operations, for profiles.
fn primitives(words: &[&str], machine: &impl Machine) -> Result<Vec<f64>, String> {
    let [word] = *words else { return Err(format!("the arguments are {words:?}; expected the name of a primitive")) };
    let primitive = named(word, &Primitive::ALL, Primitive::word)?;
    let threads = machine.threads(primitive.threads())?;
    let taken = primitive_ns(primitive, &threads).ok_or("there is no memory for it, or the machine refuses")?;
    Ok(vec![taken])
}

/// Readers, and one that waits for them.
fn sections(words: &[&str], machine: &impl Machine) -> Result<Vec<f64>, String> {
    let [count] = *words else { return Err(format!("the arguments are {words:?}; expected THREADS")) };
    let count = threads(count)?;
    let Sections { section_ns, synchronize_ns } = workload::sections::sections((count, &machine.threads(count)?));
    Ok(vec![section_ns, synchronize_ns])
}
