//! A cell of reference-counted values, which readers find without a lock.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use super::caches::OutOfMemory;

/// A value that is read without waiting, and replaced as a whole. A replaced value is dropped by the last thread that
/// has it loaded, or by the one that replaced it.
///
/// Not for signal handlers. The process ends if there is no memory.
pub struct Cell<T: Send + Sync + 'static>(ArcSwap<T>);

impl<T: Send + Sync + 'static> Cell<T> {
    /// Makes a cell with a value.
    ///
    /// # Errors
    /// None on this target, where the process ends if there is no memory.
    pub fn new(value: T) -> Result<Self, OutOfMemory<T>> {
        Ok(Cell(ArcSwap::from_pointee(value)))
    }

    /// Loads the value. It stays until the result is dropped, even if another thread replaces it.
    pub fn load(&self) -> Loaded<'_, T> {
        Loaded { value: self.0.load(), cell: PhantomData }
    }

    /// Replaces the value.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn store(&self, value: T) -> Result<(), OutOfMemory<T>> {
        self.0.store(Arc::new(value));
        Ok(())
    }

    /// Clones the value, for a thread that keeps it.
    #[must_use = "the clone is dropped if it is not used"]
    pub fn load_full(&self) -> T
    where
        T: Clone,
    {
        T::clone(&self.load())
    }

    /// Replaces the value by `change(value)`, and returns the value that was there. Calls `change` again if another
    /// thread replaced the value meanwhile.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn rcu<R: Into<T>>(&self, mut change: impl FnMut(&T) -> R) -> Result<Replaced<T>, OutOfMemory<T>> {
        Ok(Replaced(self.0.rcu(|value| change(value).into())))
    }
}

/// A value that was in a [`Cell`]. Readers that found it before may still have it.
pub struct Replaced<T>(Arc<T>);

impl<T> Deref for Replaced<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Replaced<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for Cell<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Cell").field(&*self.load()).finish()
    }
}

/// A value that was found in a [`Cell`], which stays until this is dropped.
#[must_use = "the value may be replaced and dropped when this is dropped"]
pub struct Loaded<'c, T> {
    value: Guard<Arc<T>>,
    /// It stays on its thread, as a section of the runtime does.
    cell: PhantomData<(&'c T, *mut ())>,
}

impl<T> Deref for Loaded<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Loaded<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}
