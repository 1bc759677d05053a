//! The restartable operations, by their pseudo-code in `machine/conformance`.

use super::layout::{FULL_MASK, Stored, word};
use super::section::restartably;

fn at_offset(base: *mut u8, offset: u64) -> *mut u64 {
    base.wrapping_add(offset as usize).cast()
}

/// Pops a pointer from the allocation word `index` of this thread's slot. Null: it is empty, or there is no slot.
///
/// # Safety
/// As for the host's, here and below.
pub unsafe fn pop(base: *mut u8, index: usize) -> *mut u8 {
    restartably(
        |section| {
            let Some(slot) = section.slot()? else { return Ok(core::ptr::null_mut()) };
            let head: *mut u64 = word(base, slot, index).cast();
            // SAFETY: the head is an offset to a magazine of this slot, readable even if another CPU takes it away.
            unsafe {
                let top = section.load(head)?;
                let object = section.load(at_offset(base, top))?;
                if object != 0 {
                    section.store(head, top - 8)?;
                }
                Ok(core::ptr::with_exposed_provenance_mut(object as usize))
            }
        },
        core::ptr::null_mut,
    )
}

/// Pushes a pointer to the free word `index + 1` of this thread's slot. False: it is full, or there is no slot.
///
/// # Safety
/// As for [`pop`].
pub unsafe fn push(base: *mut u8, index: usize, object: *mut u8) -> bool {
    restartably(
        |section| {
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
        },
        || false,
    )
}

/// Exchanges the magazines of allocation word `index` and the free word beside it, and pops from the former free
/// magazine. Null, without a change: this is impossible.
///
/// # Safety
/// As for [`pop`].
pub unsafe fn change_places(base: *mut u8, index: usize, take: usize, give: usize) -> *mut u8 {
    let (take, give) = (take as u64, give as u64);
    restartably(
        |section| {
            let Some(slot) = section.slot()? else { return Ok(core::ptr::null_mut()) };
            let words: *mut u64 = word(base, slot, index).cast();
            // SAFETY: as for `pop`.
            unsafe {
                if section.load(words)? != take
                    || section.load(words.wrapping_add(1))? != give
                    || section.load(at_offset(base, take))? != 0
                {
                    return Ok(core::ptr::null_mut());
                }
                let object = section.load(at_offset(base, give).wrapping_sub(1))?;
                if object != 0 {
                    section.store_two(words, [give - 16, take + 8])?;
                }
                Ok(core::ptr::with_exposed_provenance_mut(object as usize))
            }
        },
        core::ptr::null_mut,
    )
}

/// Replaces word `index` of slot `slot` by `new` if this thread is in that slot and the word is `expected`.
///
/// # Safety
/// As for [`pop`].
pub unsafe fn compare_store(base: *mut u8, slot: u32, index: usize, expected: usize, new: usize) -> Stored {
    restartably(
        |section| {
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
        },
        || Stored::Elsewhere,
    )
}
