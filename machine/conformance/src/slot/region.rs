//! A region as slot operations need it, with a number of arrays behind the areas.
//!
//! ```text
//!   │ zeroes │ header │ slot areas │ … │ array 0 │ … │ array 1 │ … │
//!            base                      each at a multiple of the stride
//! ```
//!
//! A draining word names the zeroes before the base. All accesses to cells are relaxed atomics: an array is either
//! private, or handed over by words, whose operations order it.

use machine::slot::{self, AREA, AREAS, ARRAY};
use machine::sync::{AtomicUsize, Ordering};
use machine::vm;

const ALIGNMENT: usize = 2 << 20;
pub const WORDS: usize = AREA / 8;
/// A word that is empty to pop and full to push, and that nobody but the drainer replaces.
pub const DRAINING: usize = 0usize.wrapping_sub(ARRAY);
/// The most pointers in an array: all words but the owner's and the bottom.
pub const CAPACITY: usize = ARRAY / 8 - 2;

pub struct Region {
    memory: Memory,
    first: usize,
    stride: usize,
    count: usize,
}

impl Region {
    /// A region with `count` empty arrays, `stride` bytes apart. Initialises the slots: one for each process.
    pub fn new(count: usize, stride: usize) -> Result<Self, String> {
        slot::initialise();
        let slots_end = vm::PAGE + AREAS + slot::MAX * AREA;
        let memory = Memory::new(slots_end + ALIGNMENT + count * stride)?;
        let first = memory.at(slots_end).addr().next_multiple_of(ALIGNMENT) - memory.at(vm::PAGE).addr();
        Ok(Region { memory, first, stride, count })
    }

    pub fn base(&self) -> *mut u8 {
        self.memory.at(vm::PAGE)
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Array `number`, which is nobody's, made empty with room for `capacity` pointers.
    pub fn array(&self, number: usize, capacity: usize) -> Array {
        debug_assert!(number < self.count && (1..=CAPACITY).contains(&capacity));
        let bottom = self.first + number * self.stride + ARRAY - 8 * capacity - 8;
        self.cell(bottom).store(0, Ordering::Relaxed);
        Array(bottom)
    }

    pub fn memory(&self, number: usize) -> *mut u8 {
        self.base().wrapping_add(self.first + number * self.stride)
    }

    pub fn number(&self, array: Array) -> Option<usize> {
        let number = array.0.checked_sub(self.first)? / self.stride;
        (number < self.count).then_some(number)
    }

    fn cell(&self, offset: usize) -> &AtomicUsize {
        // SAFETY: offsets come from arrays of this region, or are less than a page below the base. The mapping outlives
        // us, and all accesses to zeroes are atomic.
        unsafe { &*self.base().wrapping_add(offset).cast() }
    }

    /// The pointers of an array, topmost first, down to the bottom.
    pub fn pointers(&self, array: Array) -> impl Iterator<Item = *mut u8> {
        let down = (0..CAPACITY).map(move |depth| self.cell(array.0 - 8 * depth).load(Ordering::Relaxed));
        down.take_while(|&cell| cell != 0).map(|cell| cell as *mut u8)
    }
}

/// An array with its fill: the offset of the topmost pointer, or of the bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array(usize);

impl Array {
    pub fn of_take_word(word: usize) -> Option<Self> {
        (word >= AREAS && word != DRAINING).then_some(Array(word))
    }

    pub fn of_give_word(word: usize) -> Option<Self> {
        Self::of_take_word(word).map(|array| Array(array.0 - 8))
    }

    /// What a word of either kind names: take words have even indices.
    pub fn of_word(word: usize, index: usize) -> Option<Self> {
        if index.is_multiple_of(2) { Self::of_take_word(word) } else { Self::of_give_word(word) }
    }

    pub fn take_word(self) -> usize {
        self.0
    }

    pub fn give_word(self) -> usize {
        self.0 + 8
    }

    pub fn is_full(self) -> bool {
        (self.0 + 8).is_multiple_of(ARRAY)
    }

    pub fn is_empty(self, region: &Region) -> bool {
        region.cell(self.0).load(Ordering::Relaxed) == 0
    }

    /// Puts a pointer on top, while the array is private; false if it is full.
    pub fn push(&mut self, region: &Region, pointer: *mut u8) -> bool {
        if self.is_full() {
            return false;
        }
        self.0 += 8;
        region.cell(self.0).store(pointer as usize, Ordering::Relaxed);
        true
    }

    pub fn pop(&mut self, region: &Region) -> Option<*mut u8> {
        let pointer = region.cell(self.0).load(Ordering::Relaxed);
        if pointer == 0 {
            return None;
        }
        self.0 -= 8;
        Some(pointer as *mut u8)
    }
}

/// Zeroed memory of a test's own: a mapping, given back when dropped.
pub struct Memory {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: all access to it is atomic, or that of operations under test.
unsafe impl Sync for Memory {}
// SAFETY: it owns its mapping.
unsafe impl Send for Memory {}

impl Memory {
    /// So many bytes, and what is missing to whole pages.
    pub fn new(bytes: usize) -> Result<Self, String> {
        let bytes = bytes.next_multiple_of(vm::PAGE);
        let start = vm::reserve(core::ptr::null_mut(), bytes, vm::Access::ReadWrite).ok_or("no address space")?;
        Ok(Memory { start, bytes })
    }

    pub fn at(&self, offset: usize) -> *mut u8 {
        self.start.wrapping_add(offset)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever could use it has borrowed us.
        unsafe { vm::release(self.start, self.bytes) };
    }
}
