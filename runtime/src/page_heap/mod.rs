//! Pages: the source of address space, the owner of each page, and runs of pages.
//!
//! * `PageHeap`: runs of pages under one ranked lock, coalesced when freed, and the segments they are cut from.
//! * `PageMap`: the class of an address by one load without a lock, for the fast path of free.
//! * `Span`: the description of a run that is cut into objects.
//! * `PageList`: ready spans per slot, so that slots seldom meet at the page heap.
//! * `purge` returns dirty pages of free runs to the kernel in bounded calls.
//! * `limit` says how much memory the process may hold, and `room` makes room for an allocation.
//! * `guarded`: mappings for objects, between guard pages.
//! * `Metadata`: memory for descriptions, out of line.

mod blocks;
mod check;
mod emergency;
mod free_runs;
mod freed;
pub(crate) mod guarded;
mod kept;
pub(crate) mod limit;
mod list;
mod map;
pub(crate) mod memblock;
mod metadata;
mod purge;
mod resize;
mod room;
mod runs;
mod segment;
mod segments;
mod span;
mod units;
mod unmapped;

pub use limit::Limit;
pub(crate) use list::Occupancy;
pub(crate) use map::PageMap;
pub(crate) use metadata::Metadata;
pub(crate) use purge::MOST_PURGED_AT_ONCE;
pub(crate) use runs::{PageCounts, PageHeap, Run};
pub(crate) use segment::{Huge, Segment};
pub(crate) use span::{Misuse, Span};

pub use machine::vm::PAGE;

/// log2 of the bytes that one entry of the page map covers.
const GRANULE_SHIFT: u32 = 16;
/// The unit of spans, and of the page map.
pub const GRANULE: usize = 1 << GRANULE_SHIFT;
const GRANULE_PAGES: u32 = (GRANULE / PAGE) as u32;
/// log2 of the unit that segments are aligned to and counted in.
const UNIT_SHIFT: u32 = 22;
const UNIT: usize = 1 << UNIT_SHIFT;
/// Most spans that move between a page list and the page heap in one lock hold: the largest batch.
const MOST_AT_ONCE: u32 = 8;
const MAX_SEGMENTS: usize = 1 << 14;

/// Rank of the page heap's lock: its holder takes no other lock.
const PAGE_HEAP_RANK: u8 = 3;
const PAGE_LIST_RANK: u8 = 2;
