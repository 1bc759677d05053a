//! Lazy counters: the cost of a per-CPU counter for many CPUs, and what is saved by waiting for a second thread.
//!
//! | file | part |
//! |---|---|
//! | `object` | a. an object is created, updated and destroyed; b. two threads share it; d. reading and summing |
//! | `update` | c. one update |
//! | `work` | e. fork and exec of a program that does nothing; f. longer real work: make, git |
//!
//! `claims` compares what was measured with the document. Parts a to d run the command's own probe.

mod claims;
mod object;
mod update;
mod work;

use anyhow::Result;

use super::probing::{Blocks, Measured, forms, library, measured, nanoseconds, of_parts, part};
use super::{Experiment, LAZY_COUNTERS, Outcome, Part, Setting};
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

pub const COUNTERS: Experiment = Experiment {
    name: "counters",
    about: "What do per-CPU counters cost one thread, eager or lazy?",
    source: LAZY_COUNTERS,
    simulates: true,
    measure,
};

/// All parts. The last two start programs, which a simulated machine has none of.
const PARTS: [fn(&Setting) -> Result<Measured>; 7] =
    [object::life, object::upgrade, object::shared, update::measure, object::look, work::spawn, work::work];
const SIMULATED_PARTS: usize = 5;

fn measure(setting: &Setting) -> Result<Outcome> {
    let machine = &setting.machine;
    let possible = if machine.is_simulated() { SIMULATED_PARTS } else { PARTS.len() };
    let Measured { parts, mut missing } = of_parts(&PARTS[..possible], setting, |part| part(setting))?;
    if machine.is_simulated() {
        missing.push("Not simulated: starts of programs.".to_owned());
    }
    let remarks = claims::remarks(&parts, machine).into_iter().chain(missing).collect();
    Ok(Outcome::of(setting, EXPLANATION, claims::claims(&parts), remarks, parts))
}

const EXPLANATION: &str = "\
The object is modelled on the kernel's mm_struct: it has four counters and two other per-CPU members. The arms:
  eager: three blocks, zeroed for all CPUs
  merged: one block, zeroed for all CPUs
  cached: one ready block; what was touched of it is zeroed when it is freed
  lazy: plain words for the owner, and a block when a second thread comes
  lazy and cached: the same with a ready block
One thread sets up the memory of N possible CPUs, so this is measured here. How CPUs disturb each other is not.
Part c: \"checked\" is a plain word behind a test of another word, the least that a counter with a state does. \"per-cpu\" has \
its cells from the start. \"told\" is lazy, and the caller says whether it owns the counter. Sixteen counters lie apart or side \
by side, since some processors write two words of a line at once.
Parts a to d: a time is the best of several rounds, in a new process for each arm and block. Bytes are counted: the object, \
and for each block a header line and (2 + rows) × its width, with a row for each CPU that is laid out or touched.";

/// Laid out for this many CPUs.
fn at_cpus(cpus: u64) -> Parameters {
    Parameters::default().with("possible_cpus", cpus)
}

/// The same with this many updates in a task.
fn with_updates(cpus: u64, updates: u64) -> Parameters {
    if updates == USUAL_UPDATES { at_cpus(cpus) } else { at_cpus(cpus).with("updates", updates) }
}

/// A part that was never measured: eager arms take 1000, merged ones 500, cached ones 50 and lazy ones 5, in all metrics and rows.
#[cfg(test)]
fn example(metrics: &[crate::metric::Metric], rows: impl Iterator<Item = Parameters>) -> Part {
    let arms: Vec<_> = forms(FORMS).into_iter().zip([1000.0, 500.0, 50.0, 5.0, 5.0]).collect();
    super::figures::example(&arms, metrics, rows)
}
