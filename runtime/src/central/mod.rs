//! The central tier: the spans of each cache, and the objects in them.
//!
//! A cache cuts its objects from spans. Each span belongs to one slot's shard of its cache, and that shard's lock
//! guards it. [`Central`] takes ranges of objects out of a shard's spans, and returns objects to the span that they lie
//! in, whoever owns it. There misuse is found.
//!
//! It uses the page heap below it, and knows neither magazines nor what a cache is for: a [`CacheRef`] names a cache,
//! its [`Shape`] says how large objects are, and a [`CacheState`] keeps what else is known of a cache that a program
//! made.

mod cache_ref;
mod cache_state;
mod charged;
mod chunk;
mod label;
mod load;
mod objects;
mod ring;
mod shape;
mod shard;
mod shrinking;
pub mod size_class;
mod subrelease;
mod tally;
mod tier;
mod typesafe;
mod waiting;

pub use cache_ref::{CacheRef, ChunkHead, NO_SLOT, SHARD_RANK, STRIDE};
pub use cache_state::{CacheState, Home, Hook, ObjectHook};
pub use charged::Charged;
pub use chunk::{Descriptor, release_chunk, reserve_chunk};
pub use label::{CacheName, Label, NAME_BYTES};
pub use load::{COARSE_NS, FURTHEST, HIGHEST_RATE, Load, Path, coarse_of, coarse_time, units_since};
pub use objects::{Returned, Source};
pub use ring::Ring;
pub use shape::{MANY_SLOTS, MOST_POINTERS, Shape};
pub use shard::Held;
pub use shrinking::{PINNED, Shrinking};
pub use subrelease::Subreleased;
pub use tally::Tally;
pub use tier::Central;
pub use typesafe::NOBODY;
