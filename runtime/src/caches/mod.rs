//! All caches: size classes, caches of programs and groups, and debug caches; and the heap, which joins the tiers.
//!
//! [`Heap`] holds the tiers, one inside the other. The class table finds the cache for a size; the page map finds an
//! object's cache. A block of no size class is *special*: its free takes the slow path to `special`.

mod batch;
mod cache;
mod check;
mod class_table;
mod debug;
mod end;
mod errors;
mod heap;
mod object_cache;
mod own;
mod reading;
mod region;
mod serve;
mod sharing;
mod special;
mod table;
mod tests;
mod tune;

pub use batch::Home;
pub use cache::{Box, Cache, Constructed, Kind, OutOfMemory, Values};
pub use check::CachesFound;
pub use debug::Options;
pub(crate) use debug::die_of_mixed_caches;
pub use errors::{Alive, COARSEST, LARGEST_OBJECT, Refused, Untunable};
pub use heap::{Heap, Sharing, heap};
pub(crate) use object_cache::is_plain;
pub use object_cache::{ObjectCache, Wanted};
#[doc(hidden)]
pub use object_cache::{allocate_slow, free_slow};
pub use own::OwnCache;
pub use reading::{CHUNK, Known, Name, Parts, Reading, Spans};
pub use region::{lay_out, name};
pub use serve::Server;
pub use sharing::{enter, upgrade_before_a_thread, upgrade_if_shared};
pub use special::Special;
