//! A value that many threads read, and some replace.

use super::deferred::{Dropped, place, retire};
use super::qsbr::Section;
use super::reader::{ReadGuard, read};
use crate::caches::{OutOfMemory, heap};
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use machine::sync::{AtomicPtr, Ordering};

/// A value that is read without waiting, and replaced as a whole. A replaced value is dropped after a grace period, on
/// the runtime's worker. If its type has nothing to drop, its memory is freed as by [`defer_free`](super::defer_free).
///
/// Reading costs a section and a load, writes nothing that others read, and waits for no thread. Replacing costs an
/// allocation, an exchange, and a [`defer_free`](super::defer_free) or a [`defer_drop`](super::defer_drop). Values lie
/// in the runtime's heap, up to some 32 KiB.
///
/// Signal handlers may load on top of anything. A fork child has its own.
///
/// ```
/// use commensal::rcu;
///
/// let settings = rcu::Cell::new(("eth0", 1500)).unwrap();
/// assert_eq!(settings.load().1, 1500);
/// settings.rcu(|now| (now.0, now.1 + 28)).unwrap();
/// assert_eq!(*settings.load(), ("eth0", 1528));
/// ```
pub struct Cell<T: Send + Sync + 'static> {
    at: AtomicPtr<Dropped<T>>,
    owns: PhantomData<T>,
}

// SAFETY: threads that share a cell read its values and put others there, which are dropped on another thread.
unsafe impl<T: Send + Sync + 'static> Sync for Cell<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync + 'static> Send for Cell<T> {}

/// A value that was found in a [`Cell`], which stays until this is dropped: a read section.
#[derive(Debug)]
#[must_use = "the value may be replaced and dropped when this is dropped"]
pub struct Loaded<'c, T> {
    value: NonNull<Dropped<T>>,
    cell: PhantomData<&'c T>,
    /// Ended last.
    _section: ReadGuard,
}

impl<T> Deref for Loaded<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the section keeps it.
        unsafe { &self.value.as_ref().value }
    }
}

/// The value of a place that no other thread has seen.
/// Safety: the place is the caller's to give up.
unsafe fn take_back<T>(place: NonNull<Dropped<T>>) -> T {
    // SAFETY: passed on.
    unsafe {
        let Dropped { value, .. } = place.read();
        heap().free_any(place.as_ptr().cast());
        value
    }
}

impl<T: Send + Sync + 'static> Cell<T> {
    /// Makes a cell with a value.
    ///
    /// # Errors
    /// There is no memory. The value comes back.
    pub fn new(value: T) -> Result<Self, OutOfMemory<T>> {
        Ok(Cell { at: AtomicPtr::new(place(value)?.as_ptr()), owns: PhantomData })
    }

    /// Loads the value. It stays until the result is dropped, even if another thread replaces it.
    #[inline(always)]
    pub fn load(&self) -> Loaded<'_, T> {
        let section = read();
        // Acquire pairs with the releases below: a thread that finds a value finds it whole.
        // SAFETY: there always is one.
        let value = unsafe { NonNull::new_unchecked(self.at.load(Ordering::Acquire)) };
        Loaded { value, cell: PhantomData, _section: section }
    }

    /// Loads the value in a section of a registered reader.
    #[inline(always)]
    pub fn load_in<'s, const KICKABLE: bool>(&'s self, _section: &'s Section<'_, KICKABLE>) -> &'s T {
        // SAFETY: there always is one, and the section keeps it. Acquire: as above.
        unsafe { &(*self.at.load(Ordering::Acquire)).value }
    }

    /// Clones the value, for a thread that keeps it: no grace period waits for the clone. With a `Cell<Arc<T>>` this is
    /// an owned handle, as from arc-swap's function of this name. Other than there, the value need not be an `Arc`, and
    /// `clone` runs in a section.
    #[must_use = "the clone is dropped if it is not used"]
    pub fn load_full(&self) -> T
    where
        T: Clone,
    {
        T::clone(&self.load())
    }

    /// Replaces the value.
    ///
    /// # Errors
    /// There is no memory. The new value comes back.
    pub fn store(&self, value: T) -> Result<(), OutOfMemory<T>> {
        let new = place(value)?;
        // Release: see `load`. Acquire: the thread that stored what was there is done with it.
        let old = self.at.swap(new.as_ptr(), Ordering::AcqRel);
        // SAFETY: it was there, so it is not null, and no reader finds it any more.
        drop(unsafe { Replaced::new(NonNull::new_unchecked(old)) });
        Ok(())
    }

    /// Replaces the value by `change(value)`, and returns the value that was there. If another thread replaced that one
    /// meanwhile, calls `change` again, with the newer value: so no replacement is lost.
    ///
    /// ```
    /// # use commensal::rcu;
    /// # use std::sync::Arc;
    /// let routes = rcu::Cell::new(Arc::new(vec!["a"])).unwrap();
    /// let before = routes.rcu(|now| [&now[..], &["b"]].concat()).unwrap();
    /// assert_eq!((before.len(), routes.load_full().len()), (1, 2));
    /// ```
    ///
    /// This is arc-swap's function of that name, which returns an `Arc`. The result here owns the value as well, and
    /// readers may still have it: see [`Replaced`]. `change` runs in a section, so it must not wait for grace periods.
    ///
    /// Takes an allocation, a section and a compare-and-swap for each attempt. An attempt fails only because another
    /// thread's has succeeded.
    ///
    /// # Errors
    /// There is no memory. The value that `change` made comes back.
    pub fn rcu<R: Into<T>>(&self, mut change: impl FnMut(&T) -> R) -> Result<Replaced<T>, OutOfMemory<T>> {
        loop {
            // Until the exchange, the value stays loaded. So its place is not used again, and an equal pointer means
            // that `change` has seen the value that is replaced.
            let current = self.load();
            let (old, new) = (current.value, place(change(&current).into())?);
            // Release and acquire pair with those of `load`, of `store`, and of this exchange on another thread. If
            // ours comes first, theirs fails or finds our value whole. If theirs does, ours fails: the pointer differs.
            // Relaxed on failure: nothing is read then, and the next `load` acquires.
            let done = self.at.compare_exchange(old.as_ptr(), new.as_ptr(), Ordering::AcqRel, Ordering::Relaxed);
            // Before a value is dropped: a drop may wait for grace periods, and a process with one thread may free the
            // old value at once.
            drop(current);
            if done.is_ok() {
                // SAFETY: no reader finds it any more.
                return Ok(unsafe { Replaced::new(old) });
            }
            // SAFETY: no other thread has seen it.
            drop(unsafe { take_back(new) });
        }
    }
}

/// A value that was in a [`Cell`]. Its owner may keep it for as long as it likes, outside of sections, and no grace
/// period waits for that. Readers that found it before may still have it, so it is shared. When this is dropped, the
/// value is dropped after a grace period, as [`Cell::store`] does with the old value.
pub struct Replaced<T: Send + Sync + 'static> {
    value: NonNull<Dropped<T>>,
    owns: PhantomData<T>,
}

// SAFETY: it shares the value with readers, and gives it to another thread to be dropped.
unsafe impl<T: Send + Sync + 'static> Send for Replaced<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync + 'static> Sync for Replaced<T> {}

impl<T: Send + Sync + 'static> Replaced<T> {
    /// Safety: the value was in a cell, and this call's thread took it out.
    unsafe fn new(value: NonNull<Dropped<T>>) -> Self {
        Replaced { value, owns: PhantomData }
    }
}

impl<T: Send + Sync + 'static> Deref for Replaced<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: it is retired when this is dropped.
        unsafe { &self.value.as_ref().value }
    }
}

impl<T: Send + Sync + 'static> Drop for Replaced<T> {
    fn drop(&mut self) {
        // SAFETY: it is ours, and no reader finds it any more.
        unsafe { retire(self.value) };
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for Replaced<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}

impl<T: Send + Sync + 'static> Drop for Cell<T> {
    fn drop(&mut self) {
        // SAFETY: no other thread has the cell, so none has the value.
        drop(unsafe { take_back(NonNull::new_unchecked(self.at.load(Ordering::Relaxed))) });
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for Cell<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Cell").field(&*self.load()).finish()
    }
}
