//! The costs of waiting for a group of locks, in a table of [`PLACES`] sites and a sum for all further sites.
//!
//! ```text
//!   Contention   out_of_order │ place │ place │ … │ lost: waits of sites without a place
//!   place        site │ contended │ total │ max       site 0: free
//! ```
//!
//! Threads claim places in order and never return them, so each address has one place. A thread that records finds its
//! address or claims a free place. Readers merge equal sites with several addresses. All-zero memory is an empty table.
//!
//! **In any reading**, even while threads record, the longest wait is at most the sum of all waits, and each wait in
//! the sum was counted. See [`Waits::read`].
//!
//! Runs at the same time: any number of threads, also in signal handlers. There is no lock, and a thread that waits for
//! one may record. If a thread vanishes in a fork while it records, it leaves a counted wait without a time.

use super::hold;
use super::site::Site;
use super::{AtomicPtr, AtomicU64, Ordering};
use core::ptr::null_mut;

/// Sites with a place. The locks with the most callers, the depot's shards, have some twenty.
pub const PLACES: usize = 32;

/// The costs of waiting for a group of locks, by site.
#[derive(Debug)]
#[repr(C)]
pub struct Contention {
    out_of_order: AtomicU64,
    places: [Place; PLACES],
    lost: Waits,
}

#[derive(Debug)]
#[repr(C)]
struct Place {
    site: AtomicPtr<()>,
    waits: Waits,
}

#[derive(Debug)]
#[repr(C)]
struct Waits {
    contended: AtomicU64,
    total_wait_ns: AtomicU64,
    max_wait_ns: AtomicU64,
}

/// The sums of some waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// Acquisitions that did not succeed at once.
    pub contended: u64,
    /// Total nanoseconds waited.
    pub total_wait_ns: u64,
    /// Longest single wait in nanoseconds.
    pub max_wait_ns: u64,
    /// Longest hold in nanoseconds of CPU time; 0 unless [holds are measured](super::measure_holds).
    pub max_hold_ns: u64,
}

/// A reading of [`Contention`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentionReport {
    /// All waits, at any site.
    pub waited: Waited,
    /// Acquisitions, or attempts, by a thread with a lock of the same rank or above: a signal handler's.
    pub out_of_order: u64,
}

impl Waited {
    /// Average nanoseconds of a wait, rounded down; 0 without waits.
    pub fn avg_wait_ns(&self) -> u64 {
        self.total_wait_ns.checked_div(self.contended).unwrap_or(0)
    }

    /// The sum with others.
    pub fn and(self, other: Waited) -> Waited {
        Waited {
            contended: self.contended + other.contended,
            total_wait_ns: self.total_wait_ns.saturating_add(other.total_wait_ns),
            max_wait_ns: self.max_wait_ns.max(other.max_wait_ns),
            max_hold_ns: self.max_hold_ns.max(other.max_hold_ns),
        }
    }
}

impl Waits {
    const fn new() -> Self {
        Waits { contended: AtomicU64::new(0), total_wait_ns: AtomicU64::new(0), max_wait_ns: AtomicU64::new(0) }
    }

    /// The key of the place's holds.
    fn key(&self) -> *mut () {
        (&raw const *self).cast_mut().cast()
    }

    /// Counts a wait, then adds it, then makes it the longest if it is. A reading goes the other way round.
    fn record(&self, wait_ns: u64) {
        // Relaxed: the next operation publishes it.
        self.contended.fetch_add(1, Ordering::Relaxed);
        // Release, both: see `read`.
        self.total_wait_ns.fetch_add(wait_ns, Ordering::Release);
        self.max_wait_ns.fetch_max(wait_ns, Ordering::Release);
    }

    /// Reads the longest first, then the sum, then the count.
    ///
    /// Only read-modify-writes change the words, so the one whose result we read continues the release sequences of all
    /// earlier ones. Our acquire makes earlier work of *those* threads visible. So the sum that we read next has the
    /// longest wait that we read. If a longer one came later, ours is shorter and also in the sum. In the same way, the
    /// count has all waits in the sum. Waits counted but not yet added make the average smaller.
    fn read(&self) -> Waited {
        let max_wait_ns = self.max_wait_ns.load(Ordering::Acquire);
        let total_wait_ns = self.total_wait_ns.load(Ordering::Acquire);
        // Relaxed: the last.
        let contended = self.contended.load(Ordering::Relaxed);
        Waited { contended, total_wait_ns, max_wait_ns, max_hold_ns: hold::longest_ns(self.key()) }
    }
}

impl Contention {
    /// No waits.
    pub const fn new() -> Self {
        let places = [const { Place { site: AtomicPtr::new(null_mut()), waits: Waits::new() } }; PLACES];
        Contention { out_of_order: AtomicU64::new(0), places, lost: Waits::new() }
    }

    /// Records a wait at `site`, for locks other than [`Lock`](super::Lock), which records its own.
    pub fn record(&self, site: Site, wait_ns: u64) {
        self.waits_of(site).record(wait_ns);
    }

    pub(super) fn record_hold(&self, site: Site, hold_ns: u64) {
        hold::record(self.waits_of(site).key(), hold_ns);
    }

    pub(super) fn count_out_of_order(&self) {
        // Relaxed: a statistic, which orders nothing.
        self.out_of_order.fetch_add(1, Ordering::Relaxed);
    }

    fn waits_of(&self, site: Site) -> &Waits {
        let ours = site.word();
        for place in &self.places {
            // Relaxed, here and below: a site is its word, and leads to nothing that a thread writes.
            let mut there = place.site.load(Ordering::Relaxed);
            if there.is_null() {
                // If we are first, the place is ours; otherwise another thread's, which may have the same site.
                let claimed = place.site.compare_exchange(null_mut(), ours, Ordering::Relaxed, Ordering::Relaxed);
                there = claimed.map_or_else(|first| first, |_| ours);
            }
            if there == ours {
                return &place.waits;
            }
        }
        &self.lost
    }

    /// Sites and their waits. A site that has just claimed its place may have zero waits.
    pub fn sites(&self) -> impl Iterator<Item = (Site, Waited)> {
        let is_first = |&(at, site, _): &(usize, Site, _)| !self.claimed().take(at).any(|(_, other, _)| other == site);
        self.claimed().filter(is_first).map(|(at, site, _)| {
            let equal = self.claimed().skip(at).filter(|&(_, other, _)| other == site);
            (site, equal.map(|(_, _, waits)| waits.read()).fold(Waited::default(), Waited::and))
        })
    }

    fn claimed(&self) -> impl Iterator<Item = (usize, Site, &Waits)> {
        self.places.iter().enumerate().map_while(|(at, place)| {
            let word = place.site.load(Ordering::Relaxed);
            // SAFETY: `waits_of` stored it if it is not null.
            (!word.is_null()).then(|| (at, unsafe { Site::of_word(word) }, &place.waits))
        })
    }

    /// The waits of sites without a place.
    pub fn lost(&self) -> Waited {
        self.lost.read()
    }

    /// All waits.
    pub fn report(&self) -> ContentionReport {
        ContentionReport {
            waited: self.claimed().map(|(_, _, waits)| waits.read()).fold(self.lost(), Waited::and),
            out_of_order: self.out_of_order.load(Ordering::Relaxed),
        }
    }
}

impl Default for Contention {
    fn default() -> Self {
        Self::new()
    }
}
