//! The types that areas and blocks share: an area has ready blocks, and a block comes from an area.

use machine::slot::ROW;
use machine::sync::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Contention, Lock};
use machine::vm;

/// Rank of an area's lock: its holder then only reserves address space.
pub const AREA_RANK: u8 = 4;
/// Rank of a block's lock: its holder takes no other lock.
pub const BLOCK_RANK: u8 = 5;
pub(super) const LINE: usize = 64;
pub(super) const MASK_WORDS: usize = 3;
/// Lines of a row: the largest block.
pub const LINES: usize = ROW / LINE;

/// When blocks are made zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// On return, the touched part.
    OnReturn,
    /// When they are taken, for this many CPUs, like allocators of per-CPU memory.
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
    /// Under the lock: where the next block is cut in the current chunk, and the lines left there.
    pub(super) next: AtomicUsize,
    pub(super) lines_left: AtomicUsize,
    pub(super) in_use: AtomicU64,
    /// Ready blocks by lines. Any thread pushes; only the lock's holder pops, so no block returns unnoticed (ABA).
    pub(super) ready: [AtomicPtr<Head>; LINES + 1],
    pub(super) contention: Contention,
    pub(super) block_contention: Contention,
}

const _: () = assert!(size_of::<Area>() <= vm::PAGE);

impl Area {
    /// Number of slots that have rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn slots_a_bit(&self) -> usize {
        slots_a_bit(self.rows)
    }

    /// The cost of waiting for the area's lock.
    pub fn contention(&self) -> &Contention {
        &self.contention
    }

    /// The cost of waiting for the locks of its blocks.
    pub fn block_contention(&self) -> &Contention {
        &self.block_contention
    }

    pub(super) fn laid_out_for(&self) -> Option<usize> {
        match self.preparation {
            Preparation::OnReturn => None,
            Preparation::ForAll { cpus } => Some(cpus),
        }
    }
}

/// The head of a block: one line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Head {
    pub(super) next: AtomicPtr<Head>,
    pub(super) area: AtomicPtr<Area>,
    pub(super) lines: AtomicU32,
    /// Upper bound of stocks.
    pub(super) range: AtomicU32,
    /// A thread holds it to move edges.
    pub lock: Lock<BLOCK_RANK>,
    pub(super) touched: [AtomicU64; MASK_WORDS],
}

const _: () = assert!(size_of::<Head>() == LINE);

/// Slots per bit of the mask, for this many rows.
pub(super) fn slots_a_bit(rows: usize) -> usize {
    rows.div_ceil(MASK_WORDS * 64).max(1)
}
