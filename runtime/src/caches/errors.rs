//! Errors of operations on caches.

use core::fmt;

pub(crate) const LARGEST_OBJECT: usize = 128 << 10;
/// That of spans.
pub(crate) const COARSEST: usize = crate::page_heap::GRANULE;

/// Why a cache could not be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// No memory for the cache.
    NoMemory,
    /// An object has 0 bytes, or more than 128 KiB.
    Size,
    /// The alignment is not a power of two, or above 64 KiB.
    Alignment,
    /// The name is empty, or has anything but letters, digits and `-`, `_`, `.`, `/`.
    Name,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NoMemory => write!(out, "no memory for another cache"),
            Refused::Size => write!(out, "objects of a cache have 1 to {LARGEST_OBJECT} bytes"),
            Refused::Alignment => write!(out, "the alignment of a cache's objects is a power of two up to {COARSEST}"),
            Refused::Name => write!(out, "a cache's name has letters, digits, and '-', '_', '.' and '/'"),
        }
    }
}

impl core::error::Error for Refused {}

/// Why a cache was not destroyed. It is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Alive {
    /// So many objects are alive.
    Objects(usize),
    /// A signal handler interrupted a walk over all caches.
    Interrupting,
}

impl fmt::Display for Alive {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alive::Objects(1) => out.write_str("an object of the cache is alive: free it first"),
            Alive::Objects(many) => write!(out, "{many} objects of the cache are alive: free them first"),
            Alive::Interrupting => {
                out.write_str("a cache cannot be destroyed by a signal handler that interrupted a drain")
            }
        }
    }
}

impl core::error::Error for Alive {}

/// Why a cache could not be tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Untunable {
    /// A batch has 1 to 125 objects, and a limit is at least a batch and at most 256 of them.
    Numbers,
    /// The machine refused to restart other CPUs. Their magazines keep the old capacity until they are replaced.
    Refused,
    /// A signal handler interrupted a drain. Nothing changed.
    Interrupting,
    /// No memory for the cache, which does not exist yet.
    NoMemory,
}

impl fmt::Display for Untunable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Untunable::Numbers => "a batch has 1 to 125 objects, and a limit is at least one batch and at most 256",
            Untunable::Refused => {
                "the kernel refused membarrier, so magazines of other CPUs stay as they are for a while"
            }
            Untunable::NoMemory => "no memory for the cache, which does not exist yet",
            Untunable::Interrupting => "a cache cannot be tuned by a signal handler that interrupted a drain",
        })
    }
}

impl core::error::Error for Untunable {}
