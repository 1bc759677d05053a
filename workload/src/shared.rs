//! What several threads work on, in memory of the heap, and where one of them leaves what came of it.

use commensal_runtime::heap;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::ptr::slice_from_raw_parts_mut;

/// Values whose number is known when the program runs.
pub(crate) struct Array<T>(*mut [T]);

// SAFETY: it owns its values. Whoever is handed some of them by a shared one changes these alone, see `every`.
unsafe impl<T: Send + Sync> Sync for Array<T> {}

impl<T> Array<T> {
    /// None: no memory.
    pub(crate) fn of(count: usize, value: impl Fn(usize) -> T) -> Option<Self> {
        let memory = heap::allocate_aligned(count * size_of::<T>(), align_of::<T>()).cast::<T>();
        if memory.is_null() {
            return None;
        }
        // SAFETY: as many are ours.
        (0..count).for_each(|at| unsafe { memory.add(at).write(value(at)) });
        Some(Array(slice_from_raw_parts_mut(memory, count)))
    }

    /// One in `step` of them, from the `first` one on.
    ///
    /// # Safety
    /// Nobody else uses these meanwhile.
    pub(crate) unsafe fn every(&self, first: usize, step: usize) -> impl Iterator<Item = &mut T> {
        // SAFETY: within the array; nobody else has them.
        (first..self.0.len()).step_by(step).map(|at| unsafe { &mut *self.0.cast::<T>().add(at) })
    }
}

impl<T> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: written when it was made.
        unsafe { &*self.0 }
    }
}

impl<T> DerefMut for Array<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { &mut *self.0 }
    }
}

impl<T> Drop for Array<T> {
    fn drop(&mut self) {
        // SAFETY: as above, in memory of the heap; nobody uses it any more.
        unsafe {
            self.0.drop_in_place();
            heap::free(self.0.cast());
        }
    }
}

/// Where one thread leaves what the caller reads when all threads have ended.
pub(crate) struct Outcome<T>(UnsafeCell<Option<T>>);

// SAFETY: by the use that is made of it.
unsafe impl<T: Send> Sync for Outcome<T> {}

impl<T> Outcome<T> {
    pub(crate) fn new() -> Self {
        Outcome(UnsafeCell::new(None))
    }

    pub(crate) fn place(&self) -> *mut Option<T> {
        self.0.get()
    }

    pub(crate) fn into_inner(self) -> Option<T> {
        self.0.into_inner()
    }
}
