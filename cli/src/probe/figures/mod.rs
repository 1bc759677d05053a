//! What the words of the command line ask for, measured. These files are compiled for each machine, with its workload.

mod cache;
mod counters;
mod grace;
mod kicks;
mod primitives;
mod sections;
mod stagger;

use super::workload::Threads;
use super::workload::caches::Source;
use super::workload::counters::Calls;
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
        "primitives" => primitives::measure(words, machine),
        "sections" => sections::measure(words, machine),
        "stagger" => stagger::measure(words, machine),
        _ => kicks::measure(words, machine),
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
