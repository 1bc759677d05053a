//! Operations on rows, by their pseudo-code in `machine/conformance`.

use super::layout::{Pair, ROW, Stored, WINDOW, in_row};
use super::section::restartably;
use crate::engine::{self, Access};
use core::sync::atomic::{AtomicI64, Ordering};

/// Adds, by one instruction, to a word to which only this thread and its signal handlers add.
///
/// # Safety
/// There is an [`AtomicI64`](crate::sync::AtomicI64), to which no other thread adds.
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

/// Draws `amount` from a cell of this thread's slot. False: the rest is outside [0, `RANGE`), or there is no slot.
///
/// # Safety
/// As for the host's.
pub unsafe fn draw<const RANGE: i32, const OFFSET: i32>(near: *mut u8, amount: i64) -> bool {
    restartably(
        |section| {
            let Some(slot) = section.slot()? else { return Ok(false) };
            let left: *mut u64 = near.wrapping_offset(OFFSET as isize).wrapping_add(slot as usize * ROW).cast();
            // SAFETY: each slot has a row.
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

/// Replaces the pair of `cell` in the row of `slot` if this thread is in that slot and `left` is as expected.
///
/// # Safety
/// As for [`draw`]; no other thread changes `edge` meanwhile.
pub unsafe fn replace_pair(cell: *mut u8, slot: u32, expected: u64, new: Pair) -> Stored {
    restartably(
        |section| {
            if section.slot()? != Some(slot) {
                return Ok(Stored::Elsewhere);
            }
            let pair = in_row(cell, slot);
            // SAFETY: each slot has a row.
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

/// Reads a cell's pair in any row, as of one moment.
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

/// Writes a cell's pair in any row, as one.
///
/// # Safety
/// As for [`draw`]; the cell is closed, so that no thread draws, and no other thread writes the pair meanwhile.
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
