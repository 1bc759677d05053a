//! The restartable operations, on words, cells and counts, by their pseudo-code in `machine/conformance`.
//! Callers answer for the same as on the host.
#![allow(clippy::missing_safety_doc)]

use super::given;
use super::layout::{COUNTED_BESIDE, COUNTS, Counted, FULL_MASK, NOWHERE, Pair, ROW, Stored, drawn, in_row, word};
use super::section::{Aborted, Section, restartably};
use crate::engine::{self, Access};
use crate::sync::{AtomicPtr, AtomicU64, Ordering};
use std::ptr::{null_mut, with_exposed_provenance_mut};

fn at_offset(base: *mut u8, offset: u64) -> *mut u64 {
    base.wrapping_add(offset as usize).cast()
}

pub unsafe fn pop_ahead(base: *mut u8, index: usize, _: usize) -> *mut u8 {
    // SAFETY: passed on.
    unsafe { pop(base, index) }
}

pub unsafe fn pop(base: *mut u8, index: usize) -> *mut u8 {
    restartably(null_mut(), |section| {
        let Some(slot) = section.slot()? else { return Ok(null_mut()) };
        let head: *mut u64 = word(base, slot, index).cast();
        // SAFETY: the head is an offset to a magazine of this slot, readable even if another CPU takes it away.
        unsafe {
            let top = section.load(head)?;
            let object = section.load(at_offset(base, top))?;
            if object != 0 {
                section.store(head, top - 8)?;
            }
            Ok(with_exposed_provenance_mut(object as usize))
        }
    })
}

pub unsafe fn push(base: *mut u8, index: usize, object: *mut u8) -> bool {
    restartably(false, |section| {
        let Some(slot) = section.slot()? else { return Ok(false) };
        let head: *mut u64 = word(base, slot, index + 1).cast();
        // SAFETY: no other code uses the cell behind the topmost pointer before the commit.
        unsafe {
            let end = section.load(head)?;
            if end as usize & FULL_MASK == 0 {
                return Ok(false);
            }
            section.prepare(at_offset(base, end), object.expose_provenance() as u64)?;
            section.store(head, end + 8)?;
        }
        Ok(true)
    })
}

pub unsafe fn change_places(base: *mut u8, index: usize, take: usize, give: usize) -> *mut u8 {
    let (take, give) = (take as u64, give as u64);
    restartably(null_mut(), |section| {
        let Some(slot) = section.slot()? else { return Ok(null_mut()) };
        let words: *mut u64 = word(base, slot, index).cast();
        // SAFETY: as for `pop`.
        unsafe {
            if section.load(words)? != take
                || section.load(words.wrapping_add(1))? != give
                || section.load(at_offset(base, take))? != 0
            {
                return Ok(null_mut());
            }
            let object = section.load(at_offset(base, give).wrapping_sub(1))?;
            if object != 0 {
                section.store_two(words, [give - 16, take + 8])?;
            }
            Ok(with_exposed_provenance_mut(object as usize))
        }
    })
}

pub unsafe fn change_and_push(base: *mut u8, index: usize, take: usize, give: usize, object: *mut u8) -> bool {
    let (take, give) = (take as u64, give as u64);
    restartably(false, |section| {
        let Some(slot) = section.slot()? else { return Ok(false) };
        let words: *mut u64 = word(base, slot, index).cast();
        // SAFETY: as for `push`.
        unsafe {
            if section.load(words)? != take || section.load(words.wrapping_add(1))? != give {
                return Ok(false);
            }
            section.prepare(at_offset(base, take + 8), object.expose_provenance() as u64)?;
            section.store_two(words, [give - 8, take + 16])?;
        }
        Ok(true)
    })
}

pub unsafe fn compare_store(base: *mut u8, slot: u32, index: usize, expected: usize, new: usize) -> Stored {
    restartably(Stored::Elsewhere, |section| {
        if section.slot()? != Some(slot) {
            return Ok(Stored::Elsewhere);
        }
        let word: *mut u64 = word(base, slot, index).cast();
        // SAFETY: as for `pop`.
        unsafe {
            if section.load(word)? != expected as u64 {
                return Ok(Stored::Differs);
            }
            section.store(word, new as u64)?;
        }
        Ok(Stored::Done)
    })
}

#[inline]
pub unsafe fn local_add<const OFFSET: i32>(near: *mut u8, amount: i64) {
    let word: *mut i64 = near.wrapping_offset(OFFSET as isize).cast();
    let at = word.expose_provenance();
    step(Access::Add { at, size: 8 });
    engine::store(at, 8, (engine::load(at, 8) as u64).wrapping_add(amount as u64).into());
}

#[inline]
pub unsafe fn local_increment<const OFFSET: i32>(near: *mut u8) {
    // SAFETY: passed on.
    unsafe { local_add::<OFFSET>(near, 1) }
}

pub unsafe fn draw<const OFFSET: i32>(near: *mut u8, amount: i64) -> bool {
    restartably(false, |section| {
        let Some(slot) = section.slot()? else { return Ok(false) };
        let left: *mut u64 = near.wrapping_offset(OFFSET as isize).wrapping_add(slot as usize * ROW).cast();
        // SAFETY: each slot has a row.
        unsafe {
            let rest = section.load(left)?.wrapping_add(drawn(amount));
            if [rest, rest << 32].iter().any(|&half| (half as i64) < 0) {
                return Ok(false);
            }
            section.store(left, rest)?;
        }
        Ok(true)
    })
}

pub unsafe fn replace_pair(cell: *mut u8, slot: u32, expected: u64, new: Pair) -> Stored {
    restartably(Stored::Elsewhere, |section| {
        if section.slot()? != Some(slot) {
            return Ok(Stored::Elsewhere);
        }
        let pair = in_row(cell, slot);
        // SAFETY: each slot has a row.
        unsafe {
            if section.load(pair.cast())? != expected {
                return Ok(Stored::Differs);
            }
            section.store(pair.cast(), packed(new))?;
        }
        Ok(Stored::Done)
    })
}

pub unsafe fn load_pair(cell: *mut u8, slot: u32) -> Pair {
    let at = in_row(cell, slot).expose_provenance();
    step(Access::Load { at, size: 16 });
    let both = engine::load(at, 16);
    Pair { left: both as u64, edge: (both >> 64) as i64 }
}

pub unsafe fn store_pair(cell: *mut u8, slot: u32, new: Pair) {
    let at = in_row(cell, slot).expose_provenance();
    step(Access::Store { at, size: 16, is_locked: false });
    engine::store(at, 16, packed(new));
}

fn step(access: Access) {
    if let Some(here) = engine::here() {
        here.step(access);
    }
}

fn packed(pair: Pair) -> u128 {
    u128::from(pair.left) | u128::from(pair.edge as u64) << 64
}

pub unsafe fn count<T>(counts: &AtomicPtr<T>) -> Counted {
    let counted = restartably(None, |section| {
        let slot = section.slot()?.expect("a thread that counts has a slot");
        // SAFETY: passed on; the pointer can be read.
        unsafe {
            let counts: *mut u8 = with_exposed_provenance_mut(section.load(counts.as_ptr().cast())? as usize);
            let at = counts.wrapping_add(slot as usize * COUNTS);
            add_one(section, at)?;
            Ok(Some(Counted { at, slot }))
        }
    });
    counted.unwrap_or_else(|| count_beside(counts))
}

pub unsafe fn count_in<const OFFSET: i32>(counted: Counted) -> bool {
    restartably(false, |section| {
        if section.slot()? != Some(counted.slot) {
            return Ok(false);
        }
        // SAFETY: as above.
        unsafe { add_one(section, counted.at.wrapping_offset(OFFSET as isize))? };
        Ok(true)
    })
}

/// Counts if no section completes.
fn count_beside<T>(counts: &AtomicPtr<T>) -> Counted {
    let slot = given::look().expect("a thread that counts has a slot");
    let at = counts.load(Ordering::Relaxed).cast::<u8>().wrapping_add(slot as usize * COUNTS);
    // SAFETY: every slot has counts, and the words beside those that sections count in are atomics.
    unsafe { (*at.wrapping_add(COUNTED_BESIDE).cast::<AtomicU64>()).fetch_add(1, Ordering::SeqCst) };
    Counted { at, slot: NOWHERE }
}

/// The commit, one instruction: no other thread comes in between.
///
/// # Safety
/// The word exists and is aligned.
unsafe fn add_one(section: &Section, word: *mut u8) -> Result<(), Aborted> {
    let word: *mut u64 = word.cast();
    // SAFETY: passed on.
    unsafe { section.store_with(word, |count| count + 1) }
}
