//! Threads that are inside a group.
//!
//! Each entry lies with its caller, usually on the stack, and points to the thread's entry before it; the thread's word
//! points to the last one. Entries may end in any order. The group counts its entries in this process. A fork child has
//! only the thread that forked, which counts its own entries again when it notices the fork: at once after an ordinary
//! fork; after a bare one, when it first reaches this code.

use super::core::{CLOSED, Core};
use crate::caches::{enter, heap};
use crate::percpu;
use core::fmt;
use core::ptr::null_mut;
use machine::sync::Ordering;
use machine::thread;

/// A stay of a thread in a group. Its owner keeps it where it is until it has ended.
#[derive(Debug)]
#[repr(C)]
pub struct Entry {
    group: *const Core,
    outer: *mut Entry,
}

/// The entry is none of the calling thread's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotInside;

impl fmt::Display for NotInside {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the thread did not enter by this entry, or has left by it already")
    }
}

impl core::error::Error for NotInside {}

/// In the child of an ordinary fork, at once: another thread may look before the one that forked comes along.
extern "C" fn notice() {
    percpu::enter();
}

/// Says how often the calling thread, which is alone in a fork child, is inside of a group.
///
/// # Safety
/// It is.
unsafe fn recount(group: *const Core) {
    // SAFETY: a group is not destroyed while the thread is inside.
    let times = entries().filter(|&entry| unsafe { (*entry).group } == group).count();
    // SAFETY: as above.
    unsafe { (*group).users.set(times as u32) };
}

/// In a fork child: only this thread is inside of any group.
fn recount_all() {
    // SAFETY: as in `recount`.
    entries().for_each(|entry| unsafe { recount((*entry).group) });
}

/// The thread's entries, the innermost first.
fn entries() -> impl Iterator<Item = *mut Entry> {
    let first = thread::local() as *mut Entry;
    core::iter::successors((!first.is_null()).then_some(first), |&entry| {
        // SAFETY: entries stay where they are until they have ended, and then they are not in here.
        let outer = unsafe { (*entry).outer };
        (!outer.is_null()).then_some(outer)
    })
}

/// The innermost group that the calling thread is inside of; null: none. It exists as long as the thread is inside.
pub fn innermost() -> *const Core {
    current().map_or(core::ptr::null(), |group| &raw const *group)
}

/// The same, for as long as the caller uses it at once.
#[inline]
pub(crate) fn current() -> Option<&'static Core> {
    let entry = thread::local() as *mut Entry;
    // SAFETY: as above; a group is not destroyed while a thread is inside.
    unsafe { entry.as_ref().map(|entry| &*entry.group) }
}

impl Entry {
    /// One that leads nowhere.
    pub const fn new() -> Self {
        Entry { group: core::ptr::null(), outer: null_mut() }
    }

    /// Enters a group: the thread allocates there until it leaves or enters another one. False during destruction.
    ///
    /// # Safety
    /// The entry is not in use, and stays where it is until the thread has left by it. The group exists until then.
    /// What the thread allocates meanwhile, by any means, is not used when the group is destroyed.
    pub unsafe fn enter(this: *mut Entry, group: &Core) -> bool {
        enter();
        if !heap().has_groups() {
            // Before anybody is inside, so that a child knows.
            thread::when_forked(recount_all);
            thread::on_fork_in_child(notice);
            heap().begin_groups();
        }
        if group.users.change(|times| (times < CLOSED - 1).then(|| times + 1)).is_err() {
            return false;
        }
        // SAFETY: passed on. The entry is complete before a handler of this thread can find it.
        unsafe { this.write(Entry { group, outer: thread::local() as *mut Entry }) };
        machine::sync::compiler_fence(Ordering::Release);
        thread::set_local(this as usize);
        true
    }

    /// Leaves the group, whichever entry is the innermost: those inside stay.
    ///
    /// # Safety
    /// The entry is one.
    pub unsafe fn leave(this: *mut Entry) -> Result<(), NotInside> {
        enter();
        if !entries().any(|entry| entry == this) {
            return Err(NotInside);
        }
        // SAFETY: passed on; the thread's entries are its own.
        let (group, outer) = unsafe { ((*this).group, (*this).outer) };
        // SAFETY: a group is not destroyed while a thread is inside.
        let users = unsafe { &(*group).users };
        // SAFETY: as above.
        let inner = entries().find(|&entry| unsafe { (*entry).outer } == this);
        match inner {
            // SAFETY: as above.
            Some(inner) => unsafe { (*inner).outer = outer },
            None => thread::set_local(outer as usize),
        }
        machine::sync::compiler_fence(Ordering::Release);
        // The last: from here on the group may be no more, and a handler of this thread must not find it.
        let _ = users.change(|times| times.checked_sub(1));
        Ok(())
    }
}

impl Default for Entry {
    fn default() -> Self {
        Self::new()
    }
}
