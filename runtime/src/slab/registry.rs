//! What concerns all caches, and slow paths only: it lies in the zone's metadata.

use super::class::CLASSES;
use super::drain::VainFlush;
use super::object_cache::{ObjectCache, Wanted};
use super::panels::Panels;
use super::reclaim::Reclaim;
use super::spare::Spare;
use super::tally::Tally;
use crate::observe::locks::{Filter, LockReport};
use crate::observe::{Events, Kicks};
use core::ptr::null_mut;
use machine::sync::{AtomicBool, AtomicPtr, AtomicU32, Lock, Ordering};

/// Rank of the lock of those who take arrays away from other CPUs: they go on to lock shards.
const DRAIN_RANK: u8 = 0;

/// Caches of the runtime's own.
const OWN: usize = 3;

/// The registry. What is written at different times lies in different lines.
#[derive(Debug)]
#[repr(C)]
pub struct Registry {
    /// What the program holds.
    pub tally: Tally,
    pub rare: Line<Rare>,
    /// Empty arrays that no shard keeps.
    pub(super) spare: Line<Spare>,
    /// At the end, and not written when the registry is made: a table costs no memory before anybody waits.
    pub(super) locks: Line<LockReport>,
}

/// Something in lines of its own.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Line<T>(pub T);

/// What is seldom used.
#[derive(Debug)]
#[repr(C)]
pub struct Rare {
    /// Arrays that exist.
    pub arrays: Events,
    /// Held by whoever takes arrays away from other CPUs.
    pub drain_lock: Lock<DRAIN_RANK>,
    /// Panels of object caches.
    pub(super) panels: Panels,
    /// Kicks of the slab.
    pub kicks: Kicks,
    /// Caches that watch, in the place of general classes.
    watched: [AtomicPtr<ObjectCache>; CLASSES],
    /// Whether caches that watch are looked over at exit.
    checks_at_exit: AtomicBool,
    /// Whether all allocations of general classes come to slow paths.
    pub(super) redirected: AtomicBool,
    /// When no slot had a part of its budget to lend; see `fit`.
    pub(super) asked_in_vain: AtomicU32,
    /// Who has to know of large blocks that go; null: nobody.
    forgets_large: AtomicPtr<()>,
    /// What upkeep knows; null: nothing yet.
    pub upkeep: AtomicPtr<u8>,
    /// What is known of the statistics page, and who is to have one; see `heap::statistics`.
    pub statistics: AtomicPtr<u8>,
    pub statistics_wanted: AtomicU32,
    /// The groups that there are; null: there was none yet.
    pub groups: AtomicPtr<u8>,
    /// The first of the caches whose spans may linger.
    pub(super) lingering: AtomicPtr<ObjectCache>,
    /// Caches of the runtime's own, which higher parts ask for.
    own: [AtomicPtr<ObjectCache>; OWN],
    /// Which rows of the lock report are shown at exit.
    pub lock_filter: Filter,
    /// A flush for an allocation that failed again after it.
    pub(super) vain_flush: VainFlush,
    /// How a process without threads shrinks.
    pub(super) reclaim: Reclaim,
}

impl Rare {
    const fn new() -> Self {
        Rare {
            arrays: Events::new(),
            drain_lock: Lock::new(),
            panels: Panels::new(),
            kicks: Kicks::new(),
            watched: [const { AtomicPtr::new(null_mut()) }; CLASSES],
            checks_at_exit: AtomicBool::new(false),
            redirected: AtomicBool::new(false),
            asked_in_vain: AtomicU32::new(0),
            forgets_large: AtomicPtr::new(null_mut()),
            upkeep: AtomicPtr::new(null_mut()),
            statistics: AtomicPtr::new(null_mut()),
            statistics_wanted: AtomicU32::new(0),
            groups: AtomicPtr::new(null_mut()),
            lingering: AtomicPtr::new(null_mut()),
            own: [const { AtomicPtr::new(null_mut()) }; OWN],
            lock_filter: Filter::new(),
            vain_flush: VainFlush::new(),
            reclaim: Reclaim::new(),
        }
    }

    /// The cache that serves a general class in its place.
    pub(super) fn watched(&self, class: usize) -> Option<&'static ObjectCache> {
        // Acquire pairs with the release in `watch`.
        // SAFETY: object caches are never unmapped.
        unsafe { self.watched[class].load(Ordering::Acquire).as_ref() }
    }

    /// Has a cache serve a general class.
    pub(super) fn watch(&self, class: usize, cache: &'static ObjectCache) {
        self.watched[class].store((&raw const *cache).cast_mut(), Ordering::Release);
    }

    /// From now on `forget` is called before a large block goes that was allocated before or is allocated later.
    pub fn tell_of_large(&self, forget: unsafe fn(*mut u8)) {
        // Relaxed: whoever frees a block got it from who allocated it, after this.
        self.forgets_large.store(forget as *mut (), Ordering::Relaxed);
    }

    /// Whom to call before a large block goes.
    pub(super) fn forgets_large(&self) -> Option<unsafe fn(*mut u8)> {
        let forget = self.forgets_large.load(Ordering::Relaxed);
        // SAFETY: null, or stored above.
        (!forget.is_null()).then(|| unsafe { core::mem::transmute::<*mut (), unsafe fn(*mut u8)>(forget) })
    }

    /// True for the first who asks.
    pub(super) fn is_first_to_check(&self) -> bool {
        !self.checks_at_exit.swap(true, Ordering::Relaxed)
    }
}

impl Registry {
    /// A cache of the runtime's own, which is created if nobody has; none: no memory.
    pub fn own_cache(&self, number: usize, wanted: &Wanted<'_>) -> Option<&'static ObjectCache> {
        self.known_own_cache(number).or_else(|| {
            let made = ObjectCache::create(wanted).ok()?;
            let (place, ours) = (&self.rare.0.own[number], (&raw const *made).cast_mut());
            if place.compare_exchange(null_mut(), ours, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: nobody has seen ours.
                let _ = unsafe { made.destroy() };
            }
            self.known_own_cache(number)
        })
    }

    /// The same, if somebody has created it.
    #[inline]
    pub fn known_own_cache(&self, number: usize) -> Option<&'static ObjectCache> {
        // Acquire pairs with the release above: who sees the cache finds it as it was made.
        // SAFETY: object caches are never unmapped, and this one is never destroyed.
        unsafe { self.rare.0.own[number].load(Ordering::Acquire).as_ref() }
    }

    /// Makes it: nothing yet.
    ///
    /// # Safety
    /// The place is the caller's, and zero.
    pub(super) unsafe fn begin(this: *mut Registry) {
        // SAFETY: passed on. Of the locks' tables zeroes are the empty ones.
        unsafe {
            (&raw mut (*this).tally).write(Tally::new());
            (&raw mut (*this).rare).write(Line(Rare::new()));
            (&raw mut (*this).spare).write(Line(Spare::new()));
        }
    }
}
