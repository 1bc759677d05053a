//! The depot: magazines of objects beyond those that a slot has at hand, one shard for each slot and cache.
//!
//! ```text
//!   magazine words     allocation ─▶ magazine      free ─▶ magazine
//!                          ▲ full                    │ full
//!   shard                full: magazine ─▶ magazine ◀┘      empty: magazine ─▶ magazine
//!                          ▲
//!                       ring: span ⇄ span     all that the slot owns (the central tier's)
//! ```
//!
//! Full magazines wander between shards, and empty ones wander back. A [`Magazine`] belongs to the value that names it:
//! it cannot be copied, and dropping one that holds objects is a bug. What is too much in a shard goes back into the
//! spans, object by object.
//!
//! It uses the central tier below it. Source: Bonwick and Adams, "Magazines and Vmem".

mod arena;
mod batch;
mod deferred;
mod flush;
mod magazine;
mod refill;
mod reserve;
mod shard;
mod slotless;
mod spare;
mod tier;

pub use batch::{Batch, Batches};
pub use magazine::{Magazine, View};
pub use reserve::Reserve;
pub use shard::{Held, Hints};
pub use tier::Depot;
