//! The options of debug caches, and the errors found.

use crate::settings::Key;
use core::fmt;

pub(super) const DEBUG: Key = Key::of("cache.NAME.debug");

/// A debug cache's options: bits in the order of the words of `cache.NAME.debug`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options(pub(super) u8);

impl Options {
    /// No option.
    pub const NONE: Self = Options(0);
    /// Bytes before and behind each object that the program must not write.
    pub const REDZONE: Self = Options(1);
    /// A fill for unused objects, which must not change, and for new ones.
    pub const POISON: Self = Options(2);
    /// Traces of the calls that allocated an object and freed it last.
    pub const TRACK: Self = Options(4);
    /// Freed objects stay unused for a while.
    pub const QUARANTINE: Self = Options(8);

    /// A cache's options in the configuration.
    pub fn of(name: &[u8]) -> Self {
        Options(DEBUG.of_cache(name) as u8)
    }

    /// Whether an option is set.
    pub const fn has(self, one: Self) -> bool {
        self.0 & one.0 != 0
    }

    /// The options without one.
    pub fn without(self, one: Self) -> Self {
        Options(self.0 & !one.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    /// Offset of the first one in the object.
    pub first: isize,
    pub found: u8,
    pub expected: u8,
    /// Their number.
    pub count: usize,
}

impl Damage {
    /// Counts from another origin.
    pub fn moved(self, by: isize) -> Self {
        Damage { first: self.first + by, ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A write to the red zone before the object.
    Before(Damage),
    /// A write to the red zone behind it.
    Behind(Damage),
    /// A write to a free object.
    Inside(Damage),
    /// A write to the record.
    Record,
    /// A double free.
    Twice,
    /// A use after free.
    AfterFree,
    /// A free to another cache.
    OtherCache,
    /// A pointer into the object.
    Interior(*mut u8),
}

impl fmt::Display for Damage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { first, found, expected, count } = *self;
        write!(out, "byte {first} is {found:#04x}, expected {expected:#04x}")?;
        if count > 1 { write!(out, ", {count} bytes in all") } else { Ok(()) }
    }
}
