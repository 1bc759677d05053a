//! Magazines that no shard keeps: empty ones, which any cache may take in any slot, and those of reserves.
//!
//! With a slot for each thread, many threads leave many empty ones. A trim returns pages full of spare magazines to the
//! kernel. Such a page is *blank*: it holds nothing, not even a link, so a remaining magazine stores its address.
//!
//! Runs at the same time: any thread, under the lock, also in a shard's. A signal handler above its holder does
//! without.

use super::magazine::{Magazine, View};
use super::stack::Stack;
use crate::central::MOST_POINTERS;
use crate::observe::LockReport;
use crate::page_heap::PAGE;
use core::mem::ManuallyDrop;
use core::ptr::null_mut;
use machine::slot::ARRAY;
use machine::sync::{Acquired, Contention, Lock, Site};
use machine::{here, vm};

/// After the shards' rank; a holder takes no further lock.
const RANK: u8 = 2;

const IN_PAGE: usize = PAGE / ARRAY;

/// The spare magazines. Single stores make every change, so a fork leaves them in order.
#[derive(Debug)]
#[repr(C)]
pub struct Spare {
    lock: Lock<RANK>,
    magazines: Stack,
    /// Magazines that hold addresses of blank pages.
    blank: Stack,
}

impl Spare {
    /// Error: in a signal handler that must not wait.
    pub fn push(&self, locks: &LockReport, magazine: Magazine) -> Result<(), Magazine> {
        let mut rest = Some(magazine);
        self.locked(locks, here!(), || rest.take().map(|magazine| self.magazines.push(magazine)));
        rest.map_or(Ok(()), Err)
    }

    /// Pops an empty magazine.
    pub fn pop(&self, locks: &LockReport) -> Option<Magazine> {
        // A stale look: a thread that misses a magazine makes a new one.
        if self.magazines.is_empty() && self.blank.is_empty() {
            return None;
        }
        self.locked(locks, here!(), || {
            self.magazines.pop().or_else(|| match self.blank.pop_pointer() {
                Some(page) => {
                    let magazine = |index| Magazine::new(page.wrapping_add(index * ARRAY));
                    (1..IN_PAGE).for_each(|index| self.magazines.push(magazine(index)));
                    Some(magazine(0))
                }
                None => self.blank.pop(),
            })
        })?
    }

    /// Returns pages full of spare magazines to the kernel, by few calls; returns their bytes. 0 also if there is no
    /// memory to sort addresses in. Meanwhile no stack has these magazines; a forked child loses them.
    ///
    /// O(n log n) for n spare magazines, without the lock.
    pub fn release(&self, locks: &LockReport) -> usize {
        let Some(taken) = self.locked(locks, here!(), || self.magazines.take()) else { return 0 };
        let count = taken.iter().count();
        let bytes = (count * size_of::<Magazine>()).next_multiple_of(vm::PAGE);
        let (blank, mut released) = (Stack::new(), 0);
        if count > IN_PAGE
            && let Some(scratch) = vm::reserve(null_mut(), bytes, vm::Access::ReadWrite)
        {
            let scratch_of = scratch.cast::<ManuallyDrop<Magazine>>();
            for at in 0..count {
                let magazine = taken.pop().expect("so many were counted");
                // SAFETY: a fresh mapping with room for `count` magazines.
                unsafe { scratch_of.add(at).write(ManuallyDrop::new(magazine)) };
            }
            // SAFETY: written above; each is taken out once by `sort_out`.
            let all = unsafe { core::slice::from_raw_parts_mut(scratch_of, count) };
            released = sort_out(all, &taken, &blank);
            // SAFETY: ours, and not used from here on.
            unsafe { vm::release(scratch, bytes) };
        }
        let [lowest, lowest_blank] = [&taken, &blank].map(|stack| stack.iter().last());
        self.locked(locks, here!(), || {
            self.magazines.push_all(&taken, lowest);
            self.blank.push_all(&blank, lowest_blank);
        });
        released
    }

    /// Checks that all are empty, while no thread uses them. Returns their number, blank pages included.
    pub fn check_valid(&self) -> usize {
        let spare =
            self.magazines.iter().inspect(|magazine| assert_eq!(magazine.len(), 0, "a spare magazine holds objects"));
        spare.count() + self.blank.iter().map(|pages: View<'_>| 1 + pages.len() * IN_PAGE).sum::<usize>()
    }

    fn locked<R>(&self, locks: &LockReport, site: Site, work: impl FnOnce() -> R) -> Option<R> {
        locked(&self.lock, &locks.spare, site, work)
    }
}

/// Magazines set aside for allocations that would otherwise fail. Zeroes: empty. Single stores make every change, so a
/// fork leaves it in order.
#[derive(Debug)]
#[repr(C)]
pub struct Reserve {
    lock: Lock<RANK>,
    magazines: Stack,
}

impl Reserve {
    /// Error: in a signal handler that must not wait.
    pub(super) fn push(&self, locks: &LockReport, magazine: Magazine) -> Result<(), Magazine> {
        let mut rest = Some(magazine);
        self.locked(locks, here!(), || rest.take().map(|magazine| self.magazines.push(magazine)));
        rest.map_or(Ok(()), Err)
    }

    /// Takes a magazine with objects out.
    pub fn pop(&self, locks: &LockReport) -> Option<Magazine> {
        // A stale look: a thread that misses a magazine goes on as without a reserve.
        if self.magazines.is_empty() { None } else { self.locked(locks, here!(), || self.magazines.pop())? }
    }

    /// Objects in the reserve now.
    pub(super) fn objects(&self, locks: &LockReport) -> usize {
        let count = || self.magazines.iter().map(View::len).sum();
        if self.magazines.is_empty() { 0 } else { self.locked(locks, here!(), count).unwrap_or(0) }
    }

    /// Shows each magazine, while no thread changes them.
    pub fn for_each(&self, show: impl FnMut(View<'_>)) {
        self.magazines.iter().for_each(show);
    }

    fn locked<R>(&self, locks: &LockReport, site: Site, work: impl FnOnce() -> R) -> Option<R> {
        locked(&self.lock, &locks.reserves, site, work)
    }
}

/// Runs `work` under a lock. None: in a signal handler that must not wait.
fn locked<R>(lock: &Lock<RANK>, contention: &Contention, site: Site, work: impl FnOnce() -> R) -> Option<R> {
    if lock.acquire(contention, site) == Acquired::WouldDeadlock {
        return None;
    }
    let result = work();
    // SAFETY: acquired above.
    unsafe { lock.release() };
    Some(result)
}

/// Returns to the kernel the pages that lie whole among these magazines, which it takes out of the slice. Puts the
/// magazines that stay on `spare`, and those with the pages' addresses on `blank`; returns the bytes. The stacks stay
/// in place, because the simulated machine does not follow an atomic that moves while a store to it waits.
fn sort_out(magazines: &mut [ManuallyDrop<Magazine>], spare: &Stack, blank: &Stack) -> usize {
    let mut released = 0;
    // SAFETY: for each magazine of the slice once.
    let take = |magazine: &ManuallyDrop<Magazine>| unsafe { Magazine::adopt(magazine.view().top()) };
    let most_pages = magazines.len() / IN_PAGE;
    let (holders, magazines) = magazines.split_at_mut(most_pages.div_ceil(MOST_POINTERS));
    let mut holders = holders.iter().map(take);
    let mut holder: Option<Magazine> = None;
    magazines.sort_unstable_by_key(|magazine| magazine.memory());
    let follows = |one: &ManuallyDrop<Magazine>, next: &ManuallyDrop<Magazine>| {
        next.memory() as usize == one.memory() as usize + ARRAY
    };
    for run in magazines.chunk_by(follows) {
        let before = run[0].memory().align_offset(PAGE) / ARRAY;
        let (before, run) = run.split_at(before.min(run.len()));
        let (pages, after) = run.split_at(run.len() / IN_PAGE * IN_PAGE);
        before.iter().chain(after).for_each(|magazine| spare.push(take(magazine)));
        // SAFETY: the magazines are ours and empty.
        if pages.is_empty() || !unsafe { vm::decommit(pages[0].memory(), pages.len() * ARRAY) } {
            pages.iter().for_each(|magazine| spare.push(take(magazine)));
            continue;
        }
        released += pages.len() * ARRAY;
        for page in pages.iter().step_by(IN_PAGE) {
            let to = match &mut holder {
                Some(to) if !to.is_full() => to,
                full => {
                    full.take().into_iter().for_each(|full| blank.push(full));
                    full.insert(holders.next().expect("there is one for so many pages").sized(MOST_POINTERS))
                }
            };
            to.push(page.memory());
        }
    }
    holder.into_iter().for_each(|last| blank.push(last));
    holders.for_each(|magazine| spare.push(magazine));
    released
}
