//! The C functions of `commensal.h` for object caches: names and errno for `commensal_runtime::caches::ObjectCache`.
//!
//! Safety, for all of them: the pointer leads to a cache that `cm_cache_create` made and that is not destroyed. Callers
//! fulfil the conditions of a comment's line "Threads".

use commensal_runtime::caches::{self, ObjectCache, Refused, Untunable, Wanted};
use commensal_runtime::central::Hook;
use commensal_runtime::heap::{self, Error};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;

/// A cache of objects of one size. See cm_cache_create.
pub struct Cache {
    _cache: ObjectCache,
}

/// Constructs an object in raw memory, or destroys one. It may allocate and free, by malloc and from other caches. It
/// must not create or destroy caches, and must return.
pub type CacheHook = Option<unsafe extern "C" fn(object: *mut c_void, argument: *mut c_void)>;

/// Options for a new cache. Zeroes are the defaults.
#[repr(C)]
pub struct CacheOptions {
    /// Constructs each object once, when its memory is first carved. Objects stay constructed between uses. NULL: none.
    pub constructor: CacheHook,
    /// Destroys each constructed object once, before its memory goes back. NULL: none. Any thread calls it, with all
    /// signals blocked if it is the library's background thread. So it must not take a lock that a thread may hold
    /// while it allocates, shrinks, tunes, trims or destroys.
    pub destructor: CacheHook,
    /// The second argument of both.
    pub argument: *mut c_void,
    /// The largest number of objects that a slot keeps, as for cm_cache_tune. 0: as many as suit their size and use.
    pub limit: usize,
    /// The number of objects that move at once, as for cm_cache_tune. Not 0 if `limit` is not.
    pub batch: usize,
    /// Whether readers in read sections may look at freed objects. A freed object may be used again at once, but its
    /// memory stays a constructed object of this cache until all open sections have ended. So a reader that has found
    /// an object locks it, or counts a reference, in a field that the constructor made. Then it checks that the object
    /// is still the one that it looked for. See examples/rcu_typesafe.c.
    ///
    /// A background thread returns that memory. It starts when the cache is created in a program with a second thread,
    /// else when an object is freed. So if signal handlers free objects, create the cache when the program has a second
    /// thread, and not in a child that a signal handler forked, before that handler has returned.
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

/// Creates a cache of objects of `size` bytes (1 to 131072), aligned to `alignment` (a power of two up to 65536; 0: as
/// malloc aligns). Reports show the name: letters, digits, '-', '_', '.' and '/', cut after 31. `options` may be NULL.
///
/// Returns the cache, or NULL. Takes a microsecond or two, and interrupts no other CPU.
///
/// errno: ENOMEM if there is no memory; EINVAL if an argument is out of its range. Signal handlers: yes, but ENOMEM is
/// more likely there; not with `typesafe_by_rcu`.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL_AT(1) CM_CHECKED
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_create(
    name: *const c_char, size: usize, alignment: usize, options: *const CacheOptions,
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
        // SAFETY: no other code knows the cache.
        let _ = unsafe { cache.destroy_unread() };
        return heap::invalid().cast();
    }
    (&raw const *cache).cast_mut().cast()
}

/// Destroys a cache without live objects, and returns its memory at once. Interrupts no other CPU. For a typesafe cache
/// it waits for a grace period: in a read section, or with a registered reader online, it ends the program with a
/// message.
///
/// Returns 0, or -1 with the cache unchanged.
///
/// errno: EBUSY if objects are alive (see cm_cache_alive). Time: proportional to the cache's memory. Threads: while no
/// other thread uses the cache. Signal handlers: no.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_destroy(cache: *mut Cache) -> c_int {
    // SAFETY: passed on.
    match unsafe { known(cache).destroy() } {
        Ok(()) => 0,
        Err(_) => failed(Error::Busy),
    }
}

/// Allocates an object: as its last user left it, or as the constructor made it, or with any contents.
///
/// Returns the object, or NULL.
///
/// errno: ENOMEM if there is no memory.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL CM_CHECKED CM_FREED_BY(cm_cache_free, 2) CM_FREED_BY(__builtin_free, 1)
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_alloc(cache: *mut Cache) -> *mut c_void {
    commensal_runtime::machine::cache_take_body!(slow: caches::allocate_slow)
}

/// Frees an object of this cache; it must be constructed if the cache has a constructor. NULL is ignored. free() frees
/// objects too, but takes longer.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL_AT(1)
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_free(cache: *mut Cache, object: *mut c_void) {
    commensal_runtime::machine::cache_put_body!(slow: caches::free_slow)
}

/// Allocates `count` objects into `objects`.
///
/// Returns how many it allocated: fewer than `count` if there is no memory for more. The other places stay unchanged.
///
/// errno: ENOMEM if there are fewer. Time: proportional to `count`.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL_AT(1) CM_CHECKED
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_alloc_bulk(cache: *mut Cache, objects: *mut *mut c_void, count: usize) -> usize {
    if count == 0 {
        return 0;
    }
    // SAFETY: passed on: so many places are there.
    unsafe { known(cache).allocate_bulk(core::slice::from_raw_parts_mut(objects.cast(), count)) }
}

/// Frees the `count` objects in `objects`.
///
/// Time: proportional to `count`.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL_AT(1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_free_bulk(cache: *mut Cache, objects: *const *mut c_void, count: usize) {
    if count > 0 {
        // SAFETY: passed on: so many objects are there.
        unsafe { known(cache).free_bulk(core::slice::from_raw_parts(objects.cast(), count)) };
    }
}

/// Fills a reserve up to `count` objects. An allocation that would fail takes an object from it, so the next `count`
/// allocations, on any thread, cannot fail.
///
/// Returns 0, or -1 with the reserve as far as it was filled.
///
/// errno: ENOMEM if there is no memory. Time: proportional to `count`. Signal handlers: yes, but ENOMEM is more likely
/// there.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL_AT(1) CM_CHECKED
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_prefill(cache: *mut Cache, count: usize) -> c_int {
    // SAFETY: passed on.
    crate::counter::status(unsafe { known(cache) }.prefill(count))
}

/// Returns the cache's unused memory, except its reserve. Interrupts other CPUs that hold some.
///
/// Time: proportional to the number of slots and to the memory.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_shrink(cache: *mut Cache) {
    // SAFETY: passed on.
    heap::keeping_errno(|| unsafe { known(cache) }.shrink());
}

/// Sets how many objects each slot keeps: at most `limit`, which move in batches of `batch` (1 to 125). The limit is at
/// least one batch, and at most 256 of them. The cache may be in use. Replaces magazines of slots, and interrupts other
/// CPUs that hold some.
///
/// Returns 0, or -1. After EINVAL nothing has changed. After EAGAIN magazines in use keep their size until the library
/// replaces them.
///
/// errno: EINVAL if a number is out of its range; EAGAIN if the kernel refuses membarrier, or in a signal handler that
/// interrupted such work. Time: proportional to the number of slots.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_tune(cache: *mut Cache, limit: usize, batch: usize) -> c_int {
    // SAFETY: passed on.
    match unsafe { known(cache) }.tune(limit, batch) {
        Ok(()) => 0,
        Err(Untunable::Numbers) => failed(Error::Invalid),
        Err(_) => failed(Error::Again),
    }
}

/// Returns the number of live objects: exact if no thread allocates or frees meanwhile.
///
/// Time: proportional to the number of slots.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_cache_alive(cache: *mut Cache) -> usize {
    // SAFETY: passed on.
    unsafe { known(cache) }.alive()
}
