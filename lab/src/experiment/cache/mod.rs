//! Does a dedicated cache pay, compared with the general size classes?
//!
//! | file | part |
//! |---|---|
//! | `hackbench` | a. messages between tasks, each of which has a context, or each message |
//! | `pair` | b. an allocation and a release, alone and with a constructor; bytes of an object |
//!
//! `claims` compares what was measured with the document. Part c is `compare --arm`, on the user's own program.

mod claims;
mod hackbench;
mod pair;

use anyhow::Result;

use super::probing::{Measured, library, of_parts};
use super::{Experiment, Outcome, Setting};

pub const GENERAL: &str = "general";
pub const DEDICATED: &str = "dedicated";
pub const WITH_CONSTRUCTOR: &str = "dedicated with constructor";

const SOURCE: &str = "a blog post (2013): audit_alloc_context from kmalloc to a kmem_cache of its own";

pub const CACHE: Experiment = Experiment {
    name: "cache",
    about: "Does an object cache of its own pay, compared with the general size classes?",
    source: SOURCE,
    simulates: true,
    measure,
};

/// All parts; a simulated machine has the last one only.
const PARTS: [fn(&Setting) -> Result<Measured>; 3] = [hackbench::measure, pair::measure, pair::in_rust];

fn measure(setting: &Setting) -> Result<Outcome> {
    let machine = &setting.machine;
    let possible = if machine.is_simulated() { &PARTS[2..] } else { &PARTS };
    let Measured { parts, mut missing } = of_parts(possible, setting, |part| part(setting))?;
    let mut claims = Vec::new();
    if machine.is_simulated() {
        missing.push(NOT_SIMULATED.to_owned());
    } else {
        claims.extend(claims::claims(&parts));
        if library(setting).is_none() {
            missing.push("Not measured: parts a and b, because there is no library to preload.".to_owned());
        }
    }
    claims.extend(claims::pairs(&parts, machine));
    let remarks = claims::remarks(&parts, machine).into_iter().chain(missing).collect();
    Ok(Outcome::of(setting, EXPLANATION, claims, remarks, parts))
}

const NOT_SIMULATED: &str = "Not simulated: starts of programs, calls of C libraries, constructors, and memory in use.";

const EXPLANATION: &str = "\
Part a: hackbench -pipe 20 process 40, as in the document, run by `commensal lab hackbench`. Each of its 800 tasks has a \
context of 904 bytes from before its creation until after its end, as the kernel allocates an audit_context in fork. Contexts \
come from a cache named \"context\" (dedicated), or from the general size classes by the setting \
cache.context.dedicated:off (general). hackbench starts its clock when all tasks are ready. So its time includes the release \
of contexts, but not their allocation, as in the document. Wall time includes both. The second row allocates a context for \
each of the 320,000 messages instead.
Part b: the program allocates 64 objects and frees them in the same order, by calls of the library. \"general\" is malloc of \
the same library. The constructor fills 64 words. Bytes per object are the additional memory of the process with 20,000 \
objects alive.";
