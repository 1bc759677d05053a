//! All caches: size classes, caches of programs and groups, and debug caches; and the heap, which joins the tiers.
//!
//! [`Heap`] holds the tiers, one inside the other. The class table finds the cache for a size; the page map finds an
//! object's cache. A block of no size class is *special*: its free takes the slow path to `serve`.

mod cache;
mod check;
mod debug;
mod errors;
mod heap;
mod object_cache;
mod reading;
mod serve;
mod sharing;
mod tests;
mod whole;

pub use cache::{Box, Cache, Constructed, Kind, OutOfMemory, Values};
pub use check::CachesFound;
pub use debug::Options;
pub(crate) use debug::die_of_mixed_caches;
pub use errors::{Alive, COARSEST, LARGEST_OBJECT, Refused, Untunable};
pub use heap::{Heap, Sharing, heap, lay_out, name, prepare};
pub(crate) use object_cache::is_plain;
pub use object_cache::{ObjectCache, OwnCache, Wanted};
#[doc(hidden)]
pub use object_cache::{allocate_slow, free_slow};
pub use reading::{CHUNK, Known, Name, Parts, Reading, Spans};
pub use serve::{Home, Server, Special};
pub use sharing::{enter, upgrade_before_a_thread, upgrade_if_shared};
