//! The calls that led to an allocation or a free, without the library's own.

use machine::stack::{self, Rows};

/// Most calls that are told.
pub(crate) const DEPTH: usize = 64;
/// Most calls of our own functions, which are found first.
const OWN: usize = 16;

/// Does some work with the return addresses of the calls that this thread is in: from `from` on, or else from the first
/// one outside of the library. In a program that has no library, they begin with our own functions.
///
/// Allocates nothing and takes no lock. `rows` keeps what is found; none: only `from` is known.
#[cold]
#[inline(never)]
pub(crate) fn calls(rows: Option<&Rows>, from: usize, work: &mut dyn FnMut(&[usize])) {
    let mut frames = [0; DEPTH + OWN];
    let count = rows.map_or(0, |rows| stack::capture(rows, &mut frames));
    let (known, from_only) = (&frames[..count], if from == 0 { &[][..] } else { &[from] });
    let own = rows.map_or(0..0, Rows::code_of_malloc);
    let start = known.iter().position(|&frame| frame == from && !own.contains(&frame));
    let start = start.or_else(|| known.iter().position(|frame| !own.contains(frame)));
    work(start.map_or(from_only, |start| &known[start..]));
}
