//! Kicks: one arm of one row of `lab kicks`.

use super::super::workload::kicks::{Happened, Kick, groups, replacements};
use super::{Machine, named, number, number_in};

const EXPECTED: &str = "groups GROUPS BUSY ARM or replace TIMES BUSY, where so many threads are busy meanwhile";
/// The most groups, and replacements.
const MOST: usize = 1_000_000;
/// As many threads as a simulated machine has CPUs are busy at most.
const MOST_BUSY: usize = 1023;

/// Measures what the words say: the figures, or what is wrong with the words.
pub fn measure(words: &[&str], machine: &impl Machine) -> Result<Vec<f64>, String> {
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
        _ => return Err(format!("the arguments are {words:?}; expected {EXPECTED}")),
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
    number("number of groups or replacements", word, MOST)
}

fn busy_threads(word: &str) -> Result<u32, String> {
    Ok(number_in("number of busy threads", word, 0..=MOST_BUSY)? as u32)
}
