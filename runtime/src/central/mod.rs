//! The central tier: the spans of each cache, and the objects in them.
//!
//! A cache carves its objects from spans. Each span belongs to one slot's shard, whose lock guards it. `Central`
//! takes ranges of objects out of a shard's spans. It returns objects to their spans, in any shard, and finds misuse.
//!
//! This tier uses the page heap and knows neither magazines nor the purpose of a cache. A `CacheRef` names a cache,
//! and its `Shape` gives the size of its objects. A `CacheState` holds the rest for a cache that a program made.

mod cache_ref;
mod cache_state;
mod charged;
mod chunk;
mod label;
mod load;
mod objects;
mod part;
mod ring;
mod shape;
mod shrinking;
pub mod size_class;
mod subrelease;
mod tally;
mod tier;
mod typesafe;
mod waiting;

pub(crate) use cache_ref::{CacheRef, ChunkHead, NO_SLOT, STRIDE};
pub use cache_state::Hook;
pub(crate) use cache_state::{CacheState, Home, ObjectHook};
pub(crate) use charged::{CachesBelow, Charged};
pub(crate) use chunk::{Descriptor, release_chunk, reserve_chunk};
pub(crate) use label::CacheName;
pub(crate) use load::{FURTHEST, HIGHEST_RATE, Path, coarse_of, coarse_time, units_since};
pub(crate) use objects::{Returned, Source};
pub(crate) use part::{Caches, Part};
pub(crate) use shape::{MOST_POINTERS, Shape, depot_budget};
pub(crate) use shrinking::PINNED;
pub(crate) use subrelease::Subreleased;
pub(crate) use tally::Tally;
pub(crate) use tier::{Central, Held};
pub(crate) use typesafe::NOBODY;
