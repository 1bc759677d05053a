//! `machine::publication`: memory of the process that others may look at.

use crate::Runner;
use crate::case::{Outcome, ensure, operations};
use core::ops::Range;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use machine::publication::{self, Place};
use machine::vm::PAGE;

operations! {
    /// Returns this many bytes of zeroes, which stay mapped, and writes to the place where others find them. An error
    /// says what is missing; nothing has changed then.
    publish: fn(&mut Place, usize) -> Result<*mut u8, &'static str> = publication::publish,
    /// Shows others a part of it. False: the file is shorter by now.
    update: fn(&Place, Range<usize>) -> bool = publication::update,
    /// Others find it no more, or find the number at this offset to be 1. Contents stay. Of a place where nothing is:
    /// nothing.
    withdraw: fn(&Place, usize) = publication::withdraw,
}

crate::cases! {
    CASES of Operations::MACHINE;
    "publication::publish" => published, {
        "what was there" { publish: planted::full }
        "one for all" { publish: planted::one }
        "it is said to be gone" { update: |_, _| false }
    }
}

fn published(_: &dyn Runner, operations: &Operations) -> Outcome {
    let mut places = [Place::nowhere(), Place::nowhere()];
    let outcome = published_at(operations, &mut places);
    // Whatever was found, nothing stays.
    places.iter().for_each(|place| publication::withdraw(place, 0));
    outcome
}

fn published_at(operations: &Operations, [place, other]: &mut [Place; 2]) -> Outcome {
    const BYTES: usize = 3 * PAGE;
    (operations.withdraw)(other, 0);
    let first = (operations.publish)(place, BYTES)?;
    // SAFETY: so many bytes were given.
    let bytes = |memory: *mut u8| unsafe { core::slice::from_raw_parts_mut(memory, BYTES) };
    ensure!(bytes(first).iter().all(|&byte| byte == 0), "what is published is not zero");
    bytes(first).fill(1);
    ensure!((operations.update)(place, PAGE - 1..BYTES), "somebody truncated a file that nobody knows");
    if let Ok(shown) = std::fs::read(place.path().to_str().map_err(|_| "a path that is no text")?) {
        let wrong = (0..BYTES).find(|&at| shown.get(at) != Some(&u8::from(at >= PAGE - 1)));
        ensure!(wrong.is_none(), "byte {wrong:?} is shown as {:?}", wrong.map(|at| shown.get(at)));
    }
    let second = (operations.publish)(other, BYTES)?;
    ensure!(bytes(second).iter().all(|&byte| byte == 0), "what is published next is not zero");
    bytes(second).fill(2);
    (operations.withdraw)(place, 0);
    (operations.withdraw)(other, 0);
    (operations.withdraw)(other, 0);
    ensure!(bytes(first).iter().all(|&byte| byte == 1), "contents of the first were lost");
    ensure!(bytes(second).iter().all(|&byte| byte == 2), "contents of the second were lost");
    Ok(())
}

mod planted {
    use super::*;

    pub(super) fn full(place: &mut Place, bytes: usize) -> Result<*mut u8, &'static str> {
        let memory = publication::publish(place, bytes)?;
        // SAFETY: so many bytes were given.
        unsafe { memory.write_bytes(7, bytes) };
        Ok(memory)
    }

    pub(super) fn one(place: &mut Place, bytes: usize) -> Result<*mut u8, &'static str> {
        static ONE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
        if ONE.load(Ordering::Relaxed).is_null() {
            ONE.store(publication::publish(place, bytes)?, Ordering::Relaxed);
        }
        Ok(ONE.load(Ordering::Relaxed))
    }
}
