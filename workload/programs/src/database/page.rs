//! A page: a block of fixed size that holds cells, each a key and what belongs to it, in the order of their keys.
//!
//! ```text
//!   0        2        4          8                             lowest                          4096
//!   ├────────┼────────┼──────────┼─────────────────┬─ free ─────┼───────────────┬───────────────┤
//!   │ count  │ lowest │ next     │ offsets by key  │            │ cell          │ cell          │
//!   └────────┴────────┴──────────┴─────────────────┴────────────┴───────────────┴───────────────┘
//!   a cell: 2 bytes of the key's length, 2 of the rest's length, the key, the rest
//! ```
//!
//! Removing a cell leaves a hole, which is closed when an insertion needs it. `next` is for the owner.

use std::cmp::Ordering;

/// The size of a page in bytes.
pub const SIZE: usize = 4096;

/// The largest cell, header included: four fit on every page, so that half a page is never less than one.
pub const MAX_CELL: usize = (SIZE - HEADER) / 4 - OFFSET;

/// What is not for cells.
pub const HEADER: usize = 8;

/// What a cell takes besides its two parts and its offset.
pub const CELL_HEADER: usize = 4;

const OFFSET: usize = 2;

/// A page, in a block of its own.
pub struct Page(Box<[u8; SIZE]>);

impl Page {
    /// A page without cells.
    pub fn new() -> Page {
        let mut page = Page(Box::new([0; SIZE]));
        page.set_word(2, SIZE);
        page
    }

    /// How many cells there are.
    pub fn len(&self) -> usize {
        self.word(0)
    }

    /// The owner's link to another page.
    pub fn next(&self) -> u32 {
        u32::from_le_bytes(self.0[4..8].try_into().expect("these are four bytes"))
    }

    /// Sets the link.
    pub fn set_next(&mut self, next: u32) {
        self.0[4..8].copy_from_slice(&next.to_le_bytes());
    }

    /// The key of a cell.
    pub fn key(&self, place: usize) -> &[u8] {
        let (start, key, _) = self.cell(place);
        &self.0[start + CELL_HEADER..][..key]
    }

    /// What belongs to the key of a cell.
    pub fn rest(&self, place: usize) -> &[u8] {
        let (start, key, rest) = self.cell(place);
        &self.0[start + CELL_HEADER + key..][..rest]
    }

    /// Where a key is, or else where it would be.
    pub fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.key(middle).cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// The bytes that cells take, with their offsets.
    pub fn used(&self) -> usize {
        (0..self.len()).map(|place| self.size(place)).sum()
    }

    /// Inserts a cell at the place that [`Page::search`] named. False if it has no room; then nothing has changed.
    pub fn insert(&mut self, place: usize, key: &[u8], rest: &[u8]) -> bool {
        let size = CELL_HEADER + key.len() + rest.len();
        if self.gap() < size + OFFSET {
            if SIZE - HEADER - self.used() < size + OFFSET {
                return false;
            }
            self.close_holes();
        }
        let (count, start) = (self.len(), self.word(2) - size);
        self.set_word(start, key.len());
        self.set_word(start + 2, rest.len());
        self.0[start + CELL_HEADER..][..key.len()].copy_from_slice(key);
        self.0[start + CELL_HEADER + key.len()..][..rest.len()].copy_from_slice(rest);
        let at = HEADER + OFFSET * place;
        self.0.copy_within(at..HEADER + OFFSET * count, at + OFFSET);
        self.set_word(at, start);
        self.set_word(0, count + 1);
        self.set_word(2, start);
        true
    }

    /// Removes a cell.
    pub fn remove(&mut self, place: usize) {
        let (count, at) = (self.len(), HEADER + OFFSET * place);
        self.0.copy_within(at + OFFSET..HEADER + OFFSET * count, at);
        self.set_word(0, count - 1);
    }

    /// Moves the upper half of the cells, by their bytes, to a new page.
    pub fn split(&mut self) -> Page {
        let half = self.used() / 2;
        let mut below = 0;
        let mut middle = 0;
        while below < half {
            below += self.size(middle);
            middle += 1;
        }
        // Neither side may be empty.
        let middle = middle.clamp(1, self.len() - 1);
        let mut upper = Page::new();
        for place in middle..self.len() {
            upper.push(self, place);
        }
        self.set_word(0, middle);
        upper
    }

    /// Appends all cells of a page whose keys are larger. The owner knows that there is room.
    pub fn append(&mut self, upper: &Page) {
        (0..upper.len()).for_each(|place| self.push(upper, place));
    }

    fn push(&mut self, from: &Page, place: usize) {
        let fits = self.insert(self.len(), from.key(place), from.rest(place));
        assert!(fits, "the cells of a page have room");
    }

    fn close_holes(&mut self) {
        let mut tight = Page::new();
        tight.set_next(self.next());
        tight.append(self);
        *self = tight;
    }

    /// The bytes between the offsets and the cells.
    fn gap(&self) -> usize {
        self.word(2) - HEADER - OFFSET * self.len()
    }

    /// The bytes that one cell takes, with its offset.
    fn size(&self, place: usize) -> usize {
        let (_, key, rest) = self.cell(place);
        OFFSET + CELL_HEADER + key + rest
    }

    /// Where a cell starts, and the lengths of its two parts.
    fn cell(&self, place: usize) -> (usize, usize, usize) {
        debug_assert!(place < self.len());
        let start = self.word(HEADER + OFFSET * place);
        (start, self.word(start), self.word(start + 2))
    }

    fn word(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes([self.0[at], self.0[at + 1]]))
    }

    fn set_word(&mut self, at: usize, word: usize) {
        self.0[at..at + 2].copy_from_slice(&(word as u16).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    /// Against a list of pairs, with cells of all sizes, on a page that is full most of the time.
    #[test]
    fn it_agrees_with_a_list() {
        let mut rng = Rng::with_seed(1);
        let (mut page, mut model) = (Page::new(), Vec::<(Vec<u8>, Vec<u8>)>::new());
        let mut refused = 0;
        for step in 0..3000 {
            let key = vec![rng.u8(..); rng.usize(0..40)];
            let found = page.search(&key);
            assert_eq!(found, model.binary_search_by(|pair| pair.0.cmp(&key)), "step {step}");
            match found {
                Ok(place) => {
                    page.remove(place);
                    model.remove(place);
                }
                Err(place) => {
                    let rest = vec![rng.u8(..); rng.usize(0..200)];
                    if page.insert(place, &key, &rest) {
                        model.insert(place, (key, rest));
                    } else {
                        refused += 1;
                        assert!(HEADER + page.used() + OFFSET + CELL_HEADER + key.len() + rest.len() > SIZE);
                        page.remove(0);
                        model.remove(0);
                    }
                }
            }
            let pairs = (0..page.len()).map(|place| (page.key(place), page.rest(place)));
            assert!(pairs.eq(model.iter().map(|(key, rest)| (&key[..], &rest[..]))), "step {step}");
        }
        assert!(refused > 100, "the page was full {refused} times");
    }

    #[test]
    fn halves_are_halves_and_fit_together_again() {
        let mut page = Page::new();
        let mut number = 0u16;
        while page.insert(page.len(), &number.to_be_bytes(), &vec![1; usize::from(number % 50)]) {
            number += 1;
        }
        let whole = (page.len(), page.used());
        let upper = page.split();
        assert!(page.used().abs_diff(upper.used()) < 200);
        assert!(page.key(page.len() - 1) < upper.key(0));
        page.append(&upper);
        assert_eq!((page.len(), page.used()), whole);
    }

    #[test]
    fn four_of_the_largest_cells_fit() {
        let mut page = Page::new();
        let rest = vec![7; MAX_CELL - CELL_HEADER - 1];
        assert!((0..4).all(|number| page.insert(number, &[number as u8], &rest)));
        assert!(!page.insert(4, &[9], &[]), "and nothing else");
        let upper = page.split();
        assert_eq!((page.len(), upper.len()), (2, 2));
    }
}
