//! The list of groups, for the statistics page, and the caches that they come from.
//!
//! Creating a group claims an entry by one exchange, without waiting. Destroying one waits some microseconds for
//! readers, so shown groups exist. Groups beyond the entries are not shown. Any threads run this at the same time. A
//! fork child has its parent's list; its lock forgets the parent's readers.

use super::core::{Block, Core};
use crate::caches::{ObjectCache, Wanted, heap, known_at, made_at};
use crate::central::Charged;
use crate::layout::{HeaderWord, header};
use core::ptr::null_mut;
use machine::here;
use machine::sync::{Acquired, AtomicPtr, AtomicU32, Lock, Ordering};

/// Most groups that are shown.
pub const MOST: usize = 64;
/// Above all others: the holder takes no other lock.
const RANK: u8 = 7;

/// All-zero memory is an empty one.
#[repr(C)]
struct Register {
    /// Held to show groups, and to take one out.
    lock: Lock<RANK>,
    unlisted: AtomicU32,
    entries: [AtomicPtr<Core>; MOST],
    own: [AtomicPtr<ObjectCache>; 3],
}

/// The caches of groups, of their tables, and of the notes of their large blocks.
#[derive(Clone, Copy)]
pub(super) enum Own {
    Group,
    Table,
    Large,
}

impl Own {
    fn cache(self) -> Option<&'static ObjectCache> {
        let place = &made_at(&PLACE)?.own[self as usize];
        // Acquire pairs with the release below: a thread that sees the cache finds it complete.
        // SAFETY: object caches are never unmapped, and this one is never destroyed.
        let known = || unsafe { place.load(Ordering::Acquire).as_ref() };
        known().or_else(|| {
            let (name, bytes): (&[u8], usize) = match self {
                Own::Group => (b"group", size_of::<Core>()),
                Own::Table => (b"group/table", size_of::<Charged>()),
                Own::Large => (b"group/large", size_of::<Block>()),
            };
            let made = ObjectCache::create(&Wanted::plain(name, bytes, 64)).ok()?;
            let ours = (&raw const *made).cast_mut();
            if place.compare_exchange(null_mut(), ours, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                // SAFETY: no other thread has seen ours.
                let _ = unsafe { made.destroy() };
            }
            known()
        })
    }

    /// An object with any contents. Null: no memory.
    pub fn allocate(self) -> *mut u8 {
        self.cache().map_or(null_mut(), ObjectCache::allocate)
    }

    /// The caller must own the object, which is from this cache.
    pub unsafe fn free(self, object: *mut u8) {
        if let Some(cache) = self.cache() {
            // SAFETY: passed on.
            unsafe { cache.free(object) };
        }
    }
}

// SAFETY: zeroes are null, and a valid register; these bytes are only used here.
const PLACE: HeaderWord<AtomicPtr<Register>> = unsafe { HeaderWord::at(header::GROUPS) };

/// The entries, from the one on where a search for the group begins.
fn entries(register: &Register, group: *mut Core) -> impl Iterator<Item = &AtomicPtr<Core>> {
    let first = group.addr() / size_of::<Core>() % MOST;
    register.entries[first..].iter().chain(&register.entries[..first])
}

pub(super) fn enter(group: *mut Core) {
    let Some(register) = made_at(&PLACE) else { return };
    // Release pairs with the acquire in `show`: a thread that finds the group finds it as it was made.
    let is_claimed = |entry: &AtomicPtr<Core>| {
        entry.load(Ordering::Relaxed).is_null()
            && entry.compare_exchange(null_mut(), group, Ordering::Release, Ordering::Relaxed).is_ok()
    };
    if !entries(register, group).any(is_claimed) {
        register.unlisted.fetch_add(1, Ordering::Relaxed);
    }
}

/// Removes a group before it is destroyed. False in a signal handler that interrupted `show`.
pub(super) fn leave(group: *mut Core) -> bool {
    let Some(register) = known_at(&PLACE) else { return true };
    let removed = register.locked(|| {
        // Relaxed: the lock orders it before the next reading.
        let entry = entries(register, group).find(|entry| entry.load(Ordering::Relaxed) == group);
        match entry {
            Some(entry) => entry.store(null_mut(), Ordering::Relaxed),
            None => drop(register.unlisted.fetch_sub(1, Ordering::Relaxed)),
        }
    });
    removed.is_some()
}

/// Shows the groups, and returns how many are not listed. None in a signal handler that interrupted the lock's holder.
pub fn show(mut show: impl FnMut(&Core)) -> Option<u32> {
    let Some(register) = known_at(&PLACE) else { return Some(0) };
    register.locked(|| {
        for entry in &register.entries {
            // SAFETY: groups are destroyed only after they were removed under the lock, which this thread holds.
            if let Some(group) = unsafe { entry.load(Ordering::Acquire).as_ref() } {
                show(group);
            }
        }
        register.unlisted.load(Ordering::Relaxed)
    })
}

impl Register {
    fn locked<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        if self.lock.acquire(&heap().locks().groups, here!()) == Acquired::WouldDeadlock {
            return None;
        }
        let result = work();
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }
}
