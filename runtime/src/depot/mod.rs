//! The depot: full and empty magazines beyond the slots' own, in one shard for each slot and cache.
//!
//! ```text
//!   magazine words     allocation ─▶ magazine      free ─▶ magazine
//!                          ▲ full                    │ full
//!   shard                full: magazine ─▶ magazine ◀┘      empty: magazine ─▶ magazine
//!                          ▲
//!                       ring: span ⇄ span     all that the slot owns (the central tier's)
//! ```
//!
//! Full magazines wander between shards, and empty ones wander back: a slot steals those that another one freed, and
//! gets the next ones at once. A [`Magazine`] value owns its memory: it cannot be copied, and dropping one with objects
//! is a bug. A shard's surplus goes back to the spans, object by object.
//!
//! It uses the central tier. Source: Bonwick and Adams, "Magazines and Vmem".

mod batch;
mod magazine;
mod spare;
mod stack;
mod tier;
mod transfer;

pub use batch::{Batch, Batches};
pub use magazine::{Magazine, View};
pub use spare::Reserve;
pub use tier::{Depot, Held, Hints};
