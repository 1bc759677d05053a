//! Object caches: caches that programs create, beside the general size classes.
//!
//! An [`ObjectCache`] says what its objects are, and where fast paths find their arrays. It belongs to a place in a panel for ever; when the
//! cache is destroyed, both wait for the next one. It lies in metadata, so a stale pointer leads to an object cache still.
//!
//! With a constructor, objects stay constructed between uses: it runs when memory is first cut into an object, and the destructor before
//! the memory of a whole span goes back. Neither runs under a lock, but that a destructor may run where somebody trims, under the drain
//! lock: so it cannot destroy a cache.
//!
//! Runs at the same time: any number of threads allocate and free, also in signal handlers; creating and destroying: see `panels`.

use super::account::Account;
use super::class;
use super::debug::{Debug, Options};
use super::end::Alive;
use super::label::{CacheName, Label};
use super::lingering::{Lingering, Readers};
use super::panel::{Handle, take_index};
use super::region::general;
use super::reserve::Reserve;
use super::shape::Shape;
use super::sharing;
use super::tune::Untunable;
use crate::counter::{self, LazyCounter, NoMemory};
use crate::observe::Events;
use crate::percpu::Region;
use crate::settings::Key;
use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ptr::null_mut;
use machine::sync::{AtomicPtr, AtomicUsize, Ordering};
use machine::{process, slot};

/// Bytes of a cache's name, at most.
pub const NAME_BYTES: usize = 31;
const DEDICATED: Key = Key::of("cache.NAME.dedicated");

/// The largest objects.
pub const LARGEST_OBJECT: usize = 128 << 10;
/// The coarsest alignment: that of spans.
pub const COARSEST: usize = crate::page::GRANULE;

/// Bytes of the smallest objects: a span has a bit for as many.
const LEAST_OBJECT: usize = 16;
/// Objects are multiples of this.
const LEAST_STEP: usize = 8;

/// Makes an object of raw memory, or the reverse, with an argument that the cache's creator chose.
pub type Hook = unsafe extern "C" fn(object: *mut u8, argument: *mut u8);

/// What is asked for when a cache is created.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// What people call it; cut after [`NAME_BYTES`].
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
    /// Those who may look at objects that were given back; none: nobody does.
    pub readers: Option<&'static Readers>,
}

/// Why a cache could not be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no memory for it.
    NoMemory,
    /// An object has no bytes, or more than [`LARGEST_OBJECT`].
    Size,
    /// The alignment is no power of two, or above [`COARSEST`].
    Alignment,
    /// The name is empty, or has something else in it than letters, digits and `-`, `_`, `.`, `/`.
    Name,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NoMemory => write!(out, "no memory for another cache"),
            Refused::Size => write!(out, "objects of a cache have 1 to {LARGEST_OBJECT} bytes"),
            Refused::Alignment => write!(out, "the alignment of a cache's objects is a power of two up to {COARSEST}"),
            Refused::Name => write!(out, "a cache's name has letters, digits, and '-', '_', '.' and '/'"),
        }
    }
}

impl core::error::Error for Refused {}

/// A cache that somebody created.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ObjectCache {
    // What fast paths read: the panel that serves it, and the index of the take word there; 0 where they have nothing to do.
    base: AtomicPtr<u8>,
    index: AtomicUsize,
    /// The general class whose objects it gives, by a rule; 0: it has its own.
    class: AtomicUsize,
    /// Its own place.
    panel: AtomicPtr<u8>,
    place: AtomicUsize,
    /// Objects outside of spans and depots.
    objects: LazyCounter,
    /// The most that they were.
    peak: Events,
    /// Objects for allocations that would fail.
    pub(super) reserve: Reserve,
    /// Who is charged for its objects; null: nobody.
    account: AtomicPtr<Account>,
    /// What watching its users takes; null if that was never wanted at its place.
    debug: AtomicPtr<Debug>,
    /// Spans that readers may still look at.
    pub(super) lingering: Lingering,
    /// The next one of those that were destroyed; under the panels' lock.
    pub(super) next: AtomicPtr<ObjectCache>,
    /// What people call it.
    label: Label,
    /// Does not change while the cache exists.
    home: UnsafeCell<Home>,
}

/// What a cache is.
#[derive(Debug)]
struct Home {
    bytes: usize,
    constructor: Option<Hook>,
    destructor: Option<Hook>,
    argument: *mut u8,
    readers: Option<&'static Readers>,
}

// SAFETY: `home` does not change while anybody knows the cache; the rest is atomic, or has a lock.
unsafe impl Sync for ObjectCache {}

impl ObjectCache {
    /// Creates a cache. Interrupts nobody; see `panels`. A microsecond or so.
    pub fn create(wanted: &Wanted<'_>) -> Result<&'static ObjectCache, Refused> {
        let shape = Self::shape(wanted)?;
        if !sharing::enter() {
            return Err(Refused::NoMemory);
        }
        let cache = Self::take_home(wanted).ok_or(Refused::NoMemory)?;
        let Wanted { bytes, .. } = *wanted;
        let options = Options::of(wanted.name);
        // What was constructed stays so, and what readers may look at is not written to.
        let is_kept = wanted.constructor.is_some() || wanted.readers.is_some();
        let options = if is_kept { options.without(Options::POISON) } else { options };
        if options != Options::NONE {
            match cache.begin_debug(options, bytes, wanted.alignment) {
                Some(whole) => cache.begin(Shape::of(whole), 0),
                None => {
                    general().give_place_back(cache);
                    return Err(Refused::NoMemory);
                }
            }
            return Ok(cache);
        }
        match class::class_for_aligned(bytes, wanted.alignment) {
            // Its memory must not be used as anything else.
            Some(class) if wanted.readers.is_none() && DEDICATED.of_cache(wanted.name) == 0 => {
                cache.begin_in_class(class)
            }
            _ => cache.begin(shape, cache.handle().index(true)),
        }
        Ok(cache)
    }

    /// Creates a cache whose objects somebody is charged for, for as long as the cache exists. Rules of the configuration do not concern
    /// it. None: no memory.
    ///
    /// # Safety
    /// The account lives as long as the cache.
    pub unsafe fn create_for(account: *const Account, wanted: &Wanted<'_>) -> Option<&'static ObjectCache> {
        let shape = Self::shape(wanted).ok()?;
        let cache = Self::take_home(wanted)?;
        cache.account.store(account.cast_mut(), Ordering::Relaxed);
        cache.begin(shape, cache.handle().index(true));
        Some(cache)
    }

    /// A place, and what a cache there is to be.
    fn take_home(wanted: &Wanted<'_>) -> Option<&'static ObjectCache> {
        let cache = general().take_place()?;
        cache.label.write(wanted.name);
        let Wanted { bytes, constructor, destructor, argument, readers, .. } = *wanted;
        // SAFETY: nobody else knows the cache.
        unsafe { *cache.home.get() = Home { bytes, constructor, destructor, argument, readers } };
        if let Some(readers) = readers {
            general().list_lingering(cache);
            if !(readers.are_absent)() {
                (readers.rouse)();
            }
        }
        Some(cache)
    }

    /// Who is charged for its objects.
    pub(super) fn account(&self) -> Option<&'static Account> {
        // SAFETY: it lives as long as the cache exists.
        unsafe { self.account.load(Ordering::Relaxed).as_ref() }
    }

    /// Nobody is charged any more.
    pub(crate) fn disown(&self) {
        self.account.store(null_mut(), Ordering::Relaxed);
    }

    /// Its place, as slow paths know it.
    pub fn as_handle(&self) -> Handle<'static> {
        self.handle()
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

    /// Destroys the cache, if no object of it is alive: then its memory goes back, and every object that was constructed is destroyed.
    /// Interrupts nobody, but that a cache with readers waits for those first. Else nothing happens to it.
    ///
    /// # Safety
    /// Nobody else uses the cache meanwhile, and nobody at all afterwards. Not in a signal handler.
    pub unsafe fn destroy(&self) -> Result<(), Alive> {
        if let Some(readers) = self.readers().filter(|readers| !(readers.are_absent)()) {
            (readers.wait)();
        }
        // SAFETY: passed on.
        unsafe { self.destroy_unread() }
    }

    /// The same, for a cache at whose objects nobody is looking, as one that gave none.
    ///
    /// # Safety
    /// As for [`Self::destroy`].
    pub unsafe fn destroy_unread(&self) -> Result<(), Alive> {
        sharing::enter();
        if self.class.load(Ordering::Relaxed) != 0 {
            self.serving().end_reserve(&self.reserve);
        }
        if let Some(debug) = self.debug() {
            self.release_quarantine(debug, 0);
        }
        // SAFETY: passed on.
        unsafe { self.handle().end() }
    }

    /// Its name.
    pub fn name(&self) -> CacheName {
        self.label.name()
    }

    /// What tells whether it is still this cache.
    pub(super) fn label(&self) -> &Label {
        &self.label
    }

    /// Bytes that were asked for.
    pub fn object_bytes(&self) -> usize {
        self.home().bytes
    }

    /// Objects that are alive: exact at rest. Not known, and 0, where a general class serves the cache.
    pub fn alive(&self) -> usize {
        self.handle().alive()
    }

    fn home(&self) -> &Home {
        // SAFETY: it does not change while anybody knows the cache.
        unsafe { &*self.home.get() }
    }

    /// The cache at its own place.
    pub(super) fn handle(&self) -> Handle<'static> {
        // SAFETY: the base of a panel of the runtime's.
        let panel = unsafe { Region::at(self.panel.load(Ordering::Relaxed)) };
        Handle { panel, place: self.place.load(Ordering::Relaxed), lives: PhantomData }
    }

    /// The cache whose objects it gives: itself, but for a rule.
    fn serving(&self) -> Handle<'static> {
        match self.class.load(Ordering::Relaxed) {
            0 => self.handle(),
            class => general().class(class),
        }
    }

    /// Belongs to a place from now on; nobody else knows it.
    pub(super) fn begin_at(&self, panel: Region, place: usize) {
        self.panel.store(panel.base(), Ordering::Relaxed);
        self.place.store(place, Ordering::Relaxed);
        self.label.begin();
    }

    fn begin(&self, shape: Shape, index: usize) {
        self.class.store(0, Ordering::Relaxed);
        self.serve(index);
        self.handle().set_shape(shape);
    }

    /// Hooks run for each use then, on slow paths.
    fn begin_in_class(&self, class: usize) {
        self.class.store(class, Ordering::Relaxed);
        let home = self.home();
        let runs_hooks = home.constructor.is_some() || home.destructor.is_some();
        self.serve(if runs_hooks { 0 } else { take_index(class) });
    }

    fn serve(&self, index: usize) {
        self.base.store(self.serving().panel.base(), Ordering::Relaxed);
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

    pub(super) fn debug_place(&self) -> Option<&'static Debug> {
        // SAFETY: never freed once it is made, and made before anybody else knows the cache.
        unsafe { self.debug.load(Ordering::Relaxed).as_ref() }
    }

    pub(super) fn set_debug_place(&self, debug: *mut Debug) {
        self.debug.store(debug, Ordering::Relaxed);
    }

    /// Makes an object of fresh memory: what watches it, and what its constructor does.
    ///
    /// # Safety
    /// The memory is ours.
    pub(super) unsafe fn begin_object(&self, whole: *mut u8) {
        // SAFETY: passed on.
        unsafe {
            let debug = self.debug();
            debug.inspect(|debug| debug.begin(whole));
            if let Some((construct, argument)) = self.constructor() {
                construct(whole.add(debug.map_or(0, Debug::lead)), argument);
            }
        }
    }

    /// The reverse, for objects that nobody uses.
    ///
    /// # Safety
    /// As above.
    pub(super) unsafe fn end_objects(&self, wholes: impl Iterator<Item = *mut u8>) {
        let (debug, destructor) = (self.debug(), self.destructor());
        if debug.is_none() && destructor.is_none() {
            return;
        }
        let lead = debug.map_or(0, Debug::lead);
        for whole in wholes {
            // SAFETY: passed on.
            unsafe {
                if let Some((destroy, argument)) = destructor {
                    destroy(whole.add(lead), argument);
                }
                debug.inspect(|debug| debug.end(whole));
            }
        }
    }

    // ---- objects ----

    /// An object; null, with ENOMEM, if there is no memory. As the constructor, or its last user, left it.
    #[inline(always)]
    pub fn allocate(&self) -> *mut u8 {
        // Relaxed: both are as they were before the caller knew the cache.
        let (base, index) = (self.base.load(Ordering::Relaxed), self.index.load(Ordering::Relaxed));
        // SAFETY: a panel in which every slot has an area, and an even index.
        let object = unsafe { slot::pop(base, index) };
        if object.is_null() { allocate_slow(self) } else { object }
    }

    /// Gives an object back.
    ///
    /// # Safety
    /// The object came from here, is the caller's to give up, and is constructed if the cache has a constructor.
    #[inline(always)]
    pub unsafe fn free(&self, object: *mut u8) {
        let (base, index) = (self.base.load(Ordering::Relaxed), self.index.load(Ordering::Relaxed));
        // SAFETY: as above; passed on.
        unsafe {
            if !slot::push(base, index, object) {
                free_slow(self, object);
            }
        }
    }

    /// Objects for all of `objects`, or as many as there is memory for; returns how many. The places behind those stay as they are.
    pub fn allocate_bulk(&self, objects: &mut [*mut u8]) -> usize {
        if !sharing::enter() {
            return 0;
        }
        let many = if self.has_slow_paths_only() { 0 } else { self.serving().take_many(objects) };
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
        sharing::enter();
        match self.has_slow_paths_only() {
            // SAFETY: passed on.
            true => objects.iter().for_each(|&object| unsafe { self.free(object) }),
            // SAFETY: passed on.
            false => unsafe { self.serving().put_many(objects) },
        }
    }

    /// Sets memory aside for so many objects, or as many as are missing for that: allocations that would fail take those, so the next
    /// `objects` of them cannot fail, whoever makes them. Error: there is no memory; what had been set aside before still is.
    pub fn prefill(&self, objects: usize) -> Result<(), NoMemory> {
        if sharing::enter() && self.serving().prefill(&self.reserve, objects) { Ok(()) } else { Err(NoMemory) }
    }

    /// Gives back what the cache holds but nobody uses: arrays of all slots, by a kick if other CPUs have some, and empty spans; its reserve
    /// stays. Returns the number of arrays that were emptied.
    pub fn shrink(&self) -> usize {
        sharing::enter();
        self.handle().shrink()
    }

    /// Changes how much each slot keeps, while the cache is in use: at most `limit` objects, that move in batches of `batch`. Arrays that
    /// are in use are replaced, which restarts whatever runs on other CPUs, once; the objects in them go back to their spans.
    pub fn tune(&self, limit: usize, batch: usize) -> Result<(), Untunable> {
        sharing::enter();
        self.handle().tune(limit, batch)
    }

    /// Counts objects that left the depot or a span, or came back.
    pub(super) fn count(&self, objects: isize) {
        // As in the tally: what cannot be counted is not.
        let _ = self.objects.try_add(objects as i64);
        if objects > 0 && counter::reads_at_once() {
            self.peak.raise(self.objects.read_positive().value as u64);
        }
    }

    /// Objects outside of spans and depots.
    pub(super) fn counted(&self) -> u64 {
        self.objects.sum_positive() as u64
    }

    /// Counts nothing any more.
    pub(super) fn forget(&self) {
        self.objects.set(0);
        self.peak.set(0);
        self.disown();
    }

    /// Those who may look at objects that were given back.
    pub(super) fn readers(&self) -> Option<&'static Readers> {
        self.home().readers
    }

    /// Whether nobody minds what becomes of the contents of free objects.
    pub(super) fn is_indifferent_to_free_objects(&self) -> bool {
        self.constructor().is_none()
            && self.destructor().is_none()
            && self.readers().is_none()
            && self.debug_place().is_none()
    }

    pub(super) fn constructor(&self) -> Option<(Hook, *mut u8)> {
        let home = self.home();
        Some((home.constructor?, home.argument))
    }

    pub(super) fn destructor(&self) -> Option<(Hook, *mut u8)> {
        let home = self.home();
        Some((home.destructor?, home.argument))
    }
}

/// What [`ObjectCache::allocate`] does when the slot's array has no object.
#[doc(hidden)]
#[unsafe(naked)]
pub extern "C" fn allocate_slow(cache: &ObjectCache) -> *mut u8 {
    machine::with_caller!(allocate_slow_for(cache, caller))
}

/// What [`ObjectCache::free`] does when the slot's array has no room.
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
    if !sharing::enter() {
        return out_of_memory();
    }
    if let Some(debug) = cache.debug() {
        return cache.take_watched(debug, cache.home().bytes, from).unwrap_or_else(out_of_memory);
    }
    let (serving, runs_hooks) = (cache.serving(), cache.has_slow_paths_only());
    let attempt = || serving.take_changed().or_else(|| serving.take_slow());
    let taken = if runs_hooks { serving.take() } else { None };
    let object = taken.or_else(attempt).or_else(|| general().flush_and_retry(serving.object_bytes(), attempt));
    let Some(object) = object.or_else(|| serving.take_reserved(&cache.reserve)) else { return out_of_memory() };
    if runs_hooks && let Some((construct, argument)) = cache.constructor() {
        // SAFETY: the object is raw memory of ours.
        unsafe { construct(object, argument) };
    }
    object
}

#[cold]
unsafe extern "C" fn free_slow_for(cache: &ObjectCache, object: *mut u8, from: usize) {
    sharing::enter();
    if let Some(debug) = cache.debug() {
        return cache.put_watched(debug, object, from);
    }
    let serving = cache.serving();
    // SAFETY: passed on.
    unsafe {
        if !cache.has_slow_paths_only() {
            return serving.put_slow(object);
        }
        if let Some((destroy, argument)) = cache.destructor() {
            destroy(object, argument);
        }
        serving.put_again(object);
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
