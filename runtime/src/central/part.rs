//! Walks over all caches, in parts. A thread holds the drain lock for one part, however many caches a program has.
//!
//! A part is a range of the caches' numbers. A program with few caches has one part.

use super::cache_ref::{CacheRef, STRIDE};
use super::tier::Central;
use crate::layout::IDS;
use core::ops::Range;
use machine::sync::Ordering;

/// Numbers in a part: those of four chunks, some 500 caches.
pub(super) const NUMBERS: u32 = 4 * STRIDE;

/// The caches of these numbers, of which some do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    first: u32,
    /// The first number of the next part.
    pub end: u32,
    /// Whether there are no caches beyond.
    pub is_last: bool,
}

impl Central {
    /// The part that begins at a number; empty if there are no caches from there on.
    pub fn part_from(&self, first: u32) -> Part {
        let all = self.numbers();
        let end = first.saturating_add(NUMBERS).min(all).max(first);
        Part { first, end, is_last: end >= all }
    }

    /// All parts in turn. A part of caches that are created meanwhile may be missing.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        let after = |part: &Part| (!part.is_last).then(|| self.part_from(part.end));
        core::iter::successors(Some(self.part_from(0)), after)
    }

    /// Another part at each call, all of them in turn. Under the drain lock.
    pub fn next_part(&self) -> Part {
        // Relaxed: the lock orders it.
        let part = self.part_from(self.turn().load(Ordering::Relaxed));
        self.turn().store(if part.is_last { 0 } else { part.end }, Ordering::Relaxed);
        part
    }

    /// A part's caches. Without the drain lock, a cache may end while it is shown.
    pub fn caches_of(&self, part: Part) -> Caches<'_> {
        Caches { central: self, numbers: part.first..part.end }
    }

    /// All caches, the size classes first, without those that are created meanwhile. As above without the drain lock.
    pub fn caches(&self) -> Caches<'_> {
        Caches { central: self, numbers: 0..self.numbers() }
    }
}

/// Existing caches with numbers of a range.
#[derive(Debug)]
pub struct Caches<'a> {
    central: &'a Central,
    numbers: Range<u32>,
}

impl Iterator for Caches<'_> {
    type Item = CacheRef;

    // Not inlined, because many walks use it, and none of them is short.
    #[inline(never)]
    fn next(&mut self) -> Option<CacheRef> {
        let is_id = |number: &u32| (1..IDS as u32).contains(&(number % STRIDE));
        let caches = self.numbers.by_ref().filter(is_id).map(|number| self.central.cache(number));
        { caches }.find(|cache| cache.exists())
    }
}
