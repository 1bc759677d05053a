//! Magazines: arrays of pointers to free objects of one cache.
//!
//! ```text
//!   word 0      link to the next magazine in a stack
//!   word 1      capacity: pointers that it has room for
//!   …           unused down to the bottom, which is zero and lies before the first pointer
//!   up to 127   pointers, from 128 − capacity on, growing upwards
//! ```
//!
//! A [`Magazine`] is the address of the topmost pointer, or of the bottom. So a value also says how full its magazine
//! is. An empty magazine gets a new capacity whenever it is put to use.
//!
//! A [`Magazine`] owns its memory and objects. A [`View`] looks at another thread's magazine, and may be stale.

use crate::central::MOST_POINTERS;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::sync::atomic::AtomicUsize as Word;
use machine::slot::ARRAY;
use machine::sync::{Ordering::Relaxed, prefetchw};

/// A magazine that the holder of this value owns.
#[derive(Debug)]
#[repr(transparent)]
#[must_use = "a magazine that is dropped is lost, and its objects are"]
pub struct Magazine(usize);

/// A look at a magazine of any owner. All answers may be stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct View<'a> {
    top: usize,
    of: PhantomData<&'a Magazine>,
}

/// A word of a magazine. Relaxed: the lock or slot word that handed it over orders its contents; views may be stale.
/// Core's atomic, so that the simulated machine spends no step on it.
pub(super) fn word<'a>(address: usize) -> &'a Word {
    // SAFETY: magazines are never unmapped.
    unsafe { &*(address as *const Word) }
}

#[inline]
fn bottom(capacity: usize) -> usize {
    ARRAY - 8 * capacity - 8
}

impl<'a> View<'a> {
    /// The magazine whose topmost pointer, or bottom, is at an address.
    ///
    /// # Safety
    /// It is, or was, one.
    #[inline]
    pub unsafe fn at(top: usize) -> Self {
        View { top, of: PhantomData }
    }

    /// The address of the topmost pointer, or of the bottom.
    #[inline]
    pub fn top(self) -> usize {
        self.top
    }

    fn memory(self) -> usize {
        self.top / ARRAY * ARRAY
    }

    /// Most pointers that it holds.
    #[inline]
    pub fn capacity(self) -> usize {
        word(self.memory() + 8).load(Relaxed)
    }

    /// Number of pointers.
    #[inline]
    pub fn len(self) -> usize {
        (self.top % ARRAY).saturating_sub(bottom(self.capacity())) / 8
    }

    /// Pointers that still fit.
    #[inline]
    pub fn room(self) -> usize {
        (ARRAY - 8 - self.top % ARRAY) / 8
    }

    /// Whether it holds no pointer.
    #[inline]
    pub fn is_empty(self) -> bool {
        word(self.top).load(Relaxed) == 0
    }

    /// Whether no pointer fits.
    #[inline]
    pub fn is_full(self) -> bool {
        self.room() == 0
    }

    /// Its pointers, from the lowest up.
    pub fn objects(self) -> impl DoubleEndedIterator<Item = *mut u8> + use<> {
        let (len, top) = (self.len(), self.top);
        (0..len).map(move |index| word(top + 8 - (len - index) * 8).load(Relaxed) as *mut u8)
    }

    pub(super) fn link(self) -> &'a Word {
        word(self.memory())
    }
}

impl Magazine {
    /// A fresh magazine, empty and of capacity 0. `memory`: the caller's [`ARRAY`] zeroed bytes, aligned to that.
    pub fn new(memory: *mut u8) -> Self {
        let start = memory as usize;
        debug_assert!(start.is_multiple_of(ARRAY));
        // Zero already, but a page read before it is written faults twice, and the second fault interrupts CPUs.
        word(start + 8).store(0, Relaxed);
        Magazine(start + ARRAY - 8)
    }

    /// The magazine whose top is at an address, owned by the caller from now on. Each handover passes here.
    ///
    /// # Safety
    /// No other value and no word names it any more.
    #[inline]
    pub unsafe fn adopt(top: usize) -> Self {
        Magazine(top)
    }

    /// The address of its top, for a word that names it from now on.
    #[inline]
    pub fn into_top(self) -> usize {
        ManuallyDrop::new(self).0
    }

    /// Looks at it.
    #[inline]
    pub fn view(&self) -> View<'_> {
        View { top: self.0, of: PhantomData }
    }

    /// The same magazine, which is empty, with a new capacity. 0 is 1: a class may lose its room meanwhile.
    pub fn sized(self, capacity: usize) -> Self {
        debug_assert!(self.is_empty() && capacity <= MOST_POINTERS);
        let capacity = capacity.max(1);
        if self.view().capacity() == capacity {
            return self;
        }
        let start = ManuallyDrop::new(self).memory() as usize;
        word(start + 8).store(capacity, Relaxed);
        word(start + bottom(capacity)).store(0, Relaxed);
        Magazine(start + bottom(capacity))
    }

    /// Number of pointers.
    #[inline]
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Whether it holds no pointer.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.view().is_empty()
    }

    /// Whether no pointer fits.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.view().is_full()
    }

    /// Pushes a pointer; there is space.
    #[inline]
    pub fn push(&mut self, object: *mut u8) {
        debug_assert!(!self.is_full());
        self.0 += 8;
        word(self.0).store(object as usize, Relaxed);
    }

    /// Pops the topmost pointer.
    #[inline]
    pub fn pop(&mut self) -> Option<*mut u8> {
        let object = word(self.0).load(Relaxed);
        if object == 0 {
            return None;
        }
        self.0 -= 8;
        Some(object as *mut u8)
    }

    /// The same magazine with the objects for which `keep` says so, from the lowest up. It is shown those kept so far.
    pub fn retain(self, mut keep: impl FnMut(*mut u8, View<'_>) -> bool) -> Self {
        let bottom = self.view().top - self.len() * 8;
        let mut top = bottom;
        for place in (bottom..ManuallyDrop::new(self).0).step_by(8) {
            let object = word(place + 8).load(Relaxed);
            if keep(object as *mut u8, View { top, of: PhantomData }) {
                top += 8;
                word(top).store(object, Relaxed);
            }
        }
        Magazine(top)
    }

    /// Puts the pointers into a random order, which depends on `secret` and on them.
    pub fn shuffle(&mut self, secret: u64) {
        let place = |index: usize| word(self.0 - index * 8);
        let mut random = secret ^ word(self.0).load(Relaxed) as u64;
        for index in 1..self.len() {
            // A multiplicative generator; its upper bits are good.
            random = (random ^ random >> 32 | 1).wrapping_mul(0xd6e8_feb8_6659_fd93);
            let other = (((random >> 32) * (index as u64 + 1)) >> 32) as usize;
            let (here, there) = (place(index).load(Relaxed), place(other).load(Relaxed));
            place(index).store(there, Relaxed);
            place(other).store(here, Relaxed);
        }
    }

    /// Fetches its objects, from the topmost down, which another CPU may have used last.
    pub(super) fn fetch_objects(&self) {
        self.view().objects().rev().for_each(|object| prefetchw(object));
    }

    /// Fetches its memory, which another CPU may have used last, for objects that go into it.
    #[inline]
    pub fn fetch(&self) {
        (0..ARRAY).step_by(64).for_each(|line| prefetchw(self.memory().wrapping_add(line)));
    }

    /// For objects that go into it, which is empty, the first on top.
    pub fn filling(self) -> Filling {
        debug_assert!(self.is_empty());
        Filling { next: self.0 + self.view().room() * 8, magazine: self }
    }

    /// The same magazine without its pointers. Their objects go with their spans.
    pub fn emptied(self) -> Self {
        let this = ManuallyDrop::new(self);
        match this.view().capacity() {
            0 => Magazine(this.0),
            capacity => Magazine(this.memory() as usize + bottom(capacity)),
        }
    }

    /// Start of its memory.
    #[inline]
    pub fn memory(&self) -> *mut u8 {
        self.view().memory() as *mut u8
    }
}

/// A magazine that is filled from the top down.
#[derive(Debug)]
#[must_use]
pub struct Filling {
    magazine: Magazine,
    next: usize,
}

impl Filling {
    /// Objects that still fit.
    #[inline]
    pub fn room(&self) -> usize {
        (self.next - self.magazine.0) / 8
    }

    /// Puts an object below those that are there; there is room.
    #[inline]
    pub fn put(&mut self, object: *mut u8) {
        debug_assert!(self.room() > 0);
        word(self.next).store(object as usize, Relaxed);
        self.next -= 8;
    }

    /// The magazine. Objects that do not fill it move down to its bottom.
    pub fn done(self) -> Magazine {
        let (len, next) = (self.magazine.view().room() - self.room(), self.next);
        let bottom = self.magazine.into_top();
        if next != bottom {
            let words = (1..=len).map(|index| index * 8);
            words.for_each(|at| word(bottom + at).store(word(next + at).load(Relaxed), Relaxed));
        }
        Magazine(bottom + len * 8)
    }
}

impl Drop for Magazine {
    /// Only an empty magazine may be dropped.
    fn drop(&mut self) {
        debug_assert!(self.is_empty(), "a magazine with {} objects was dropped", self.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[repr(align(1024))]
    struct Memory([u8; ARRAY]);

    fn empty(memory: &mut Memory, capacity: usize) -> Magazine {
        Magazine::new(memory.0.as_mut_ptr()).sized(capacity)
    }

    /// Planted bug that was seen here: objects that stay at the top of a magazine which they do not fill.
    #[test]
    fn filling_any_number_leaves_the_first_on_top() {
        assert_eq!(empty(&mut Memory([0; ARRAY]), 0).view().room(), 1);
        for (capacity, given) in (1..20).flat_map(|capacity| (0..=capacity).map(move |given| (capacity, given))) {
            let mut memory = Memory([0; ARRAY]);
            let mut filling = empty(&mut memory, capacity).filling();
            (1..=given).for_each(|object| filling.put(object as *mut u8));
            assert_eq!(filling.room(), capacity - given);
            let mut magazine = filling.done();
            assert_eq!((magazine.len(), magazine.is_full()), (given, given == capacity), "{given} of {capacity}");
            let taken: Vec<_> = core::iter::from_fn(|| magazine.pop()).map(|object| object as usize).collect();
            assert_eq!(taken, (1..=given).collect::<Vec<_>>(), "of {capacity}");
        }
    }

    #[test]
    fn shuffled_objects_are_all_there_in_an_order_that_depends_on_the_secret() {
        let mut orders = std::collections::BTreeSet::new();
        let mut places = [[0; 5]; 5];
        for secret in 0..1000_u64 {
            let mut memory = Memory([0; ARRAY]);
            let mut magazine = empty(&mut memory, 5);
            (1..=5_usize).for_each(|object| magazine.push(object as *mut u8));
            magazine.shuffle(secret << 20);
            let order: Vec<_> = core::iter::from_fn(|| magazine.pop()).map(|object| object as usize).collect();
            order.iter().enumerate().for_each(|(place, object)| places[place][object - 1] += 1);
            assert_eq!(order.iter().sum::<usize>(), 15);
            orders.insert(order);
        }
        assert!(orders.len() > 110, "{} of 120 orders", orders.len());
        assert!(places.iter().flatten().all(|times| (120..=280).contains(times)), "not evenly: {places:?}");
    }

    #[test]
    fn retained_objects_stay_in_order() {
        let mut memory = Memory([0; ARRAY]);
        let mut magazine = empty(&mut memory, 9);
        [3, 1, 3, 4, 1, 5].into_iter().for_each(|object| magazine.push(object as *mut u8));
        let magazine = magazine.retain(|object, kept| kept.objects().all(|other| other != object));
        assert!(magazine.view().objects().map(|object| object as usize).eq([3, 1, 4, 5]));
        let magazine = magazine.retain(|_, _| false);
        assert!(magazine.is_empty() && magazine.view().capacity() == 9);
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "a magazine with 1 objects was dropped")]
    fn magazine_dropped_with_an_object_is_reported() {
        let mut memory = Memory([0; ARRAY]);
        let mut magazine = empty(&mut memory, 3);
        magazine.push(0x10 as *mut u8);
        drop(magazine);
    }
}
