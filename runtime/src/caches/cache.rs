//! Typed caches for Rust programs: [`Cache`], and the owner of one of its objects, [`Box`].

use super::errors::{Alive, COARSEST, LARGEST_OBJECT, Untunable};
use super::object_cache::{ObjectCache, Wanted, is_plain};
use crate::central::Hook;
use crate::counter::NoMemory;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, forget, needs_drop};
use core::ops::{Deref, DerefMut};
use core::ptr::{NonNull, null_mut};
use machine::sync::{AtomicPtr, Ordering};

use sealed::Kind;

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

/// A cache of objects of one type. It may be a static. Its first use creates it, which interrupts no other CPU.
///
/// ```
/// use commensal::caches::Cache;
///
/// struct Context { depth: u32 }
///
/// static CONTEXTS: Cache<Context> = Cache::new("context");
///
/// let mut context = CONTEXTS.alloc(Context { depth: 1 }).ok().expect("there is memory");
/// context.depth += 1;
/// assert_eq!(context.depth, 2);
/// ```
///
/// With a constructor, objects stay constructed between uses. A user finds an object as the last one left it.
///
/// ```
/// use commensal::caches::{Cache, Constructed};
///
/// static LINES: Cache<Vec<u8>, Constructed> = Cache::constructed("line", || Vec::with_capacity(4096));
///
/// let mut line = LINES.get().expect("there is memory");
/// line.clear();
/// line.extend(b"no allocation but the first time");
/// ```
///
/// Allocating and freeing take constant time, and are allowed in signal handlers and in fork children.
#[derive(Debug)]
pub struct Cache<T, K: Kind = Values> {
    cache: AtomicPtr<ObjectCache>,
    name: &'static str,
    constructor: Option<fn() -> T>,
    typesafe: bool,
    kind: PhantomData<K>,
    // Invariant in T: a user finds what the last one left in an object.
    objects: PhantomData<fn(T) -> T>,
}

/// There is no memory for a value, or no room within the limits of its group. The value comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory<T>(pub T);

impl<T> fmt::Debug for OutOfMemory<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("OutOfMemory")
    }
}

impl<T> fmt::Display for OutOfMemory<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("no memory for the value, or no room in its group: the error has the value")
    }
}

impl<T> core::error::Error for OutOfMemory<T> {}

impl<T> Cache<T> {
    /// Makes a cache of values. Panics, at compile time for a static, if the type is larger than 128 KiB, or
    /// if the name has anything but letters, digits, `-`, `_`, `.` and `/`.
    pub const fn new(name: &'static str) -> Self {
        Self::with(name, None)
    }

    /// Moves a value into an object of the cache.
    ///
    /// # Errors
    /// There is no memory. The value comes back.
    #[inline]
    pub fn alloc(&self, value: T) -> Result<Box<'_, T>, OutOfMemory<T>> {
        match self.take() {
            Some(object) => {
                // SAFETY: the object is ours, and of the right size and alignment.
                unsafe { object.write(value) };
                Ok(Box { object, cache: self })
            }
            None => Err(OutOfMemory(value)),
        }
    }
}

impl<T: Send + 'static> Cache<T, Constructed> {
    /// Makes a cache of objects that `constructor` makes, each once. Panics as [`Cache::new`]. A panic of `constructor`
    /// ends the program.
    pub const fn constructed(name: &'static str, constructor: fn() -> T) -> Self {
        Self::with(name, Some(constructor))
    }

    /// The same for readers, which may look at freed objects. So owners, too, get only shared references.
    pub(crate) const fn typesafe(name: &'static str, constructor: fn() -> T) -> Self {
        let mut cache = Self::constructed(name, constructor);
        cache.typesafe = true;
        cache
    }

    /// Allocates an object: as its last user left it, or fresh. None: no memory.
    #[inline]
    pub fn get(&self) -> Option<Box<'_, T, Constructed>> {
        Some(Box { object: self.take()?, cache: self })
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
        let (kind, objects) = (PhantomData, PhantomData);
        Cache { cache: AtomicPtr::new(null_mut()), name, constructor, typesafe: false, kind, objects }
    }

    #[inline]
    fn take(&self) -> Option<NonNull<T>> {
        NonNull::new(self.cache()?.allocate().cast())
    }

    /// None: no memory.
    #[inline]
    fn cache(&self) -> Option<&'static ObjectCache> {
        self.existing().or_else(|| self.create())
    }

    #[inline]
    fn existing(&self) -> Option<&'static ObjectCache> {
        // Acquire pairs with the release in `create`: a thread that sees the cache finds it complete.
        // SAFETY: object caches are never unmapped.
        unsafe { self.cache.load(Ordering::Acquire).as_ref() }
    }

    #[cold]
    fn create(&self) -> Option<&'static ObjectCache> {
        let wanted = Wanted {
            name: self.name.as_bytes(),
            bytes: size_of::<T>().max(1),
            alignment: align_of::<T>(),
            constructor: self.constructor.map(|_| construct::<T> as Hook),
            destructor: self.constructor.filter(|_| needs_drop::<T>()).map(|_| drop_object::<T> as Hook),
            argument: self.constructor.map_or(null_mut(), |constructor| constructor as *mut u8),
            typesafe: self.typesafe,
        };
        let made = ObjectCache::create(&wanted).ok()?;
        let ours = (&raw const *made).cast_mut();
        match self.cache.compare_exchange(null_mut(), ours, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(made),
            Err(theirs) => {
                // Do not wait for readers: this thread could be one.
                // SAFETY: no other thread has seen ours.
                let _ = unsafe { made.destroy_unread() };
                // SAFETY: as in `existing`.
                unsafe { theirs.as_ref() }
            }
        }
    }

    /// Returns the number of live objects: exact at rest. Takes time in proportion to the slots.
    pub fn alive(&self) -> usize {
        self.existing().map_or(0, ObjectCache::alive)
    }

    /// Fills a reserve up to `objects` objects, for allocations that would fail. So the next `objects` allocations
    /// succeed, on any thread.
    ///
    /// # Errors
    /// There is no memory. The reserve keeps what it has.
    pub fn prefill(&self, objects: usize) -> Result<(), NoMemory> {
        self.cache().ok_or(NoMemory)?.prefill(objects)
    }

    /// Returns unused memory, except the prefilled part. If other CPUs hold any, kicks them, once for some fifty slots.
    /// Returns the number of magazines emptied.
    pub fn shrink(&self) -> usize {
        self.existing().map_or(0, ObjectCache::shrink)
    }

    /// Sets how much each slot keeps, also during use: at most `limit` objects, which move in batches of `batch`. If
    /// other CPUs hold any, kicks them, once for some fifty slots.
    ///
    /// # Errors
    /// [`Untunable`] says which ones there are, and what each leaves behind.
    pub fn tune(&self, limit: usize, batch: usize) -> Result<(), Untunable> {
        self.cache().map_or(Err(Untunable::NoMemory), |cache| cache.tune(limit, batch))
    }

    /// Destroys the cache and returns its memory at once.
    ///
    /// # Errors
    /// Objects are alive, or the caller is a signal handler. The cache comes back.
    pub fn destroy(self) -> Result<(), (Self, Alive)> {
        // SAFETY: we own the cache, so no other thread uses it.
        if let Some(Err(alive)) = self.existing().map(|cache| unsafe { cache.destroy() }) {
            return Err((self, alive));
        }
        forget(self);
        Ok(())
    }
}

impl<T, K: Kind> Drop for Cache<T, K> {
    /// Keeps a cache with live objects: their owners were forgotten, and may have left references.
    fn drop(&mut self) {
        // SAFETY: as in `destroy`.
        let _ = self.existing().map(|cache| unsafe { cache.destroy() });
    }
}

unsafe extern "C" fn construct<T>(object: *mut u8, argument: *mut u8) {
    // SAFETY: the argument is the constructor, as `create` gave it.
    let constructor = unsafe { (&raw const argument).cast::<fn() -> T>().read() };
    // SAFETY: the object is raw memory for a T.
    unsafe { object.cast::<T>().write(constructor()) };
}

unsafe extern "C" fn drop_object<T>(object: *mut u8, _argument: *mut u8) {
    // SAFETY: the object was constructed and has no owner.
    unsafe { object.cast::<T>().drop_in_place() };
}

/// The owner of an object of a [`Cache`]. Dropping it frees the object.
#[must_use = "the object is freed with its owner"]
pub struct Box<'a, T, K: Kind = Values> {
    object: NonNull<T>,
    cache: &'a Cache<T, K>,
}

// SAFETY: it owns its object, and any thread may use the cache.
unsafe impl<T: Send, K: Kind> Send for Box<'_, T, K> {}
// SAFETY: as above.
unsafe impl<T: Sync, K: Kind> Sync for Box<'_, T, K> {}

impl<'a, T> Box<'a, T, Constructed> {
    /// Gives up the ownership for now. Panics if the object belongs to another cache.
    #[inline]
    pub(crate) fn into_object(this: Self, cache: &Cache<T, Constructed>) -> *mut T {
        assert!(core::ptr::eq(this.cache, cache), "the object is of another cache");
        ManuallyDrop::new(this).object.as_ptr()
    }

    /// Takes it back.
    /// Safety: the caller owns the object, which belongs to this cache.
    #[inline]
    pub(crate) unsafe fn from_object(object: NonNull<T>, cache: &'a Cache<T, Constructed>) -> Self {
        Box { object, cache }
    }
}

impl<T, K: Kind> Drop for Box<'_, T, K> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the object is ours, and its cache was created before it.
        unsafe {
            if K::DROPS {
                self.object.drop_in_place();
            }
            // Relaxed: the maker of the box saw the cache.
            (*self.cache.cache.load(Ordering::Relaxed)).free(self.object.as_ptr().cast());
        }
    }
}

impl<T, K: Kind> Deref for Box<'_, T, K> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the object is ours.
        unsafe { self.object.as_ref() }
    }
}

impl<T, K: Kind> DerefMut for Box<'_, T, K> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { self.object.as_mut() }
    }
}

impl<T: fmt::Debug, K: Kind> fmt::Debug for Box<'_, T, K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}
