//! Counters: one arm of one row of `lab counters`.

use super::super::workload::counters::{
    add_called_ns, add_called_upgraded_ns, add_others_ns, add_own_ns, add_upgraded_ns, life, look, shared_ns, steady,
    upgrade_ns,
};
use super::{Machine, named, number, threads, unexpected};

const EXPECTED: &str = "life CPUS UPDATES FORM, upgrade CPUS lazy|lazy-and-cached, shared CPUS UPDATES FORM, \
                        own COUNTERS ARM, others ARM, upgraded THREADS ARM, steady THREADS, called own, called THREADS or \
                        look CPUS SLOTS FORM";
const MOST_UPDATES: u32 = 1 << 20;

/// Measures what the words say: the figures, or what is wrong with the words.
pub fn measure(words: &[&str], machine: &impl Machine) -> Result<Vec<f64>, String> {
    let one = |figure: Option<f64>| figure.map(|figure| vec![figure]);
    let cpus_of = |word| number("number of CPUs", word, 1..=1024);
    let figures = match *words {
        ["life", cpus, updates, form] => life(named(form)?, cpus_of(cpus)?, updates_of(updates)?).map(Vec::from),
        ["upgrade", cpus, form @ ("lazy" | "lazy-and-cached")] => one(upgrade_ns(named(form)?, cpus_of(cpus)?)),
        ["shared", cpus, updates, form] => {
            one(shared_ns(named(form)?, cpus_of(cpus)?, updates_of(updates)?, &machine.threads(2)?))
        }
        ["own", turns, arm] => one(add_own_ns(named(arm)?, named(turns)?)),
        ["others", arm] => one(add_others_ns(named(arm)?, &machine.threads(2)?)),
        ["upgraded", count, arm] => {
            let count = threads(count)?;
            one(add_upgraded_ns(named(arm)?, (count, &machine.threads(count)?)))
        }
        ["steady", count] => {
            let count = threads(count)?;
            steady((count, &machine.threads(count)?)).map(Vec::from)
        }
        ["called", "own"] => one(add_called_ns(machine.calls()?)),
        ["called", count] => {
            let count = threads(count)?;
            one(add_called_upgraded_ns(machine.calls()?, (count, &machine.threads(count)?)))
        }
        ["look", cpus, slots, form] => {
            look(named(form)?, cpus_of(cpus)?, number("number of slots", slots, 1..=1024)?).map(Vec::from)
        }
        _ => return unexpected(words, EXPECTED),
    };
    figures.ok_or_else(|| {
        format!("{words:?} gave no figures: there is no memory for it, a sum was wrong, or a plain word was shared")
    })
}

fn updates_of(word: &str) -> Result<u32, String> {
    let number =
        word.parse().ok().filter(|number: &u32| number.is_multiple_of(8) && (8..=MOST_UPDATES).contains(number));
    number.ok_or_else(|| format!("the number of updates is `{word}`; expected a multiple of 8, up to {MOST_UPDATES}"))
}
