//! Regions of code: names that samples carry beside their stacks, for work that a stack does not tell apart.

use super::state::PLACE;
use super::table::NAME;
use crate::caches::{enter, known_at, made_at};
use core::marker::PhantomData;
use machine::thread;

/// A named region of code. Samples of a thread that is within it carry its name, in children of a fork too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region(u32);

impl Region {
    /// The region of a name, of which [`NAME`] bytes count. After 255 names, and without memory, others are no region.
    ///
    /// Not for signal handlers. Compares all names; keep what it returns.
    pub fn named(name: &[u8]) -> Self {
        if !enter() {
            return Region(0);
        }
        let Some(profile) = made_at(&PLACE) else { return Region(0) };
        let mut wanted = [0; NAME];
        wanted.iter_mut().zip(name).for_each(|(to, &from)| *to = from);
        Region(profile.locked(|tables| tables.region(wanted)).unwrap_or(0))
    }

    /// Enters the region until the result is dropped. Regions may lie within each other; the innermost counts.
    ///
    /// Two instructions; safe in signal handlers.
    #[must_use = "the thread is in the region until this is dropped"]
    pub fn enter(self) -> Within {
        Within { before: self.replace().0, of: PhantomData }
    }

    /// Enters the region, and returns the one that the thread was in, to be entered again by this function.
    pub fn replace(self) -> Self {
        let before = Region(thread::region());
        thread::set_region(self.0);
        before
    }

    /// Its number; 0: no region.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The region of a number that [`Self::number`] gave.
    pub fn of_number(number: u32) -> Self {
        Region(number)
    }
}

/// The thread is within a region.
#[derive(Debug)]
#[must_use = "the thread leaves the region when this is dropped"]
pub struct Within {
    before: u32,
    of: PhantomData<*const ()>,
}

impl Drop for Within {
    fn drop(&mut self) {
        Region(self.before).replace();
    }
}

/// The name of a region, and zeroes behind it; zeroes for none.
pub(super) fn name(number: u32) -> [u8; NAME] {
    known_at(&PLACE).and_then(|profile| profile.locked(|tables| tables.name_of(number))?).unwrap_or_default()
}
