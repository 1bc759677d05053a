//! The state of the profile: its lock, its tables, and samples that wait to be forgotten.

use super::pace::Pace;
use super::table::{Arrays, SAMPLES, Tables};
use crate::caches::{heap, made_at};
use crate::layout::{HeaderWord, header};
use crate::page_heap::guarded;
use crate::settings::{self, LONGEST_PATH};
use core::cell::UnsafeCell;
use machine::stack::Rows;
use machine::sync::{Acquired, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Lock, Ordering};
use machine::{clock, here, vm};

/// Above the page heap's; a holder takes no further lock.
const RANK: u8 = 6;

/// The state. All-zero memory: no profile was started yet.
#[repr(C)]
pub struct Profile {
    lock: Lock<RANK>,
    /// A sample that was freed above the lock's holder, plus 1; its tag leads to the next one. 0: none.
    forgotten: AtomicU32,
    /// Samples that are in no table.
    pub lost: AtomicU64,
    pub pace: Pace,
    /// Whether samples are taken only as a tracer listens.
    pub is_followed: AtomicBool,
    tags: AtomicPtr<Tags>,
    pub rows: AtomicPtr<Rows>,
    tables: UnsafeCell<Tables>,
    /// The path of the file at exit, written with the first sample, under the lock; zeroes: none.
    pub path: UnsafeCell<[u8; LONGEST_PATH]>,
}

// SAFETY: zeroes are valid, and no other user has this part of the header.
pub const PLACE: HeaderWord<AtomicPtr<Profile>> = unsafe { HeaderWord::at(header::PROFILE) };

/// The memory of a profile.
#[repr(C)]
struct Memory {
    arrays: Arrays,
    tags: Tags,
    rows: Rows,
}

/// The tags that sampled blocks had before, by the number of the sample; of one that waits, the next one that waits.
/// Only a block's owner uses them.
#[repr(transparent)]
pub struct Tags([AtomicUsize; SAMPLES]);

impl Profile {
    /// None in a signal handler above the lock's holder.
    pub fn locked<R>(&self, work: impl FnOnce(&mut Tables) -> R) -> Option<R> {
        // A holder that vanished in a fork leaves at most figures without an event.
        if self.lock.acquire(&heap().page_heap().locks().profile, here!()) == Acquired::WouldDeadlock {
            return None;
        }
        // SAFETY: this thread holds the lock.
        let tables = unsafe { &mut *self.tables.get() };
        if self.forgotten.load(Ordering::Relaxed) != 0 {
            self.forget_deferred(tables);
        }
        let result = work(tables);
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }

    pub fn tag_place(&self, index: u32) -> &AtomicUsize {
        // SAFETY: a sample exists, so the memory was published before; it is never unmapped.
        unsafe { &(&*self.tags.load(Ordering::Acquire)).0[index as usize] }
    }

    pub fn defer(&self, index: u32) {
        // Release pairs with the acquire in `forget_deferred`, which reads the link.
        let _ = self.forgotten.fetch_update(Ordering::Release, Ordering::Relaxed, |next| {
            self.tag_place(index).store(next as usize, Ordering::Relaxed);
            Some(index + 1)
        });
    }

    #[cold]
    fn forget_deferred(&self, tables: &mut Tables) {
        let mut next = self.forgotten.swap(0, Ordering::Acquire);
        while let Some(index) = next.checked_sub(1) {
            next = self.tag_place(index).load(Ordering::Relaxed) as u32;
            tables.forget(index, clock::now_ns());
        }
    }

    /// The profile, with its memory. None: there is none, or not above the lock's holder.
    pub fn ready() -> Option<&'static Self> {
        let profile = made_at(&PLACE)?;
        if profile.tags.load(Ordering::Acquire).is_null() {
            profile
                .locked(|tables| tables.arrays.is_some() || profile.map_memory(tables))
                .filter(|&is_mapped| is_mapped)?;
        }
        Some(profile)
    }

    fn map_memory(&self, tables: &mut Tables) -> bool {
        let bytes = size_of::<Memory>().next_multiple_of(vm::PAGE);
        let place = heap().page_heap().place(bytes);
        let Some(memory) = guarded::map(place, bytes, vm::PAGE).map(<*mut u8>::cast::<Memory>) else { return false };
        // SAFETY: a fresh mapping, and zeroes are valid.
        let memory = unsafe { &mut *memory };
        // Release pairs with the acquire in `tag_place` and `ready`.
        self.tags.store(&raw mut memory.tags, Ordering::Release);
        // The same with `calls`.
        self.rows.store(&raw mut memory.rows, Ordering::Release);
        tables.arrays = Some(&mut memory.arrays);
        // SAFETY: this thread holds the lock, and nothing reads it before the exit.
        let path = unsafe { &mut *self.path.get() };
        let said = settings::text_of("profile.file").unwrap_or("");
        path.iter_mut().zip(said.as_bytes()).for_each(|(to, &from)| *to = from);
        true
    }
}
