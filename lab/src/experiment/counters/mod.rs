//! Lazy counters: what it costs to have a per-CPU counter ready for many CPUs, and what waiting for a second thread saves.
//!
//! | file | part |
//! |---|---|
//! | `object` | a. an object is created, updated and destroyed; b. two threads share it; d. reading and summing |
//! | `update` | c. one update |
//! | `work` | e. fork and exec of a program that does nothing; f. longer real work: make, git |
//!
//! `claims` holds what was measured against the document. Parts a to d run the command's own probe.

mod claims;
mod object;
mod update;
mod work;

use anyhow::Result;

use super::probing::{Blocks, LESS, Measure, Measured, forms, library, measured, nanoseconds, of_parts, probe};
use super::{Experiment, LAZY_COUNTERS, Outcome, Part, Setting, Title};
use crate::parameters::Parameters;

/// Numbers of CPUs that per-CPU memory is laid out for.
const CPUS: [u64; 5] = [2, 8, 80, 256, 512];
/// The number that the other rows are measured at: the document's larger machine.
const MAIN_CPUS: u64 = 256;
/// Updates in a task.
const UPDATES: [u64; 4] = [8, 64, 512, 4096];
/// What a row that says nothing of updates has.
const USUAL_UPDATES: u64 = UPDATES[0];

const EAGER: &str = "eager";
const MERGED: &str = "merged";
const CACHED: &str = "cached";
const LAZY: &str = "lazy";
const LAZY_AND_CACHED: &str = "lazy and cached";
const FORMS: [&str; 5] = [EAGER, MERGED, CACHED, LAZY, LAZY_AND_CACHED];
const ATOMIC: &str = "atomic";
const PLAIN: &str = "plain";
const TOLD: &str = "told";
const CHECKED: &str = "checked";
const PER_CPU: &str = "per-cpu";

/// The experiment.
pub struct Counters;

/// All parts. The last two start programs, which a simulated machine has none of.
const PARTS: [Measure; 6] = [object::life, object::shared, update::measure, object::look, work::spawn, work::work];
const SIMULATED_PARTS: usize = 4;

impl Experiment for Counters {
    fn title(&self) -> Title {
        Title {
            name: "counters",
            about: "per-CPU counters for one thread: eager, or lazy",
            source: LAZY_COUNTERS,
            simulates: true,
        }
    }

    fn measure(&self, setting: &Setting) -> Result<Outcome> {
        let machine = &setting.machine;
        let possible = if machine.is_simulated() { &PARTS[..SIMULATED_PARTS] } else { &PARTS[..] };
        let Measured { parts, mut missing } = of_parts(possible, setting)?;
        if machine.is_simulated() {
            missing.push("Not simulated: programs that are started, and calls of the library in C.".to_owned());
        }
        let remarks = claims::remarks(&parts, machine).into_iter().chain(missing).collect();
        Ok(Outcome::of(setting, EXPLANATION, claims::claims(&parts), remarks, parts))
    }
}

const EXPLANATION: &str = "\
The object is modelled on the kernel's mm_struct: four counters, and two per-CPU members more. Eager: three blocks, zeroed for all CPUs; \
merged: one block; cached: one ready block, wiped when it is given back, as far as it was touched; lazy: words for the owner, and no block \
until a second thread comes; lazy and cached: then a ready block. Setting up for N possible CPUs is work for one thread, so it is \
measured for real; what many CPUs do to each other cannot be told on few, and is not claimed.
Part c: checked is a plain word behind a look at another, the least that any counter with a state does; per-cpu is a counter that has its \
cells from the beginning; told is lazy where the caller says whose the counter is. Sixteen words that are compared lie as the counters \
do, apart or side by side: some processors write two words of a line at once. Calls go to libraries, each arm's with a function of the same name.
Times of parts a to d are the best of some rounds in a process of its own for each arm and block. Bytes are counted: the object itself, and \
for each block one line of its head and (2 + rows) × its width, where rows are the CPUs that are laid out, or what was touched.";

/// Laid out for so many CPUs.
fn at_cpus(cpus: u64) -> Parameters {
    Parameters::default().with("possible_cpus", cpus)
}

/// Likewise, with so many updates in a task.
fn with_updates(cpus: u64, updates: u64) -> Parameters {
    if updates == USUAL_UPDATES { at_cpus(cpus) } else { at_cpus(cpus).with("updates", updates) }
}

/// A part that was never measured: eager arms take 1000, merged ones 500, cached ones 50 and lazy ones 5, in all metrics and rows.
#[cfg(test)]
fn example(metrics: &[crate::metric::Metric], rows: impl Iterator<Item = Parameters>) -> Part {
    let arms: Vec<_> = forms(FORMS).into_iter().zip([1000.0, 500.0, 50.0, 5.0, 5.0]).collect();
    super::figures::example(&arms, metrics, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_arms_are_told_as_the_probe_and_the_json_have_them() {
        let words: Vec<String> = forms([EAGER, LAZY_AND_CACHED]).iter().flat_map(|arm| arm.words.clone()).collect();
        assert_eq!(words, ["eager", "lazy-and-cached"]);
        assert_eq!(with_updates(256, 8), at_cpus(256), "eight updates are not named");
        assert_eq!(with_updates(256, 64).number("updates"), Some(64));
    }
}
