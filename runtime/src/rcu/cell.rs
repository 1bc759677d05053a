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
/// # use commensal::rcu::Cell;
/// let settings = Cell::new(("eth0", 1500)).unwrap();
/// assert_eq!(settings.load().1, 1500);
/// settings.update(|now| (now.0, now.1 + 28)).unwrap();
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
    /// Makes a cell with a value, which comes back if there is no memory.
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

    /// Replaces the value. The new one comes back if there is no memory.
    pub fn store(&self, value: T) -> Result<(), OutOfMemory<T>> {
        let new = place(value)?;
        // Release: see `load`. Acquire: the thread that stored what was there is done with it.
        let old = self.at.swap(new.as_ptr(), Ordering::AcqRel);
        // SAFETY: it was there, so it is not null, and no reader finds it any more.
        unsafe { retire(NonNull::new_unchecked(old)) };
        Ok(())
    }

    /// Replaces the value by `change(value)`. Calls `change` again if another thread replaced the value meanwhile.
    pub fn update(&self, mut change: impl FnMut(&T) -> T) -> Result<(), OutOfMemory<T>> {
        loop {
            // Until the exchange, the value stays loaded, so it cannot go and come back.
            let current = self.load();
            let (old, new) = (current.value, place(change(&current))?);
            // Orders as in `store`. Relaxed on failure: nothing is read then.
            let done = self.at.compare_exchange(old.as_ptr(), new.as_ptr(), Ordering::AcqRel, Ordering::Relaxed);
            // Before the old value is retired: a process with one thread may then free it at once.
            drop(current);
            if done.is_ok() {
                // SAFETY: no reader finds it any more.
                unsafe { retire(old) };
                return Ok(());
            }
            // SAFETY: no other thread has seen it.
            drop(unsafe { take_back(new) });
        }
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
