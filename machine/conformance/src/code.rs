//! `machine::code`: who called.

use crate::case::{Outcome, ensure, operations};
use crate::runner::Runner;
use core::ffi::CStr;
use machine::code::{self, Calls};

operations! {
    /// The calls that led here, from the one that returns to an address on, where the runtime is part of the program.
    calls: fn(from: usize) -> Calls = code::calls,
    /// The file that a call lies in, and how far from where that file's beginning would be.
    place_of: fn(call: usize) -> Option<(&'static CStr, usize)> = code::place_of,
}

crate::cases! {
    CASES of Operations::MACHINE;
    "code::calls" => leads_to_the_caller, {
        "whoever asks is the first" { calls: |_| code::calls(0) }
    }
    "code::place_of" => tells_places, {
        "addresses, not offsets" { place_of: |call| code::place_of(call).map(|(file, _)| (file, call)) }
    }
}

#[unsafe(naked)]
extern "C" fn caller(operations: &Operations) -> usize {
    machine::with_caller!(address(operations, caller))
}

extern "C" fn address(_: &Operations, from: usize) -> usize {
    from
}

/// Whether what is told of its call begins with that.
#[unsafe(naked)]
extern "C" fn is_told(operations: &Operations) -> bool {
    machine::with_caller!(begins_with(operations, caller))
}

extern "C" fn begins_with(operations: &Operations, from: usize) -> bool {
    let calls = (operations.calls)(from);
    calls[0] == from && calls[1] != from
}

pub fn leads_to_the_caller(_: &dyn Runner, operations: &Operations) -> Outcome {
    code::prepare();
    ensure!(is_told(operations), "the calls do not begin with the one that was asked for");
    Ok(())
}

pub fn tells_places(_: &dyn Runner, operations: &Operations) -> Outcome {
    let call = caller(operations);
    let Some((file, offset)) = (operations.place_of)(call) else { return Err("no place of a call".into()) };
    ensure!(!file.is_empty() && offset < 1 << 32, "{file:?}+{offset:#x} is no place in a file");
    ensure!((operations.place_of)(8).is_none(), "there is no code at address 8");
    Ok(())
}
