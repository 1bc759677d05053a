//! The report on a misused object of a debug cache: the error, the place, and the calls that allocated and freed it.

use super::layout::{Found, Layout, Options, Record, State, Trace};
use crate::caches::heap::heap;
use crate::central::CacheState;
use crate::misuse::{Line, finding, say};
use core::fmt::Write;
use machine::{clock, code, process};

/// When the error was found. A call comes with its return address.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    Freed(usize),
    Used(usize),
    BeforeUse,
    LeavingQuarantine,
    AtExit,
    Flushed,
}

impl Moment {
    fn text(self) -> &'static str {
        match self {
            Moment::Freed(_) => "found when it was freed",
            Moment::Used(_) => "found when it was used",
            Moment::BeforeUse => "found before it was used again",
            Moment::LeavingQuarantine => "found when it left quarantine",
            Moment::Flushed => "found some time later",
            Moment::AtExit => "found when the program exited",
        }
    }
}

/// Reports an error at an object of `cache`, and aborts unless the program goes on.
#[cold]
pub(super) fn report(cache: &CacheState, layout: Layout, whole: *mut u8, found: Found, moment: Moment) {
    finding(&mut || tell_error(cache, layout, whole, found, moment));
}

fn tell_error(cache: &CacheState, layout: Layout, whole: *mut u8, found: Found, moment: Moment) {
    // SAFETY: an object of the cache lies there.
    let record = unsafe { layout.record_of(whole) };
    let mut line = Line::new();
    let _ = write!(line, "commensal: cache {}: object {:p} of ", cache.name(), layout.object(whole));
    let _ = match record {
        Some(record) => write!(line, "{} bytes ", record.bytes()),
        None => write!(line, "at most {} bytes ", layout.bytes),
    };
    let _ = match found {
        Found::Before(damage) => write!(line, "was written to before its beginning: {damage}"),
        Found::Behind(damage) => write!(line, "was written to behind its end: {damage}"),
        Found::Inside(damage) => write!(line, "was written to after it was freed: {damage}"),
        Found::Record => write!(line, "has its record overwritten"),
        Found::Twice => write!(line, "was freed twice"),
        Found::OtherCache => write!(line, "was given back to another cache"),
        Found::AfterFree => write!(line, "is free, and was used"),
        Found::Interior(address) => {
            let off = address as isize - layout.object(whole) as isize;
            write!(line, "was given back by {address:p}, {off} bytes off")
        }
    };
    let _ = writeln!(line, "; {}", moment.text());
    process::complain(line.as_bytes());
    if let Moment::Freed(from) | Moment::Used(from) = moment {
        code::prepare();
        tell("now", &Trace::now(from));
    }
    if let Some(record) = record {
        tell_owners(record, layout.options);
    } else if let Some(before) = marked_before(layout, whole) {
        // SAFETY: an object of the cache with an intact record.
        let record = unsafe { Record::of(before) };
        let (object, bytes) = (layout.object(before), record.bytes());
        say(format_args!("  the object before it, {object:p} of {bytes} bytes, may have been run over:"));
        tell_owners(record, layout.options);
    }
    tell_how(layout.options);
}

/// Reports a free to `cache` of a pointer that is none of its objects, and aborts unless the program goes on.
#[cold]
pub(super) fn report_stranger(cache: &CacheState, object: *mut u8, from: usize) {
    finding(&mut || tell_stranger(cache, object, from));
}

fn tell_stranger(cache: &CacheState, object: *mut u8, from: usize) {
    let mut line = Line::new();
    let _ = write!(line, "commensal: cache {}: {object:p} was given back, which is no object of it", cache.name());
    if let Some(theirs) = heap().central().cache_at(object).and_then(|theirs| theirs.state()) {
        let _ = write!(line, ", but of cache {}", theirs.name());
    }
    let _ = writeln!(line);
    process::complain(line.as_bytes());
    code::prepare();
    tell("now", &Trace::now(from));
    tell_how(Options::TRACK);
}

fn marked_before(layout: Layout, whole: *mut u8) -> Option<*mut u8> {
    let start = heap().page_heap().span_of(whole)?.start();
    let before = whole.wrapping_sub(layout.whole);
    // SAFETY: objects that lie before a given one in the span were given too.
    (before >= start && unsafe { layout.record_of(before) }.is_some()).then_some(before)
}

fn tell_owners(record: &Record, options: Options) {
    for (what, state) in [("allocated", State::InUse), ("freed", State::Free)] {
        // SAFETY: the record is intact.
        if let Some(trace) = unsafe { record.trace(options, state) } {
            tell(what, &trace);
        }
    }
}

fn tell(what: &str, trace: &Trace) {
    let (thread, ago_us) = (trace.thread, clock::now_ns().saturating_sub(trace.at_ns) / 1000);
    match what {
        "now" => say(format_args!("  {what}, by thread {thread}:")),
        _ => say(format_args!("  {what} by thread {thread}, {}.{:03} ms ago:", ago_us / 1000, ago_us % 1000)),
    }
    for &call in trace.calls.iter().take_while(|&&call| call != 0) {
        match code::place_of(call) {
            Some((file, offset)) => say(format_args!("    {}+{offset:#x}", file.to_str().unwrap_or("?"))),
            None => say(format_args!("    {call:#x}")),
        }
    }
}

fn tell_how(options: Options) {
    process::complain(match options.has(Options::TRACK) {
        true => b"  each place is FILE+OFFSET: `addr2line -ifpe FILE OFFSET` tells its line\n",
        false => b"  with debug:track or debug:all, who allocated and freed it is told too\n",
    });
}
