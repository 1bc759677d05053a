//! All caches: size classes, caches of programs and groups, and debug caches; and the heap, which joins the tiers.
//!
//! The class table finds the cache for a size; the page map finds an object's cache. A block of no size class is
//! *special*: its free takes the slow path to `serve`.

mod cache;
mod calls;
mod check;
mod debug;
mod errors;
mod guard;
mod harden;
mod heap;
mod many;
mod object_cache;
mod reading;
mod serve;
mod sharing;
mod tests;
mod whole;

pub use cache::{Box, Cache, Constructed, OutOfMemory, Values};
pub(crate) use calls::{DEPTH as MOST_CALLS, calls};
pub(crate) use debug::report_mixed_caches;
pub use errors::{Alive, Refused, Untunable};
pub(crate) use guard::skipped as guards_skipped;
pub use heap::Heap;
pub(crate) use heap::{heap, known_at, lay_out, made_at, name, prepare};
pub(crate) use object_cache::is_plain;
pub use object_cache::{ObjectCache, Wanted};
#[doc(hidden)]
pub use object_cache::{allocate_slow, free_slow};
pub(crate) use reading::{CHUNK, Parts, Reading, Spans};
pub use serve::Home;
pub(crate) use serve::Special;
pub(crate) use sharing::enter;
pub use sharing::{upgrade_before_a_thread, upgrade_if_shared};
