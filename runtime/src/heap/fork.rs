//! Becoming shared, and forking.
//!
//! The moment before the second thread exists is the time to arrange for what only a process with threads needs: noticing
//! forks, and registering for kicks. The C library tells: when `pthread_create` allocates the new thread's tables,
//! `__libc_single_threaded` is 0 already, and one thread runs still. The upgrade is one-way: that flag stays 0 after a join
//! and in fork children.
//!
//! Forking takes no lock, because fork handlers of others may run before and after ours and allocate, because `_Fork` runs none,
//! and because a thread that waits for one lock may hold another. Instead, a child notices that it is one, takes locks over
//! from holders that do not exist there, and puts in order what they protect. A fork in a process with one thread needs
//! not even that: no lock can be held by anybody else.

use super::runtime::runtime;
use crate::percpu;
use machine::sync::{AtomicBool, AtomicU64, Ordering};
use machine::{clock, kick, slot, thread};

/// What the process did to be shared by threads.
#[derive(Debug)]
#[repr(C)]
pub struct Sharing {
    upgraded: AtomicBool,
    /// When, in nanoseconds of the machine's clock.
    upgraded_at_ns: AtomicU64,
}

impl Sharing {
    /// When the process was upgraded, in nanoseconds of the machine's clock; none in solo mode.
    pub fn upgraded_at_ns(&self) -> Option<u64> {
        self.upgraded.load(Ordering::Relaxed).then(|| self.upgraded_at_ns.load(Ordering::Relaxed))
    }
}

/// Upgrades the process if it is about to have a second thread, or has one: every slow path comes along, and whoever creates a
/// thread, so that a child of a fork without handlers has put its own thread in order before there is another.
#[inline]
pub fn upgrade_if_shared() {
    // Relaxed: a flag of its own; whoever misses it comes to `upgrade`, which is for one only.
    if runtime().sharing.upgraded.load(Ordering::Relaxed) {
        percpu::enter();
    } else if !thread::is_alone() {
        upgrade();
    }
}

#[cold]
fn upgrade() {
    // Once: whoever comes second finds it done or under way, and needs nothing of it yet.
    if !super::begin() || runtime().sharing.upgraded.swap(true, Ordering::Relaxed) {
        return;
    }
    // A process without threads may have forked unnoticed, and its only thread have a new number since.
    thread::forget_number();
    slot::claim();
    runtime().sharing.upgraded_at_ns.store(clock::now_ns(), Ordering::Relaxed);
    thread::notice_forks();
    percpu::enter();
    thread::on_fork_in_child(after_fork_in_child);
    let _ = kick::register();
}

extern "C" fn after_fork_in_child() {
    percpu::enter();
}
