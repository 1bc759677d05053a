//! Object caches: caches that programs create, beside the size classes.
//!
//! An [`ObjectCache`] stays at an id of a chunk for ever, and serves the next cache there. It lies in metadata, so a
//! stale pointer still leads to an object cache.
//!
//! With a constructor, objects stay constructed between uses. The constructor runs when memory is first carved into an
//! object, the destructor before the memory of a whole span goes back. Both run without locks, with one exception: a
//! trim runs destructors under the drain lock. So a destructor cannot destroy a cache.

use super::debug::{Debug, Options};
use super::errors::{Alive, COARSEST, LARGEST_OBJECT, Refused, Untunable};
use super::heap::heap;
use super::sharing::enter;
use crate::central::size_class;
use crate::central::{CacheRef, CacheState, ChunkHead, Descriptor, Home, Hook, ObjectHook, Shape};
use crate::counter::{Account, NoMemory};
use crate::depot::Reserve;
use crate::settings::Key;
use core::mem::offset_of;
use core::ptr::null_mut;
use machine::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use machine::{process, slot};

const DEDICATED: Key = Key::of("cache.NAME.dedicated");

/// Least bytes of an object: a span has a bit for each.
const LEAST_OBJECT: usize = 16;
/// Objects are multiples of this.
const LEAST_STEP: usize = 8;

/// A request for a new cache.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Its name; cut after `NAME_BYTES`.
    pub name: &'a [u8],
    /// Bytes of an object.
    pub bytes: usize,
    /// A power of two.
    pub alignment: usize,
    /// Runs once for each object, when its memory is first carved.
    pub constructor: Option<Hook>,
    /// Runs once for each constructed object, before its memory goes back.
    pub destructor: Option<Hook>,
    /// Argument of both.
    pub argument: *mut u8,
    /// Whether readers in sections may look at freed objects; see `rcu::typesafe`.
    pub typesafe: bool,
}

impl<'a> Wanted<'a> {
    /// A request for a cache without hooks and readers.
    pub const fn plain(name: &'a [u8], bytes: usize, alignment: usize) -> Self {
        let argument = null_mut();
        Wanted { name, bytes, alignment, constructor: None, destructor: None, argument, typesafe: false }
    }
}

/// A cache that a program created.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ObjectCache {
    // For fast paths: the chunk that serves it, and its allocation magazine's index there; 0 sends them to slow paths.
    base: AtomicPtr<ChunkHead>,
    index: AtomicUsize,
    /// The size class that serves it by a rule; 0: none.
    class: AtomicUsize,
    /// Its debug state; null if no cache at its id had one.
    pub(super) debug: AtomicPtr<Debug>,
    /// Set once: hardened caches stay for ever.
    pub(super) is_hardened: AtomicBool,
    /// Serves allocations that would fail.
    pub(super) reserve: Reserve,
    pub(super) state: CacheState,
}

// SAFETY: zeroes are an object cache that only slow paths use.
unsafe impl Descriptor for ObjectCache {
    fn state(&self) -> &CacheState {
        &self.state
    }
}

impl ObjectCache {
    /// Creates a cache, in about a microsecond. Interrupts no CPU; see `central::chunk`.
    ///
    /// # Errors
    /// The size, the alignment or the name is refused, or there is no memory.
    pub fn create(wanted: &Wanted<'_>) -> Result<&'static ObjectCache, Refused> {
        let shape = Self::shape(wanted)?;
        if !enter() {
            return Err(Refused::NoMemory);
        }
        let cache = Self::claim(wanted).ok_or(Refused::NoMemory)?;
        let options = Options::of(wanted.name);
        // Constructed objects stay so, and memory that readers may look at is not written.
        let is_kept = wanted.constructor.is_some() || wanted.typesafe;
        let options = if is_kept { options.without(Options::POISON) } else { options };
        if options != Options::NONE {
            let Some(whole) = cache.begin_debug(options, wanted.bytes, wanted.alignment) else {
                heap().central().give_id_back(&cache.state);
                return Err(Refused::NoMemory);
            };
            cache.begin(Shape::of(whole), 0);
            return Ok(cache);
        }
        match size_class::class_for_aligned(wanted.bytes, wanted.alignment) {
            // Its memory must not serve anything else.
            Some(class) if !wanted.typesafe && DEDICATED.of_cache(wanted.name) == 0 => cache.begin_in_class(class),
            _ => cache.begin(shape, cache.cache().index()),
        }
        Ok(cache)
    }

    /// Creates a cache whose objects charge an account. Configuration rules do not apply. None: no memory.
    /// Safety: the account lives as long as the cache.
    pub(crate) unsafe fn create_for(account: *const Account, wanted: &Wanted<'_>) -> Option<&'static ObjectCache> {
        let shape = Self::shape(wanted).ok()?;
        let cache = Self::claim(wanted)?;
        // SAFETY: passed on.
        unsafe { cache.state.set_account(account) };
        cache.begin(shape, cache.cache().index());
        Some(cache)
    }

    /// Creates a cache that only slow paths serve, with hooks for fresh objects and for those of a span that leaves.
    /// None: no memory.
    pub(super) fn create_hardened(
        wanted: &Wanted<'_>, class_word: u8, carve: ObjectHook, end: ObjectHook,
    ) -> Option<&'static ObjectCache> {
        let shape = Self::shape(wanted).ok()?;
        let cache = Self::claim(wanted)?;
        let home = Home { class_word, carve_object: Some(carve), end_object: Some(end), ..*cache.state.home() };
        // SAFETY: no other thread knows the cache.
        unsafe { cache.state.set_home(home) };
        cache.is_hardened.store(true, Ordering::Relaxed);
        cache.begin(shape, 0);
        Some(cache)
    }

    /// A description with an id, and with the cache's properties.
    fn claim(wanted: &Wanted<'_>) -> Option<&'static ObjectCache> {
        let state = heap().central().claim_id::<ObjectCache>()?;
        state.label().write(wanted.name);
        let Wanted { bytes, constructor, destructor, argument, typesafe, .. } = *wanted;
        let begin_object = constructor.map(|_| construct as unsafe fn(&CacheState, *mut u8));
        let end_object = destructor.map(|_| destroy as unsafe fn(&CacheState, *mut u8));
        // SAFETY: no other thread knows the cache.
        unsafe {
            let (class_word, carve_object) = (0, None);
            state.set_home(Home {
                bytes,
                constructor,
                destructor,
                argument,
                typesafe,
                class_word,
                begin_object,
                end_object,
                carve_object,
            })
        };
        if typesafe {
            heap().central().list_waiting(state);
            if !(crate::UPCALLS.readers_are_absent)() {
                (crate::UPCALLS.rouse_worker)();
            }
        }
        Some(Self::of_state(state))
    }

    pub(super) fn of_state(state: &'static CacheState) -> &'static ObjectCache {
        // SAFETY: all states were claimed as parts of object caches, which are never unmapped.
        unsafe { &*(&raw const *state).byte_sub(offset_of!(ObjectCache, state)).cast::<ObjectCache>() }
    }

    pub(super) fn of(cache: CacheRef) -> Option<&'static ObjectCache> {
        cache.state().map(Self::of_state)
    }

    /// The debug cache of a reference, if it is one.
    pub(super) fn watching(cache: CacheRef) -> Option<(&'static ObjectCache, &'static Debug)> {
        let cache = Self::of(cache)?;
        Some((cache, cache.debug()?))
    }

    pub(super) fn is_hardened(&self) -> bool {
        self.is_hardened.load(Ordering::Relaxed)
    }

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

    /// Destroys the cache if no object of it is alive: destroys its constructed objects, and returns its memory. Else
    /// it stays unchanged. Interrupts no CPU, but for a typesafe cache it waits for readers.
    ///
    /// # Errors
    /// Objects are alive, or a signal handler interrupted a drain. The cache is unchanged.
    ///
    /// # Safety
    /// No other thread uses the cache now, and no thread afterwards. Not in a signal handler.
    pub unsafe fn destroy(&self) -> Result<(), Alive> {
        if self.state.home().typesafe && !(crate::UPCALLS.readers_are_absent)() {
            (crate::UPCALLS.wait_for_readers)();
        }
        // SAFETY: passed on.
        unsafe { self.destroy_unread() }
    }

    /// The same without waiting, for a cache whose objects no reader looks at.
    ///
    /// # Errors
    /// As for [`Self::destroy`].
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

    /// Bytes that the program asked for.
    pub fn object_bytes(&self) -> usize {
        self.state.home().bytes
    }

    /// Objects that are alive, exact at rest; 0 if a size class serves the cache.
    pub fn alive(&self) -> usize {
        heap().alive(self.cache())
    }

    /// The cache at its own id, as slow paths know it.
    pub fn cache(&self) -> CacheRef {
        CacheRef::of(&self.state)
    }

    /// The cache that gives its objects: itself, or by a rule a size class.
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

    /// Then slow paths run the hooks for each use.
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

    /// Whether only slow paths serve it: a debug cache, or hooks for each use.
    fn has_slow_paths_only(&self) -> bool {
        self.index.load(Ordering::Relaxed) == 0
    }

    /// Its debug state, if debugging is on.
    pub(super) fn debug(&self) -> Option<&'static Debug> {
        self.debug_place().filter(|debug| debug.is_on())
    }

    /// Its debug state, even if debugging is off.
    pub(super) fn debug_place(&self) -> Option<&'static Debug> {
        // SAFETY: never freed, and made before another thread knows the cache.
        unsafe { self.debug.load(Ordering::Relaxed).as_ref() }
    }

    // ---- objects ----

    /// An object as the constructor or its last user left it. Null, with ENOMEM: no memory.
    #[inline(always)]
    pub fn allocate(&self) -> *mut u8 {
        // Relaxed: neither has changed since the caller learned of the cache.
        let (base, index) = (self.base.load(Ordering::Relaxed).cast(), self.index.load(Ordering::Relaxed));
        // SAFETY: each slot has an area in the chunk, and the index is even.
        let object = unsafe { slot::pop(base, index) };
        if object.is_null() { allocate_slow(self) } else { object }
    }

    /// Frees an object.
    ///
    /// # Safety
    /// The object came from here, the caller owns it, and it is constructed if the cache has a constructor.
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

    /// Fills `objects` while there is memory; returns how many it got. Later places stay unchanged.
    pub fn allocate_bulk(&self, objects: &mut [*mut u8]) -> usize {
        if !enter() {
            return 0;
        }
        let many = if self.has_slow_paths_only() { 0 } else { heap().cpu.take_many(self.serving(), objects) };
        (crate::UPCALLS.count_objects)(self.serving().number(), many, 0);
        let rest = objects[many..].iter_mut().map_while(|place| {
            *place = self.allocate();
            (!place.is_null()).then_some(())
        });
        many + rest.count()
    }

    /// Frees many objects.
    ///
    /// # Safety
    /// As for [`Self::free`], for each object.
    pub unsafe fn free_bulk(&self, objects: &[*mut u8]) {
        enter();
        match self.has_slow_paths_only() {
            // SAFETY: passed on.
            true => objects.iter().for_each(|&object| unsafe { self.free(object) }),
            // SAFETY: passed on.
            false => unsafe { heap().cpu.put_many(self.serving(), objects) },
        }
    }

    /// See [`Cache::prefill`](super::Cache::prefill).
    ///
    /// # Errors
    /// As there.
    pub fn prefill(&self, objects: usize) -> Result<(), NoMemory> {
        if enter() && heap().cpu.depot.prefill(self.serving(), &self.reserve, objects) { Ok(()) } else { Err(NoMemory) }
    }

    /// See [`Cache::shrink`](super::Cache::shrink).
    pub fn shrink(&self) -> usize {
        enter();
        heap().shrink(self.cache())
    }

    /// See [`Cache::tune`](super::Cache::tune).
    ///
    /// # Errors
    /// As there.
    pub fn tune(&self, limit: usize, batch: usize) -> Result<(), Untunable> {
        enter();
        heap().tune(self.cache(), limit, batch)
    }
}

/// [`ObjectCache::allocate`] with an empty allocation magazine.
#[doc(hidden)]
#[unsafe(naked)]
pub extern "C" fn allocate_slow(cache: &ObjectCache) -> *mut u8 {
    machine::with_caller!(allocate_slow_for(cache, caller))
}

/// [`ObjectCache::free`] with a full free magazine.
///
/// # Safety
/// As for [`ObjectCache::free`].
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
    let refill = || {
        (crate::UPCALLS.count_objects)(serving.number(), 1, from);
        heap.cpu.refill(serving)
    };
    let taken = if runs_hooks { heap.cpu.take(serving) } else { None };
    let object = taken
        .or_else(|| heap.cpu.swap(serving))
        .or_else(refill)
        .or_else(|| heap.cpu.flush_and_retry(serving.object_bytes(), attempt));
    let object = object.or_else(|| heap.cpu.depot.take_reserved(serving, &cache.reserve));
    let Some(object) = object else { return out_of_memory() };
    if runs_hooks {
        // SAFETY: the object is raw memory of ours.
        unsafe { construct(&cache.state, object) };
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
        destroy(&cache.state, object);
        cpu.put(serving, object);
    }
}

pub(super) unsafe fn construct(state: &CacheState, object: *mut u8) {
    if let Some((construct, argument)) = state.constructor() {
        // SAFETY: passed on: the memory is ours, and raw.
        unsafe { construct(object, argument) };
    }
}

pub(super) unsafe fn destroy(state: &CacheState, object: *mut u8) {
    if let Some((destroy, argument)) = state.destructor() {
        // SAFETY: passed on.
        unsafe { destroy(object, argument) };
    }
}

const _: () = assert!(offset_of!(ObjectCache, base) == 0 && offset_of!(ObjectCache, index) == 8);

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

fn out_of_memory() -> *mut u8 {
    process::set_error(process::Error::OutOfMemory);
    null_mut()
}
