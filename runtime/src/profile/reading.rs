//! The figures of all sites, for readers.

use super::state::PLACE;
use super::table::{DEPTH, Figures, Site};
use crate::caches::known_at;
use machine::sync::Ordering;

/// Samples that the tables had no room for, or that a signal handler met while another thread changed them.
pub fn lost() -> u64 {
    known_at(&PLACE).map_or(0, |profile| profile.lost.load(Ordering::Relaxed))
}

/// A call site, as a reader gets it.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Its labels and figures.
    pub site: Site,
    /// Numbers of return addresses (see [`place`]), innermost first; the first `depth` count.
    pub frames: [u32; DEPTH],
    /// How many there are.
    pub depth: usize,
    /// Live there when the most bytes were live in all.
    pub at_peak: Figures,
}

/// The call sites known so far, each read by itself under the lock.
pub fn sites() -> impl Iterator<Item = Reading> {
    let profile = known_at(&PLACE);
    (0..).map_while(move |number| {
        profile?.locked(|tables| {
            let (site, frames, at_peak) = tables.site(number)?;
            let mut numbers = [0; DEPTH];
            numbers[..frames.len()].copy_from_slice(frames);
            Some(Reading { site: *site, frames: numbers, depth: frames.len(), at_peak })
        })?
    })
}

impl Reading {
    /// The return addresses, innermost first.
    pub fn stack(&self) -> impl Iterator<Item = usize> {
        self.frames[..self.depth].iter().filter_map(|&frame| place(frame))
    }
}

/// The return address of a number; numbers begin at 0. None: there are not so many.
pub fn place(number: u32) -> Option<usize> {
    known_at(&PLACE)?.locked(|tables| tables.place(number))?
}
