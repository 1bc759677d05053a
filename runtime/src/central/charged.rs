//! The caches that an account is charged for: a table of its own ones, in a tree of tables, as accounts are.
//!
//! ```text
//!   account ─ table ─▶ first child ⇄ next ⇄ next        caches by class, and links
//! ```
//!
//! So whoever wants back what a full account has in magazines goes over the caches of that account and of those below
//! it, and over no others.
//!
//! Runs at the same time: caches are entered by compare-and-swap; links are changed, and followed, under the drain
//! lock. **Fork:** whoever vanished in the middle of a change has left the way from a table to its next one in order,
//! and perhaps a way back that is not: that one is looked at before it is used.

use super::cache_ref::CacheRef;
use super::size_class::CLASSES;
use core::iter::successors;
use core::ptr::null_mut;
use machine::sync::{AtomicPtr, AtomicUsize, Ordering, compiler_fence};

/// The table. Zeroes are an empty one, in no tree.
#[derive(Debug)]
#[repr(C)]
pub struct Charged {
    /// 0: none yet.
    caches: [AtomicUsize; CLASSES],
    parent: AtomicPtr<Charged>,
    first: AtomicPtr<Charged>,
    next: AtomicPtr<Charged>,
    /// The word that leads here: `first` of the parent, or `next` of a sibling.
    back: AtomicPtr<AtomicPtr<Charged>>,
}

/// Who an atomic pointer leads to. Relaxed: under the drain lock.
fn at(pointer: &AtomicPtr<Charged>) -> Option<&Charged> {
    // SAFETY: null, or a table in the tree: these are taken out before they go.
    unsafe { pointer.load(Ordering::Relaxed).as_ref() }
}

impl Charged {
    /// Places for caches, by class.
    pub fn entry(&self, class: usize) -> &AtomicUsize {
        &self.caches[class]
    }

    /// The cache that an entry names.
    pub fn cache_of(word: usize) -> Option<CacheRef> {
        // SAFETY: an entry of a table, whose cache lives as long as the table.
        (word != 0).then(|| unsafe { CacheRef::from_word(word) })
    }

    /// Its own caches.
    pub fn caches(&self) -> impl Iterator<Item = CacheRef> {
        // Acquire pairs with the release of who entered the cache, and finds it as it was made.
        self.caches.iter().filter_map(|entry| Self::cache_of(entry.load(Ordering::Acquire)))
    }

    /// This table, and all below it. Under the drain lock, as the others here.
    fn tables(&self) -> impl Iterator<Item = &Charged> {
        successors(Some(self), move |&table| {
            at(&table.first).or_else(|| {
                let ways_up = successors(Some(table), |table| at(&table.parent));
                ways_up.take_while(|&table| !core::ptr::eq(table, self)).find_map(|table| at(&table.next))
            })
        })
    }

    /// All caches of this table, and of those below it.
    pub fn caches_below(&self) -> impl Iterator<Item = CacheRef> {
        self.tables().flat_map(Charged::caches)
    }

    /// Whether it is in no tree.
    pub fn is_loose(&self) -> bool {
        self.parent.load(Ordering::Relaxed).is_null()
    }

    /// Puts it below another one. Under the drain lock, as the next one.
    pub fn link(&self, parent: &Charged) {
        let this = (&raw const *self).cast_mut();
        self.parent.store((&raw const *parent).cast_mut(), Ordering::Relaxed);
        self.next.store(parent.first.load(Ordering::Relaxed), Ordering::Relaxed);
        self.back.store((&raw const parent.first).cast_mut(), Ordering::Relaxed);
        // In this order, for a child that is forked in between; so below.
        compiler_fence(Ordering::Release);
        parent.first.store(this, Ordering::Relaxed);
        compiler_fence(Ordering::Release);
        if let Some(next) = at(&self.next) {
            next.back.store((&raw const self.next).cast_mut(), Ordering::Relaxed);
        }
    }

    /// Takes it out of its tree.
    pub fn unlink(&self) {
        let Some(parent) = at(&self.parent) else { return };
        let leads_here = |word: &AtomicPtr<Charged>| core::ptr::eq(word.load(Ordering::Relaxed), self);
        // SAFETY: a word of the parent, or of a sibling that was there when it was written: such ones are told when
        // they go.
        let back = unsafe { self.back.load(Ordering::Relaxed).as_ref() }.filter(|back| leads_here(back));
        let search = || successors(Some(&parent.first), |word| Some(&at(word)?.next)).find(|word| leads_here(word));
        let Some(back) = back.or_else(search) else { return };
        if let Some(next) = at(&self.next) {
            next.back.store((&raw const *back).cast_mut(), Ordering::Relaxed);
        }
        compiler_fence(Ordering::Release);
        back.store(self.next.load(Ordering::Relaxed), Ordering::Relaxed);
        self.parent.store(null_mut(), Ordering::Relaxed);
    }
}
