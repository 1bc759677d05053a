//! How a process becomes shared by threads, and how it forks.
//!
//! Just before the second thread exists, the process arranges for noticing forks and registers for kicks. The C library
//! gives a sign: when `pthread_create` allocates the new thread's tables, `__libc_single_threaded` is already 0, and
//! one thread still runs. Only the C library's own malloc sees this call. With another malloc, any thread's first slow
//! path finds the process shared. The upgrade is one-way: the flag stays 0 after a join and in fork children.
//!
//! Forking takes no lock, because other fork handlers may allocate before and after ours, `_Fork` runs none, and a
//! thread that waits for one lock may hold another. A child repairs what it finds instead. A signal handler may fork
//! above anything, and its child may return from it. Before that it must not make threads, which would take over what
//! the interrupted thread is doing.

use super::heap::{self, heap};
use crate::percpu;
use machine::sync::{Ordering, spin_loop};
use machine::{clock, kick, process, root, slot, thread};

/// Upgrades the process if it has a second thread. Each slow path calls this.
#[inline]
pub fn upgrade_if_shared() {
    if is_solo_no_longer() {
        upgrade();
    }
}

/// Upgrades the process if it is about to have a second thread. Calls that creating a thread makes come here. So a
/// child of a fork without handlers repairs its own thread first. Registering for kicks is cheap now; with running
/// threads it takes tens of milliseconds and is left to the first kick.
#[inline]
pub fn upgrade_before_a_thread() {
    if is_solo_no_longer() {
        upgrade();
        let _ = kick::register();
        // Its lookup takes a lock of the loader, so do it before any allocation may need a thread.
        thread::prepare_to_spawn();
        (crate::UPCALLS.before_a_thread)();
        heap::name();
    }
}

fn is_solo_no_longer() -> bool {
    // Relaxed: a thread that misses it goes on to `upgrade`, which admits only one.
    if heap().sharing.upgraded.load(Ordering::Relaxed) {
        percpu::enter();
        return false;
    }
    !thread::is_alone()
}

/// Begins a slow path: the thread gets an identity, and the runtime exists and is upgraded if shared. False: no memory.
#[inline]
pub(crate) fn enter() -> bool {
    upgrade_if_shared();
    begin()
}

/// [`enter`] without the upgrade.
fn begin() -> bool {
    percpu::enter();
    root::is_installed() || heap::begin()
}

#[cold]
fn upgrade() {
    if begin() && thread::without_signals(make_shared) == Some(false) {
        // For kernels that wipe no memory in children (before 4.14): ordinary forks are noticed.
        percpu::for_process(|| thread::on_fork_in_child(after_fork_in_child));
    }
}

/// Returns, to the thread that upgraded, whether forks are noticed. Others wait, because before this a child does not
/// notice that it is one, so they must not hold a lock. No signal handler interrupts this, and it does not allocate.
fn make_shared() -> Option<bool> {
    let sharing = &heap().sharing;
    let process = process::id();
    loop {
        if sharing.upgraded.load(Ordering::Acquire) {
            return None;
        }
        // In a fork child, the thread that was upgrading the parent is gone.
        let seen = sharing.upgrading.load(Ordering::Relaxed);
        let claim = || sharing.upgrading.compare_exchange(seen, process, Ordering::Acquire, Ordering::Relaxed);
        if seen != process && claim().is_ok() {
            break;
        }
        spin_loop();
    }
    // A process without threads may have forked unnoticed, so its only thread may have a new number.
    thread::forget_number();
    slot::claim();
    sharing.upgraded_at_ns.store(clock::now_ns(), Ordering::Relaxed);
    let forks_are_noticed = thread::notice_forks();
    percpu::enter();
    // Release pairs with the acquire above: a thread that does not wait knows that forks are noticed.
    sharing.upgraded.store(true, Ordering::Release);
    Some(forks_are_noticed)
}

extern "C" fn after_fork_in_child() {
    thread::declare_forked();
    percpu::enter();
}
