//! The state of a group: its account, the count of threads inside, its caches, and its large blocks.

use super::NAME_BYTES;
use crate::caches::heap;
use crate::central::Charged;
use crate::counter::Account;
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use machine::sync::{Acquired, AtomicPtr, AtomicU32, AtomicU64, Lock, Ordering, Site};
use machine::{here, thread};

/// A group. It comes from a cache of groups, and its caches and blocks point to it.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Core {
    /// First, so that a pointer to an account is a pointer to its group.
    pub(super) account: Account,
    pub(super) users: Users,
    pub(super) children: AtomicU32,
    /// Null until the first object.
    pub(super) table: AtomicPtr<Charged>,
    pub(super) large: List,
    pub(super) name: [u8; NAME_BYTES],
    pub(super) name_bytes: u8,
}

const _: () = assert!(core::mem::offset_of!(Core, account) == 0 && size_of::<Core>() == 128);

/// How often a group was entered: the process's generation in the upper half, the times in the lower one.
#[derive(Debug)]
pub struct Users(AtomicU64);

/// In place of times: no thread may enter any more.
pub const CLOSED: u32 = u32::MAX;

impl Users {
    pub fn new() -> Self {
        Users(AtomicU64::new(0))
    }

    pub fn count(&self) -> u32 {
        self.times(self.0.load(Ordering::Relaxed))
    }

    /// The times of a word in this process. After a fork, the child's thread has counted its entries again.
    fn times(&self, word: u64) -> u32 {
        if (word >> 32) as u32 == thread::generation() { word as u32 } else { 0 }
    }

    /// Sets the times: in a fork child, which has one thread, or to open the group again.
    pub fn set(&self, times: u32) {
        self.0.store(word_of(times), Ordering::Release);
    }

    pub fn change(&self, next: impl Fn(u32) -> Option<u32>) -> Result<(), u32> {
        let update = |word| Some(word_of(next(self.times(word))?));
        // Acquire and release: a thread that closes the group sees what those that left it did there.
        let changed = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
        changed.map(|_| ()).map_err(|word| self.times(word))
    }

    /// Closes the group if no thread is inside; otherwise returns the times that threads are.
    pub fn close(&self) -> Result<(), u32> {
        self.change(|times| (times == 0).then_some(CLOSED))
    }
}

fn word_of(times: u32) -> u64 {
    u64::from(thread::generation()) << 32 | u64::from(times)
}

/// As for the spare magazines: the holder takes no other lock.
const RANK: u8 = 2;

#[repr(C)]
pub struct Block {
    pub group: *const Core,
    pub start: *mut u8,
    pub pages: usize,
    pub next: *mut Block,
    /// The link that points here.
    pub link: *mut *mut Block,
}

#[derive(Debug)]
pub struct List {
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

    pub fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    /// The caller owns `block`, which is in no list.
    pub unsafe fn insert(&self, block: *mut Block) -> bool {
        // SAFETY: passed on. A walk from the first block finds a whole list after each store. Only `remove` needs the
        // back links, and `repair` rebuilds them if the lock's holder vanished in a fork.
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

    /// `block` is in this list.
    pub unsafe fn remove(&self, block: *mut Block) -> bool {
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

    pub fn locked<R>(&self, site: Site, work: impl FnOnce(*mut *mut Block) -> R) -> Option<R> {
        let acquired = self.lock.acquire(&heap().locks().groups, site);
        if acquired == Acquired::WouldDeadlock {
            return None;
        }
        let first = self.first.get();
        if acquired == Acquired::Abandoned {
            // SAFETY: this thread holds the lock.
            unsafe { self.repair(first) };
        }
        let result = work(first);
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }

    /// The caller holds the lock.
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
