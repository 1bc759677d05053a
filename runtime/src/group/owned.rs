//! Groups for Rust programs: [`Group`], and the owner of a value in one, [`Box`].

use super::core::Core;
use super::entry::Entry;
use super::inner::{Busy, Refused, Statistics};
use crate::caches::OutOfMemory;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

/// A memory group, with a charge, a peak and an optional limit. Dropping it frees everything in it at once. A [`Box`]
/// owns a value in the group and borrows the group, so no value is used then. Forgotten values are not dropped.
///
/// ```
/// use commensal::group::Group;
///
/// let tenant = Group::new("tenant")?;
/// tenant.set_limit(Some(64 << 10));
/// let page = tenant.alloc([0_u8; 4096]).expect("there is room");
/// assert!(tenant.charged() >= 4096);
/// assert!(tenant.alloc([0_u8; 128 << 10]).is_err());
/// # drop(page);
/// # Ok::<(), commensal::group::Refused>(())
/// ```
#[must_use = "the group is destroyed when this is dropped"]
pub struct Group<'p> {
    core: NonNull<Core>,
    parent: PhantomData<&'p Group<'p>>,
}

// SAFETY: any thread may use or destroy a group.
unsafe impl Send for Group<'_> {}
// SAFETY: as above.
unsafe impl Sync for Group<'_> {}

impl Group<'static> {
    /// Creates a group. Reports show its name: letters, digits, `-`, `_`, `.` and `/`, cut after 23.
    ///
    /// # Errors
    /// The name is refused, or there is no memory.
    pub fn new(name: &str) -> Result<Self, Refused> {
        Self::create(name, None)
    }
}

impl<'p> Group<'p> {
    /// Creates a child group. Its charges are charged to this group too, and this group's limit holds for it too.
    ///
    /// # Errors
    /// As for [`Group::new`].
    pub fn child<'c>(&'c self, name: &str) -> Result<Group<'c>, Refused> {
        Group::create(name, Some(self.core()))
    }

    fn create(name: &str, parent: Option<&Core>) -> Result<Self, Refused> {
        let core = Core::create(name.as_bytes(), parent)?;
        Ok(Group { core: NonNull::new(core).ok_or(Refused::NoMemory)?, parent: PhantomData })
    }

    /// Returns the group's state, without the type's guarantees.
    #[doc(hidden)]
    pub fn core(&self) -> &Core {
        // SAFETY: it exists as long as its owner.
        unsafe { self.core.as_ref() }
    }

    /// Returns the group's name.
    pub fn name(&self) -> &str {
        self.core().name()
    }

    /// Sets the limit in bytes, or none. Earlier charges stay, even beyond it.
    pub fn set_limit(&self, bytes: Option<u64>) {
        self.core().account().set_limit(bytes);
    }

    /// Returns the bytes charged: exact at rest.
    pub fn charged(&self) -> u64 {
        self.core().account().charged()
    }

    /// Returns the most bytes charged at once, exact to one refill of a magazine.
    pub fn peak(&self) -> u64 {
        self.core().account().peak()
    }

    /// Reads the group's statistics.
    pub fn statistics(&self) -> Statistics {
        self.core().statistics()
    }

    /// Puts a value into the group.
    ///
    /// # Errors
    /// There is no memory, or no room within the limits. The value comes back.
    #[inline]
    pub fn alloc<T>(&self, value: T) -> Result<Box<'_, T>, OutOfMemory<T>> {
        let place = self.core().allocate(size_of::<T>(), align_of::<T>()).and_then(NonNull::new);
        let Some(place) = place.map(NonNull::cast) else { return Err(OutOfMemory(value)) };
        // SAFETY: the memory is ours, and of the right size and alignment.
        unsafe { place.write(value) };
        Ok(Box { value: place, group: PhantomData })
    }

    /// Runs `work` inside the group: the runtime's allocations by this thread belong to the group meanwhile.
    ///
    /// # Safety
    /// That memory is not used after the group is destroyed, whether `work` returns it or leaves it elsewhere.
    pub unsafe fn within<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Leaves the group, also if the work panics.
        struct Inside(*mut Entry);
        impl Drop for Inside {
            fn drop(&mut self) {
                // SAFETY: the entry is below.
                let _ = unsafe { Entry::leave(self.0) };
            }
        }
        let mut entry = Entry::new();
        // SAFETY: the entry stays here until it is left; the group is borrowed; passed on.
        let is_inside = unsafe { Entry::enter(&raw mut entry, self.core()) };
        debug_assert!(is_inside, "a group that is borrowed is not destroyed");
        let _inside = is_inside.then(|| Inside(&raw mut entry));
        work()
    }

    /// Destroys the group and frees everything in it.
    ///
    /// # Errors
    /// Children or vanished threads still use the group, which comes back.
    pub fn destroy(self) -> Result<(), (Self, Busy)> {
        let this = ManuallyDrop::new(self);
        // SAFETY: the group is owned here, and its values borrow it, so there are none.
        unsafe { Core::destroy(this.core.as_ptr()) }.map_err(|busy| (ManuallyDrop::into_inner(this), busy))
    }
}

impl Drop for Group<'_> {
    /// Leaves a group in place that cannot be destroyed.
    fn drop(&mut self) {
        // SAFETY: as in `destroy`.
        let _ = unsafe { Core::destroy(self.core.as_ptr()) };
    }
}

impl fmt::Debug for Group<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Group").field("name", &self.name()).field("statistics", &self.statistics()).finish()
    }
}

/// The owner of a value in a [`Group`].
#[must_use = "the value is dropped with its owner"]
pub struct Box<'g, T> {
    value: NonNull<T>,
    group: PhantomData<(&'g Core, T)>,
}

// SAFETY: it owns its value.
unsafe impl<T: Send> Send for Box<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Box<'_, T> {}

impl<T> Drop for Box<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the value is ours.
        unsafe {
            self.value.drop_in_place();
            Core::free(self.value.as_ptr().cast());
        }
    }
}

impl<T> Deref for Box<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value is ours.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for Box<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { self.value.as_mut() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Box<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}
