//! Pages: the source of address space, the owner of each page, and runs of pages.
//!
//! * [`PageHeap`]: runs of pages under one ranked lock, coalesced when freed, and the segments they are cut from.
//! * [`PageMap`]: the class of an address by one load without a lock, for the fast path of free.
//! * [`Span`]: the description of a run that is cut into objects.
//! * [`PageList`]: ready spans per slot, so that slots seldom meet at the page heap.
//! * `purge` returns dirty pages of free runs to the kernel in bounded calls.
//! * [`Metadata`]: memory for descriptions, out of line.

mod bins;
mod blocks;
mod check;
mod deferred;
mod emergency;
mod free_runs;
mod list;
mod map;
mod metadata;
mod purge;
mod runs;
mod segment;
mod segments;
mod sizes;
mod span;
mod tags;
mod units;

pub use list::{Occupancy, PageList};
pub use map::PageMap;
pub use metadata::Metadata;
pub use purge::MOST_PURGED_AT_ONCE;
pub use runs::{PageCounts, PageHeap, Run};
pub use segment::{Owner, Segment};
pub(crate) use segments::reserve_aligned;
pub use sizes::GRANULE;
pub use span::{Misuse, Span};

pub use machine::vm::PAGE;

/// Rank of the page heap's lock: its holder takes no other lock.
pub const PAGE_HEAP_RANK: u8 = 3;
/// Rank of a page list's lock.
pub const PAGE_LIST_RANK: u8 = 2;
