//! `commensal workload counters WHAT …`: one arm of one row of the lab's counters, in a process of its own.
//!
//! Here are the threads and the printing; what is done is in the package `workload`, which has neither. The probe is run before the command
//! line is parsed, as the bundled programs are, which know nothing of the runtime and so cannot have it. A line on standard output
//! has the figures.

use std::ffi::CStr;
use std::process::ExitCode;
use std::{mem, thread};

use commensal_workload::Threads;
use commensal_workload::counters::{
    self, AddFunction, Calls, Form, ShareFunction, SumFunction, Turns, Updates, add_called_ns, add_called_upgraded_ns,
    add_others_ns, add_own_ns, add_upgraded_ns, shared_ns, upgrade_ns,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The probe's name, where bundled programs have theirs.
pub const NAME: &str = "counters";

const EXPECTED: &str = "life CPUS UPDATES FORM, upgrade CPUS FORM, shared CPUS UPDATES FORM, own COUNTERS ARM, others ARM, \
                        upgraded THREADS ARM, called own, called THREADS or look CPUS SLOTS FORM";
/// What a block has rows for at most is far above it; it is what the lab asks for.
const MOST_CPUS: usize = 1024;
const MOST_UPDATES: u32 = 1 << 20;

/// Measures what the words say and prints the figures; or says what is wrong with them, status 2.
pub fn main(words: impl Iterator<Item = String>) -> ExitCode {
    let words: Vec<String> = words.collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match measure(&words) {
        Ok(figures) => {
            let figures: Vec<String> = figures.iter().map(|figure| format!("{figure:.5}")).collect();
            println!("{}", figures.join(" "));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("workload: {NAME}: {why}");
            ExitCode::from(2)
        }
    }
}

fn measure(words: &[&str]) -> Result<Vec<f64>, String> {
    let one = |figure: Option<f64>| figure.map(|figure| vec![figure]);
    let figures = match *words {
        ["life", cpus, updates, form] => {
            let life = counters::life(self::form(form)?, self::cpus(cpus)?, self::updates(updates)?);
            life.map(|of| vec![of.task_ns, of.alive_ns, of.setup_ns, of.setup_share(), of.bytes as f64])
        }
        ["upgrade", cpus, form] => one(upgrade_ns(lazy_form(form)?, self::cpus(cpus)?)),
        ["shared", cpus, updates, form] => {
            one(shared_ns(self::form(form)?, self::cpus(cpus)?, self::updates(updates)?, &pinned(2)?))
        }
        ["own", turns, arm] => one(add_own_ns(self::arm(arm)?, self::turns(turns)?)),
        ["others", arm] => one(add_others_ns(self::arm(arm)?, &pinned(2)?)),
        ["upgraded", threads @ ("1" | "2"), arm] => {
            let threads = if threads == "1" { 1 } else { 2 };
            one(add_upgraded_ns(self::arm(arm)?, (threads, &pinned(threads)?)))
        }
        ["called", "own"] => one(add_called_ns(calls()?)),
        ["called", threads @ ("1" | "2")] => {
            let threads = if threads == "1" { 1 } else { 2 };
            one(add_called_upgraded_ns(calls()?, (threads, &pinned(threads)?)))
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

/// The counters of whichever library is preloaded.
fn calls() -> Result<Calls, String> {
    let [add, share, sum] =
        [function(c"cm_counter_add")?, function(c"cm_counter_share")?, function(c"cm_counter_sum")?];
    // SAFETY: they are what the header says of them, and a counter has as many words.
    unsafe {
        Ok(Calls {
            add: mem::transmute::<Function, AddFunction>(add),
            share: mem::transmute::<Function, ShareFunction>(share),
            sum: mem::transmute::<Function, SumFunction>(sum),
        })
    }
}

type Function = *mut libc::c_void;

fn function(name: &CStr) -> Result<Function, String> {
    // SAFETY: looks the name up.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() {
        return Err(format!("there is no function {}: a library with it has to be preloaded", name.to_string_lossy()));
    }
    Ok(found)
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

/// Threads that stay where they are: the scheduler might put two that wait for each other on one CPU.
struct Pinned {
    cpus: Vec<usize>,
}

fn pinned(threads: u32) -> Result<Pinned, String> {
    let allowed = sched_getaffinity(None).map_err(|error| format!("cannot ask for the CPUs to run on ({error})"))?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    if cpus.len() < threads as usize {
        return Err(format!("{threads} threads at once need as many CPUs, and there is {}", cpus.len()));
    }
    Ok(Pinned { cpus })
}

impl Threads for Pinned {
    fn run(&self, count: u32, work: &(dyn Fn(u32) + Sync)) {
        thread::scope(|scope| {
            for (number, &cpu) in (0..count).zip(&self.cpus) {
                scope.spawn(move || {
                    let mut one = CpuSet::new();
                    one.set(cpu);
                    // Where it is forbidden, it is measured as the scheduler has it.
                    let _ = sched_setaffinity(None, &one);
                    work(number);
                });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_arguments_are_named() {
        for (words, named) in [
            (&["life", "256", "8", "late"][..], "`late`; expected one of eager, merged, cached, lazy, lazy-and-cached"),
            (&["life", "0", "8", "lazy"], "`0`; expected 1 to 1024"),
            (&["life", "1025", "8", "lazy"], "`1025`"),
            (&["life", "8", "9", "lazy"], "`9`; expected a multiple of 8"),
            (&["upgrade", "8", "eager"], "`eager`; expected one of lazy, lazy-and-cached"),
            (&["own", "2", "lazy"], "`2`; expected one of one, apart, in-set"),
            (&["upgraded", "3", "lazy"], "expected life CPUS"),
            (&["called", "3"], "expected life CPUS"),
            (&["called", "own"], "has to be preloaded"),
            (&["others", "plain"], "a plain word was shared"),
            (&["dinner"], "dinner"),
            (&[], "[]"),
        ] {
            let why = measure(words).expect_err("they are wrong");
            assert!(why.contains(named) && !why.contains('\n'), "{words:?}: {why}");
        }
    }

    #[test]
    fn each_prints_as_many_figures_as_it_has() {
        for (words, figures) in [
            (&["life", "8", "64", "eager"][..], 5),
            (&["upgrade", "8", "lazy"], 1),
            (&["own", "apart", "told"], 1),
            (&["look", "8", "2", "lazy-and-cached"], 2),
        ] {
            let measured = measure(words).unwrap_or_else(|why| panic!("{words:?}: {why}"));
            assert_eq!(measured.len(), figures, "{words:?}");
            assert!(measured.iter().all(|figure| figure.is_finite() && *figure >= 0.0), "{words:?}: {measured:?}");
        }
    }
}
