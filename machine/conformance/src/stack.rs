//! `machine::stack`: the calls that a thread is in.

use crate::case::{Outcome, ensure, operations};
use crate::runner::Runner;
use core::ffi::CStr;
use machine::stack::{self, Rows};

operations! {
    /// Notes the return addresses of the calls that this thread is in, innermost first, and returns how many: at most
    /// as many as there is room for, and none that it does not know. The rest of the array stays.
    capture: fn(rows: &Rows, frames: &mut [usize]) -> usize = stack::capture,

    /// The file that a call is in, and its place there, by its return address. None: it is not known.
    place_of: fn(call: usize) -> Option<(&'static CStr, usize)> = stack::place_of,
}

crate::cases! {
    CASES of Operations::MACHINE;
    "stack::place_of" => placed, {
        "everywhere" { place_of: |call| Some((c"?", call)) }
    }
    "stack::capture" => counted, {
        "counts one that it does not know" { capture: |rows, frames| stack::capture(rows, frames) + 1 }
        "fills the rest" { capture: |rows, frames| { frames.fill(7); stack::capture(rows, frames) } }
    }
}

pub fn placed(_: &dyn Runner, operations: &Operations) -> Outcome {
    // SAFETY: zeroes are valid.
    let rows = Box::new(unsafe { core::mem::zeroed::<Rows>() });
    let mut frames = [0; 8];
    let count = (operations.capture)(&rows, &mut frames);
    for &frame in &frames[..count] {
        match (operations.place_of)(frame) {
            Some((file, offset)) if file.is_empty() || offset == 0 || offset > frame => {
                return Err(format!("the call before {frame:#x} is told at {offset:#x} in {file:?}"));
            }
            _ => {}
        }
    }
    let own = (operations.place_of)(placed as *const () as usize + 1);
    ensure!(count == 0 || own.is_some(), "no file has this function");
    for nowhere in [0, 1, 4096] {
        ensure!((operations.place_of)(nowhere).is_none(), "{nowhere:#x} is told to be a call");
    }
    Ok(())
}

pub fn counted(_: &dyn Runner, operations: &Operations) -> Outcome {
    // SAFETY: zeroes are valid.
    let rows = Box::new(unsafe { core::mem::zeroed::<Rows>() });
    let mut counts = [0; 2];
    for (room, count) in [200, 2].into_iter().zip(&mut counts) {
        let mut frames = [0; 200];
        *count = (operations.capture)(&rows, &mut frames[..room]);
        let (known, rest) = frames.split_at(*count);
        if *count > room || known.contains(&0) || rest.iter().any(|&frame| frame != 0) {
            return Err(format!("{count} calls with room for {room}: {frames:x?}"));
        }
    }
    if counts[1] == counts[0].min(2) { Ok(()) } else { Err(format!("{counts:?} calls with room for 200 and 2")) }
}
