//! The C functions of `commensal.h` for object caches: names and errno for `commensal::caches::ObjectCache`.
//!
//! What `counter.rs` says of itself holds here too.
//!
//! Safety, for all of them: the pointer leads to a cache that `cm_cache_create` made and nobody destroyed; where a comment says who else may
//! use it, nobody else does.

use commensal::caches::{self, Alive, ObjectCache, Refused, Untunable, Wanted};
use commensal::central::Hook;
use commensal::heap::{self, Error};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;

/// A cache of objects of one size. See cm_cache_create.
pub struct Cache {
    _cache: ObjectCache,
}

/// Makes an object of raw memory, or the reverse. It may allocate and free, from other caches and by malloc, but not create or destroy
/// caches, and must return.
pub type CacheHook = Option<unsafe extern "C" fn(object: *mut c_void, argument: *mut c_void)>;

/// What may be asked for when a cache is created. Zeroes ask for nothing.
#[repr(C)]
pub struct CacheOptions {
    /// Runs once for each object, when its memory is first cut; objects stay constructed between uses. NULL: none.
    pub constructor: CacheHook,
    /// Runs once for each constructed object, before its memory goes back. NULL: none. In any thread: also in one of the library's own, which gives back what idle
    /// CPUs keep, with all signals blocked; so it must not take a lock that a thread may hold while it allocates, shrinks, tunes, trims or destroys.
    pub destructor: CacheHook,
    /// What both are given.
    pub argument: *mut c_void,
    /// The most objects that each slot keeps, as for cm_cache_tune. 0: as many as suit their size, and how often they are used.
    pub limit: usize,
    /// How many of them move at once. Not 0 if limit is not.
    pub batch: usize,
    /// Whether sections (see cm_rcu_read_lock) may look at objects that were given back: each may be used again at once, but its memory stays an object of
    /// the cache, constructed, until the sections that are open have ended. So a reader that found an object gets hold of it, by a lock or a count in
    /// the object that its constructor made, and then looks again whether it is the one that was looked for. examples/rcu_typesafe.c does. If signal handlers
    /// give objects back to it, create it when the program has a second thread: the library's own, which sees to that memory, is made then, else when an object
    /// is given back. Not in a child that a signal handler forked, before that handler has returned.
    pub typesafe_by_rcu: bool,
}

#[inline(always)]
unsafe fn known<'a>(cache: *mut Cache) -> &'a ObjectCache {
    // SAFETY: see the module.
    unsafe { &*cache.cast() }
}

/// -1, with errno.
#[cold]
pub(crate) fn failed(error: Error) -> c_int {
    heap::set_error(error);
    -1
}

/// Creates a cache of objects of `size` bytes, 1 to 131072, that are aligned to `alignment`, a power of two up to 65536, or 0 for what
/// malloc gives. The name, of letters, digits, and '-', '_', '.' and '/', is for people; it is cut after 31. `options` may be NULL.
///
/// Interrupts no other CPU, and takes a microsecond or two. The cache's first object costs a page fault.
///
/// Returns the cache; or NULL.
///
/// errno: ENOMEM if there is no memory; EINVAL if an argument is none of those. Threads: any. Signal handlers: yes, but ENOMEM is
/// likelier there; not one that is typesafe. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_create(
    name: *const c_char,
    size: usize,
    alignment: usize,
    options: *const CacheOptions,
) -> *mut Cache {
    const MALLOC: usize = heap::ALIGNMENT;
    // SAFETY: passed on: the options are some, or NULL.
    let options = unsafe { options.as_ref() };
    // SAFETY: both have the same arguments, which are pointers to anything.
    let hook = |hook: CacheHook| unsafe { core::mem::transmute::<CacheHook, Option<Hook>>(hook) };
    let wanted = Wanted {
        // SAFETY: passed on: the name is a string, or NULL.
        name: if name.is_null() { b"" } else { unsafe { CStr::from_ptr(name) }.to_bytes() },
        bytes: size,
        alignment: if alignment == 0 { MALLOC.min(size.next_power_of_two()) } else { alignment },
        constructor: options.and_then(|options| hook(options.constructor)),
        destructor: options.and_then(|options| hook(options.destructor)),
        argument: options.map_or(null_mut(), |options| options.argument.cast()),
        typesafe: options.is_some_and(|options| options.typesafe_by_rcu),
    };
    let cache = match ObjectCache::create(&wanted) {
        Ok(cache) => cache,
        Err(Refused::NoMemory) => return heap::out_of_memory().cast(),
        Err(_) => return heap::invalid().cast(),
    };
    if let Some(options) = options.filter(|options| options.limit > 0)
        && cache.tune(options.limit, options.batch) == Err(Untunable::Numbers)
    {
        // SAFETY: nobody else knows the cache.
        let _ = unsafe { cache.destroy_unread() };
        return heap::invalid().cast();
    }
    (&raw const *cache).cast_mut().cast()
}

/// Destroys a cache, of which no object is alive: its memory goes back at once. Interrupts no other CPU. One that is typesafe waits for a grace period before:
/// called in a read section, or by a thread with a registered reader that is online, it ends the program with a message.
///
/// Returns 0; or -1, and nothing happened.
///
/// errno: EBUSY if objects are alive, see cm_cache_alive. Threads: nobody else may use the cache meanwhile, and nobody at all afterwards.
/// Signal handlers: no. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_destroy(cache: *mut Cache) -> c_int {
    // SAFETY: passed on.
    match unsafe { known(cache).destroy() } {
        Ok(()) => 0,
        Err(Alive::Objects(_) | Alive::Interrupting) => failed(Error::Busy),
    }
}

/// An object, as its last user left it, or as the constructor made it, or of any contents.
///
/// Returns the object; or NULL.
///
/// errno: ENOMEM if there is no memory. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_alloc(cache: *mut Cache) -> *mut c_void {
    commensal::machine::cache_take_body!(slow: caches::allocate_slow)
}

/// Gives an object back to the cache that it is from; constructed, if that has a constructor. NULL is nothing. free() does it too, but takes
/// longer.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_free(cache: *mut Cache, object: *mut c_void) {
    commensal::machine::cache_put_body!(slow: caches::free_slow)
}

/// Objects for all `count` places of `objects`, or for the first of them.
///
/// Returns how many there are: fewer than `count` if there is no memory for more. The other places stay as they are.
///
/// errno: ENOMEM if there are fewer. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_alloc_bulk(cache: *mut Cache, objects: *mut *mut c_void, count: usize) -> usize {
    if count == 0 {
        return 0;
    }
    // SAFETY: passed on: so many places are there.
    unsafe { known(cache).allocate_bulk(core::slice::from_raw_parts_mut(objects.cast(), count)) }
}

/// Gives `count` objects back.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_free_bulk(cache: *mut Cache, objects: *const *mut c_void, count: usize) {
    if count > 0 {
        // SAFETY: passed on: so many objects are there.
        unsafe { known(cache).free_bulk(core::slice::from_raw_parts(objects.cast(), count)) };
    }
}

/// Sets memory aside for `count` objects, or for as many as are missing. Allocations that would fail take it: so the next `count` of them
/// cannot fail, whoever makes them.
///
/// Returns 0; or -1, and what had been set aside still is.
///
/// errno: ENOMEM if there is no memory. Threads: any. Signal handlers: yes, but ENOMEM is likelier there. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_prefill(cache: *mut Cache, count: usize) -> c_int {
    // SAFETY: passed on.
    crate::counter::status(unsafe { known(cache) }.prefill(count))
}

/// Gives back what the cache holds and nobody uses; what was set aside stays. Interrupts other CPUs, if they hold any.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_shrink(cache: *mut Cache) {
    // SAFETY: passed on.
    heap::keeping_errno(|| unsafe { known(cache) }.shrink());
}

/// Changes how much each slot keeps, also while the cache is in use: at most `limit` objects, which move in batches of `batch`, 1 to 125.
/// The limit is at least a batch and at most 256 of them. Arrays of slots are replaced, which interrupts other CPUs that have some.
///
/// Returns 0; or -1, and then arrays that are in use stay as they are until they are retired by themselves.
///
/// errno: EINVAL if there are no such numbers, and nothing happened; EAGAIN if the kernel refused membarrier, or in a signal handler that
/// interrupted such work. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_tune(cache: *mut Cache, limit: usize, batch: usize) -> c_int {
    // SAFETY: passed on.
    match unsafe { known(cache) }.tune(limit, batch) {
        Ok(()) => 0,
        Err(Untunable::Numbers) => failed(Error::Invalid),
        Err(_) => failed(Error::Again),
    }
}

/// Objects that are alive: exact if nobody allocates or frees meanwhile. Takes time in proportion to the number of slots.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_alive(cache: *mut Cache) -> usize {
    // SAFETY: passed on.
    unsafe { known(cache) }.alive()
}
