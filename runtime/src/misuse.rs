//! The message of a program that misused the heap: one line on standard error, then abort.
//!
//! With `misuse:report` the program goes on after the line, and the free is ignored. The count of findings lies in the
//! root's domain, because a pointer can be wrong before there is a heap.

use crate::observe::page::Text;
use crate::settings::{self, Key};
use core::fmt::{self, Write};
use machine::sync::{AtomicU64, Ordering};
use machine::{process, root};

const MISUSE: Key = Key::of("misuse");
/// Most findings that one process tells.
const MOST_TOLD: u64 = 100;
/// Bytes of the count, behind the settings in the root's domain.
pub(crate) const BYTES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// With the object, if it is known.
    DoubleFree(Option<Object>),
    Foreign,
    /// A pointer into the middle of an object or, without one, to where none begins.
    Interior(Option<Object>),
    OtherCache,
    Size {
        bytes: usize,
        usable: usize,
    },
    /// A block, in use or free, in which a byte is not as the library left it.
    Damaged(Damage, Object),
    /// The library's word behind a block is another one.
    Overwritten(Object),
    /// The library's word before a block is another one.
    WrittenBefore(Object),
    UsedAfterFree(Object),
}

/// The first byte of a block that changed, where the program must not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub at: usize,
    pub is_free: bool,
}

/// The object that an address lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub start: *mut u8,
    pub bytes: usize,
    /// The name of its cache; empty: a size class or a large block.
    pub cache: Text<56>,
}

impl fmt::Display for Object {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "an object of {} bytes", self.bytes)?;
        match self.cache.as_str() {
            "" => Ok(()),
            cache => write!(out, " of cache {cache}"),
        }
    }
}

/// The call that was given the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Free,
    Realloc,
}

/// Reports the misuse at `address`. Aborts, unless `misuse:report` lets the program go on.
#[cold]
pub(crate) fn report(found: Found, call: Call, address: *mut u8) {
    finding(&mut || {
        let mut line = Line::new();
        let _ = write_finding(&mut line, found, call, address);
        process::complain(line.as_bytes());
    });
}

/// Counts a finding and has it told. Aborts, unless `misuse:report` lets the program go on.
#[cold]
pub(crate) fn finding(tell: &mut dyn FnMut()) {
    finding_of_fault(tell);
    if !MISUSE.is("report") {
        process::die()
    }
}

/// Counts a finding and has it told, where the program's own action for a fault decides what follows.
#[cold]
#[inline(never)]
pub(crate) fn finding_of_fault(tell: &mut dyn FnMut()) {
    let goes_on = MISUSE.is("report");
    // Relaxed: an independent number.
    match count().fetch_add(1, Ordering::Relaxed) {
        MOST_TOLD if goes_on => say(format_args!("commensal: {MOST_TOLD} misuses were told; more are only counted")),
        number if goes_on && number > MOST_TOLD => {}
        _ => tell(),
    }
}

/// Findings of this process and, before a fork, of its parent.
pub(crate) fn findings() -> u64 {
    count().load(Ordering::Relaxed)
}

fn count() -> &'static AtomicU64 {
    // SAFETY: these bytes are only used here, aligned to 16, and zeroes are valid.
    unsafe { &*root::domain().add(settings::BYTES).cast() }
}

fn write_finding(out: &mut Line, found: Found, call: Call, address: *mut u8) -> fmt::Result {
    let call = if call == Call::Free { "free" } else { "realloc" };
    write!(out, "commensal: ")?;
    match found {
        Found::DoubleFree(object) => {
            match call {
                "free" => write!(out, "double free of {address:p}")?,
                _ => write!(out, "{call} of {address:p}, which is freed already")?,
            }
            if let Some(object) = object {
                write!(out, ", {object}")?;
            }
            writeln!(out, ": free each object once; look for a second owner of it")
        }
        Found::Foreign => {
            writeln!(out, "{call} of a foreign pointer, {address:p}: {call} only what malloc and its kin returned")
        }
        Found::Interior(object) => {
            write!(out, "{call} of a pointer into an object, {address:p}: ")?;
            match object {
                Some(object) => write!(out, "{} bytes into {object}", address as usize - object.start as usize)?,
                None => write!(out, "no object begins there")?,
            }
            writeln!(out, "; {call} the address that malloc returned")
        }
        Found::Damaged(Damage { at, is_free: false }, object) => writeln!(
            out,
            "overflow of {address:p}, {object}: byte {at} was written; look for a write behind the end of the block"
        ),
        Found::Damaged(Damage { at, is_free: true }, object) => writeln!(
            out,
            "write after free to {address:p}, {object}: byte {at} was written; look for a pointer that outlives it"
        ),
        Found::Overwritten(object) => writeln!(
            out,
            "overflow of {address:p}, {object}: the word behind it was written; look for a write out of bounds"
        ),
        Found::WrittenBefore(object) => writeln!(
            out,
            "underflow of {address:p}, {object}: the word before it was written; look for a write out of bounds, here \
             or in the block before"
        ),
        Found::UsedAfterFree(object) => {
            writeln!(out, "use of {address:p}, {object}, which is freed already; look for a second owner of it")
        }
        Found::OtherCache => writeln!(
            out,
            "{address:p} was given back to a cache that it is not from: give it to the one that allocated it"
        ),
        Found::Size { bytes, usable } => writeln!(
            out,
            "free of {address:p} with size {bytes}, expected about {usable}: give the size that was asked for"
        ),
    }
}

/// Writes a line to standard error.
#[cold]
#[inline(never)]
pub fn say(text: fmt::Arguments<'_>) {
    let mut line = Line::new();
    let _ = writeln!(line, "{text}");
    process::complain(line.as_bytes());
}

/// A line of text without a heap; text that does not fit is cut off.
#[derive(Debug)]
pub struct Line {
    text: [u8; 256],
    length: usize,
}

impl Line {
    /// An empty line.
    pub const fn new() -> Self {
        Line { text: [0; 256], length: 0 }
    }

    /// Whether this many more bytes fit.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        bytes <= self.text.len() - self.length
    }

    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        self.text.get(..self.length).unwrap_or_default()
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.text[self.length..];
        let fitting = text.len().min(room.len());
        room[..fitting].copy_from_slice(&text.as_bytes()[..fitting]);
        self.length += fitting;
        Ok(())
    }
}
