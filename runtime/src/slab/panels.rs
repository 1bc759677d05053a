//! The panels of object caches: places are handed out, and taken back when a cache is destroyed.
//!
//! A panel is address space for 72 caches in all possible slots; a page of it is committed when a slot first uses one of them. Panels, and
//! the descriptions of their caches, are made when needed and kept for ever.
//!
//! **Creation interrupts nobody.** A new cache has no array that another CPU could be working on, so nothing is restarted and nothing fenced:
//! its words are zero, which is "empty and full", and whoever gets to know the cache gets to know them. Destroying one restarts nobody
//! either: its users are through with it, which only they can know.
//!
//! Runs at the same time: who creates and who gives back a place hold the panels' lock; the table is read by anybody.

use super::class::CLASSES;
use super::object_cache::ObjectCache;
use super::panel::{Handle, Head};
use super::{General, Slab, shard};
use crate::percpu::{HEADER, Region};
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ptr::null_mut;
use machine::slot::{self, ARRAY};
use machine::sync::{Acquired, AtomicPtr, AtomicU32, Lock, Ordering, Site};
use machine::{here, vm};

/// The lock's rank: the drain lock's holder gives places back.
const PANELS_RANK: u8 = 1;
/// Numbers of caches from one panel's first to the next one's.
pub(super) const STRIDE: u32 = 128;
const _: () = assert!(CLASSES <= STRIDE as usize);
/// Panels that there can be: places for some four million caches.
const MOST: usize = 1 << 16;
/// Bytes before a panel's base: see `array::DRAINING`.
const SLACK: usize = vm::PAGE;
const _: () = assert!(ARRAY <= SLACK);

/// A panel of object caches begins so.
#[derive(Debug)]
#[repr(C)]
pub struct Panel {
    head: Head,
    /// By place.
    pub(super) caches: [AtomicPtr<ObjectCache>; CLASSES],
}

const _: () = assert!(size_of::<Panel>() <= HEADER);

/// All panels but the first, which is the general caches'. Zeroes are a valid one.
#[derive(Debug)]
#[repr(C)]
pub struct Panels {
    lock: Lock<PANELS_RANK>,
    /// Panels in the table, from 1 on.
    count: AtomicU32,
    table: AtomicPtr<AtomicPtr<Panel>>,
    state: UnsafeCell<State>,
}

/// Under the lock.
#[derive(Debug)]
struct State {
    /// Places given out of the last panel.
    places: usize,
    /// Caches that were destroyed.
    free: *mut ObjectCache,
}

// SAFETY: `state` is used under the lock.
unsafe impl Sync for Panels {}

impl<'a> General<'a> {
    fn panels(self) -> &'a Panels {
        &self.slab.registry().rare.0.panels
    }

    /// The cache of a number, which may be one's.
    pub(super) fn cache(self, number: u32) -> Handle<'a> {
        let (panel, place) = (number / STRIDE, (number % STRIDE) as usize);
        let panel = if panel == 0 { self.region } else { self.panels().base(panel) };
        Handle { panel, place, lives: PhantomData }
    }

    /// All caches that exist, the general ones first. Without the drain lock, one that is shown may be gone.
    pub(super) fn caches(self) -> impl Iterator<Item = Handle<'a>> {
        let places = |panel: u32| panel * STRIDE + 1..panel * STRIDE + CLASSES as u32;
        // Acquire pairs with the release in `add`: who counts a panel finds it in the table.
        let panels = 0..=self.panels().count.load(Ordering::Acquire);
        panels.flat_map(places).map(move |number| self.cache(number)).filter(|cache| cache.exists())
    }

    /// An object cache at a place where no cache exists. None: no memory.
    pub(super) fn take_place(self) -> Option<&'static ObjectCache> {
        self.panels().locked(self.slab, here!(), |state| {
            // SAFETY: object caches are never unmapped.
            if let Some(free) = unsafe { state.free.as_ref() } {
                state.free = free.next.load(Ordering::Relaxed);
                return Some(free);
            }
            self.cut_place(state)
        })?
    }

    /// Takes the place of a cache back that does not exist any more.
    pub(super) fn give_place_back(self, cache: &ObjectCache) {
        // In a signal handler that must not wait, the place is lost.
        self.panels().locked(self.slab, here!(), |state| {
            cache.next.store(state.free, Ordering::Relaxed);
            state.free = (&raw const *cache).cast_mut();
        });
    }

    fn cut_place(self, state: &mut State) -> Option<&'static ObjectCache> {
        let metadata = &self.slab.zone.metadata;
        if state.places == 0 || state.places == CLASSES {
            self.panels().add(self.slab)?;
            state.places = 1;
        }
        let cache = metadata.cut(size_of::<ObjectCache>(), align_of::<ObjectCache>())?.cast::<ObjectCache>();
        // SAFETY: fresh metadata is zero, which is valid, and is never taken back.
        let cache: &'static ObjectCache = unsafe { &*cache };
        let panel = self.panels().base(self.panels().count.load(Ordering::Relaxed));
        cache.begin_at(panel, state.places);
        // SAFETY: a panel begins there.
        let known = unsafe { &(&(*panel.base().cast::<Panel>()).caches)[state.places] };
        known.store((&raw const *cache).cast_mut(), Ordering::Relaxed);
        state.places += 1;
        Some(cache)
    }
}

/// Bytes that a panel takes.
const BYTES: usize = SLACK + HEADER + slot::MAX * slot::AREA;

/// Address space for a panel, zeroed. None: no memory.
pub(super) fn reserve_panel() -> Option<Region> {
    let start = vm::reserve(null_mut(), BYTES, vm::Access::ReadWrite)?;
    // SAFETY: the mapping is fresh and ours. A huge page would make many slots' areas resident.
    unsafe {
        vm::advise_huge(start, BYTES, vm::Huge::Avoid);
        Some(Region::at(start.wrapping_add(SLACK)))
    }
}

/// Gives back a panel that nobody has seen.
pub(super) fn release_panel(panel: Region) {
    // SAFETY: reserved above.
    unsafe { vm::release(panel.base().wrapping_sub(SLACK), BYTES) };
}

/// Writes to what this slot will use of a fresh panel. It would read it first, and a page that is read before it is written faults twice, the
/// second time interrupting all CPUs that run a thread of the process.
///
/// # Safety
/// Nobody else knows the panel.
unsafe fn touch_area(panel: Region) {
    let Some(slot) = slot::current_if_given() else { return };
    for page in (0..shard::END).step_by(vm::PAGE) {
        // SAFETY: a word of the slot's area, which is zero.
        unsafe { panel.in_area::<usize>(slot, page).write_volatile(0) };
    }
}

impl Panels {
    /// None yet.
    pub(super) const fn new() -> Self {
        Panels {
            lock: Lock::new(),
            count: AtomicU32::new(0),
            table: AtomicPtr::new(null_mut()),
            state: UnsafeCell::new(State { places: 0, free: null_mut() }),
        }
    }

    /// The base of a panel that there is, by its number from 1 on.
    fn base(&self, number: u32) -> Region {
        // Relaxed: whoever knows the number knows it from the panel, or from a count that was read with acquire.
        let table = self.table.load(Ordering::Relaxed);
        // SAFETY: the table has an entry for the panel, which is never unmapped.
        unsafe { Region::at((*table.add(number as usize)).load(Ordering::Relaxed).cast()) }
    }

    /// Makes another panel; under the lock. None: no memory.
    fn add(&self, slab: &Slab) -> Option<()> {
        let count = self.count.load(Ordering::Relaxed);
        if self.table.load(Ordering::Relaxed).is_null() {
            let table = slab.zone.metadata.cut(MOST * size_of::<*mut Panel>(), vm::PAGE)?;
            self.table.store(table.cast(), Ordering::Relaxed);
        }
        if count as usize + 1 == MOST {
            return None;
        }
        let panel = reserve_panel()?;
        // SAFETY: the panel is ours, zeroes are a valid one, and the table has room.
        unsafe {
            (*panel.base().cast::<Panel>()).head.begin((&raw const *slab).cast_mut(), count + 1);
            let table = self.table.load(Ordering::Relaxed);
            (*table.add(count as usize + 1)).store(panel.base().cast(), Ordering::Relaxed);
            touch_area(panel);
        }
        // Release pairs with the acquire in `caches`.
        self.count.store(count + 1, Ordering::Release);
        Some(())
    }

    /// None in a signal handler that must not wait.
    fn locked<R>(&self, slab: &Slab, site: Site, work: impl FnOnce(&mut State) -> R) -> Option<R> {
        // A holder that vanished in a fork leaves the state in order: it changes by single stores, and at worst a place is lost.
        if self.lock.acquire(&slab.locks().panels, site) == Acquired::WouldDeadlock {
            return None;
        }
        // SAFETY: we hold the lock.
        let result = work(unsafe { &mut *self.state.get() });
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }
}
