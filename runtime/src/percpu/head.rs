//! What areas and blocks know of each other: an area has ready blocks, and a block comes from an area.

use machine::slot::ROW;
use machine::sync::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Contention, Lock};
use machine::vm;

/// Rank of an area's lock: what holds it goes on to reserve address space only.
pub const AREA_RANK: u8 = 4;
/// Rank of a block's lock: nothing else is taken while it is held.
pub const BLOCK_RANK: u8 = 5;
pub(super) const LINE: usize = 64;
pub(super) const MASK_WORDS: usize = 3;
/// Lines of a row: the largest block.
pub const LINES: usize = ROW / LINE;

/// When blocks are made zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// On return, as far as they were touched.
    OnReturn,
    /// When they are taken, for this many CPUs, as allocators of per-CPU memory do it.
    ForAll {
        /// CPUs that the memory is laid out for.
        cpus: usize,
    },
}

/// An area. It lies in a page of its own and is never unmapped.
#[derive(Debug)]
#[repr(C)]
pub struct Area {
    pub(super) rows: usize,
    pub(super) preparation: Preparation,
    pub(super) lock: Lock<AREA_RANK>,
    /// Under the lock: where in the current chunk the next block is cut, and how many lines are left there.
    pub(super) next: AtomicUsize,
    pub(super) lines_left: AtomicUsize,
    /// Blocks that are in use.
    pub(super) in_use: AtomicU64,
    /// Ready blocks by lines. Any thread pushes; only the lock's holder pops, so no block returns behind its back.
    pub(super) ready: [AtomicPtr<Head>; LINES + 1],
    pub(super) contention: Contention,
    pub(super) block_contention: Contention,
}

const _: () = assert!(size_of::<Area>() <= vm::PAGE);

impl Area {
    /// Rows for slots.
    pub fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn slots_a_bit(&self) -> usize {
        slots_a_bit(self.rows)
    }

    /// What waiting for the area's lock cost.
    pub fn contention(&self) -> &Contention {
        &self.contention
    }

    /// What waiting for the locks of its blocks cost.
    pub fn block_contention(&self) -> &Contention {
        &self.block_contention
    }

    /// CPUs that the area is laid out for, if it is of the eager school.
    pub(super) fn laid_out_for(&self) -> Option<usize> {
        match self.preparation {
            Preparation::OnReturn => None,
            Preparation::ForAll { cpus } => Some(cpus),
        }
    }
}

/// What a block knows about itself: one line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Head {
    /// The next ready block.
    pub(super) next: AtomicPtr<Head>,
    pub(super) area: AtomicPtr<Area>,
    pub(super) lines: AtomicU32,
    /// What stocks are below.
    pub(super) range: AtomicU32,
    /// Held by whoever moves edges.
    pub lock: Lock<BLOCK_RANK>,
    pub(super) touched: [AtomicU64; MASK_WORDS],
}

const _: () = assert!(size_of::<Head>() == LINE);

/// Slots that one bit of the mask stands for, where there are as many rows.
pub(super) fn slots_a_bit(rows: usize) -> usize {
    rows.div_ceil(MASK_WORDS * 64).max(1)
}
