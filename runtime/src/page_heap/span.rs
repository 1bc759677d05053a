//! Spans: runs of 64 or 256 KiB that the central tier cuts into objects of one cache, described out of line.
//!
//! ```text
//!   span in user memory   │shift│ object │ object │ object │ …          │unused│
//!   windows                     └ window: 4 KiB or less ┘└ window …
//!   bits, out of line      0 in use  1 free   (only for carved objects, in the order of carving)
//! ```
//!
//! **Random order.** Objects begin at a random multiple of their alignment, within the rest that holds no object. They
//! are carved window by window, and an exclusive-or by random bits gives the next window. Within a window the addresses
//! ascend, so that a program which goes over its objects finds the next lines in the processor's cache. All indices
//! here count in the order of carving; [`Places`] converts.
//!
//! A span belongs to one slot's shard of its cache. That shard's lock protects all fields except `start`, which does
//! not change while an object of the span lives. Objects in magazines count as in use.
//!
//! Threads without the lock read single fields as hints, which may be stale. So all fields are atomic. Accesses are
//! relaxed: the lock orders them for its holders, and a thread reads a hint again under the lock before it acts on it.

use super::GRANULE;
use super::guarded::mixed;
use machine::process;
use machine::sync::{AtomicPtr, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, compiler_fence};

// Fields for hints, on which no order depends: core's atomics, so that the simulated machine spends no step on them.
pub use core::sync::atomic::{
    AtomicBool as HintBool, AtomicPtr as HintPtr, AtomicU8 as HintU8, AtomicU16 as HintU16, AtomicU32 as HintU32,
    AtomicU64 as HintU64, AtomicUsize as HintUsize,
};

/// Most bytes of a window. A small process so touches no more pages than in ascending order.
const WINDOW: usize = 4096;
/// Bytes of a granule's bits: enough for objects of 16 bytes.
pub const BITS_BYTES: usize = GRANULE / 16 / 8;

/// The description of the span that begins at a granule, or a pointer to it if the granule lies inside one.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Span {
    start: HintPtr<u8>,
    bits: HintPtr<u64>,
    /// Next in the ring or list that holds the span; of a granule inside a span, that span.
    next: AtomicPtr<Span>,
    previous: AtomicPtr<Span>,
    owner: AtomicU32,
    total: HintU32,
    carved: HintU32,
    freed: HintU32,
    /// The word of bits where a search for a free object begins.
    hint: HintU16,
    /// Random bits for the order of windows.
    order: HintU16,
    object_bytes: HintU32,
    cache: AtomicU32,
    granules: HintU8,
    is_subreleased: HintBool,
    /// Bytes before the first object, in multiples of 16.
    shift: HintU16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// No object begins there.
    NotAnObject,
    /// The object is free already.
    DoubleFree,
}

impl Span {
    /// Describes a granule that begins a span of `granules`.
    pub fn describe(&self, start: *mut u8, bits: *mut u64, granules: u8) {
        self.start.store(start, Relaxed);
        self.bits.store(bits, Relaxed);
        self.granules.store(granules, Relaxed);
        self.cache.store(0, Relaxed);
    }

    /// Describes a granule inside the span that `head` describes.
    pub fn describe_inside(&self, head: *mut Span) {
        self.next.store(head, Relaxed);
        self.granules.store(0, Relaxed);
        self.cache.store(0, Relaxed);
    }

    pub fn start(&self) -> *mut u8 {
        self.start.load(Relaxed)
    }

    /// Granules of the span; 0 for a granule inside another span.
    pub fn granules(&self) -> u8 {
        self.granules.load(Relaxed)
    }

    /// Number of the span's cache; 0: none.
    pub fn cache(&self) -> u32 {
        self.cache.load(Acquire)
    }

    /// The cache of which a span begins at the granule. Without its lock, a next look may find another one, or none.
    pub fn begins_in_cache(&self) -> Option<u32> {
        Some(self.cache()).filter(|&number| number > 0 && self.granules() > 0)
    }

    pub fn leave_cache(&self) {
        self.cache.store(0, Relaxed);
    }

    /// The next span in the ring or list that holds this one.
    pub fn next(&self) -> *mut Span {
        self.next.load(Relaxed)
    }

    pub fn set_next(&self, span: *mut Span) {
        self.next.store(span, Relaxed);
    }

    pub fn previous(&self) -> *mut Span {
        self.previous.load(Relaxed)
    }

    pub fn set_previous(&self, span: *mut Span) {
        self.previous.store(span, Relaxed);
    }

    /// Its address, as in lists.
    pub fn as_ptr(&self) -> *mut Span {
        (&raw const *self).cast_mut()
    }

    /// The linked spans from `first` on.
    ///
    /// # Safety
    /// The caller owns them, or no thread changes their links meanwhile.
    pub unsafe fn list<'a>(first: *mut Span) -> impl Iterator<Item = &'a Span> {
        // SAFETY: passed on; descriptions of spans are never freed. The link is read before the caller sees the span.
        let at = |span: *mut Span| unsafe { span.as_ref() }.map(|span| (span, span.next()));
        core::iter::successors(at(first), move |&(_, next)| at(next)).map(|(span, _)| span)
    }

    pub fn covers(&self, address: *mut u8) -> bool {
        (address as usize).wrapping_sub(self.start() as usize) < self.granules() as usize * GRANULE
    }

    pub fn object_bytes(&self) -> usize {
        self.object_bytes.load(Relaxed) as usize
    }

    /// The slot whose shard owns the span. It changes under that shard's lock only.
    pub fn owner(&self) -> u32 {
        // A thread that reads it without the lock takes the lock and reads again.
        self.owner.load(Relaxed)
    }

    /// Gives the span to another slot's shard. The caller holds both locks, or has the span alone.
    pub fn set_owner(&self, slot: u32) {
        self.owner.store(slot, Relaxed);
    }

    /// Begins to serve objects of a cache: all are free, none is carved. `is_shuffled`: in random order.
    pub fn begin(&self, cache: u32, object_bytes: usize, owner: u32, is_shuffled: bool) {
        let bytes = self.granules() as usize * GRANULE;
        self.object_bytes.store(object_bytes as u32, Relaxed);
        // In another order in each use of the span.
        let seed = process::randomness().wrapping_add(self.start() as u64 | u64::from(self.order.load(Relaxed)));
        let random = if is_shuffled && process::randomness() != 0 { mixed(seed) } else { 0 };
        // The objects stay aligned to what their size allows.
        let unit = 1 << object_bytes.trailing_zeros();
        let shift = (random >> 16) as usize % (bytes % object_bytes / unit + 1) * unit;
        self.shift.store((shift / 16) as u16, Relaxed);
        self.order.store(random as u16, Relaxed);
        self.total.store((bytes / object_bytes) as u32, Relaxed);
        self.hint.store(0, Relaxed);
        [&self.carved, &self.freed].into_iter().for_each(|count| count.store(0, Relaxed));
        self.is_subreleased.store(false, Relaxed);
        self.set_owner(owner);
        // Release pairs with the acquire in `cache`: a span with a cache is complete, also in a fork child.
        self.cache.store(cache, Release);
    }

    /// Objects that the span can give now.
    pub fn available(&self) -> usize {
        let carved = self.carved.load(Relaxed);
        (self.freed.load(Relaxed) + self.total.load(Relaxed)).wrapping_sub(carved) as usize
    }

    /// Whether the span can give an object that was in use before.
    pub fn has_freed(&self) -> bool {
        self.freed.load(Relaxed) > 0
    }

    /// Whether no object of the span is in use.
    pub fn is_unused(&self) -> bool {
        self.freed.load(Relaxed) == self.carved.load(Relaxed)
    }

    /// Objects in use, including those in magazines.
    pub fn in_use(&self) -> usize {
        self.carved.load(Relaxed).wrapping_sub(self.freed.load(Relaxed)) as usize
    }

    /// Whether the pages of its free objects went back to the kernel, and no object was taken or put since.
    pub fn is_subreleased(&self) -> bool {
        self.is_subreleased.load(Relaxed)
    }

    pub fn set_subreleased(&self) {
        self.is_subreleased.store(true, Relaxed);
    }

    /// Gives one object. Freed ones come first, because they are likelier to be in memory. `carve` sees one that was
    /// never given before it counts, so that a fork child begins with it again.
    #[inline]
    pub fn take(&self, places: &Places, carve: impl FnOnce(*mut u8)) -> Option<*mut u8> {
        self.is_subreleased.store(false, Relaxed);
        let carved = self.carved.load(Relaxed);
        if self.freed.load(Relaxed) > 0 {
            return Some(places.object(self.take_freed(carved) as usize));
        }
        if carved == self.total.load(Relaxed) {
            return None;
        }
        if carved.is_multiple_of(64) {
            // A former use of the granule may have left bits there.
            self.word(carved as usize / 64).store(0, Relaxed);
        }
        let object = places.object(carved as usize);
        carve(object);
        compiler_fence(Release);
        self.carved.store(carved + 1, Relaxed);
        Some(object)
    }

    /// Finds a set bit, from the hint on and around; there is one.
    fn take_freed(&self, carved: u32) -> u32 {
        let words = carved.div_ceil(64);
        let mut word = u32::from(self.hint.load(Relaxed)).min(words - 1);
        loop {
            let bits = self.word(word as usize).load(Relaxed);
            if bits != 0 {
                let bit = bits.trailing_zeros();
                self.word(word as usize).store(bits & (bits - 1), Relaxed);
                self.freed.store(self.freed.load(Relaxed) - 1, Relaxed);
                self.hint.store(word as u16, Relaxed);
                return word * 64 + bit;
            }
            word = if word + 1 == words { 0 } else { word + 1 };
        }
    }

    /// The index of an object in use. Its user may ask without the lock: its bit changed before the user got it.
    #[inline]
    pub fn index_of_used(&self, object: *mut u8) -> Result<usize, Misuse> {
        let (places, bytes) = (self.places(), self.object_bytes() as u32);
        // An address before the first object is so far behind it that it has no place. Short divisions are faster.
        let offset = (object as usize).wrapping_sub(places.first as usize) as u32;
        let (index, rest) = (places.swapped((offset / bytes) as usize), offset % bytes);
        if index >= self.carved.load(Relaxed) as usize || rest != 0 {
            return Err(Misuse::NotAnObject);
        }
        let is_free = self.word(index / 64).load(Relaxed) >> (index % 64) & 1 == 1;
        if is_free { Err(Misuse::DoubleFree) } else { Ok(index) }
    }

    #[inline]
    pub fn put(&self, object: *mut u8) -> Result<(), Misuse> {
        let index = self.index_of_used(object)?;
        let word = self.word(index / 64);
        word.store(word.load(Relaxed) | 1 << (index % 64), Relaxed);
        self.is_subreleased.store(false, Relaxed);
        self.hint.store(self.hint.load(Relaxed).min((index / 64) as u16), Relaxed);
        self.freed.store(self.freed.load(Relaxed) + 1, Relaxed);
        Ok(())
    }

    /// The same for an object that lies in this span and is not its last one in use; otherwise false, also for misuse.
    #[inline]
    pub fn put_near(&self, object: *mut u8) -> bool {
        self.covers(object) && self.freed.load(Relaxed) + 1 < self.carved.load(Relaxed) && self.put(object).is_ok()
    }

    /// The object that holds an address; none behind the last carved object.
    pub fn object_at(&self, address: *mut u8) -> Option<*mut u8> {
        let index = self.index_at(address);
        (index < self.carved.load(Relaxed) as usize).then(|| self.object(index as u32))
    }

    /// All objects carved since the span began.
    pub fn carved(&self) -> impl Iterator<Item = *mut u8> {
        (0..self.carved.load(Relaxed)).map(|index| self.object(index))
    }

    pub fn recount(&self) {
        self.freed.store(self.count_bits(), Relaxed);
    }

    fn count_bits(&self) -> u32 {
        let words = self.carved.load(Relaxed).div_ceil(64) as usize;
        (0..words).map(|word| self.word(word).load(Relaxed).count_ones()).sum()
    }

    /// A word of the bits.
    fn word(&self, index: usize) -> &HintU64 {
        // SAFETY: the index is that of an object of the span, and there is a bit for each.
        unsafe { &*self.bits.load(Relaxed).add(index).cast::<HintU64>() }
    }

    fn object(&self, index: u32) -> *mut u8 {
        self.places().object(index as usize)
    }

    /// The lowest address of an object.
    fn first(&self) -> *mut u8 {
        self.start().wrapping_add(usize::from(self.shift.load(Relaxed)) * 16)
    }

    /// The places of its objects, as long as it serves the same cache.
    #[inline]
    pub fn places(&self) -> Places {
        let object_bytes = self.object_bytes();
        let in_window = (WINDOW >> object_bytes.next_power_of_two().ilog2()).max(1);
        // Whole windows change places, among as many objects as a power of two.
        let moved = 1 << self.total.load(Relaxed).max(1).ilog2();
        let order = usize::from(self.order.load(Relaxed)) & (moved - in_window);
        Places { first: self.first(), object_bytes, moved, order }
    }

    /// The index of the object at an address of the span.
    fn index_at(&self, address: *mut u8) -> usize {
        self.places().swapped((address as usize).wrapping_sub(self.first() as usize) / self.object_bytes())
    }

    /// Whether an object is free in its span.
    pub fn is_free(&self, object: *mut u8) -> bool {
        let index = self.index_at(object);
        index >= self.carved.load(Relaxed) as usize || self.word(index / 64).load(Relaxed) >> (index % 64) & 1 == 1
    }

    /// Shows each row of free objects in bytes, including those never carved.
    pub fn for_each_free_row(&self, mut show: impl FnMut(*mut u8, usize)) {
        let (mut first, total) = (None, self.total.load(Relaxed));
        let at = |place: u32| self.first().wrapping_add(place as usize * self.object_bytes());
        for index in 0..=total {
            let is_free = index < total && self.is_free(at(index));
            match first {
                None if is_free => first = Some(index),
                Some(start) if !is_free => {
                    show(at(start), (index - start) as usize * self.object_bytes());
                    first = None;
                }
                _ => {}
            }
        }
    }

    /// Checks the span's invariants.
    pub fn check_valid(&self) {
        let [total, carved, freed] = [&self.total, &self.carved, &self.freed].map(|count| count.load(Relaxed));
        assert!(self.granules() > 0 && self.cache() > 0 && freed <= carved && carved <= total);
        assert_eq!(self.count_bits(), freed, "bits set and objects freed differ in {self:?}");
    }
}

/// The places of a span's objects, computed once for many of them.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    first: *mut u8,
    object_bytes: usize,
    /// Objects that change places.
    moved: usize,
    order: usize,
}

impl Places {
    /// The place, in the order of addresses, of the object with an index; or the index of the object at a place.
    #[inline]
    fn swapped(&self, index: usize) -> usize {
        if index < self.moved { index ^ self.order } else { index }
    }

    #[inline]
    fn object(&self, index: usize) -> *mut u8 {
        self.first.wrapping_add(self.swapped(index) * self.object_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec::Vec;

    fn span_of(object_bytes: usize, is_shuffled: bool) -> (Box<Span>, Box<[u64; BITS_BYTES / 8]>) {
        let mut bits = Box::new([u64::MAX; BITS_BYTES / 8]);
        // SAFETY: a Span is valid when all zero.
        let span: Box<Span> = Box::new(unsafe { core::mem::zeroed() });
        span.describe((16 * GRANULE) as *mut u8, bits.as_mut_ptr(), 1);
        span.begin(1, object_bytes, 0, is_shuffled);
        (span, bits)
    }

    #[test]
    fn span_gives_each_object_once_and_again_after_free() {
        for object_bytes in [16, 48, 1024, 3584] {
            let (span, _bits) = span_of(object_bytes, true);
            let objects: Vec<_> = core::iter::from_fn(|| span.take(&span.places(), |_| ())).collect();
            assert_eq!(objects.len(), GRANULE / object_bytes);
            let mut sorted = objects.clone();
            sorted.sort();
            assert!(sorted.windows(2).all(|pair| pair[1] as usize - pair[0] as usize == object_bytes));
            assert!(sorted[0] >= span.start() && span.covers(sorted[objects.len() - 1].wrapping_add(object_bytes - 1)));
            for &object in objects.iter().rev() {
                span.put(object).unwrap();
                span.check_valid();
            }
            assert!(span.is_unused());
            let mut again: Vec<_> = core::iter::from_fn(|| span.take(&span.places(), |_| ())).collect();
            again.sort();
            assert_eq!(again, sorted);
        }
    }

    #[test]
    fn windows_come_in_random_order_and_their_objects_in_ascending_order() {
        let (span, _bits) = span_of(64, true);
        let mut firsts = std::collections::BTreeSet::new();
        for _ in 0..100 {
            span.begin(1, 64, 0, true);
            let objects: Vec<_> = core::iter::from_fn(|| span.take(&span.places(), |_| ())).collect();
            firsts.insert(objects[0]);
            for window in objects.chunks(WINDOW / 64) {
                assert!(window.is_sorted() && window[WINDOW / 64 - 1] as usize - window[0] as usize == WINDOW - 64);
            }
        }
        assert!(firsts.len() > 8, "the first object has {} places in 100 spans", firsts.len());
    }

    #[test]
    fn rows_of_free_objects_are_shown() {
        let (span, _bits) = span_of(1024, false);
        let objects: Vec<_> = (0..12).filter_map(|_| span.take(&span.places(), |_| ())).collect();
        let first = *objects.iter().min().expect("there are some");
        let place = |object: *mut u8| (object as usize - first as usize) / 1024;
        { objects }
            .into_iter()
            .filter(|&object| [1, 2, 5].contains(&place(object)))
            .for_each(|object| span.put(object).unwrap());
        let mut rows = Vec::new();
        span.for_each_free_row(|start, bytes| rows.push((place(start), bytes / 1024)));
        assert_eq!(rows, [(1, 2), (5, 1), (12, 52)]);
    }

    #[test]
    fn misuse_is_told() {
        let (span, _bits) = span_of(48, true);
        let object = span.take(&span.places(), |_| ()).unwrap();
        assert_eq!(span.put(object.wrapping_add(16)), Err(Misuse::NotAnObject));
        let other = (0..GRANULE / 48).map(|place| span.first().wrapping_add(place * 48)).find(|&other| other != object);
        assert_eq!(span.put(other.unwrap()), Err(Misuse::NotAnObject), "never carved");
        assert_eq!(span.put(object), Ok(()));
        assert_eq!(span.put(object), Err(Misuse::DoubleFree));
    }
}
