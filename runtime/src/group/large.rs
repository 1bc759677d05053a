//! Large blocks of a group: a block's tag points to a note, and the note to the group, under the list's lock.

use super::core::{Block, Core};
use super::register::Own;
use crate::caches::{enter, heap};
use crate::misuse::Call;
use crate::page_heap::{PAGE, Run};
use crate::profile;
use core::ptr::null_mut;
use machine::here;

fn note_of(start: *mut u8) -> Option<*mut Block> {
    let note = profile::tag_of(start).cast::<Block>();
    (!note.is_null()).then_some(note)
}

/// Tells the group of a large block and the profile, if they know it, that it is freed. The caller must own the block.
pub(crate) unsafe fn forget_large(start: *mut u8) {
    profile::died(start);
    let Some(note) = note_of(start) else { return };
    // SAFETY: passed on; as in `of_large`. If `remove` fails in a handler, the note stays, and names no block.
    unsafe {
        let group = &*(*note).group;
        let pages = (*note).pages;
        if group.large.remove(note) {
            Own::Large.free(note.cast());
        } else {
            (*note).start = null_mut();
        }
        group.account.charge_anyway(-((pages * PAGE) as isize));
    }
}

impl Core {
    /// The group of a large block, if it has one.
    /// Safety: the caller owns the block.
    pub(crate) unsafe fn of_large(start: *mut u8) -> Option<&'static Core> {
        // SAFETY: a note lives as long as its block, and a group longer.
        note_of(start).map(|note| unsafe { &*(*note).group })
    }

    /// Allocates a large block in the group.
    pub(crate) fn allocate_large(&self, bytes: usize, alignment: usize) -> Option<Run> {
        if bytes.checked_add(alignment)? > isize::MAX as usize || !enter() {
            return None;
        }
        let pages = bytes.max(1).div_ceil(PAGE);
        self.within_limits(pages * PAGE, || {
            if !self.account.charge(pages * PAGE) {
                return None;
            }
            let block = self.make_large(pages, alignment.div_ceil(PAGE));
            match block {
                Some(_) => self.account.note_peaks(),
                None => self.account.charge_anyway(-((pages * PAGE) as isize)),
            }
            block
        })
    }

    fn make_large(&self, pages: usize, alignment: usize) -> Option<Run> {
        let page_heap = heap().page_heap();
        let note = Own::Large.allocate().cast::<Block>();
        if note.is_null() {
            return None;
        }
        heap().note_tags();
        heap().cpu.drain_before_growth(pages, alignment);
        let run = page_heap.allocate(pages, alignment);
        let is_noted = |run: &Run| {
            // SAFETY: both are ours.
            unsafe {
                note.write(Block { group: self, start: run.start, pages, next: null_mut(), link: null_mut() });
                page_heap.set_tag(run.start, note.cast()) && self.large.insert(note)
            }
        };
        match run {
            Some(run) if is_noted(&run) => {
                heap().count_large(1, pages as isize);
                Some(run)
            }
            run => {
                // SAFETY: both are ours; a block that cannot be noted goes back.
                unsafe {
                    run.inspect(|run| page_heap.free(run.start));
                    Own::Large.free(note.cast());
                }
                None
            }
        }
    }

    /// Resizes a large block, and charges its group, if any. False if there is no room, or if `resize` fails.
    /// Safety: the caller owns the block.
    pub(crate) unsafe fn resize_large(start: *mut u8, pages: usize, resize: impl FnOnce() -> bool) -> bool {
        let Some(note) = note_of(start) else { return resize() };
        // SAFETY: passed on; as in `of_large`.
        let (group, note) = unsafe { (&*(*note).group, &mut *note) };
        let more = pages.saturating_sub(note.pages) * PAGE;
        let fewer = note.pages.saturating_sub(pages) * PAGE;
        if more > 0 && group.within_limits(more, || group.account.charge(more).then_some(())).is_none() {
            return false;
        }
        let is_done = resize();
        group.account.charge_anyway(-(if is_done { fewer } else { more } as isize));
        if is_done {
            group.account.note_peaks();
            note.pages = pages;
        }
        is_done
    }

    /// Frees all large blocks. No thread uses them or the group.
    pub(super) fn release_large(&self) {
        let mut next = self.large.locked(here!(), |first| {
            // SAFETY: this thread holds the lock.
            unsafe { first.replace(null_mut()) }
        });
        while let Some(note) = next.filter(|note| !note.is_null()) {
            // SAFETY: no thread uses the block any more.
            unsafe {
                let Block { start, pages, next: behind, .. } = note.read();
                next = Some(behind);
                if !start.is_null() {
                    profile::died(start);
                    self.account.charge_anyway(-((pages * PAGE) as isize));
                    if let Some(pages) = heap().demand_large(start, Call::Free) {
                        heap().free_large(start, pages);
                    }
                }
                Own::Large.free(note.cast());
            }
        }
    }
}
