//! The message of a program that misused the heap: one line on standard error, then abort.

use core::fmt::{self, Write};
use machine::process;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    DoubleFree,
    Foreign,
    /// A pointer into the middle of an object, or behind the last one, was freed.
    Interior,
    OtherCache,
    Size {
        bytes: usize,
        usable: usize,
    },
}

/// Reports the misuse at `address`, and aborts.
#[cold]
pub(crate) fn die(found: Found, address: *mut u8) -> ! {
    let say = |what: fmt::Arguments<'_>| say(format_args!("commensal: {what}"));
    match found {
        Found::DoubleFree => {
            say(format_args!("double free of {address:p}: free each object once; look for a second owner of it"));
        }
        Found::Foreign => {
            say(format_args!("free of a foreign pointer, {address:p}: free only what malloc and its kin returned"));
        }
        Found::Interior => {
            say(format_args!("free of a pointer into an object, {address:p}: free the address that malloc returned"));
        }
        Found::OtherCache => say(format_args!(
            "{address:p} was given back to a cache that it is not from: give it to the one that allocated it"
        )),
        Found::Size { bytes, usable } => say(format_args!(
            "free of {address:p} with size {bytes}, expected about {usable}: give the size that was asked for"
        )),
    }
    process::die()
}

/// Writes a line to standard error.
pub fn say(text: fmt::Arguments<'_>) {
    let mut line = Line::new();
    let _ = writeln!(line, "{text}");
    process::complain(line.as_bytes());
}

/// A line of text without a heap; text that does not fit is cut off.
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
        &self.text[..self.length]
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
