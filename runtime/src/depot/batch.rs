//! Batches: objects that wait for a grace period together before they are free.
//!
//! A batch is a magazine of one size class. After the grace period it goes to the depot as a whole. Objects of no size
//! class go into mixed batches, whose objects are freed one by one.

use super::magazine::{Magazine, View};
use super::stack::Stack;

/// A magazine of waiting objects.
#[derive(Debug)]
#[repr(transparent)]
pub struct Batch(pub Magazine);

impl Batch {
    /// The batch that [`into_word`](Self::into_word) encoded; zero is none.
    ///
    /// # Safety
    /// The word is forgotten, or written anew with this batch.
    #[inline]
    pub unsafe fn from_word(word: usize) -> Option<Self> {
        // SAFETY: passed on.
        (word != 0).then(|| Batch(unsafe { Magazine::adopt(word) }))
    }

    /// The batch and its fill in one word.
    #[inline]
    pub fn into_word(self) -> usize {
        self.0.into_top()
    }

    /// Looks at the batch in a word.
    ///
    /// # Safety
    /// The word names a batch, or is zero.
    pub unsafe fn view_of_word<'a>(word: usize) -> Option<View<'a>> {
        // SAFETY: passed on.
        (word != 0).then(|| unsafe { View::at(word) })
    }

    /// Looks at the batch.
    pub fn view(&self) -> View<'_> {
        self.0.view()
    }

    /// Whether there is no space.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.0.is_full()
    }

    /// Adds an object; there is space.
    #[inline]
    pub fn push(&mut self, object: *mut u8) {
        self.0.push(object);
    }
}

/// A stack of batches. All-zero memory is empty.
#[derive(Debug)]
#[repr(transparent)]
pub struct Batches(Stack);

impl Batches {
    /// Whether the stack is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Pushes a batch.
    pub fn push(&self, batch: Batch) {
        self.0.push(batch.0);
    }

    /// Pops the topmost batch.
    pub fn pop(&self) -> Option<Batch> {
        self.0.pop().map(Batch)
    }

    /// All batches, the topmost first.
    pub fn iter(&self) -> impl Iterator<Item = View<'_>> {
        self.0.iter()
    }
}
