//! What the words of the command line ask for, measured. This file is compiled for each machine, with its workload.

use super::workload::Threads;
use super::workload::counters::{
    self, Calls, Form, Turns, Updates, add_called_ns, add_called_upgraded_ns, add_others_ns, add_own_ns,
    add_upgraded_ns, shared_ns, upgrade_ns,
};

const EXPECTED: &str = "life CPUS UPDATES FORM, upgrade CPUS FORM, shared CPUS UPDATES FORM, own COUNTERS ARM, others ARM, \
                        upgraded THREADS ARM, called own, called THREADS or look CPUS SLOTS FORM";
/// What a block has rows for at most is far above it; it is what the lab asks for.
const MOST_CPUS: usize = 1024;
const MOST_UPDATES: u32 = 1 << 20;

/// What the machine has to give.
pub trait Machine {
    /// Its threads.
    type Threads: Threads;

    /// As many threads, each on a CPU of its own.
    fn threads(&self, count: u32) -> Result<Self::Threads, String>;

    /// The counters of a library in C.
    fn calls(&self) -> Result<Calls, String>;
}

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
        ["upgraded", threads @ ("1" | "2"), arm] => {
            let threads = if threads == "1" { 1 } else { 2 };
            one(add_upgraded_ns(self::arm(arm)?, (threads, &machine.threads(threads)?)))
        }
        ["called", "own"] => one(add_called_ns(machine.calls()?)),
        ["called", threads @ ("1" | "2")] => {
            let threads = if threads == "1" { 1 } else { 2 };
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

fn named<T: Copy>(word: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    let found = all.iter().copied().find(|one| name(*one) == word);
    let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
    found.ok_or_else(|| format!("the arm is `{word}`; expected one of {}", names.join(", ")))
}

fn cpus(word: &str) -> Result<usize, String> {
    let number = word.parse().ok().filter(|number| (1..=MOST_CPUS).contains(number));
    number.ok_or_else(|| format!("the number of CPUs or slots is `{word}`; expected 1 to {MOST_CPUS}"))
}

fn updates(word: &str) -> Result<u32, String> {
    let number =
        word.parse().ok().filter(|number: &u32| number.is_multiple_of(8) && (8..=MOST_UPDATES).contains(number));
    number.ok_or_else(|| format!("the number of updates is `{word}`; expected a multiple of 8, up to {MOST_UPDATES}"))
}
