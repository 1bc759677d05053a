//! How long locks are held, for measurements. While it is off, a lock pays one test when it is taken and one when it is
//! released.
//!
//! ```text
//!   HELD      lock │ contention │ site │ CPU time at the acquisition      lock 0: free
//!   LONGEST   place of a site in a contention │ its longest hold          place 0: free
//! ```
//!
//! The time is the CPU time of the thread: a hold during which the thread was preempted, or slept, is no longer for
//! that. Reading it takes a system call; the time of an empty hold is subtracted.
//!
//! Runs at the same time: any number of threads and signal handlers. Only a lock's holder looks for the lock's entry,
//! and it removes the entry before it releases the lock. A fork child may find entries of threads that vanished; the
//! thread that inherits the lock takes the entry over.

use super::contention::Contention;
use super::site::Site;
use super::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use crate::clock;
use core::ptr::null_mut;

/// Some threads hold four locks each, and fifteen classes of locks have some sites each. A hold that finds no free
/// entry near its place is not measured.
const ENTRIES: usize = 128;
const WINDOW: usize = 16;
const EMPTY_HOLDS: usize = 32;

struct Entry {
    lock: AtomicPtr<()>,
    contention: AtomicPtr<Contention>,
    site: AtomicPtr<()>,
    since_ns: AtomicU64,
}

impl Entry {
    const fn free() -> Self {
        Entry {
            lock: AtomicPtr::new(null_mut()),
            contention: AtomicPtr::new(null_mut()),
            site: AtomicPtr::new(null_mut()),
            since_ns: AtomicU64::new(0),
        }
    }
}

struct Longest {
    place: AtomicPtr<()>,
    hold_ns: AtomicU64,
}

impl Longest {
    const fn free() -> Self {
        Longest { place: AtomicPtr::new(null_mut()), hold_ns: AtomicU64::new(0) }
    }
}

process_state! {
    static IS_ON: AtomicBool = AtomicBool::new(false);
    /// What two readings of the clock take, of which a hold contains one.
    static EMPTY_NS: AtomicU64 = AtomicU64::new(0);
    static HELD: [Entry; ENTRIES] = [const { Entry::free() }; ENTRIES];
    static LONGEST: [Longest; ENTRIES] = [const { Longest::free() }; ENTRIES];
}

/// From now on, measures holds. They appear as [`Waited::max_hold_ns`](super::Waited::max_hold_ns).
///
/// # Safety
/// Whenever a lock is taken, its contention outlives the hold.
pub unsafe fn measure_holds() {
    let empty_ns = |_| {
        let since_ns = clock::thread_ns();
        clock::thread_ns() - since_ns
    };
    EMPTY_NS.store((0..EMPTY_HOLDS).map(empty_ns).min().unwrap_or(0), Ordering::Relaxed);
    // Release pairs with the acquire in `end`: it finds what an empty hold takes.
    IS_ON.store(true, Ordering::Release);
}

#[inline]
pub(super) fn is_on() -> bool {
    // Relaxed: a thread that misses the change does not measure one hold.
    IS_ON.load(Ordering::Relaxed)
}

/// The entries of a table where a key's may be.
fn near<T>(table: &'static [T; ENTRIES], key: *mut ()) -> impl Iterator<Item = &'static T> {
    let first = (key.addr() >> 2).wrapping_mul(0x9e37_79b9) >> 7;
    (first..first + WINDOW).map(|at| &table[at % ENTRIES])
}

/// Whether a word is the key, or was free and is the key now.
fn is_or_becomes(word: &AtomicPtr<()>, key: *mut ()) -> bool {
    let there = word.load(Ordering::Relaxed);
    // Acquire pairs with the release in `end`: the last holder has read the entry.
    let claim = || word.compare_exchange(null_mut(), key, Ordering::Acquire, Ordering::Relaxed);
    there == key || (there.is_null() && claim().map_or_else(|first| first == key, |_| true))
}

/// The calling thread has just taken the lock.
#[cold]
pub(super) fn begin(lock: *mut (), contention: &Contention, site: Site) {
    if let Some(entry) = near(&HELD, lock).find(|entry| is_or_becomes(&entry.lock, lock)) {
        // Relaxed: only this thread reads them, until it releases the lock.
        entry.contention.store((&raw const *contention).cast_mut(), Ordering::Relaxed);
        entry.site.store(site.word(), Ordering::Relaxed);
        entry.since_ns.store(clock::thread_ns(), Ordering::Relaxed);
    }
}

/// The calling thread is about to release the lock. One that it took before the measurement began has no entry.
#[cold]
pub(super) fn end(lock: *mut ()) {
    let now_ns = clock::thread_ns();
    let Some(entry) = near(&HELD, lock).find(|entry| entry.lock.load(Ordering::Relaxed) == lock) else { return };
    let (contention, site) = (entry.contention.load(Ordering::Relaxed), entry.site.load(Ordering::Relaxed));
    let hold_ns = now_ns.saturating_sub(entry.since_ns.load(Ordering::Relaxed));
    entry.lock.store(null_mut(), Ordering::Release);
    if !contention.is_null() && !site.is_null() {
        // Acquire: see `measure_holds`.
        let empty_ns = if IS_ON.load(Ordering::Acquire) { EMPTY_NS.load(Ordering::Relaxed) } else { 0 };
        // SAFETY: stored by `begin`. Who began the measurement answers for the contention, which is there until we
        // release the lock. The word is a site's.
        unsafe { (*contention).record_hold(Site::of_word(site), hold_ns.saturating_sub(empty_ns)) };
    }
}

/// Records a hold of a place.
pub(super) fn record(place: *mut (), hold_ns: u64) {
    if let Some(longest) = near(&LONGEST, place).find(|longest| is_or_becomes(&longest.place, place)) {
        // Relaxed: the word stands alone.
        longest.hold_ns.fetch_max(hold_ns, Ordering::Relaxed);
    }
}

/// The longest hold of a place.
pub(super) fn longest_ns(place: *mut ()) -> u64 {
    let mut entries = near(&LONGEST, place).filter(|_| is_on());
    let longest = entries.find(|longest| longest.place.load(Ordering::Relaxed) == place);
    longest.map_or(0, |longest| longest.hold_ns.load(Ordering::Relaxed))
}
