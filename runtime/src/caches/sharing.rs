//! Becoming shared, and forking.
//!
//! The moment before the second thread exists is the time to arrange for what only a process with threads needs:
//! noticing forks, and registering for kicks. The C library tells: when `pthread_create` allocates the new thread's
//! tables, `__libc_single_threaded` is 0 already, and one thread runs still. It tells nobody but its own malloc: where
//! that is another one, the first slow path of any thread finds the process shared. The upgrade is one-way: that flag
//! stays 0 after a join and in fork children.
//!
//! Forking takes no lock, because fork handlers of others may run before and after ours and allocate, because `_Fork`
//! runs none, and because a thread that waits for one lock may hold another. Instead, a child notices that it is one,
//! takes locks over from holders that do not exist there, and puts in order what they protect. A fork in a process with
//! one thread needs not even that: no lock can be held by anybody else.
//!
//! A signal handler may fork on top of anything, and its child may return from it. But the child must not make threads
//! before it has: they would take over what the interrupted thread is in the middle of.

use super::heap::heap;
use super::region;
use crate::percpu;
use machine::sync::{Ordering, spin_loop};
use machine::{clock, kick, process, root, slot, thread};

/// Upgrades the process if it has a second thread: every slow path comes along.
#[inline]
pub fn upgrade_if_shared() {
    if is_solo_no_longer() {
        upgrade();
    }
}

/// Upgrades the process if it is about to have a second thread: for calls that creating a thread makes. So a child of a
/// fork without handlers has put its own thread in order before there is another, and registering for kicks is cheap:
/// where threads run already it takes tens of milliseconds, so there it is left to the first kick.
#[inline]
pub fn upgrade_before_a_thread() {
    if is_solo_no_longer() {
        upgrade();
        let _ = kick::register();
        // It is looked up under a lock of the loader, so not later, when a thread may be needed in whatever allocation.
        thread::prepare_to_spawn();
        (crate::UPCALLS.before_a_thread)();
        region::name();
    }
}

fn is_solo_no_longer() -> bool {
    // Relaxed: whoever misses it comes to `upgrade`, which is for one only.
    if heap().sharing.upgraded.load(Ordering::Relaxed) {
        percpu::enter();
        return false;
    }
    !thread::is_alone()
}

/// Begins a slow path: the thread has an identity of this process, and the runtime exists and knows whether it is
/// shared. False: no memory for it.
#[inline]
pub fn enter() -> bool {
    upgrade_if_shared();
    begin()
}

/// [`enter`], but for the last.
fn begin() -> bool {
    percpu::enter();
    root::is_installed() || region::begin()
}

#[cold]
fn upgrade() {
    if !begin() {
        return;
    }
    let Some(forks_are_noticed) = thread::without_signals(make_shared) else { return };
    if !forks_are_noticed {
        percpu::for_process(|| thread::on_fork_in_child(after_fork_in_child));
    }
}

/// For the one who did it: whether forks are noticed by themselves. Others wait until that is done: from then on a
/// child finds out that it is one, and until then none of them may hold a lock. No handler interrupts here, and nothing
/// here allocates.
fn make_shared() -> Option<bool> {
    let sharing = &heap().sharing;
    let process = process::id();
    loop {
        if sharing.upgraded.load(Ordering::Acquire) {
            return None;
        }
        // In a fork child whoever upgraded its parent is gone.
        let seen = sharing.upgrading.load(Ordering::Relaxed);
        if seen != process
            && sharing.upgrading.compare_exchange(seen, process, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            break;
        }
        spin_loop();
    }
    // A process without threads may have forked unnoticed, and its only thread have a new number since.
    thread::forget_number();
    slot::claim();
    sharing.upgraded_at_ns.store(clock::now_ns(), Ordering::Relaxed);
    let forks_are_noticed = thread::notice_forks();
    percpu::enter();
    // Release pairs with the acquire above: who does not wait knows that forks are noticed.
    sharing.upgraded.store(true, Ordering::Release);
    Some(forks_are_noticed)
}

/// Where the kernel wipes nothing in children (before 4.14): ordinary forks at least are noticed.
extern "C" fn after_fork_in_child() {
    thread::declare_forked();
    percpu::enter();
}
