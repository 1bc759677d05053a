//! Batches: objects that wait for a grace period together before they are free.
//!
//! A batch is a magazine: its objects are of one size class, and when their time has come it goes to the depot as it
//! is, without a look at any of them. What is of no size class is gathered in batches of mixed objects, which are given
//! back one by one.

use super::magazine::{Magazine, Stack, View};

/// A magazine of objects that wait.
#[derive(Debug)]
#[repr(transparent)]
pub struct Batch(Magazine);

impl Batch {
    /// Of a magazine.
    pub fn new(magazine: Magazine) -> Self {
        Batch(magazine)
    }

    /// The magazine.
    pub fn into_magazine(self) -> Magazine {
        self.0
    }

    /// What [`into_word`](Self::into_word) said; zero is none.
    ///
    /// # Safety
    /// The word is forgotten, or written anew with this batch.
    #[inline]
    pub unsafe fn from_word(word: usize) -> Option<Self> {
        // SAFETY: passed on.
        (word != 0).then(|| Batch(unsafe { Magazine::adopt(word) }))
    }

    /// The batch and how full it is in one word.
    #[inline]
    pub fn into_word(self) -> usize {
        self.0.into_top()
    }

    /// A look at the batch that a word names.
    ///
    /// # Safety
    /// The word names one, or is zero.
    pub unsafe fn view_of_word<'a>(word: usize) -> Option<View<'a>> {
        // SAFETY: passed on.
        (word != 0).then(|| unsafe { View::at(word) })
    }

    /// A look at it.
    pub fn view(&self) -> View<'_> {
        self.0.view()
    }

    /// Whether it has no room.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.0.is_full()
    }

    /// Puts an object in; there is room.
    #[inline]
    pub fn push(&mut self, object: *mut u8) {
        self.0.push(object);
    }
}

/// Batches, the one that came last first. All-zero memory is none.
#[derive(Debug)]
#[repr(transparent)]
pub struct Batches(Stack);

impl Batches {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts a batch on top.
    pub fn push(&self, batch: Batch) {
        self.0.push(batch.0);
    }

    /// Takes the topmost batch.
    pub fn pop(&self) -> Option<Batch> {
        self.0.pop().map(Batch)
    }

    /// All of them, the topmost first.
    pub fn iter(&self) -> impl Iterator<Item = View<'_>> {
        self.0.iter()
    }
}
