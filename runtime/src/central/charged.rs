//! The caches that charge an account. Each account has a table of them, and the tables form a tree as accounts do.
//!
//! ```text
//!   account ─ table ─▶ first child ⇄ next ⇄ next        caches by class, and links
//! ```
//!
//! To empty a full account's magazines, a thread visits only the caches of that account and of those below it.
//!
//! Runs at the same time: threads enter caches by compare-and-swap, and use links under the drain lock. **Fork:** after
//! its holder vanished in a change, `first` and `next` are in order. `back` is checked before use.

use super::cache_ref::CacheRef;
use super::size_class::SMALL;
use core::iter::successors;
use core::ptr::null_mut;
use machine::sync::{AtomicPtr, AtomicUsize, Ordering, compiler_fence};

/// A table of caches. Zeroes are an empty table outside of any tree.
#[derive(Debug)]
#[repr(C)]
pub struct Charged {
    /// 0: no cache yet.
    caches: [AtomicUsize; SMALL],
    parent: AtomicPtr<Charged>,
    first: AtomicPtr<Charged>,
    next: AtomicPtr<Charged>,
    /// Address of the word that leads here: the parent's `first`, or a sibling's `next`.
    back: AtomicPtr<AtomicPtr<Charged>>,
}

/// The table behind a link. Relaxed: the drain lock orders the accesses.
fn at(pointer: &AtomicPtr<Charged>) -> Option<&Charged> {
    // SAFETY: null, or a table in the tree; tables leave the tree before they are freed.
    unsafe { pointer.load(Ordering::Relaxed).as_ref() }
}

/// The caches of a table and of those below it.
#[derive(Debug)]
pub struct CachesBelow<'a> {
    root: &'a Charged,
    table: Option<&'a Charged>,
    entry: usize,
}

impl Iterator for CachesBelow<'_> {
    type Item = CacheRef;

    #[inline(never)]
    fn next(&mut self) -> Option<CacheRef> {
        loop {
            let table = self.table?;
            let found = table.caches_from(self.entry).next();
            if let Some((entry, cache)) = found {
                self.entry = entry + 1;
                return Some(cache);
            }
            (self.table, self.entry) = (self.root.after(table), 0);
        }
    }
}

impl Charged {
    pub fn entry(&self, class: usize) -> &AtomicUsize {
        &self.caches[class]
    }

    pub fn cache_of(word: usize) -> Option<CacheRef> {
        // SAFETY: the word is a table's entry, and its cache lives as long as the table.
        (word != 0).then(|| unsafe { CacheRef::from_word(word) })
    }

    pub fn caches(&self) -> impl Iterator<Item = CacheRef> {
        self.caches_from(0).map(|(_, cache)| cache)
    }

    fn caches_from(&self, first: usize) -> impl Iterator<Item = (usize, CacheRef)> {
        // Acquire pairs with the release of the thread that entered the cache, so it is found complete.
        let cache =
            |(index, entry): (usize, &AtomicUsize)| Some((index, Self::cache_of(entry.load(Ordering::Acquire))?));
        self.caches.iter().enumerate().skip(first).filter_map(cache)
    }

    /// The next table after `table`, of this one and all below it. As for all functions here, the caller holds the
    /// drain lock.
    fn after<'a>(&'a self, table: &'a Charged) -> Option<&'a Charged> {
        at(&table.first).or_else(|| {
            let ways_up = successors(Some(table), |table| at(&table.parent));
            ways_up.take_while(|&table| !core::ptr::eq(table, self)).find_map(|table| at(&table.next))
        })
    }

    /// All caches of this table and of those below it.
    pub fn caches_below(&self) -> CachesBelow<'_> {
        CachesBelow { root: self, table: Some(self), entry: 0 }
    }

    pub fn is_loose(&self) -> bool {
        self.parent.load(Ordering::Relaxed).is_null()
    }

    pub fn link(&self, parent: &Charged) {
        let this = (&raw const *self).cast_mut();
        self.parent.store((&raw const *parent).cast_mut(), Ordering::Relaxed);
        self.next.store(parent.first.load(Ordering::Relaxed), Ordering::Relaxed);
        self.back.store((&raw const parent.first).cast_mut(), Ordering::Relaxed);
        // In this order, for a child that is forked in between. `unlink` does the same.
        compiler_fence(Ordering::Release);
        parent.first.store(this, Ordering::Relaxed);
        compiler_fence(Ordering::Release);
        if let Some(next) = at(&self.next) {
            next.back.store((&raw const self.next).cast_mut(), Ordering::Relaxed);
        }
    }

    pub fn unlink(&self) {
        let Some(parent) = at(&self.parent) else { return };
        let leads_here = |word: &AtomicPtr<Charged>| core::ptr::eq(word.load(Ordering::Relaxed), self);
        // SAFETY: a word of the parent, or of a sibling at the time of the write; a sibling that leaves updates `back`.
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
