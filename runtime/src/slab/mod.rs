//! The slab: objects of a class, cut from spans, on their way through arrays.
//!
//! Taking and giving back an object is one restartable operation on the calling thread's slot ([`Slab::take`],
//! [`Slab::put`]). A slot has two arrays for each class, one to take from and one to give to, so that a free does not feed the
//! very next allocation through memory; they change places when one is empty and the other filled. Beyond them lies the
//! slot's shard of the depot, then the other slots' shards, then the spans.
//!
//! On slow paths an array is first made private, by one committing store that takes it out of a slot's word, and then worked
//! on at leisure; whatever goes wrong afterwards (the thread migrated, another one was faster) ends with the array in a
//! depot. So no path has to undo anything.
//!
//! Runs at the same time: any number of threads; see `array`, `shard` and `page::span` for what guards what.

mod array;
mod check;
pub mod class;
mod count;
mod drain;
mod limits;
pub mod misuse;
mod put;
mod shard;
mod spare;
mod tally;
mod tests;

pub use shard::SHARD_RANK;
pub use tally::Tally;

use crate::observe::{Events, LockReport};
use crate::page::{GRANULE, PAGE, PageList, Span, Zone};
use crate::percpu::Region;
use array::{Array, DRAINING};
use limits::batch;
use machine::slot::{self, ARRAY, Stored};
use machine::sync::{AtomicBool, AtomicPtr, Lock, Ordering};
use shard::Held;
use spare::Spare;

/// Rank of the lock of those who take arrays away from other CPUs: they go on to lock shards.
const DRAIN_RANK: u8 = 0;
/// Arrays that another slot may keep before we take one from it while our own spans can still give.
const FEW: u32 = 4;
/// The slot whose shards serve threads that have no slot.
const NO_SLOT: u32 = slot::MAX as u32 - 1;

/// The general caches: state that lies at the very start of a runtime's region.
#[derive(Debug)]
#[repr(C)]
pub struct Slab {
    /// Where a word that names no array points to.
    zero: u64,
    /// Twice the class for each step of sizes; zero, which is no class, until the slab has begun.
    class_words: [u8; class::STEPS],
    /// Where pages come from.
    pub zone: Zone,
    /// What waiting for locks cost.
    pub locks: LockReport,
    /// What the program holds.
    tally: AtomicPtr<Tally>,
    /// Arrays that exist.
    pub arrays: Events,
    /// Empty arrays that no shard keeps.
    spare: Spare,
    /// Held by whoever takes arrays away from other CPUs.
    drain_lock: Lock<DRAIN_RANK>,
    /// Objects that signal handlers could not give back, linked by their first words.
    deferred: AtomicPtr<u8>,
    /// Whether the shards of [`NO_SLOT`] were ever used.
    serves_slotless: AtomicBool,
}

/// The slab at the start of a region, with the region's address.
#[derive(Clone, Copy)]
pub struct General<'a> {
    region: Region,
    slab: &'a Slab,
}

impl Slab {
    /// Offset of the table from steps of sizes to take words, for the machine's entry points.
    pub const CLASS_TABLE: usize = core::mem::offset_of!(Slab, class_words);
    /// Offset of the page map's mask.
    pub const MAP_MASK: usize = core::mem::offset_of!(Slab, zone) + Zone::MAP_MASK;

    /// Begins to serve. The zone has begun; nobody else runs.
    pub fn begin(&mut self) {
        for (step, word) in self.class_words.iter_mut().enumerate() {
            *word = take_index(class::class_for(step * class::STEP)) as u8;
        }
    }

    /// Begins to count, in the zone's metadata. False: there is none.
    pub fn begin_tally(&self) -> bool {
        let place = self.zone.metadata.cut(size_of::<Tally>(), align_of::<Tally>()).map(|place| place.cast::<Tally>());
        if let Some(place) = place {
            // SAFETY: the place is ours, for ever.
            unsafe { place.write(Tally::new()) };
            // Relaxed: published with the region.
            self.tally.store(place, Ordering::Relaxed);
        }
        place.is_some()
    }

    /// What the program holds.
    #[inline]
    pub fn tally(&self) -> &Tally {
        // SAFETY: written before the slab was published.
        unsafe { &*self.tally.load(Ordering::Relaxed) }
    }
}

/// The index of a class's take word in a slot's area.
#[inline(always)]
fn take_index(class: usize) -> usize {
    class * 2
}

/// The index of a class's give word.
#[inline(always)]
fn give_index(class: usize) -> usize {
    class * 2 + 1
}

impl<'a> General<'a> {
    /// The slab that lies at the start of `region`.
    ///
    /// # Safety
    /// The region is a runtime's, or the zeroed stand-in, of which only [`Self::take`] and [`Self::put`] may be used.
    #[inline(always)]
    pub unsafe fn of(region: Region) -> Self {
        // SAFETY: the region begins with a slab; zeroes are a valid one.
        let slab = unsafe { &*region.base().cast::<Slab>() };
        General { region, slab }
    }

    /// The slab's shared state.
    #[inline]
    pub fn state(self) -> &'a Slab {
        self.slab
    }

    fn page_map(self) -> *mut u8 {
        self.region.at_offset(crate::percpu::AREAS_END)
    }

    // ---- the fast path ----

    /// An object of at least `bytes`, at most [`class::LARGEST`]; null if the slot's array is empty.
    #[inline(always)]
    pub fn take(self, bytes: usize) -> *mut u8 {
        debug_assert!(bytes <= class::LARGEST);
        // SAFETY: every slot has an area, and even words are take words.
        unsafe { slot::pop(self.region.base(), self.take_word(bytes)) }
    }

    #[inline(always)]
    fn take_word(self, bytes: usize) -> usize {
        // SAFETY: the table has an entry for each step up to LARGEST.
        unsafe { *self.slab.class_words.get_unchecked(bytes.div_ceil(class::STEP)) as usize }
    }

    /// Gives an object back to the slot's array; false if it is full, or if the object is none of ours.
    ///
    /// # Safety
    /// The caller owns the object, and gives it up if the answer is true.
    #[inline(always)]
    pub unsafe fn put(self, object: *mut u8) -> bool {
        // SAFETY: every slot has an area; the word behind a take word is its give word; class 0's is always full.
        unsafe {
            let index = self.slab.zone.map.class_word(self.page_map(), object as usize);
            slot::push(self.region.base(), index, object)
        }
    }

    /// The class of the objects where an address lies; 0 if there are none.
    #[inline]
    pub fn class_at(self, address: *mut u8) -> usize {
        // SAFETY: the map is the region's.
        unsafe { self.slab.zone.map.class_word(self.page_map(), address as usize) / 2 }
    }

    // ---- taking, slow ----

    /// An object from the slot's give array, if that changes places with the empty take array: of a hot class, where both are as
    /// large as they get, and at least half of one is to be had. Programs that swing by an array live on this path, so it
    /// counts no visit and takes no lock.
    #[inline]
    pub fn take_changed(self, bytes: usize) -> Option<*mut u8> {
        let slot = slot::current_if_given()?;
        let class = self.take_word(bytes) / 2;
        let (take, give) = (self.word(slot, take_index(class)), self.word(slot, give_index(class)));
        let (taken, given) = (Array::from_take_word(take)?, Array::from_give_word(give)?);
        let most = class::array_capacity(class);
        let worth_it = shard::heat(self.region, slot, class) == shard::HOTTEST
            && taken.capacity(self.region) == most
            && given.capacity(self.region) == most
            && given.room() <= most / 2;
        if !worth_it {
            return None;
        }
        // SAFETY: every slot has an area, and both words name arrays.
        let object = unsafe { slot::change_places(self.region.base(), take_index(class), take, give) };
        (!object.is_null()).then_some(object)
    }

    /// An object of a class, by whatever way is left after [`Self::take_changed`].
    #[cold]
    pub fn take_slow(self, class: usize) -> Option<*mut u8> {
        self.put_deferred();
        let slot = slot::current();
        let at = slot.unwrap_or_else(|| {
            self.slab.serves_slotless.store(true, Ordering::Relaxed);
            NO_SLOT
        });
        let mut array = slot.and_then(|slot| self.take_given(slot, class)).or_else(|| self.find_array(at, class))?;
        let object = array.pop(self.region);
        match slot {
            Some(slot) => self.install_to_take(slot, class, array),
            None => self.stow(at, class, array),
        }
        object
    }

    /// The slot's give array, if it is at least half as full as a refill would be: it becomes the one to take from.
    fn take_given(self, slot: u32, class: usize) -> Option<Array> {
        let heat = shard::count_visit(self.region, slot, class, true);
        let word = self.word(slot, give_index(class));
        let array = Array::from_give_word(word)?;
        let worth_it = array.len(self.region) >= batch(class, heat).div_ceil(2);
        (worth_it && self.replace(slot, give_index(class), word, 0)).then_some(array)
    }

    /// Makes a private array the slot's to take from, if the one there is empty; its empty predecessor is kept.
    fn install_to_take(self, slot: u32, class: usize, array: Array) {
        let word = self.word(slot, take_index(class));
        let old = Array::from_take_word(word);
        let replaceable = old.is_none_or(|old| old.is_empty(self.region)) && word != DRAINING;
        if !replaceable || !self.replace(slot, take_index(class), word, array.take_word()) {
            return self.stow(slot, class, array);
        }
        let Some(old) = old else { return };
        if !old.is_empty(self.region) {
            // It went away after we had looked, and came back with objects, under the same word.
            return self.stow(slot, class, old);
        }
        let old = self.sized(old, slot, class);
        if !self.replace(slot, give_index(class), 0, old.give_word()) {
            self.stow(slot, class, old);
        }
    }

    /// A private array with objects, from the nearest place that has one.
    fn find_array(self, slot: u32, class: usize) -> Option<Array> {
        self.pop_own(slot, class)
            .or_else(|| self.steal_array(slot, class, FEW))
            .or_else(|| self.fill_from_spans(slot, class, Source::Freed))
            .or_else(|| self.steal_array(slot, class, 0))
            .or_else(|| self.fill_from_spans(slot, class, Source::Spans))
            .or_else(|| self.steal_span(slot, class).and_then(|()| self.fill_from_spans(slot, class, Source::Spans)))
            .or_else(|| self.fill_before_growth(slot, class))
            .or_else(|| self.fill_from_spans(slot, class, Source::NewSpan))
    }

    /// If a new span would make the heap grow: brings what is cached back first, which may empty spans of other classes.
    fn fill_before_growth(self, slot: u32, class: usize) -> Option<Array> {
        let pages = class::span_granules(class) as usize * GRANULE / PAGE;
        if !self.drain_before_growth(pages, GRANULE / PAGE) {
            return None;
        }
        self.fill_from_spans(slot, class, Source::Spans)
    }

    fn pop_own(self, slot: u32, class: usize) -> Option<Array> {
        let array = self.lock(slot, class).pop_full(self.region)?;
        self.count(class, array.len(self.region) as isize);
        Some(array)
    }

    /// Takes a full array from a slot that keeps more than `spared`, and gives it an empty one for it.
    fn steal_array(self, slot: u32, class: usize, spared: u32) -> Option<Array> {
        let array = self.others(slot).find_map(|other| {
            // SAFETY: a shard of the region. A stale count only makes us pass by or look in vain.
            let count = unsafe { (&raw const (*shard::of(self.region, other, class)).full_count).read_volatile() };
            if count <= spared {
                return None;
            }
            Held::try_lock(self.region, other, class)?.pop_full(self.region).map(|array| (other, array))
        });
        let (other, array) = array?;
        self.count(class, array.len(self.region) as isize);
        let empty = self.lock(slot, class).empty.pop(self.region);
        if let Some(empty) = empty {
            self.keep_empty(&mut self.lock(other, class), empty);
        }
        Some(array)
    }

    /// Moves a span that has objects to give from another slot's shard to ours.
    fn steal_span(self, slot: u32, class: usize) -> Option<()> {
        let mut own = self.lock(slot, class);
        let span = self.others(own.slot).find_map(|other| {
            // SAFETY: a shard of the region; a hint, as above.
            let hint = unsafe { (&raw const (*shard::of(self.region, other, class)).spans).read_volatile() };
            if hint.is_null() {
                return None;
            }
            let mut theirs = Held::try_lock(self.region, other, class)?;
            let span = theirs.spans;
            if span.is_null() {
                return None;
            }
            // SAFETY: the span is on the list of the shard that we hold. Whoever wants it from now on locks our shard.
            unsafe {
                theirs.unlink_span(span);
                (*span).set_owner(own.slot);
            }
            Some(span)
        })?;
        // SAFETY: we hold the shard that owns the span.
        unsafe { own.link_span(span) };
        Some(())
    }

    /// An array filled from the spans of the slot's shard.
    fn fill_from_spans(self, slot: u32, class: usize, source: Source) -> Option<Array> {
        let mut own = self.lock(slot, class);
        if own.spans.is_null() && source == Source::NewSpan {
            let span = self.new_span(own.slot, class)?;
            // SAFETY: the span is fresh and ours.
            unsafe { own.link_span(span) };
        }
        // SAFETY: spans on the list belong to the shard that we hold.
        let head = unsafe { own.spans.as_ref() }?;
        if source == Source::Freed && !head.has_freed() {
            return None;
        }
        let array = self.find_empty(&mut own)?;
        let mut array = self.sized(array, slot, class);
        while !array.is_full() && !own.spans.is_null() {
            // SAFETY: as above.
            let span = unsafe { &mut *own.spans };
            while !array.is_full()
                && (source != Source::Freed || span.has_freed())
                && let Some(object) = span.take()
            {
                array.push(self.region, object);
            }
            if span.available() == 0 {
                // SAFETY: as above.
                unsafe { own.unlink_span(span) };
            } else if source == Source::Freed {
                break;
            }
        }
        drop(own);
        array.reverse(self.region);
        self.count(class, array.len(self.region) as isize);
        Some(array)
    }

    fn new_span(self, slot: u32, class: usize) -> Option<*mut Span> {
        let granules = class::span_granules(class);
        let (zone, locks) = (&self.slab.zone, &self.slab.locks);
        let span = match granules {
            // SAFETY: the slot's page list.
            1 => unsafe { PageList::take(shard::page_list(self.region, slot), zone, locks) },
            _ => zone.allocate_span(locks, granules, true),
        }?;
        // SAFETY: the span is ours; its map entry is set before any object of it is given away.
        unsafe {
            (*span).begin(class as u8, class::size(class), slot);
            (*span).listed = false;
            zone.enter_class(span, take_index(class) as u8);
        }
        Some(span)
    }

    /// An empty private array: the shard's, or a spare one, or a new one.
    fn find_empty(self, shard: &mut Held) -> Option<Array> {
        let kept = shard.empty.pop(self.region).or_else(|| self.slab.spare.pop(self.region, &self.slab.locks));
        kept.or_else(|| {
            let memory = self.slab.zone.metadata.cut(ARRAY, ARRAY)?;
            self.slab.arrays.count();
            Some(Array::new(self.region, memory))
        })
    }

    /// Keeps an empty private array at the shard if that has none, else with the spare ones, where every class finds it.
    fn keep_empty(self, shard: &mut Held, array: Array) {
        if shard.empty.is_empty() || !self.slab.spare.push(self.region, &self.slab.locks, array) {
            shard.empty.push(self.region, array);
        }
    }

    /// An empty private array, sized for a class as hot as it is in a slot.
    fn sized(self, array: Array, slot: u32, class: usize) -> Array {
        array.sized(self.region, batch(class, shard::heat(self.region, slot, class)))
    }

    // ---- small helpers ----

    #[inline]
    fn count(self, class: usize, objects: isize) {
        self.slab.tally().count(class, objects);
    }

    fn lock(self, slot: u32, class: usize) -> Held {
        Held::lock(self.region, slot, class, &self.slab.locks)
    }

    fn word(self, slot: u32, index: usize) -> usize {
        // SAFETY: every slot has an area.
        unsafe { slot::load(self.region.base(), slot, index) }
    }

    /// Replaces a slot's word if the thread is still there and the word still so; then the old array is ours.
    fn replace(self, slot: u32, index: usize, old: usize, new: usize) -> bool {
        // SAFETY: every slot has an area; `new` names an array that is ours, or none.
        unsafe { slot::compare_store(self.region.base(), slot, index, old, new) == Stored::Done }
    }

    fn others(self, slot: u32) -> impl Iterator<Item = u32> {
        (0..slot::in_use()).filter(move |&other| other != slot)
    }
}

/// Where objects may come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Objects that were in use before: likely to be in memory already.
    Freed,
    /// Any objects of the shard's spans.
    Spans,
    /// Also those of a new span.
    NewSpan,
}
