//! Counters: one arm of one row of `lab counters`.

use super::super::workload::counters::{
    self, Form, Turns, Updates, add_called_ns, add_called_upgraded_ns, add_others_ns, add_own_ns, add_upgraded_ns,
    shared_ns, upgrade_ns,
};
use super::{Machine, named, number, threads};

const EXPECTED: &str = "life CPUS UPDATES FORM, upgrade CPUS FORM, shared CPUS UPDATES FORM, own COUNTERS ARM, others ARM, \
                        upgraded THREADS ARM, called own, called THREADS or look CPUS SLOTS FORM";
/// What a block has rows for at most is far above it; it is what the lab asks for.
const MOST_CPUS: usize = 1024;
const MOST_UPDATES: u32 = 1 << 20;

/// Measures what the words say: the figures, or what is wrong with the words.
pub fn measure(words: &[&str], machine: &impl Machine) -> Result<Vec<f64>, String> {
    let one = |figure: Option<f64>| figure.map(|figure| vec![figure]);
    let figures = match *words {
        ["life", cpus, updates, form] => {
            let life = counters::life(self::form(form)?, self::cpus(cpus)?, self::updates(updates)?);
            life.map(|of| vec![of.task_ns, of.alive_ns, of.setup_ns, of.setup_share(), of.bytes as f64])
        }
        ["upgrade", cpus, form] => one(upgrade_ns(lazy_form(form)?, self::cpus(cpus)?)),
        ["shared", cpus, updates, form] => {
            one(shared_ns(self::form(form)?, self::cpus(cpus)?, self::updates(updates)?, &machine.threads(2)?))
        }
        ["own", turns, arm] => one(add_own_ns(self::arm(arm)?, self::turns(turns)?)),
        ["others", arm] => one(add_others_ns(self::arm(arm)?, &machine.threads(2)?)),
        ["upgraded", count, arm] => {
            let threads = threads(count)?;
            one(add_upgraded_ns(self::arm(arm)?, (threads, &machine.threads(threads)?)))
        }
        ["called", "own"] => one(add_called_ns(machine.calls()?)),
        ["called", count] => {
            let threads = threads(count)?;
            one(add_called_upgraded_ns(machine.calls()?, (threads, &machine.threads(threads)?)))
        }
        ["look", cpus, slots, form] => {
            let looked = counters::look(self::form(form)?, self::cpus(cpus)?, self::cpus(slots)? as u32);
            looked.map(|look| vec![look.read_ns, look.sum_ns])
        }
        _ => return Err(format!("the arguments are {words:?}; expected {EXPECTED}")),
    };
    figures.ok_or_else(|| {
        format!("{words:?} gave no figures: there is no memory for it, a sum was wrong, or a plain word was shared")
    })
}

fn form(word: &str) -> Result<Form, String> {
    named(word, &Form::ALL, Form::word)
}

fn lazy_form(word: &str) -> Result<Form, String> {
    named(word, &[Form::Lazy, Form::LazyAndCached], Form::word)
}

fn arm(word: &str) -> Result<Updates, String> {
    named(word, &Updates::ALL, Updates::word)
}

fn turns(word: &str) -> Result<Turns, String> {
    named(word, &Turns::ALL, Turns::word)
}

fn cpus(word: &str) -> Result<usize, String> {
    number("number of CPUs or slots", word, MOST_CPUS)
}

fn updates(word: &str) -> Result<u32, String> {
    let number =
        word.parse().ok().filter(|number: &u32| number.is_multiple_of(8) && (8..=MOST_UPDATES).contains(number));
    number.ok_or_else(|| format!("the number of updates is `{word}`; expected a multiple of 8, up to {MOST_UPDATES}"))
}
