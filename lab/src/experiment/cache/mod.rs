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
use super::{Experiment, Outcome, Setting, Title};
use crate::arm::Arm;

pub const GENERAL: &str = "general";
pub const DEDICATED: &str = "dedicated";
pub const WITH_CONSTRUCTOR: &str = "dedicated with constructor";

const SOURCE: &str = "a blog post (2013): audit_alloc_context from kmalloc to a kmem_cache of its own";

/// The experiment.
pub struct Cache;

impl Experiment for Cache {
    fn title(&self) -> Title {
        Title {
            name: "cache",
            about: "Does an object cache of its own pay, compared with the general size classes?",
            source: SOURCE,
            simulates: true,
        }
    }

    fn measure(&self, setting: &Setting) -> Result<Outcome> {
        let machine = &setting.machine;
        let Measured { parts, mut missing } = if machine.is_simulated() {
            of_parts(&[pair::in_rust], setting)?
        } else {
            of_parts(&[hackbench::measure, pair::measure, pair::in_rust], setting)?
        };
        if machine.is_simulated() {
            missing.push(NOT_SIMULATED.to_owned());
        } else if library(setting).is_none() {
            missing.push("Not measured: parts a and b, because there is no library to preload.".to_owned());
        }
        let measured_alone = if machine.is_simulated() { Vec::new() } else { claims::claims(&parts) };
        let claims = measured_alone.into_iter().chain(claims::pairs(&parts, machine)).collect();
        let remarks = claims::remarks(&parts, machine).into_iter().chain(missing).collect();
        Ok(Outcome::of(setting, EXPLANATION, claims, remarks, parts))
    }
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

/// This library's malloc, its caches, and other mallocs, in the probe's words.
fn in_c(setting: &Setting) -> Option<Vec<Arm>> {
    let library = library(setting)?;
    let ours = [(GENERAL, MALLOC), (DEDICATED, CACHE)]
        .map(|(name, word)| Arm { words: vec![word.to_owned()], ..Arm::preloading(name, library) });
    let others = setting.arms.iter().filter(|arm| arm.is_peer || arm.library.is_none());
    let others = others.map(|arm| Arm { words: vec![MALLOC.to_owned()], ..arm.clone() });
    Some(ours.into_iter().chain(others).collect())
}

/// Words that the probe knows functions in C by.
const MALLOC: &str = "malloc";
const CACHE: &str = "cache";
