//! Programs that allocate: the suite by which mallocs are compared.
//!
//! Each does a fixed amount of work from a fixed seed and ends in a checksum of what it read back from its memory. The
//! checksum is the same under every allocator, in every run, and whatever order the threads run in: an allocator that
//! hands out overlapping memory is found out. [`ALL`] is the suite and [`main`] runs one of it:
//!
//! ```
//! let larson = commensal_programs::find("larson").expect("it is in the suite");
//! assert_eq!(larson.stands_for, "larson");
//! // Two percent of the work; prints 16 hexadecimal digits.
//! commensal_programs::main(&[], ["lifo", "2"].map(str::to_owned).into_iter());
//! ```
//!
//! A program runs in a process of its own and allocates from the C library's malloc, which `LD_PRELOAD` replaces; so
//! this crate must not depend on the runtime. At full scale each takes about half a second.
//!
//! Below the table (`suite`) and the command line (`command`), each program has a file or a folder; what they share is
//! in `block`, `checksum`, `map`, `resident` and `scale`.

mod block;
mod checksum;
mod command;
mod compiler;
mod cubes;
mod database;
pub mod hackbench;
mod handover;
mod interpreter;
mod large;
mod larson;
mod lifo;
mod map;
mod pair;
mod random;
mod resident;
mod scale;
mod server;
mod short_lived;
mod store;
mod stress;
mod strings;
mod suite;
mod threads;

pub use command::main;
pub use scale::Scale;
pub use suite::{ALL, PROBES, Probe, Workload, find};
