//! Threads that are inside a group.
//!
//! Each entry lies with its caller, usually on the stack, and points to the thread's entry before it; the thread's word
//! points to the last one. Entries may end in any order. The group counts its entries in this process. A fork child has
//! only the thread that forked. That thread counts its own entries again when it notices the fork: at once after an
//! ordinary fork; after a bare one, when it first reaches this code.

use super::core::{CLOSED, Core};
use crate::caches::{enter, heap};
use crate::percpu;
use core::fmt;
use core::ptr::null_mut;
use machine::sync::Ordering;
use machine::thread;

/// One entry of a thread into a group. It must not move until it has ended.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Entry {
    group: *const Core,
    outer: *mut Entry,
}

/// The entry is not one of the calling thread's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotInside;

impl fmt::Display for NotInside {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the thread did not enter by this entry, or has left by it already")
    }
}

impl core::error::Error for NotInside {}

/// Runs in the child of an ordinary fork, at once, so that other threads of the child see the right counts.
extern "C" fn notice() {
    percpu::enter();
}

/// Sets the counts of all groups that the calling thread is inside, in a fork child, where it is alone.
fn recount_all() {
    // SAFETY: an entry is the thread's, and a group is not destroyed while the thread is inside; also below.
    let group_of = |entry: *mut Entry| unsafe { (*entry).group };
    for group in entries().map(group_of) {
        let times = entries().filter(|&entry| group_of(entry) == group).count();
        // SAFETY: as above.
        unsafe { (*group).users.set(times as u32) };
    }
}

/// The thread's entries, the innermost first.
fn entries() -> impl Iterator<Item = *mut Entry> {
    let first = thread::local() as *mut Entry;
    core::iter::successors((!first.is_null()).then_some(first), |&entry| {
        // SAFETY: an entry does not move before it has ended, and then it is not in this list.
        let outer = unsafe { (*entry).outer };
        (!outer.is_null()).then_some(outer)
    })
}

/// The innermost group that the calling thread is inside; null: none. It exists as long as the thread is inside.
pub fn innermost() -> *const Core {
    current().map_or(core::ptr::null(), core::ptr::from_ref)
}

/// [`innermost`] as a reference, for immediate use.
#[inline]
pub(crate) fn current() -> Option<&'static Core> {
    let entry = thread::local() as *mut Entry;
    // SAFETY: as above; a group is not destroyed while a thread is inside.
    unsafe { entry.as_ref().map(|entry| &*entry.group) }
}

impl Entry {
    /// An entry that is not in use.
    pub const fn new() -> Self {
        Entry { group: core::ptr::null(), outer: null_mut() }
    }

    /// Enters a group: the thread allocates there until it leaves or enters another one. False during destruction.
    ///
    /// # Safety
    /// The entry is not in use, and does not move before the thread has left by it. The group exists until then. Memory
    /// that the thread allocates meanwhile, by any means, is not used after the group is destroyed.
    pub unsafe fn enter(this: *mut Entry, group: &Core) -> bool {
        enter();
        if !heap().has_groups() {
            // Before any thread is inside, so that a child knows.
            thread::when_forked(&(recount_all as fn()));
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

    /// Leaves the group by this entry, also if it is not the innermost: the entries inside it stay.
    ///
    /// # Errors
    /// The thread is not inside by this entry.
    ///
    /// # Safety
    /// The entry is one.
    pub unsafe fn leave(this: *mut Entry) -> Result<(), NotInside> {
        enter();
        if !entries().any(|entry| entry == this) {
            return Err(NotInside);
        }
        // SAFETY: passed on; the thread owns its entries, and a group is not destroyed while a thread is inside.
        let users = unsafe {
            let outer = (*this).outer;
            match entries().find(|&entry| (*entry).outer == this) {
                Some(inner) => (*inner).outer = outer,
                None => thread::set_local(outer as usize),
            }
            &(*(*this).group).users
        };
        machine::sync::compiler_fence(Ordering::Release);
        // Last: from here on the group may be destroyed, and a handler of this thread must not find it.
        let _ = users.change(|times| times.checked_sub(1));
        Ok(())
    }
}
