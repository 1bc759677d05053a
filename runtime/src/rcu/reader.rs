//! Opening and ending sections.

use super::domain::Domain;
use super::sections::{TO_END, end_elsewhere};
use core::marker::PhantomData;
use machine::slot::{self, Counted};
use machine::thread;

/// An open section, for [`close`]. 16 bytes, which interfaces of other languages carry.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
#[must_use = "a section that is not closed is waited for, for ever"]
pub struct Open(pub Counted);

/// Opens a section. Sections may lie inside of others, and overlap. Any thread may open one without registering, also
/// in a signal handler on top of anything. With [`close`] it costs two restartable additions, about as much as two
/// stores. A thread's first one takes two system calls, and the very first of a process some more.
#[inline(always)]
pub fn open() -> Open {
    // First, so that a fork in a handler at any later point finds the section among this thread's.
    if thread::descend() {
        return open_slow();
    }
    // SAFETY: the thread is ready: it has a slot, and there are counts for all possible ones.
    Open(unsafe { Domain::of_process().sections.begin_in_row() })
}

/// Ends a section.
///
/// # Safety
/// It was opened by this thread, in this process or before the fork that made it, and is ended once.
#[inline(always)]
pub unsafe fn close(open: Open) {
    // SAFETY: passed on.
    if !unsafe { slot::count_in::<TO_END>(open.0) } {
        end_elsewhere(open.0);
    }
    // Last, as above.
    if thread::ascend() {
        Domain::of_process().end_inherited();
    }
}

#[cold]
#[inline(never)]
fn open_slow() -> Open {
    let domain = Domain::enter();
    if domain.make_ready() {
        // SAFETY: as above.
        return Open(unsafe { domain.sections.begin_in_row() });
    }
    Open(domain.sections.begin_in_lane())
}

/// A read section, which ends when this is dropped. It belongs to the thread that opened it.
#[derive(Debug)]
#[must_use = "the section ends when this is dropped"]
pub struct ReadGuard {
    open: Open,
    not_send: PhantomData<*mut ()>,
}

/// Opens a section that ends when the guard is dropped. Costs about two stores. Sections may nest. Any thread may open
/// one without registering, also in a signal handler.
///
/// A guard that is forgotten makes every later grace period wait for ever.
#[inline(always)]
pub fn read() -> ReadGuard {
    ReadGuard { open: open(), not_send: PhantomData }
}

impl Drop for ReadGuard {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: opened by this thread, as guards are not sent, and dropped once.
        unsafe { close(self.open) };
    }
}
