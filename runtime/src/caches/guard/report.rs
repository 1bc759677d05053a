//! Reports of misused guarded blocks: the error, and the calls that allocated and freed the block.
//!
//! A fault is told by the thread that faults, in its signal handler: nothing here allocates or takes a lock.

use super::place::{Place, State, Trace};
use super::pool::{Pool, pool};
use crate::caches::calls::calls;
use crate::misuse::{Call, Line, finding, finding_of_fault, say};
use core::fmt::{self, Write};
use machine::sync::Ordering;
use machine::thread::{After, Fault};
use machine::{code, process, stack};

/// Most calls told of the misuse itself.
const DEPTH: usize = 24;

/// A block in a message.
struct Block<'a>(&'a Place);

impl fmt::Display for Block<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:p}, a guarded block of {} bytes", self.0.start(), self.0.bytes())
    }
}

/// How far an address lies from a block.
struct Distance<'a>(usize, &'a Place);

impl fmt::Display for Distance<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = self.1.range();
        let (bytes, way) = match self.0 {
            at if at < range.start => (range.start - at, "before the first byte of"),
            at if at >= range.end => (at - range.end + 1, "behind the last byte of"),
            at => (at - range.start, "into"),
        };
        write!(out, "{bytes} byte{} {way}", if bytes == 1 { "" } else { "s" })
    }
}

/// Tells about a fault, if it is in the pool.
pub fn look(fault: Fault) -> After {
    let found = pool().and_then(|pool| Some((pool, pool.place_of(fault.address)?)));
    if let Some((pool, place)) = found.filter(|(_, place)| place.was_used()) {
        finding_of_fault(&mut || tell_fault(pool, place, fault));
    }
    After::HandOn
}

fn tell_fault(pool: &Pool, place: &Place, fault: Fault) {
    let kind = match place.state() {
        State::InUse if fault.address < place.range().start => "underflow",
        State::InUse => "overflow",
        State::Free | State::Busy => "use after free",
    };
    let what = if fault.is_write { "write" } else { "read" };
    let (at, distance) = (fault.address, Distance(fault.address, place));
    say(format_args!("commensal: {kind}: {what} of {at:#x}, {distance} {}", Block(place)));
    // The walk tells an interrupted instruction as one more than its address.
    tell_calls(pool, place, fault.code + 1);
}

/// Reports a free or a move of an address where no block in use begins.
#[cold]
pub fn report_free(pool: &Pool, place: &Place, address: *mut u8, call: Call, from: usize) {
    finding(&mut || {
        let call = if call == Call::Free { "free" } else { "realloc" };
        let block = Block(place);
        match (place.start() == address, call) {
            (true, "free") => say(format_args!("commensal: double free of {block}")),
            (true, _) => say(format_args!("commensal: {call} of {block}, which is freed already")),
            (false, _) => say(format_args!(
                "commensal: {call} of a pointer into an object, {address:p}: {} {block}",
                Distance(address.addr(), place)
            )),
        }
        tell_calls(pool, place, from);
    });
}

/// Reports that a byte beside the block was written, as seen from its start.
#[cold]
pub fn report_damage(pool: &Pool, place: &Place, at: isize, from: usize) {
    finding(&mut || {
        let kind = if at < 0 { "underflow" } else { "overflow" };
        let distance = Distance(place.range().start.wrapping_add_signed(at), place);
        say(format_args!("commensal: {kind}: a byte was written {distance} {}; found when it was freed", Block(place)));
        tell_calls(pool, place, from);
    });
}

fn tell_calls(pool: &Pool, place: &Place, from: usize) {
    tell("allocated", &place.allocated);
    if place.state() == State::Free {
        tell("freed", &place.freed);
    }
    say(format_args!("  now, by thread {}:", code::thread_number()));
    // Last, because a damaged stack may end the walk and the process.
    calls(Some(&pool.rows), from, &mut |calls| tell_each(&mut calls.iter().copied().take(DEPTH)));
    process::complain(b"  each place is FILE+OFFSET: `addr2line -ifpe FILE OFFSET` tells its line\n");
}

fn tell(what: &str, trace: &Trace) {
    say(format_args!("  {what} by thread {}:", trace.thread.load(Ordering::Relaxed)));
    tell_each(&mut trace.calls());
}

fn tell_each(calls: &mut dyn Iterator<Item = usize>) {
    for (number, call) in calls.enumerate() {
        let mut line = Line::new();
        let _ = write!(line, "    #{number} {call:#x} ");
        // A path may be longer than a line.
        process::complain(line.as_bytes());
        match stack::place_of(call) {
            Some((file, offset)) => {
                process::complain(file.to_bytes());
                say(format_args!("+{offset:#x}"));
            }
            None => process::complain(b"?\n"),
        }
    }
}
