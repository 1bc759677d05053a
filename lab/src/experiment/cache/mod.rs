//! A dedicated cache, or the general size classes: does it pay?
//!
//! | file | part |
//! |---|---|
//! | `hackbench` | a. messages between tasks, each of which has a context, or each message |
//! | `pair` | b. an allocation and a release, alone and with a constructor; bytes of an object |
//!
//! `claims` holds what was measured against the document. Part c is `compare --arm`, on the user's own program.

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
            about: "an object cache of its own, or the general size classes",
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
            missing.push("Not measured: a and b. There is no library to preload.".to_owned());
        }
        let measured_alone = if machine.is_simulated() { Vec::new() } else { claims::claims(&parts) };
        let claims = measured_alone.into_iter().chain(claims::pairs(&parts, machine)).collect();
        let remarks = claims::remarks(&parts, machine).into_iter().chain(missing).collect();
        Ok(Outcome::of(setting, EXPLANATION, claims, remarks, parts))
    }
}

const NOT_SIMULATED: &str =
    "Not simulated: programs that are started, calls of libraries in C, constructors, and what is in memory.";

const EXPLANATION: &str = "\
Part a: hackbench -pipe 20 process 40, as the document ran it, by the program `commensal lab hackbench`. Each of its 800 tasks has a context of 904 bytes, \
from before it is created until it has ended, as the kernel allocates an audit_context in fork; it comes from a cache named context, or by a rule \
(cache.context.dedicated:off) from the general classes. hackbench's clock starts when all tasks are there: so it sees contexts released, but not \
allocated, here as in the document; wall time sees both. The second pair of arms has a context for each of the 320,000 messages, while it is sent.
Part b: 64 objects are allocated, then freed in the same order, through calls of the library's functions; general is malloc of the same library. \
The constructor fills 64 words one after the other. Bytes per object are what the process has more in memory with 20,000 objects alive.";

/// This library's malloc, its caches, and everybody else's malloc, as the probe is told.
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
