//! The units of the page heap.

use machine::vm::PAGE;

/// log2 of the bytes that one entry of the page map covers.
pub const GRANULE_SHIFT: u32 = 16;
/// The unit of spans, and of the page map.
pub const GRANULE: usize = 1 << GRANULE_SHIFT;
pub const GRANULE_PAGES: u32 = (GRANULE / PAGE) as u32;
/// log2 of the unit that segments are aligned to and counted in.
pub const UNIT_SHIFT: u32 = 22;
pub const UNIT: usize = 1 << UNIT_SHIFT;
/// Most spans that move between a page list and the page heap in one lock hold: the largest batch.
pub const MOST_AT_ONCE: u32 = 8;
pub const MAX_SEGMENTS: usize = 1 << 14;
