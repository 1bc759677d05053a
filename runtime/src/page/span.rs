//! Spans: runs of 64 or 256 KiB that a slab cuts into objects of one cache, described out of line.
//!
//! ```text
//!   span in user memory   |obj 0|obj 1|obj 2| …                  |unused|
//!                          └ carved before ┘└ never given yet ┘
//!   bits, out of line      0 in use  1 free   (only for carved objects)
//! ```
//!
//! A span belongs to one shard of the depot, whose lock protects everything in here but `start` and `head`, which do not
//! change while an object of the span lives. Objects in arrays count as in use.

use super::map::GRANULE_SHIFT;
use machine::sync::{AtomicU32, Ordering};

/// The unit of spans, and of the page map.
pub const GRANULE: usize = 1 << GRANULE_SHIFT;
/// Bytes of a granule's bits: enough for objects of 16 bytes.
pub const BITS_BYTES: usize = GRANULE / 16 / 8;

/// The description of the span that begins at a granule, or a pointer to it if the granule lies inside one.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Span {
    start: *mut u8,
    bits: *mut u64,
    /// Next in the ring or list that holds the span.
    pub next: *mut Span,
    /// Previous in the ring that holds the span.
    pub previous: *mut Span,
    owner: AtomicU32,
    total: u32,
    carved: u32,
    freed: u32,
    hint: u32,
    object_bytes: u32,
    /// Number of the cache that has the span; 0 while none has.
    pub cache: u32,
    /// Granules of the span; 0 for a granule inside another's span.
    pub granules: u8,
    /// Whether the pages of its free objects went back to the kernel, and no object was taken or put since.
    pub is_hollow: bool,
}

/// What is wrong with a pointer that was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// No object begins there.
    NotAnObject,
    /// The object is free already.
    DoubleFree,
}

impl Span {
    /// Describes a granule that begins a span of `granules`.
    pub fn describe(&mut self, start: *mut u8, bits: *mut u64, granules: u8) {
        (self.start, self.bits, self.granules) = (start, bits, granules);
        self.cache = 0;
    }

    /// Describes a granule inside the span that `head` describes.
    pub fn describe_inside(&mut self, head: *mut Span) {
        (self.next, self.granules, self.cache) = (head, 0, 0);
    }

    /// First byte of the span.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Whether an address lies in the span.
    pub fn covers(&self, address: *mut u8) -> bool {
        (address as usize).wrapping_sub(self.start as usize) < self.granules as usize * GRANULE
    }

    /// Bytes of an object.
    pub fn object_bytes(&self) -> usize {
        self.object_bytes as usize
    }

    /// The slot whose shard owns the span. Changes under that shard's lock only.
    pub fn owner(&self) -> u32 {
        // Relaxed: whoever reads it without the lock takes the lock and reads again.
        self.owner.load(Ordering::Relaxed)
    }

    /// Gives the span to another slot's shard. Both locks are held, or nobody else knows the span.
    pub fn set_owner(&self, slot: u32) {
        self.owner.store(slot, Ordering::Relaxed);
    }

    /// Begins to serve objects of a cache; all of them are free, none carved.
    pub fn begin(&mut self, cache: u32, object_bytes: usize, owner: u32) {
        let bytes = self.granules as usize * GRANULE;
        self.object_bytes = object_bytes as u32;
        self.total = (bytes / object_bytes) as u32;
        (self.carved, self.freed, self.hint, self.is_hollow) = (0, 0, 0, false);
        self.set_owner(owner);
        machine::sync::compiler_fence(Ordering::Release);
        self.cache = cache;
    }

    /// Objects that the span can give right now.
    pub fn available(&self) -> usize {
        (self.freed + self.total - self.carved) as usize
    }

    /// Whether the span can give an object that was in use before.
    pub fn has_freed(&self) -> bool {
        self.freed > 0
    }

    /// Whether no object of the span is in use.
    pub fn is_unused(&self) -> bool {
        self.freed == self.carved
    }

    /// Objects in use, those in arrays included.
    pub fn in_use(&self) -> usize {
        (self.carved - self.freed) as usize
    }

    /// Gives one object, freed ones first: they are likelier to be in memory already.
    pub fn take(&mut self) -> Option<*mut u8> {
        self.is_hollow = false;
        if self.freed > 0 {
            let index = self.take_freed();
            return Some(self.object(index));
        }
        if self.carved == self.total {
            return None;
        }
        let index = self.carved;
        if index.is_multiple_of(64) {
            // SAFETY: one word of the span's bits; a former use of the granule may have left bits there.
            unsafe { self.bits.add(index as usize / 64).write(0) };
        }
        self.carved += 1;
        Some(self.object(index))
    }

    /// Finds a set bit from the hint on, round; there is one.
    fn take_freed(&mut self) -> u32 {
        let words = self.carved.div_ceil(64);
        let mut word = self.hint.min(words - 1);
        loop {
            // SAFETY: a word of the span's bits, below `carved`.
            let bits = unsafe { &mut *self.bits.add(word as usize) };
            if *bits != 0 {
                let bit = bits.trailing_zeros();
                *bits &= *bits - 1;
                self.freed -= 1;
                self.hint = word;
                return word * 64 + bit;
            }
            word = if word + 1 == words { 0 } else { word + 1 };
        }
    }

    /// Takes an object back.
    pub fn put(&mut self, object: *mut u8) -> Result<(), Misuse> {
        let offset = (object as usize).wrapping_sub(self.start as usize);
        let index = offset / self.object_bytes as usize;
        if index >= self.carved as usize || !offset.is_multiple_of(self.object_bytes as usize) {
            return Err(Misuse::NotAnObject);
        }
        // SAFETY: a word of the span's bits, below `carved`.
        let word = unsafe { &mut *self.bits.add(index / 64) };
        if *word & (1 << (index % 64)) != 0 {
            return Err(Misuse::DoubleFree);
        }
        *word |= 1 << (index % 64);
        self.is_hollow = false;
        self.hint = self.hint.min(index as u32 / 64);
        self.freed += 1;
        Ok(())
    }

    /// Where the object lies that holds an address; none if it lies behind the last object that was ever given.
    pub fn object_at(&self, address: *mut u8) -> Option<*mut u8> {
        let index = (address as usize - self.start as usize) / self.object_bytes as usize;
        (index < self.carved as usize).then(|| self.object(index as u32))
    }

    /// All objects that were ever given since the span began.
    pub fn carved(&self) -> impl Iterator<Item = *mut u8> {
        (0..self.carved).map(|index| self.object(index))
    }

    /// Counts the free objects anew.
    pub fn recount(&mut self) {
        // SAFETY: the span's bits.
        let bits = (0..self.carved.div_ceil(64)).map(|word| unsafe { *self.bits.add(word as usize) }.count_ones());
        self.freed = bits.sum();
    }

    fn object(&self, index: u32) -> *mut u8 {
        self.start.wrapping_add(index as usize * self.object_bytes as usize)
    }

    /// Whether an object that was given once is free in its span.
    pub fn is_free(&self, object: *mut u8) -> bool {
        let index = (object as usize - self.start as usize) / self.object_bytes as usize;
        // SAFETY: a word of the span's bits.
        index >= self.carved as usize || unsafe { *self.bits.add(index / 64) } & (1 << (index % 64)) != 0
    }

    /// Shows the bytes of each row of free objects, those included that were never given.
    pub fn for_each_free_row(&self, mut show: impl FnMut(*mut u8, usize)) {
        let mut first = None;
        for index in 0..=self.total {
            let is_free = index < self.total && self.is_free(self.object(index));
            match first {
                None if is_free => first = Some(index),
                Some(start) if !is_free => {
                    show(self.object(start), (index - start) as usize * self.object_bytes());
                    first = None;
                }
                _ => {}
            }
        }
    }

    /// The span's invariants.
    pub fn check_valid(&self) {
        assert!(self.granules > 0 && self.cache > 0 && self.freed <= self.carved && self.carved <= self.total);
        // SAFETY: the span's bits.
        let bits = (0..self.carved.div_ceil(64)).map(|word| unsafe { *self.bits.add(word as usize) }.count_ones());
        assert_eq!(bits.sum::<u32>(), self.freed, "bits set and objects freed differ in {self:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec::Vec;

    fn span_of(object_bytes: usize) -> (Box<Span>, Box<[u64; BITS_BYTES / 8]>) {
        let mut bits = Box::new([u64::MAX; BITS_BYTES / 8]);
        // SAFETY: a Span is valid when all zero.
        let mut span: Box<Span> = Box::new(unsafe { core::mem::zeroed() });
        span.describe((16 * GRANULE) as *mut u8, bits.as_mut_ptr(), 1);
        span.begin(1, object_bytes, 0);
        (span, bits)
    }

    #[test]
    fn every_object_is_given_once_and_again_after_it_was_freed() {
        for object_bytes in [16, 48, 1024, 3584] {
            let (mut span, _bits) = span_of(object_bytes);
            let objects: Vec<_> = core::iter::from_fn(|| span.take()).collect();
            assert_eq!(objects.len(), GRANULE / object_bytes);
            assert!(objects.windows(2).all(|pair| pair[1] as usize - pair[0] as usize == object_bytes));
            for &object in objects.iter().rev() {
                span.put(object).unwrap();
                span.check_valid();
            }
            assert!(span.is_unused());
            let mut again: Vec<_> = core::iter::from_fn(|| span.take()).collect();
            again.sort();
            assert_eq!(again, objects);
        }
    }

    #[test]
    fn rows_of_free_objects_are_shown() {
        let (mut span, _bits) = span_of(1024);
        let objects: Vec<_> = (0..10).filter_map(|_| span.take()).collect();
        [1, 2, 5].into_iter().for_each(|index| span.put(objects[index]).unwrap());
        let mut rows = Vec::new();
        span.for_each_free_row(|start, bytes| rows.push(((start as usize - objects[0] as usize) / 1024, bytes / 1024)));
        assert_eq!(rows, [(1, 2), (5, 1), (10, 54)]);
    }

    #[test]
    fn misuse_is_told() {
        let (mut span, _bits) = span_of(48);
        let object = span.take().unwrap();
        assert_eq!(span.put(object.wrapping_add(16)), Err(Misuse::NotAnObject));
        assert_eq!(span.put(object.wrapping_add(48)), Err(Misuse::NotAnObject), "never carved");
        assert_eq!(span.put(object), Ok(()));
        assert_eq!(span.put(object), Err(Misuse::DoubleFree));
    }
}
