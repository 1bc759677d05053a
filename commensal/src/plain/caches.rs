//! Caches with one list of free objects, under a lock.

use std::alloc::{Layout, alloc};
use std::boxed::Box as Owned;
use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use super::counter::NoMemory;
use sealed::Kind;

const LARGEST_OBJECT: usize = 128 << 10;
const COARSEST: usize = 64 << 10;
/// Free objects that a cache keeps, if nobody tunes it.
const KEPT: usize = 64;

/// Raw memory: each use begins with a value and ends with its drop.
#[derive(Debug)]
pub struct Values;

/// Constructed: objects keep what their last user left.
#[derive(Debug)]
pub struct Constructed;

mod sealed {
    /// The state of a cache's objects between uses.
    pub trait Kind {
        /// Whether dropping the owner drops the object.
        const DROPS: bool;
    }

    impl Kind for super::Values {
        const DROPS: bool = true;
    }

    impl Kind for super::Constructed {
        const DROPS: bool = false;
    }
}

/// There is no memory for a value, which comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory<T>(pub T);

impl<T> fmt::Debug for OutOfMemory<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("OutOfMemory")
    }
}

impl<T> fmt::Display for OutOfMemory<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("no memory for the value: the error has the value")
    }
}

impl<T> std::error::Error for OutOfMemory<T> {}

/// Why a cache was not destroyed. It is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Alive {
    /// So many objects are alive.
    Objects(usize),
    /// A signal handler interrupted a walk over all caches. Not on this target.
    Interrupting,
}

impl fmt::Display for Alive {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alive::Objects(many) => write!(out, "{many} objects of the cache are alive: free them first"),
            Alive::Interrupting => out.write_str("a cache cannot be destroyed by a signal handler"),
        }
    }
}

impl std::error::Error for Alive {}

/// Why a cache could not be tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Untunable {
    /// A batch has 1 to 125 objects, and a limit is at least a batch and at most 256 of them.
    Numbers,
    /// The machine refused to restart other CPUs. Not on this target.
    Refused,
    /// A signal handler interrupted a drain. Not on this target.
    Interrupting,
    /// No memory for the cache. Not on this target.
    NoMemory,
}

impl fmt::Display for Untunable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Untunable::Numbers => "a batch has 1 to 125 objects, and a limit is at least one batch and at most 256",
            Untunable::Refused => "magazines of other CPUs stay as they are for a while",
            Untunable::Interrupting => "a cache cannot be tuned by a signal handler",
            Untunable::NoMemory => "no memory for the cache",
        })
    }
}

impl std::error::Error for Untunable {}

/// A cache of objects of one type. It may be a static. On this target it is one list of free objects, under a lock.
///
/// A cache of values keeps memory. With a constructor, objects stay constructed between uses, and a user finds an object
/// as the last one left it. Not for signal handlers.
pub struct Cache<T, K: Kind = Values> {
    free: Mutex<Vec<Object<T>>>,
    alive: AtomicUsize,
    /// Free objects that are kept.
    kept: AtomicUsize,
    /// Free objects that `prefill` reserved, which `shrink` leaves.
    reserved: AtomicUsize,
    name: &'static str,
    constructor: Option<fn() -> T>,
    kind: std::marker::PhantomData<K>,
}

/// Memory for an object, which in a cache with a constructor has one.
type Object<T> = Owned<MaybeUninit<T>>;

// SAFETY: a cache of values has raw memory only. In one with a constructor, free objects are Send, as `constructed` asks.
unsafe impl<T, K: Kind> Send for Cache<T, K> {}
// SAFETY: as above, and a lock guards the list.
unsafe impl<T, K: Kind> Sync for Cache<T, K> {}

impl<T> Cache<T> {
    /// Makes a cache of values. Panics, at compile time for a static, if the type is larger than 128 KiB, or if the name
    /// has anything but letters, digits, `-`, `_`, `.` and `/`.
    pub const fn new(name: &'static str) -> Self {
        Self::with(name, None)
    }

    /// Moves a value into an object of the cache.
    ///
    /// # Errors
    /// There is no memory. The value comes back.
    pub fn alloc(&self, value: T) -> Result<Box<'_, T>, OutOfMemory<T>> {
        match self.take() {
            Some(mut object) => {
                object.object.write(value);
                Ok(object)
            }
            None => Err(OutOfMemory(value)),
        }
    }
}

impl<T: Send + 'static> Cache<T, Constructed> {
    /// Makes a cache of objects that `constructor` makes, each once. Panics as [`Cache::new`].
    pub const fn constructed(name: &'static str, constructor: fn() -> T) -> Self {
        Self::with(name, Some(constructor))
    }

    /// Allocates an object: as its last user left it, or fresh. None: no memory.
    pub fn get(&self) -> Option<Box<'_, T, Constructed>> {
        self.take()
    }
}

impl<T, K: Kind> Cache<T, K> {
    const fn with(name: &'static str, constructor: Option<fn() -> T>) -> Self {
        assert!(size_of::<T>() <= LARGEST_OBJECT, "objects of a cache have at most 128 KiB");
        assert!(align_of::<T>() <= COARSEST, "objects of a cache are aligned to at most 64 KiB");
        assert!(
            !name.is_empty() && is_plain(name.as_bytes()),
            "a cache's name has letters, digits, '-', '_', '.' and '/'"
        );
        Cache {
            free: Mutex::new(Vec::new()),
            alive: AtomicUsize::new(0),
            kept: AtomicUsize::new(KEPT),
            reserved: AtomicUsize::new(0),
            name,
            constructor,
            kind: std::marker::PhantomData,
        }
    }

    /// No panic leaves the list half changed.
    fn free(&self) -> MutexGuard<'_, Vec<Object<T>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owner of memory or, with a constructor, of an object.
    fn take(&self) -> Option<Box<'_, T, K>> {
        let known = self.free().pop();
        let object = match known {
            Some(object) => object,
            None => self.fresh()?,
        };
        // Relaxed, here and below: a count that orders nothing.
        self.alive.fetch_add(1, Relaxed);
        Some(Box { object: ManuallyDrop::new(object), cache: self })
    }

    fn fresh(&self) -> Option<Object<T>> {
        let layout = Layout::new::<T>();
        let mut object = match layout.size() {
            0 => Owned::new_uninit(),
            _ => {
                // SAFETY: the layout has a size.
                let memory = unsafe { alloc(layout) }.cast::<MaybeUninit<T>>();
                if memory.is_null() {
                    return None;
                }
                // SAFETY: the memory comes from the global allocator, with this layout.
                unsafe { Owned::from_raw(memory) }
            }
        };
        if let Some(constructor) = self.constructor {
            object.write(constructor());
        }
        Some(object)
    }

    /// Keeps a free object, or destroys it.
    fn put(&self, object: Object<T>) {
        let mut free = self.free();
        let most = self.kept.load(Relaxed).max(self.reserved.load(Relaxed));
        if free.len() < most && free.try_reserve(1).is_ok() {
            return free.push(object);
        }
        drop(free);
        self.destroy_object(object);
    }

    #[expect(clippy::boxed_local, reason = "the box goes, too")]
    fn destroy_object(&self, mut object: Object<T>) {
        if self.constructor.is_some() {
            // SAFETY: it was constructed, and has no owner.
            unsafe { object.assume_init_drop() };
        }
    }

    /// Returns the number of live objects: exact at rest.
    pub fn alive(&self) -> usize {
        self.alive.load(Relaxed)
    }

    /// Fills a reserve up to `objects` objects, for allocations that would fail. So the next `objects` allocations
    /// succeed, on any thread.
    ///
    /// # Errors
    /// There is no memory. The reserve keeps what it has.
    pub fn prefill(&self, objects: usize) -> Result<(), NoMemory> {
        self.reserved.fetch_max(objects, Relaxed);
        loop {
            let mut free = self.free();
            let missing = objects.saturating_sub(free.len());
            if missing == 0 {
                return Ok(());
            }
            free.try_reserve(missing).map_err(|_| NoMemory)?;
            // A constructor may use the cache.
            drop(free);
            let object = self.fresh().ok_or(NoMemory)?;
            self.free().push(object);
        }
    }

    /// Returns unused memory, except the prefilled part. Returns the number of lists emptied: 0 or 1.
    pub fn shrink(&self) -> usize {
        let mut free = self.free();
        let left = self.reserved.load(Relaxed).min(free.len());
        let unused = free.split_off(left);
        drop(free);
        let emptied = usize::from(!unused.is_empty());
        unused.into_iter().for_each(|object| self.destroy_object(object));
        emptied
    }

    /// Sets how much the cache keeps: at most `limit` objects. The batch makes no difference on this target.
    ///
    /// # Errors
    /// A number is out of its range.
    pub fn tune(&self, limit: usize, batch: usize) -> Result<(), Untunable> {
        if !(1..=125).contains(&batch) || !(batch..=256 * batch).contains(&limit) {
            return Err(Untunable::Numbers);
        }
        self.kept.store(limit, Relaxed);
        Ok(())
    }

    /// Destroys the cache and returns its memory at once.
    ///
    /// # Errors
    /// Objects are alive. The cache comes back.
    pub fn destroy(self) -> Result<(), (Self, Alive)> {
        match self.alive() {
            0 => Ok(()),
            objects => Err((self, Alive::Objects(objects))),
        }
    }
}

impl<T, K: Kind> Drop for Cache<T, K> {
    fn drop(&mut self) {
        let free = std::mem::take(&mut *self.free());
        free.into_iter().for_each(|object| self.destroy_object(object));
    }
}

impl<T, K: Kind> fmt::Debug for Cache<T, K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Cache").field("name", &self.name).field("alive", &self.alive()).finish_non_exhaustive()
    }
}

const fn is_plain(name: &[u8]) -> bool {
    let mut at = 0;
    while at < name.len() {
        if !(name[at].is_ascii_alphanumeric() || matches!(name[at], b'-' | b'_' | b'.' | b'/')) {
            return false;
        }
        at += 1;
    }
    true
}

/// The owner of an object of a [`Cache`]. Dropping it frees the object.
#[must_use = "the object is freed with its owner"]
pub struct Box<'a, T, K: Kind = Values> {
    /// Initialized, once `alloc` or `get` has returned it.
    object: ManuallyDrop<Object<T>>,
    cache: &'a Cache<T, K>,
}

impl<T, K: Kind> Drop for Box<'_, T, K> {
    fn drop(&mut self) {
        // SAFETY: nothing uses the field after this.
        let mut object = unsafe { ManuallyDrop::take(&mut self.object) };
        if K::DROPS {
            // SAFETY: it is initialized, and ours.
            unsafe { object.assume_init_drop() };
        }
        self.cache.alive.fetch_sub(1, Relaxed);
        self.cache.put(object);
    }
}

impl<T, K: Kind> Deref for Box<'_, T, K> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: it is initialized.
        unsafe { self.object.assume_init_ref() }
    }
}

impl<T, K: Kind> DerefMut for Box<'_, T, K> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { self.object.assume_init_mut() }
    }
}

impl<T: fmt::Debug, K: Kind> fmt::Debug for Box<'_, T, K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}
