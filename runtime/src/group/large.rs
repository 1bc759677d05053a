//! Large blocks of a group: each has a note that leads to the group, and the block's tag leads to the note.
//!
//! Runs at the same time: any thread, under the list's lock.

use super::inner::{Core, Own};
use crate::caches::{enter, heap};
use crate::page_heap::{PAGE, Run};
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use machine::here;
use machine::sync::{Acquired, AtomicU32, Lock, Ordering, Site};

/// With the spare arrays: nothing is taken while it is held.
const RANK: u8 = 2;

/// What is known of a large block.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Block {
    group: *const Core,
    start: *mut u8,
    pages: usize,
    next: *mut Block,
    /// The link that leads here.
    link: *mut *mut Block,
}

impl Block {
    pub const BYTES: usize = size_of::<Block>();
}

/// The large blocks of a group.
#[derive(Debug)]
pub(super) struct List {
    lock: Lock<RANK>,
    len: AtomicU32,
    first: UnsafeCell<*mut Block>,
}

// SAFETY: the blocks are used under the lock.
unsafe impl Sync for List {}

impl List {
    pub const fn new() -> Self {
        List { lock: Lock::new(), len: AtomicU32::new(0), first: UnsafeCell::new(null_mut()) }
    }

    /// Blocks in it, at some moment.
    pub fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    /// # Safety
    /// The block is the caller's, and in no list.
    unsafe fn insert(&self, block: *mut Block) -> bool {
        // SAFETY: passed on. A walk from the first block finds a whole list after each store. Only `remove` needs the
        // links back, and they are rebuilt if a fork took the lock's holder away.
        self.locked(here!(), |first| unsafe {
            ((*block).next, (*block).link) = (*first, first);
            if !(*first).is_null() {
                (**first).link = &raw mut (*block).next;
            }
            *first = block;
            self.len.fetch_add(1, Ordering::Relaxed);
        })
        .is_some()
    }

    /// # Safety
    /// The block is in this list.
    unsafe fn remove(&self, block: *mut Block) -> bool {
        // SAFETY: passed on.
        self.locked(here!(), |_| unsafe {
            *(*block).link = (*block).next;
            if !(*block).next.is_null() {
                (*(*block).next).link = (*block).link;
            }
            self.len.fetch_sub(1, Ordering::Relaxed);
        })
        .is_some()
    }

    fn locked<R>(&self, site: Site, work: impl FnOnce(*mut *mut Block) -> R) -> Option<R> {
        let acquired = self.lock.acquire(&heap().locks().groups, site);
        if acquired == Acquired::WouldDeadlock {
            return None;
        }
        let first = self.first.get();
        if acquired == Acquired::Abandoned {
            // SAFETY: the lock is ours.
            unsafe { self.repair(first) };
        }
        let result = work(first);
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }

    /// # Safety
    /// The lock is held.
    unsafe fn repair(&self, first: *mut *mut Block) {
        let (mut link, mut len) = (first, 0);
        // SAFETY: passed on; the links forward are right.
        unsafe {
            while !(*link).is_null() {
                (**link).link = link;
                link = &raw mut (**link).next;
                len += 1;
            }
        }
        self.len.store(len, Ordering::Relaxed);
    }
}

/// The note of a large block that is a group's.
fn note_of(start: *mut u8) -> Option<*mut Block> {
    let note = heap().page_heap().tag(start).cast::<Block>();
    (!note.is_null()).then_some(note)
}

impl Core {
    /// The group of a large block, if it is one's.
    ///
    /// # Safety
    /// The block is the caller's.
    pub unsafe fn of_large(start: *mut u8) -> Option<&'static Core> {
        // SAFETY: a note lives as long as its block, and a group longer.
        note_of(start).map(|note| unsafe { &*(*note).group })
    }

    /// A large block in the group.
    pub fn allocate_large(&self, bytes: usize, alignment: usize) -> Option<Run> {
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
        let note = Own::LARGE.allocate().cast::<Block>();
        if note.is_null() {
            return None;
        }
        heap().note_large_of_group();
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
                // SAFETY: both are ours; what cannot be noted goes back.
                unsafe {
                    run.inspect(|run| page_heap.free(run.start));
                    Own::LARGE.free(note.cast());
                }
                None
            }
        }
    }

    /// Tells the group of a large block, if it is one's, that the block goes.
    ///
    /// # Safety
    /// The block is the caller's to give up.
    pub unsafe fn forget_large(start: *mut u8) {
        let Some(note) = note_of(start) else { return };
        // SAFETY: passed on; as in `of_large`. In a handler above the list's holder, the note and its charge stay until
        // the group is destroyed; the note then names no block.
        unsafe {
            let group = &*(*note).group;
            let pages = (*note).pages;
            if group.large.remove(note) {
                Own::LARGE.free(note.cast());
            } else {
                (*note).start = null_mut();
            }
            group.account.charge_anyway(-((pages * PAGE) as isize));
        }
    }

    /// Resizes a large block, and charges its group, if any. False if there is no room, or if `resize` fails.
    ///
    /// # Safety
    /// The block is the caller's.
    pub unsafe fn resize_large(start: *mut u8, pages: usize, resize: impl FnOnce() -> bool) -> bool {
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

    /// Gives all large blocks back. Nobody uses them, nor the group.
    pub(super) fn release_large(&self) {
        let mut next = self.large.locked(here!(), |first| {
            // SAFETY: the lock is ours.
            unsafe { first.replace(null_mut()) }
        });
        while let Some(note) = next.filter(|note| !note.is_null()) {
            // SAFETY: nobody uses the block any more.
            unsafe {
                let Block { start, pages, next: behind, .. } = note.read();
                next = Some(behind);
                if !start.is_null() {
                    self.account.charge_anyway(-((pages * PAGE) as isize));
                    heap().free_large(start);
                }
                Own::LARGE.free(note.cast());
            }
        }
    }
}
