//! Counts of events in each slot, by their pseudo-code in `machine/conformance`.

use super::given;
use super::layout::{COUNTED_BESIDE, COUNTS, Counted, NOWHERE};
use super::section::{Aborted, Section, restartably};
use crate::sync::{AtomicPtr, AtomicU64, Ordering};
use std::ptr::with_exposed_provenance_mut;

/// Adds one to the first word of the counts of this thread's slot, or to the word beside it; returns the place.
///
/// # Safety
/// As for the host's.
pub unsafe fn count<T>(counts: &AtomicPtr<T>) -> Counted {
    restartably(
        |section| {
            let slot = section.slot()?.expect("a thread that counts has a slot");
            // SAFETY: passed on; the pointer can be read.
            unsafe {
                let counts: *mut u8 = with_exposed_provenance_mut(section.load(counts.as_ptr().cast())? as usize);
                let at = counts.wrapping_add(slot as usize * COUNTS);
                add_one(section, at)?;
                Ok(Counted { at, slot })
            }
        },
        || count_beside(counts),
    )
}

/// Adds one to the word `OFFSET` bytes behind the thread's count. False, without effect: it has left that slot.
///
/// # Safety
/// As for [`count`], which returned the place.
pub unsafe fn count_in<const OFFSET: i32>(counted: Counted) -> bool {
    restartably(
        |section| {
            if section.slot()? != Some(counted.slot) {
                return Ok(false);
            }
            // SAFETY: as above.
            unsafe { add_one(section, counted.at.wrapping_offset(OFFSET as isize))? };
            Ok(true)
        },
        || false,
    )
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
