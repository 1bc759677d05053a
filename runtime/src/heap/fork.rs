//! Becoming shared, and forking.
//!
//! The moment before the second thread exists is the time to arrange for what only a process with threads needs: noticing
//! forks that run no handlers, holding the zone over those that do, and registering for kicks. The C library tells: when
//! `pthread_create` allocates the new thread's tables, `__libc_single_threaded` is 0 already, and one thread runs still.
//! The upgrade is one-way: that flag stays 0 after a join and in fork children.
//!
//! A fork in a process with one thread needs nothing: no lock can be held by anybody else.

use super::runtime;
use machine::sync::{AtomicBool, AtomicU64, Ordering};
use machine::{kick, root, slot, thread};

static UPGRADED: AtomicBool = AtomicBool::new(false);
/// Identity of the thread that is forking, as it was before.
static FORKING: AtomicU64 = AtomicU64::new(0);

/// Upgrades the process if it is about to have a second thread, or has one.
#[inline]
pub fn upgrade_if_shared() {
    if !UPGRADED.load(Ordering::Relaxed) && !thread::is_alone() {
        upgrade();
    }
}

/// Whether the process has been upgraded.
pub fn is_shared() -> bool {
    UPGRADED.load(Ordering::Relaxed)
}

#[cold]
fn upgrade() {
    // Once: whoever comes second finds it done or under way, and needs nothing of it yet.
    if UPGRADED.swap(true, Ordering::Relaxed) {
        return;
    }
    thread::notice_forks();
    thread::enter();
    thread::on_fork(before_fork, after_fork_in_parent, after_fork_in_child);
    let _ = kick::register();
}

extern "C" fn before_fork() {
    if root::is_installed() {
        thread::enter();
        runtime::zone().prepare_fork(&runtime::general().state().locks);
        FORKING.store(thread::identity(), Ordering::Relaxed);
    }
}

extern "C" fn after_fork_in_parent() {
    if root::is_installed() {
        runtime::zone().finish_fork(FORKING.load(Ordering::Relaxed));
    }
}

extern "C" fn after_fork_in_child() {
    thread::enter();
    slot::after_fork_in_child();
    after_fork_in_parent();
}
