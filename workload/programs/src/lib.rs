//! Programs that allocate: the kernels by which mallocs are compared, and probes that measure one thing.
//!
//! Each kernel does a fixed amount of work from a fixed seed and ends in a checksum of what it read back from its
//! memory. The checksum is the same under every allocator, in every run, and in whatever order the threads run: an
//! allocator that hands out overlapping memory is found out. [`KERNELS`] is the table and [`main`] runs one of it:
//!
//! ```
//! assert!(programs::find("larson").is_some());
//! // Two percent of the work; prints 16 hexadecimal digits.
//! programs::main(&[], ["lifo", "2"].map(str::to_owned).into_iter());
//! ```
//!
//! A kernel runs in a process of its own and allocates from the C library's malloc, which `LD_PRELOAD` replaces; so
//! this crate must not depend on the runtime. At full scale each takes about half a second.
//!
//! `frame` is what the kernels share: how much work, blocks with a tag, the checksum, threads. `table` lists the
//! kernels and the probes, and `command` is the command line.

mod command;
mod frame;
pub mod hackbench;
mod kernels;
mod probes;
mod table;

pub use command::{help, main};
pub use frame::Scale;
pub use table::{Child, KERNELS, Kernel, PROBES, Probe, find};
