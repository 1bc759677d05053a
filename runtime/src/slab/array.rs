//! Arrays of pointers, out of the slots' words: what a slow path holds in its hands.
//!
//! ```text
//!   word 0      link to the next array in a stack
//!   word 1      capacity: pointers that it has room for
//!   …           unused down to the bottom, which is zero and lies before the first pointer
//!   up to 127   pointers, from 128 − capacity on, growing upwards
//! ```
//!
//! An [`Array`] value is a take word (see `machine::slot`): the offset, from the base of the panel that it serves, of the topmost pointer or of
//! the bottom. So a value says how full its array is, and arrays are handed over together with their fill. The capacity is
//! chosen anew whenever an empty array is put to use.

use crate::percpu::Region;
use machine::slot::ARRAY;

/// Words below this name no array: offsets into the header, which begins with zeroes.
const FIRST: usize = crate::percpu::HEADER;
/// A word whose array is being taken away by another CPU. It points before the region's base, to the last array's worth of the
/// first metadata, which is never used: as a take word to a zero, so nobody pops; as a give word it is full, so nobody pushes.
pub const DRAINING: usize = 0usize.wrapping_sub(ARRAY);

/// The largest capacity: an array less its link, its capacity and the bottom.
pub const MOST_POINTERS: usize = ARRAY / 8 - 3;

/// An array that belongs to the holder of this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Array(usize);

impl Array {
    /// A fresh array, empty and without room; `memory` is [`ARRAY`] zeroed bytes of ours, aligned to as much from the base.
    pub fn new(region: Region, memory: *mut u8) -> Self {
        let start = region.offset_of(memory);
        debug_assert!(start.is_multiple_of(ARRAY));
        // It is zero already; but a page that is read before it is written faults twice, and the second time interrupts other CPUs.
        // SAFETY: a word of our array.
        unsafe { region.at_offset(start + 8).cast::<usize>().write(0) };
        Array(start + ARRAY - 8)
    }

    /// The array, which is empty, with room for `capacity` pointers.
    pub fn sized(self, region: Region, capacity: usize) -> Self {
        debug_assert!(self.is_empty(region) && (1..=MOST_POINTERS).contains(&capacity));
        if self.capacity(region) == capacity {
            return self;
        }
        let start = self.0 / ARRAY * ARRAY;
        let bottom = start + bottom(capacity);
        // SAFETY: words of our array.
        unsafe {
            region.at_offset(start + 8).cast::<usize>().write(capacity);
            region.at_offset(bottom).cast::<usize>().write(0);
        }
        Array(bottom)
    }

    /// The same array, as it is named from another base.
    #[inline]
    pub fn moved(self, from: Region, to: Region) -> Self {
        Array(to.offset_of(from.at_offset(self.0)))
    }

    /// What a take word names; none if it names no array, so that pop says "empty".
    #[inline]
    pub fn from_take_word(word: usize) -> Option<Self> {
        names_array(word).then_some(Array(word))
    }

    /// What a give word names; none if it names no array, so that push says "full".
    #[inline]
    pub fn from_give_word(word: usize) -> Option<Self> {
        names_array(word).then(|| Array(word - 8))
    }

    /// The take word for this array.
    #[inline]
    pub fn take_word(self) -> usize {
        self.0
    }

    /// The give word for this array.
    #[inline]
    pub fn give_word(self) -> usize {
        self.0 + 8
    }

    /// Pointers that it has room for.
    #[inline]
    pub fn capacity(self, region: Region) -> usize {
        // SAFETY: a word of our array; of another's array it is a plain number that may be stale.
        unsafe { region.at_offset(self.0 / ARRAY * ARRAY + 8).cast::<usize>().read() }
    }

    /// Pointers in the array.
    #[inline]
    pub fn len(self, region: Region) -> usize {
        (self.0 % ARRAY).saturating_sub(bottom(self.capacity(region))) / 8
    }

    /// Pointers that still fit.
    #[inline]
    pub fn room(self) -> usize {
        (ARRAY - 8 - self.0 % ARRAY) / 8
    }

    /// Whether it holds no pointer.
    #[inline]
    pub fn is_empty(self, region: Region) -> bool {
        // SAFETY: a word of our array: the topmost pointer, or the bottom.
        unsafe { region.at_offset(self.0).cast::<usize>().read() == 0 }
    }

    /// Whether it has no room.
    #[inline]
    pub fn is_full(self) -> bool {
        self.room() == 0
    }

    /// Puts a pointer on top; there is room.
    #[inline]
    pub fn push(&mut self, region: Region, object: *mut u8) {
        debug_assert!(!self.is_full());
        self.0 += 8;
        // SAFETY: a word of our array.
        unsafe { region.at_offset(self.0).cast::<*mut u8>().write(object) };
    }

    /// Takes the topmost pointer.
    #[inline]
    pub fn pop(&mut self, region: Region) -> Option<*mut u8> {
        if self.is_empty(region) {
            return None;
        }
        // SAFETY: a word of our array.
        let object = unsafe { region.at_offset(self.0).cast::<*mut u8>().read() };
        self.0 -= 8;
        Some(object)
    }

    /// Its pointers, from the lowest up.
    pub fn objects(self, region: Region) -> impl Iterator<Item = *mut u8> {
        let len = self.len(region);
        // SAFETY: words of our array.
        (0..len).map(move |index| unsafe { region.at_offset(self.0 + 8 - (len - index) * 8).cast::<*mut u8>().read() })
    }

    /// The array without its pointers.
    #[inline]
    pub fn emptied(self, region: Region) -> Self {
        let start = self.0 / ARRAY * ARRAY;
        let capacity = self.capacity(region);
        if capacity == 0 { self } else { Array(start + bottom(capacity)) }
    }

    /// Reverses the order of the pointers.
    pub fn reverse(self, region: Region) {
        let len = self.len(region);
        let first = self.0 + 8 - len * 8;
        // SAFETY: the pointers of our array.
        unsafe { core::slice::from_raw_parts_mut(region.at_offset(first).cast::<usize>(), len) }.reverse();
    }

    /// Where the array's memory begins.
    #[inline]
    pub fn memory(self, region: Region) -> *mut u8 {
        region.at_offset(self.0 / ARRAY * ARRAY)
    }

    /// The array's link.
    #[inline]
    pub fn link(self, region: Region) -> *mut usize {
        self.memory(region).cast()
    }
}

#[inline]
fn names_array(word: usize) -> bool {
    word >= FIRST && word != DRAINING
}

/// Where in an array the bottom lies.
#[inline]
fn bottom(capacity: usize) -> usize {
    ARRAY - 8 * capacity - 8
}

/// A stack of arrays, linked through their word 0. All-zero memory is an empty stack.
#[derive(Debug)]
#[repr(transparent)]
pub struct Stack(usize);

impl Stack {
    /// None.
    pub const fn new() -> Self {
        Stack(0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        Array::from_take_word(self.0).is_none()
    }

    /// Puts an array on top: one store makes it part of the stack.
    #[inline]
    pub fn push(&mut self, region: Region, array: Array) {
        // SAFETY: a word of an array that is ours.
        unsafe { array.link(region).write(self.0) };
        self.0 = array.0;
    }

    /// Takes the topmost array: one store takes it off the stack.
    #[inline]
    pub fn pop(&mut self, region: Region) -> Option<Array> {
        let top = Array::from_take_word(self.0)?;
        // SAFETY: a word of an array on the stack.
        self.0 = unsafe { top.link(region).read() };
        Some(top)
    }

    /// Takes the topmost pointer of the topmost array, which stays on the stack, by one store.
    pub fn pop_pointer(&mut self, region: Region) -> Option<*mut u8> {
        let mut top = Array::from_take_word(self.0)?;
        let pointer = top.pop(region)?;
        self.0 = top.0;
        Some(pointer)
    }

    /// The arrays on the stack.
    pub fn iter(&self, region: Region) -> impl Iterator<Item = Array> {
        // SAFETY: links of arrays on the stack.
        let below = move |top: &Array| Array::from_take_word(unsafe { top.link(region).read() });
        core::iter::successors(Array::from_take_word(self.0), below)
    }
}
