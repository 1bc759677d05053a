//! What a cache watches, and what is found.

use crate::settings::Key;
use core::fmt;

pub(super) const DEBUG: Key = Key::of("cache.NAME.debug");

/// What a cache watches: bits in the order in which `cache.NAME.debug` has its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options(pub(super) u8);

impl Options {
    /// Nothing.
    pub const NONE: Self = Options(0);
    /// Bytes before and behind each object, which nobody may write to.
    pub const REDZONE: Self = Options(1);
    /// Contents for objects that are not in use, which nobody may change; and for those that begin to be.
    pub const POISON: Self = Options(2);
    /// Who allocated an object, and who freed it last.
    pub const TRACK: Self = Options(4);
    /// Objects that were freed stay so for a while.
    pub const QUARANTINE: Self = Options(8);

    /// What the configuration says of a cache.
    pub fn of(name: &[u8]) -> Self {
        Options(DEBUG.of_cache(name) as u8)
    }

    /// Whether one of them is among these.
    pub const fn has(self, one: Self) -> bool {
        self.0 & one.0 != 0
    }

    /// These but one.
    pub fn without(self, one: Self) -> Self {
        Options(self.0 & !one.0)
    }
}

/// Bytes that should not have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    /// The first one, counted from the object's beginning.
    pub first: isize,
    pub found: u8,
    pub expected: u8,
    /// How many there are.
    pub count: usize,
}

impl Damage {
    /// Counted from elsewhere.
    pub fn moved(self, by: isize) -> Self {
        Damage { first: self.first + by, ..self }
    }
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The red zone before it was written to.
    Before(Damage),
    /// The one behind it.
    Behind(Damage),
    /// The object itself, though it was free.
    Inside(Damage),
    /// The record.
    Record,
    /// It was freed again.
    Twice,
    /// It was used, though it was free.
    AfterFree,
    /// It was given to another cache.
    OtherCache,
    /// Not its beginning was given, but this.
    Interior(*mut u8),
}

impl fmt::Display for Damage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { first, found, expected, count } = *self;
        write!(out, "byte {first} is {found:#04x}, expected {expected:#04x}")?;
        if count > 1 { write!(out, ", {count} bytes in all") } else { Ok(()) }
    }
}
