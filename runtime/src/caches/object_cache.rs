//! Object caches: caches that programs create, beside the size classes.
//!
//! An [`ObjectCache`] says what its objects are, and where fast paths find their magazines. It belongs to an id of a
//! chunk for ever; when the cache is destroyed, both wait for the next one. It lies in metadata, so a stale pointer
//! leads to an object cache still.
//!
//! With a constructor, objects stay constructed between uses: it runs when memory is first cut into an object, and the
//! destructor before the memory of a whole span goes back. Neither runs under a lock, but that a destructor may run
//! where a thread trims, under the drain lock: so it cannot destroy a cache.
//!
//! Runs at the same time: any number of threads allocate and free, also in signal handlers; creating and destroying:
//! see `central::chunk`.

use super::debug::{Debug, Options};
use super::errors::{Alive, COARSEST, LARGEST_OBJECT, Refused, Untunable};
use super::heap::heap;
use super::sharing::enter;
use crate::central::size_class;
use crate::central::{CacheName, CacheRef, CacheState, ChunkHead, Descriptor, Home, Hook, Shape};
use crate::counter::{Account, NoMemory};
use crate::depot::Reserve;
use crate::settings::Key;
use core::mem::offset_of;
use core::ptr::null_mut;
use machine::sync::{AtomicPtr, AtomicUsize, Ordering};
use machine::{process, slot};

const DEDICATED: Key = Key::of("cache.NAME.dedicated");

/// Bytes of the smallest objects: a span has a bit for as many.
const LEAST_OBJECT: usize = 16;
/// Objects are multiples of this.
const LEAST_STEP: usize = 8;

/// What is asked for when a cache is created.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// What people call it; cut after [`NAME_BYTES`](crate::central::NAME_BYTES).
    pub name: &'a [u8],
    /// Bytes of an object.
    pub bytes: usize,
    /// A power of two.
    pub alignment: usize,
    /// Runs once for each object, when its memory is first cut.
    pub constructor: Option<Hook>,
    /// Runs once for each object that was constructed, before its memory goes back.
    pub destructor: Option<Hook>,
    /// What both are given.
    pub argument: *mut u8,
    /// Whether readers may look at objects that were given back, as long as they are in sections; see `rcu::typesafe`.
    pub typesafe: bool,
}

/// A cache that a program created.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ObjectCache {
    // What fast paths read: the chunk that serves it, and the index of its allocation magazine there; 0 where they have
    // nothing to do.
    base: AtomicPtr<ChunkHead>,
    index: AtomicUsize,
    /// The size class whose objects it gives, by a rule; 0: it has its own.
    class: AtomicUsize,
    /// What watching its users takes; null if that was never wanted at its id.
    debug: AtomicPtr<Debug>,
    /// Objects for allocations that would fail.
    pub(super) reserve: Reserve,
    state: CacheState,
}

// SAFETY: zeroes are an object cache that fast paths have nothing to do with.
unsafe impl Descriptor for ObjectCache {
    fn state(&self) -> &CacheState {
        &self.state
    }
}

impl ObjectCache {
    /// Creates a cache. Interrupts nobody; see `central::chunk`. A microsecond or so.
    pub fn create(wanted: &Wanted<'_>) -> Result<&'static ObjectCache, Refused> {
        let shape = Self::shape(wanted)?;
        if !enter() {
            return Err(Refused::NoMemory);
        }
        let cache = Self::claim(wanted).ok_or(Refused::NoMemory)?;
        let Wanted { bytes, .. } = *wanted;
        let options = Options::of(wanted.name);
        // What was constructed stays so, and what readers may look at is not written to.
        let is_kept = wanted.constructor.is_some() || wanted.typesafe;
        let options = if is_kept { options.without(Options::POISON) } else { options };
        if options != Options::NONE {
            match cache.begin_debug(options, bytes, wanted.alignment) {
                Some(whole) => cache.begin(Shape::of(whole), 0),
                None => {
                    heap().central().give_id_back(&cache.state);
                    return Err(Refused::NoMemory);
                }
            }
            return Ok(cache);
        }
        match size_class::class_for_aligned(bytes, wanted.alignment) {
            // Its memory must not be used as anything else.
            Some(class) if !wanted.typesafe && DEDICATED.of_cache(wanted.name) == 0 => cache.begin_in_class(class),
            _ => cache.begin(shape, cache.cache().index()),
        }
        Ok(cache)
    }

    /// Creates a cache whose objects an account is charged for, for as long as the cache exists. Rules of the
    /// configuration do not concern it. None: no memory.
    ///
    /// # Safety
    /// The account lives as long as the cache.
    pub unsafe fn create_for(account: *const Account, wanted: &Wanted<'_>) -> Option<&'static ObjectCache> {
        let shape = Self::shape(wanted).ok()?;
        let cache = Self::claim(wanted)?;
        // SAFETY: passed on.
        unsafe { cache.state.set_account(account) };
        cache.begin(shape, cache.cache().index());
        Some(cache)
    }

    /// A description with an id, and what a cache there is to be.
    fn claim(wanted: &Wanted<'_>) -> Option<&'static ObjectCache> {
        let state = heap().central().claim_id::<ObjectCache>()?;
        state.label().write(wanted.name);
        let Wanted { bytes, constructor, destructor, argument, typesafe, .. } = *wanted;
        let begin_object = constructor.map(|_| construct as unsafe fn(&CacheState, *mut u8));
        let end_object = destructor.map(|_| destroy as unsafe fn(&CacheState, *mut u8));
        // SAFETY: nobody else knows the cache.
        unsafe {
            state.set_home(Home { bytes, constructor, destructor, argument, typesafe, begin_object, end_object })
        };
        if typesafe {
            heap().central().list_waiting(state);
            if !(crate::UPCALLS.readers_are_absent)() {
                (crate::UPCALLS.rouse_worker)();
            }
        }
        Some(Self::of_state(state))
    }

    /// The cache that a description is part of.
    pub(super) fn of_state(state: &'static CacheState) -> &'static ObjectCache {
        // SAFETY: all descriptions were claimed as parts of object caches, which are never unmapped.
        unsafe { &*(&raw const *state).byte_sub(offset_of!(ObjectCache, state)).cast::<ObjectCache>() }
    }

    /// The object cache that a reference is to; none: it is a size class.
    pub(super) fn of(cache: CacheRef) -> Option<&'static ObjectCache> {
        cache.state().map(Self::of_state)
    }

    /// The cache that a reference is to, if it watches its users.
    pub(super) fn watching(cache: CacheRef) -> Option<(&'static ObjectCache, &'static Debug)> {
        let cache = Self::of(cache)?;
        Some((cache, cache.debug()?))
    }

    /// Its description.
    pub(super) fn state(&self) -> &CacheState {
        &self.state
    }

    /// The same, for tables.
    pub(super) fn state_ptr(&self) -> *mut CacheState {
        (&raw const self.state).cast_mut()
    }

    /// Nobody is charged any more.
    pub(crate) fn disown(&self) {
        // SAFETY: there is no account.
        unsafe { self.state.set_account(core::ptr::null()) };
    }

    fn shape(wanted: &Wanted<'_>) -> Result<Shape, Refused> {
        match *wanted {
            Wanted { bytes, .. } if bytes == 0 || bytes > LARGEST_OBJECT => Err(Refused::Size),
            Wanted { alignment, .. } if !alignment.is_power_of_two() || alignment > COARSEST => Err(Refused::Alignment),
            Wanted { name, .. } if name.is_empty() || !is_plain(name) => Err(Refused::Name),
            Wanted { bytes, alignment, .. } => {
                Ok(Shape::of(bytes.max(LEAST_OBJECT).next_multiple_of(alignment.max(LEAST_STEP))))
            }
        }
    }

    /// Destroys the cache, if no object of it is alive: then its memory goes back, and every object that was
    /// constructed is destroyed. Interrupts nobody, but that a typesafe cache waits for readers first. Else nothing
    /// happens to it.
    ///
    /// # Safety
    /// Nobody else uses the cache meanwhile, and nobody at all afterwards. Not in a signal handler.
    pub unsafe fn destroy(&self) -> Result<(), Alive> {
        if self.state.home().typesafe && !(crate::UPCALLS.readers_are_absent)() {
            (crate::UPCALLS.wait_for_readers)();
        }
        // SAFETY: passed on.
        unsafe { self.destroy_unread() }
    }

    /// The same, for a cache at whose objects no reader is looking, as one that gave none.
    ///
    /// # Safety
    /// As for [`Self::destroy`].
    pub unsafe fn destroy_unread(&self) -> Result<(), Alive> {
        enter();
        if self.class.load(Ordering::Relaxed) != 0 {
            heap().cpu.depot.end_reserve(self.serving(), &self.reserve);
        }
        if let Some(debug) = self.debug() {
            self.release_quarantine(debug, 0);
        }
        // SAFETY: passed on.
        unsafe { heap().end(self.cache()) }
    }

    /// Forgets what it was: it has ended.
    pub(super) fn forget(&self) {
        self.state.forget();
        self.end_debug();
    }

    /// Its name.
    pub fn name(&self) -> CacheName {
        self.state.name()
    }

    /// Bytes that were asked for.
    pub fn object_bytes(&self) -> usize {
        self.state.home().bytes
    }

    /// Objects that are alive: exact at rest. Not known, and 0, where a size class serves the cache.
    pub fn alive(&self) -> usize {
        heap().alive(self.cache())
    }

    /// The cache at its own id, as slow paths know it.
    pub fn cache(&self) -> CacheRef {
        CacheRef::of(&self.state)
    }

    /// The cache whose objects it gives: itself, but for a rule.
    fn serving(&self) -> CacheRef {
        match self.class.load(Ordering::Relaxed) {
            0 => self.cache(),
            class => heap().class(class),
        }
    }

    fn begin(&self, shape: Shape, index: usize) {
        self.class.store(0, Ordering::Relaxed);
        self.serve(index);
        self.cache().set_shape(shape);
    }

    /// Hooks run for each use then, on slow paths.
    fn begin_in_class(&self, class: usize) {
        self.class.store(class, Ordering::Relaxed);
        let home = self.state.home();
        let runs_hooks = home.constructor.is_some() || home.destructor.is_some();
        self.serve(if runs_hooks { 0 } else { self.serving().index() });
    }

    fn serve(&self, index: usize) {
        self.base.store(self.serving().chunk().base().cast(), Ordering::Relaxed);
        self.index.store(index, Ordering::Relaxed);
    }

    /// Whether fast paths have nothing to do: it watches its users, or hooks run for each use.
    fn has_slow_paths_only(&self) -> bool {
        self.index.load(Ordering::Relaxed) == 0
    }

    /// What watches its users, if anything does.
    pub(super) fn debug(&self) -> Option<&'static Debug> {
        self.debug_place().filter(|debug| debug.is_on())
    }

    /// The same, if it ever watched at its id.
    pub(super) fn debug_place(&self) -> Option<&'static Debug> {
        // SAFETY: never freed once it is made, and made before anybody else knows the cache.
        unsafe { self.debug.load(Ordering::Relaxed).as_ref() }
    }

    pub(super) fn set_debug_place(&self, debug: *mut Debug) {
        self.debug.store(debug, Ordering::Relaxed);
    }

    // ---- objects ----

    /// An object; null, with ENOMEM, if there is no memory. As the constructor, or its last user, left it.
    #[inline(always)]
    pub fn allocate(&self) -> *mut u8 {
        // Relaxed: both are as they were before the caller knew the cache.
        let (base, index) = (self.base.load(Ordering::Relaxed).cast(), self.index.load(Ordering::Relaxed));
        // SAFETY: a chunk in which every slot has an area, and an even index.
        let object = unsafe { slot::pop(base, index) };
        if object.is_null() { allocate_slow(self) } else { object }
    }

    /// Gives an object back.
    ///
    /// # Safety
    /// The object came from here, is the caller's to give up, and is constructed if the cache has a constructor.
    #[inline(always)]
    pub unsafe fn free(&self, object: *mut u8) {
        let (base, index) = (self.base.load(Ordering::Relaxed).cast(), self.index.load(Ordering::Relaxed));
        // SAFETY: as above; passed on.
        unsafe {
            if !slot::push(base, index, object) {
                free_slow(self, object);
            }
        }
    }

    /// Objects for all of `objects`, or as many as there is memory for; returns how many. The places behind those stay
    /// as they are.
    pub fn allocate_bulk(&self, objects: &mut [*mut u8]) -> usize {
        if !enter() {
            return 0;
        }
        let many = if self.has_slow_paths_only() { 0 } else { heap().cpu.take_many(self.serving(), objects) };
        let rest = objects[many..].iter_mut().map_while(|place| {
            *place = self.allocate();
            (!place.is_null()).then_some(())
        });
        many + rest.count()
    }

    /// Gives many objects back.
    ///
    /// # Safety
    /// As for [`Self::free`], for each of them.
    pub unsafe fn free_bulk(&self, objects: &[*mut u8]) {
        enter();
        match self.has_slow_paths_only() {
            // SAFETY: passed on.
            true => objects.iter().for_each(|&object| unsafe { self.free(object) }),
            // SAFETY: passed on.
            false => unsafe { heap().cpu.put_many(self.serving(), objects) },
        }
    }

    /// Sets memory aside for so many objects, or as many as are missing for that: allocations that would fail take
    /// those, so the next `objects` of them cannot fail, whoever makes them. Error: there is no memory; what had been
    /// set aside before still is.
    pub fn prefill(&self, objects: usize) -> Result<(), NoMemory> {
        if enter() && heap().cpu.depot.prefill(self.serving(), &self.reserve, objects) { Ok(()) } else { Err(NoMemory) }
    }

    /// Gives back what the cache holds but nobody uses: magazines of all slots, by a kick if other CPUs have some, and
    /// empty spans; its reserve stays. Returns the number of magazines that were emptied.
    pub fn shrink(&self) -> usize {
        enter();
        heap().shrink(self.cache())
    }

    /// Changes how much each slot keeps, while the cache is in use: at most `limit` objects, that move in batches of
    /// `batch`. Magazines that are in use are replaced, which restarts whatever runs on other CPUs, once; the objects
    /// in them go back to their spans.
    pub fn tune(&self, limit: usize, batch: usize) -> Result<(), Untunable> {
        enter();
        heap().tune(self.cache(), limit, batch)
    }
}

/// What [`ObjectCache::allocate`] does when the slot's magazine has no object.
#[doc(hidden)]
#[unsafe(naked)]
pub extern "C" fn allocate_slow(cache: &ObjectCache) -> *mut u8 {
    machine::with_caller!(allocate_slow_for(cache, caller))
}

/// What [`ObjectCache::free`] does when the slot's magazine has no room.
///
/// # Safety
/// As for that.
#[doc(hidden)]
#[unsafe(naked)]
pub unsafe extern "C" fn free_slow(cache: &ObjectCache, object: *mut u8) {
    machine::with_caller!(free_slow_for(cache, object, caller))
}

#[cold]
extern "C" fn allocate_slow_for(cache: &ObjectCache, from: usize) -> *mut u8 {
    if !enter() {
        return out_of_memory();
    }
    if let Some(debug) = cache.debug() {
        return cache.take_watched(debug, cache.object_bytes(), from).unwrap_or_else(out_of_memory);
    }
    let (serving, runs_hooks, heap) = (cache.serving(), cache.has_slow_paths_only(), heap());
    let attempt = || heap.cpu.swap(serving).or_else(|| heap.cpu.refill(serving));
    let taken = if runs_hooks { heap.cpu.take(serving) } else { None };
    let object = taken.or_else(attempt).or_else(|| heap.cpu.flush_and_retry(serving.object_bytes(), attempt));
    let object = object.or_else(|| heap.cpu.depot.take_reserved(serving, &cache.reserve));
    let Some(object) = object else { return out_of_memory() };
    if runs_hooks && let Some((construct, argument)) = cache.state.constructor() {
        // SAFETY: the object is raw memory of ours.
        unsafe { construct(object, argument) };
    }
    object
}

#[cold]
unsafe extern "C" fn free_slow_for(cache: &ObjectCache, object: *mut u8, from: usize) {
    enter();
    if let Some(debug) = cache.debug() {
        return cache.put_watched(debug, object, from);
    }
    let (serving, cpu) = (cache.serving(), &heap().cpu);
    // SAFETY: passed on.
    unsafe {
        if !cache.has_slow_paths_only() {
            return cpu.overflow(serving, object);
        }
        if let Some((destroy, argument)) = cache.state.destructor() {
            destroy(object, argument);
        }
        cpu.put(serving, object);
    }
}

/// What a cache with a constructor does with fresh memory.
unsafe fn construct(state: &CacheState, object: *mut u8) {
    if let Some((construct, argument)) = state.constructor() {
        // SAFETY: passed on: the memory is ours, and raw.
        unsafe { construct(object, argument) };
    }
}

/// What a cache with a destructor does with an object that nobody uses.
unsafe fn destroy(state: &CacheState, object: *mut u8) {
    if let Some((destroy, argument)) = state.destructor() {
        // SAFETY: passed on.
        unsafe { destroy(object, argument) };
    }
}

const _: () = assert!(offset_of!(ObjectCache, base) == 0 && offset_of!(ObjectCache, index) == 8);

/// Whether a name is one that people can type.
pub(crate) const fn is_plain(name: &[u8]) -> bool {
    let mut at = 0;
    while at < name.len() {
        if !(name[at].is_ascii_alphanumeric() || matches!(name[at], b'-' | b'_' | b'.' | b'/')) {
            return false;
        }
        at += 1;
    }
    true
}

/// Null, with ENOMEM.
fn out_of_memory() -> *mut u8 {
    process::set_error(process::Error::OutOfMemory);
    null_mut()
}
