//! Rows, as their pseudo-code in `machine/conformance` says.

use super::layout::{Pair, ROW, Stored, WINDOW, in_row};
use super::section::restartably;
use crate::engine::{self, Access};
use core::sync::atomic::{AtomicI64, Ordering};

/// Adds to a word that only this thread and its signal handlers add to, by one instruction; others may read. The word
/// is `OFFSET` bytes behind `near`.
///
/// # Safety
/// There is an [`AtomicI64`](crate::sync::AtomicI64), which no other thread adds to.
#[inline]
pub unsafe fn local_add<const OFFSET: i32>(near: *mut u8, amount: i64) {
    let word: *mut i64 = near.wrapping_offset(OFFSET as isize).cast();
    match engine::here() {
        Some(here) => {
            let (at, size) = (word.expose_provenance(), 8);
            here.step(Access::Add { at, size });
            here.with(|engine| {
                let sum = (engine.load(at, size) as i64).wrapping_add(amount);
                engine.store(at, size, (sum as u64).into());
            });
        }
        // SAFETY: it is such a word by contract.
        None => drop(unsafe { AtomicI64::from_ptr(word) }.fetch_add(amount, Ordering::Relaxed)),
    }
}

/// [`local_add`] of 1.
///
/// # Safety
/// As there.
#[inline]
pub unsafe fn local_increment<const OFFSET: i32>(near: *mut u8) {
    // SAFETY: passed on.
    unsafe { local_add::<OFFSET>(near, 1) }
}

/// Draws `amount` from a cell in this thread's slot. Returns false if the rest would be outside [0, `RANGE`), or if the
/// thread has no slot. The cell is `OFFSET` bytes behind `near`.
///
/// # Safety
/// The cell exists in slot 0's row, aligned to 16, and every possible slot has a row. `amount` lies between −WINDOW / 2
/// and WINDOW / 2; `RANGE` is at most that.
pub unsafe fn draw<const RANGE: i32, const OFFSET: i32>(near: *mut u8, amount: i64) -> bool {
    restartably(
        |section| {
            let Some(slot) = section.slot()? else { return Ok(false) };
            let left: *mut u64 = near.wrapping_offset(OFFSET as isize).wrapping_add(slot as usize * ROW).cast();
            // SAFETY: every slot has a row.
            unsafe {
                let rest = section.load(left)?.wrapping_sub(amount as u64);
                if rest.wrapping_sub(WINDOW) >= RANGE as u64 {
                    return Ok(false);
                }
                section.store(left, rest)?;
            }
            Ok(true)
        },
        || false,
    )
}

/// Replaces the pair of `cell` in the row of slot `slot` if this thread is in that slot and `left` is as expected.
///
/// # Safety
/// As for [`draw`]; nobody else changes `edge` meanwhile.
pub unsafe fn replace_pair(cell: *mut u8, slot: u32, expected: u64, new: Pair) -> Stored {
    restartably(
        |section| {
            if section.slot()? != Some(slot) {
                return Ok(Stored::Elsewhere);
            }
            let pair = in_row(cell, slot);
            // SAFETY: every slot has a row.
            unsafe {
                if section.load(pair.cast())? != expected {
                    return Ok(Stored::Differs);
                }
                section.store_pair(pair.cast(), packed(new))?;
            }
            Ok(Stored::Done)
        },
        || Stored::Elsewhere,
    )
}

/// Reads the pair of a cell in any row, as it was at some moment.
///
/// # Safety
/// As for [`draw`].
pub unsafe fn load_pair(cell: *mut u8, slot: u32) -> Pair {
    let pair: *mut u128 = in_row(cell, slot).cast();
    let both = match engine::here() {
        Some(here) => {
            here.step(Access::Load { at: pair.expose_provenance(), size: 16 });
            here.with(|engine| engine.load(pair.expose_provenance(), 16))
        }
        // SAFETY: passed on.
        None => unsafe { pair.read_volatile() },
    };
    Pair { left: both as u64, edge: (both >> 64) as i64 }
}

/// Writes the pair of a cell in any row, as one.
///
/// # Safety
/// As for [`draw`]; the cell was closed until now, so that nobody draws, and nobody else writes the pair meanwhile.
pub unsafe fn store_pair(cell: *mut u8, slot: u32, new: Pair) {
    let pair: *mut u128 = in_row(cell, slot).cast();
    match engine::here() {
        Some(here) => {
            here.step(Access::Store { at: pair.expose_provenance(), size: 16, is_locked: false });
            here.with(|engine| engine.store(pair.expose_provenance(), 16, packed(new)));
        }
        // SAFETY: passed on.
        None => unsafe { pair.write_volatile(packed(new)) },
    }
}

fn packed(pair: Pair) -> u128 {
    u128::from(pair.left) | u128::from(pair.edge as u64) << 64
}
