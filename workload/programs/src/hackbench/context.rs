//! What a task or a message has: an object that is as large as what Linux keeps of a task for its audit.

use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute;
use std::ptr::NonNull;

/// About what `struct audit_context` has in Linux 3.8 on 64-bit machines, by a count of its fields; the document does not say.
const BYTES: usize = 904;
/// What people know the cache by.
const NAME: &CStr = c"context";

type Create = unsafe extern "C" fn(*const c_char, usize, usize, *const c_void) -> *mut c_void;
type Allocate = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// Where contexts come from.
#[derive(Clone, Copy)]
pub enum Source {
    /// A cache of a library that has such.
    Cache { cache: *mut c_void, allocate: Allocate, free: Free },
    /// malloc.
    General,
}

// SAFETY: any thread may use a cache.
unsafe impl Send for Source {}

impl Source {
    /// A cache of its own, if a library with caches is preloaded.
    pub fn find() -> Result<Self, String> {
        let (Some(create), Some(allocate), Some(free)) =
            (function(c"cm_cache_create"), function(c"cm_cache_alloc"), function(c"cm_cache_free"))
        else {
            return Ok(Self::General);
        };
        // SAFETY: they are what commensal.h says of these names.
        let cache = unsafe { transmute::<*mut c_void, Create>(create)(NAME.as_ptr(), BYTES, 0, std::ptr::null()) };
        if cache.is_null() {
            return Err(format!("the cache of contexts could not be made ({})", std::io::Error::last_os_error()));
        }
        // SAFETY: as above.
        let (allocate, free) =
            unsafe { (transmute::<*mut c_void, Allocate>(allocate), transmute::<*mut c_void, Free>(free)) };
        Ok(Self::Cache { cache, allocate, free })
    }

    /// A context, wiped as a new one is.
    pub fn context(self) -> Result<Context, String> {
        // SAFETY: a cache that is never destroyed; malloc takes any size.
        let object = unsafe {
            match self {
                Self::Cache { cache, allocate, .. } => allocate(cache),
                Self::General => libc::malloc(BYTES),
            }
        };
        let object = NonNull::new(object).ok_or("no memory for a context")?;
        // SAFETY: so many bytes are ours.
        unsafe { object.cast::<u8>().write_bytes(0, BYTES) };
        Ok(Context { object, source: self })
    }
}

/// Somebody's context.
pub struct Context {
    object: NonNull<c_void>,
    source: Source,
}

// SAFETY: it owns its object, which any thread may free.
unsafe impl Send for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the object is ours, and came from there.
        unsafe {
            match self.source {
                Source::Cache { cache, free, .. } => free(cache, self.object.as_ptr()),
                Source::General => libc::free(self.object.as_ptr()),
            }
        }
    }
}

fn function(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: looks the name up.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}
