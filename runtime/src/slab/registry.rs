//! What concerns all caches, and slow paths only: it lies in the zone's metadata.

use super::panels::Panels;
use super::spare::Spare;
use super::tally::Tally;
use crate::observe::{Events, Kicks, LockReport};
use machine::sync::Lock;

/// Rank of the lock of those who take arrays away from other CPUs: they go on to lock shards.
const DRAIN_RANK: u8 = 0;

/// The registry. What is written at different times lies in different lines.
#[derive(Debug)]
#[repr(C)]
pub struct Registry {
    /// What the program holds.
    pub tally: Tally,
    pub rare: Line<Rare>,
    /// Empty arrays that no shard keeps.
    pub(super) spare: Line<Spare>,
    pub(super) locks: Line<LockReport>,
}

/// Something in lines of its own.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Line<T>(pub T);

/// What is seldom used.
#[derive(Debug)]
#[repr(C)]
pub struct Rare {
    /// Arrays that exist.
    pub arrays: Events,
    /// Held by whoever takes arrays away from other CPUs.
    pub drain_lock: Lock<DRAIN_RANK>,
    /// Panels of object caches.
    pub(super) panels: Panels,
    /// Kicks of the slab.
    pub kicks: Kicks,
}

impl Registry {
    /// Nothing yet.
    pub(super) const fn new() -> Self {
        Registry {
            tally: Tally::new(),
            rare: Line(Rare {
                arrays: Events::new(),
                drain_lock: Lock::new(),
                panels: Panels::new(),
                kicks: Kicks::new(),
            }),
            spare: Line(Spare::new()),
            locks: Line(LockReport::new()),
        }
    }
}
