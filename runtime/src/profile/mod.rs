//! The heap profile: which call sites allocate and hold memory, from samples.
//!
//! [`cpu_cache::Gap`](crate::cpu_cache) says which allocations are sampled. A sampled block of any size is a large
//! block, so that its free takes a slow path, and no other free looks anything up. The block's tag leads to its entry
//! in the tables here:
//!
//! ```text
//!   block ──▶ tag: 2 × index + 1 ──▶ sample ──▶ site: stack, labels, figures
//!                                    └▶ the tag that the block had before: of its group
//! ```
//!
//! Runs at the same time: any thread, in signal handlers too, and in fork children, which go on with their parent's
//! samples. A handler above the lock's holder loses its sample, which is counted; a block that it frees waits for the
//! next holder.

mod exit;
mod gzip;
mod pace;
mod pprof;
mod reading;
mod region;
mod sampling;
mod state;
mod table;
mod tracer;

pub use crate::cpu_cache::usual_mean;
pub(crate) use exit::begin;
pub use exit::write_to;
pub use gzip::Sink;
pub use pprof::{At, write};
pub use reading::{Reading, lost, place, sites};
pub use region::{Region, Within};
pub(crate) use sampling::{Caller, count_objects, died, draw, resized, sample, tag_of, takes_samples};
pub use sampling::{is_on, start, stop};
pub use table::{DEPTH, Figures, LIFETIMES, Labels, NAME, Site};
pub(crate) use tracer::follow_tracer;
