//! Says about a pointer that begins no block in use whether it is freed twice, leads into a block, or is foreign.
//!
//! The memory of a free run was in use before, so a free there is a double free. A page where a large block began keeps
//! a mark (`Page::was_freed`) until a run in use begins there again: a later block may begin before it and hold it.

use super::PAGE;
use super::free_runs::FreeRuns;
use super::runs::PageHeap;
use super::segment::{Kind, Owner, Segment};
use crate::misuse::{Found, Object};
use crate::observe::page::Text;
use machine::here;
use machine::sync::Ordering;

impl PageHeap {
    /// Tells about a pointer that leads to no object of a span and to no start of a large block in use.
    #[cold]
    pub(crate) fn found_at(&self, address: *mut u8) -> Found {
        // Without the lock, in a handler above its holder, less can be told.
        match self.find(address) {
            Some(block) if block.owner() == Owner::Block => inside(block.start(), block.bytes()),
            Some(segment) => self.locked(here!(), |_| found_in(segment, address)).unwrap_or(Found::Interior(None)),
            None if self.emergency.has_page(address) => Found::DoubleFree(None),
            None => self.locked(here!(), |state| self.found_outside(state, address)).unwrap_or(Found::Foreign),
        }
    }

    /// For an address in none of the units that are entered, under the lock. Of a block, only the first unit is.
    fn found_outside(&self, state: &FreeRuns, address: *mut u8) -> Found {
        let mut found = None;
        self.units.for_each(|segment| {
            if segment.owner() == Owner::Block && segment.holds(address) {
                found = Some(inside(segment.start(), segment.bytes()));
            }
        });
        let mut unmapped = (1..=self.segment_count.load(Ordering::Relaxed)).map(|number| state.segment(number));
        let was_freed = state.unmapped.has(address)
            || unmapped.any(|segment| {
                segment.owner() == Owner::Nobody && segment.holds(address) && is_marked(segment, address)
            });
        found.unwrap_or(if was_freed { Found::DoubleFree(None) } else { Found::Foreign })
    }
}

fn is_marked(segment: &Segment, address: *mut u8) -> bool {
    let page = segment.page_of(address);
    (address as usize).is_multiple_of(PAGE) && page < segment.pages() && segment.page(page).was_freed
}

fn inside(start: *mut u8, bytes: usize) -> Found {
    Found::Interior(Some(Object { start, bytes, cache: Text::NONE }))
}

/// Under the page heap's lock.
fn found_in(segment: &Segment, address: *mut u8) -> Found {
    let page = segment.page_of(address);
    if is_marked(segment, address) {
        return Found::DoubleFree(None);
    }
    if (segment.low.get()..segment.high.get()).contains(&page) {
        return Found::Foreign;
    }
    let Some(first) = (0..=page).rev().find(|&at| segment.page(at).kind != Kind::Inside) else { return Found::Foreign };
    let run = segment.page(first);
    match run.kind {
        Kind::Large | Kind::Tagged if segment.address(first) != address => {
            inside(segment.address(first), run.pages as usize * PAGE)
        }
        // A free run, a span that no cache has, or a block that was freed meanwhile.
        _ => Found::DoubleFree(None),
    }
}
