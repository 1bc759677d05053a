//! Empty arrays that no shard keeps: an array that one class has no use for serves another, in any slot.
//!
//! Where each thread has a slot, many threads leave many of them. Whoever trims gives pages back of which every array is spare. Such a page
//! is *blank*: it holds nothing, not even a link, so a spare array that stays has its address.
//!
//! Runs at the same time: any thread, under the lock, also while it holds a shard's. A handler that interrupted this very thread
//! in here does without.

use super::array::{Array, MOST_POINTERS, Stack};
use crate::observe::LockReport;
use crate::page::PAGE;
use crate::percpu::Region;
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use machine::slot::ARRAY;
use machine::sync::{Acquired, Lock, Site};
use machine::{here, vm};

/// Behind the shards' rank.
const SPARE_RANK: u8 = 2;

/// Arrays in a page.
const IN_PAGE: usize = PAGE / ARRAY;

/// The spare arrays. They change by single stores, so a fork leaves them in order.
#[derive(Debug)]
#[repr(C)]
pub struct Spare {
    lock: Lock<SPARE_RANK>,
    arrays: UnsafeCell<Stack>,
    /// Arrays with addresses of blank pages.
    blank: UnsafeCell<Stack>,
}

// SAFETY: the stacks are used under the lock.
unsafe impl Sync for Spare {}

impl Spare {
    /// None.
    pub const fn new() -> Self {
        Spare { lock: Lock::new(), arrays: UnsafeCell::new(Stack::new()), blank: UnsafeCell::new(Stack::new()) }
    }

    /// Puts an empty array on top. False: not here, not now.
    pub fn push(&self, region: Region, locks: &LockReport, array: Array) -> bool {
        self.locked(locks, here!(), |arrays, _| arrays.push(region, array)).is_some()
    }

    /// Takes an empty array.
    pub fn pop(&self, region: Region, locks: &LockReport) -> Option<Array> {
        // SAFETY: a stale look at one word each; who misses an array makes a new one.
        let seems_empty = |stack: &UnsafeCell<Stack>| unsafe { stack.get().cast::<usize>().read_volatile() } == 0;
        if seems_empty(&self.arrays) && seems_empty(&self.blank) {
            return None;
        }
        self.locked(locks, here!(), |arrays, blank| {
            arrays.pop(region).or_else(|| match blank.pop_pointer(region) {
                Some(page) => {
                    let array = |index| Array::new(region, page.wrapping_add(index * ARRAY));
                    (1..IN_PAGE).for_each(|index| arrays.push(region, array(index)));
                    Some(array(0))
                }
                None => blank.pop(region),
            })
        })?
    }

    /// Gives pages back to the kernel of which every array is spare, as few calls as can be. Meanwhile these arrays are nobody's, and
    /// not in a child that is forked. Returns the number of bytes; 0, too, if there is no memory to sort addresses in.
    ///
    /// O(n log n) for n spare arrays, not under the lock.
    pub fn release(&self, region: Region, locks: &LockReport) -> usize {
        let take = |arrays: &mut Stack, _: &mut Stack| core::mem::replace(arrays, Stack::new());
        let Some(mut taken) = self.locked(locks, here!(), take) else { return 0 };
        let count = taken.iter(region).count();
        let bytes = (count * size_of::<Array>()).next_multiple_of(vm::PAGE);
        let (mut blank, mut released) = (Stack::new(), 0);
        if count > IN_PAGE
            && let Some(scratch) = vm::reserve(null_mut(), bytes, vm::Access::ReadWrite)
        {
            // SAFETY: a fresh mapping of zeroes, of room for as many.
            let arrays = unsafe { core::slice::from_raw_parts_mut(scratch.cast::<Array>(), count) };
            arrays.fill_with(|| taken.pop(region).expect("so many were counted"));
            (taken, blank, released) = sort_out(region, arrays);
            // SAFETY: ours, and not used from here on.
            unsafe { vm::release(scratch, bytes) };
        }
        let put = |to: &mut Stack, mut from: Stack| {
            while let Some(array) = from.pop(region) {
                to.push(region, array);
            }
        };
        self.locked(locks, here!(), |arrays, pages| {
            put(arrays, taken);
            put(pages, blank);
        });
        released
    }

    /// Checks that all are empty, which nobody uses meanwhile; returns how many there are, those of blank pages too.
    pub fn check_valid(&self, region: Region) -> usize {
        // SAFETY: nobody else is in here.
        let (arrays, blank) = unsafe { (&*self.arrays.get(), &*self.blank.get()) };
        let spare =
            arrays.iter(region).inspect(|array| assert_eq!(array.len(region), 0, "a spare array holds objects"));
        spare.count() + blank.iter(region).map(|pages| 1 + pages.len(region) * IN_PAGE).sum::<usize>()
    }

    fn locked<R>(&self, locks: &LockReport, site: Site, work: impl FnOnce(&mut Stack, &mut Stack) -> R) -> Option<R> {
        if self.lock.acquire(&locks.spare, site) == Acquired::WouldDeadlock {
            return None;
        }
        // SAFETY: we hold the lock.
        let result = unsafe { work(&mut *self.arrays.get(), &mut *self.blank.get()) };
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }
}

/// Gives back the pages that lie whole among these arrays, which are ours. Returns the arrays that stay, those with the addresses of
/// the pages, and the number of bytes.
fn sort_out(region: Region, arrays: &mut [Array]) -> (Stack, Stack, usize) {
    let (mut spare, mut blank, mut released) = (Stack::new(), Stack::new(), 0);
    let most_pages = arrays.len() / IN_PAGE;
    let (holders, arrays) = arrays.split_at_mut(most_pages.div_ceil(MOST_POINTERS));
    let mut holders = holders.iter();
    let mut holder: Option<Array> = None;
    arrays.sort_unstable_by_key(|array| array.memory(region));
    let follows = |array: &Array, next: &Array| next.memory(region) as usize == array.memory(region) as usize + ARRAY;
    for run in arrays.chunk_by(follows) {
        let before = run[0].memory(region).align_offset(PAGE) / ARRAY;
        let (before, run) = run.split_at(before.min(run.len()));
        let (pages, after) = run.split_at(run.len() / IN_PAGE * IN_PAGE);
        before.iter().chain(after).for_each(|&array| spare.push(region, array));
        // SAFETY: the arrays are ours, and empty.
        if pages.is_empty() || !unsafe { vm::decommit(pages[0].memory(region), pages.len() * ARRAY) } {
            pages.iter().for_each(|&array| spare.push(region, array));
            continue;
        }
        released += pages.len() * ARRAY;
        for page in pages.iter().step_by(IN_PAGE) {
            let to = match &mut holder {
                Some(to) if !to.is_full() => to,
                full => {
                    full.take().inspect(|&full| blank.push(region, full));
                    let next = holders.next().expect("there is one for so many pages");
                    full.insert(next.sized(region, MOST_POINTERS))
                }
            };
            to.push(region, page.memory(region));
        }
    }
    holder.inspect(|&last| blank.push(region, last));
    holders.for_each(|&array| spare.push(region, array));
    (spare, blank, released)
}
