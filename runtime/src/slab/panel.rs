//! Panels: where the words and shards of caches lie, 72 caches to a panel.
//!
//! ```text
//!   ┌ head: a zero, the slab, the panel's number, the caches' shapes ┐ one page
//!   ├ AREAS ─────────────────────────────────────────────────────────┤
//!   │ slot 0: words of the caches, shards of the caches              │ one page for each slot, as in `percpu`
//!   │ slot 1: …                                                      │
//! ```
//!
//! The runtime's own region begins as a panel does: it is the one of the general classes, which are caches like others. A [`Handle`] is a
//! cache as slow paths know it; everything that is asked about a cache is found from its panel and from its place there.

use super::account::Account;
use super::array::{Array, DRAINING};
use super::class::CLASSES;
use super::object_cache::ObjectCache;
use super::panels::{Panel, STRIDE};
use super::shape::Shape;
use super::shard::{self, Held};
use super::{General, Slab};
use crate::page::{PAGE, PageList};
use crate::percpu::Region;
use core::marker::PhantomData;
use machine::slot::{self, Stored};
use machine::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Site};

/// What every panel begins with.
#[derive(Debug)]
#[repr(C)]
pub struct Head {
    /// Where a word that names no array points to.
    zero: u64,
    slab: AtomicPtr<Slab>,
    number: AtomicU32,
    /// A bit for each slot that may have anything here, arrays or shards that are not zero. Who goes over all slots looks at those only: a page
    /// of an area that is read would be mapped, and its slot's first write to it would fault and interrupt all CPUs.
    used: [AtomicU64; slot::MAX / 64],
    /// By place; zero where there is no cache, as at place 0 always.
    shapes: [AtomicU64; CLASSES],
}

impl Head {
    /// Begins a panel that is zeroed. Nobody else knows it.
    pub(super) fn begin(&self, slab: *mut Slab, number: u32) {
        // Relaxed, as everywhere here: what the head says is published with the panel, or with the cache.
        self.slab.store(slab, Ordering::Relaxed);
        self.number.store(number, Ordering::Relaxed);
    }

    /// Says what shapes the caches have from place 1 on. Nobody else runs.
    pub(super) fn begin_shapes(&mut self, shapes: impl Iterator<Item = Shape>) {
        for (word, shape) in self.shapes[1..].iter_mut().zip(shapes) {
            *word.get_mut() = shape.word();
        }
    }

    /// Says that a slot is about to have something here.
    #[inline]
    fn mark(&self, slot: u32) {
        let (word, bit) = (&self.used[slot as usize / 64], 1 << (slot % 64));
        // Relaxed: who goes over all slots and misses one that is marked meanwhile has come before that has anything.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// The slots that may have anything here.
    fn slots(&self) -> impl Iterator<Item = u32> {
        let bits = |mut word: u64| {
            core::iter::from_fn(move || {
                let bit = word.trailing_zeros();
                word &= word.wrapping_sub(1);
                (bit < u64::BITS).then_some(bit)
            })
        };
        let words = self.used.iter().enumerate();
        words.flat_map(move |(at, word)| bits(word.load(Ordering::Relaxed)).map(move |bit| at as u32 * 64 + bit))
    }

    /// Says what shape the cache at a place has.
    fn set_shape(&self, place: usize, shape: Shape) {
        // Release pairs with the acquire in `exists`: who goes over all caches finds this one as it was made.
        self.shapes[place].store(shape.word(), Ordering::Release);
    }
}

/// A cache, as slow paths know it.
#[derive(Clone, Copy)]
pub struct Handle<'a> {
    /// The panel.
    pub(super) panel: Region,
    /// Where in the panel: from 1 on.
    pub(super) place: usize,
    pub(super) lives: PhantomData<&'a Slab>,
}

/// So many slots are looked at for one that has what another one needs, before the heap would have to grow.
const NEAR: usize = 64;

impl<'a> Handle<'a> {
    /// The general caches, and what concerns all.
    pub(super) fn general(self) -> General<'a> {
        General { region: self.slab().region(), slab: self.slab() }
    }

    pub(super) fn slab(self) -> &'a Slab {
        // SAFETY: a panel's head says from its beginning whose it is, and that lasts as long as the panel.
        unsafe { &*self.head().slab.load(Ordering::Relaxed) }
    }

    fn head(self) -> &'a Head {
        // SAFETY: every panel begins with its head, and is never unmapped.
        unsafe { &*self.panel.base().cast::<Head>() }
    }

    /// The slots that may have anything of the cache, that of threads without one among them.
    pub(super) fn slots(self) -> impl Iterator<Item = u32> + use<'a> {
        self.head().slots()
    }

    /// The same but one, from its next neighbour on.
    fn others(self, slot: u32) -> impl Iterator<Item = u32> + use<'a> {
        let behind = self.slots().skip_while(move |&other| other <= slot);
        behind.chain(self.slots().take_while(move |&other| other < slot))
    }

    /// The nearest of them: all, but in a process with very many slots.
    pub(super) fn near(self, slot: u32) -> impl Iterator<Item = u32> + use<'a> {
        self.others(slot).take(NEAR)
    }

    /// The rest of them.
    pub(super) fn distant(self, slot: u32) -> impl Iterator<Item = u32> + use<'a> {
        self.others(slot).skip(NEAR)
    }

    /// Whether a slot may have anything of the cache.
    pub(super) fn is_used_in(self, slot: u32) -> bool {
        self.head().used[slot as usize / 64].load(Ordering::Relaxed) >> (slot % 64) & 1 == 1
    }

    /// Says that a slot is about to have something of the cache.
    #[inline]
    pub(super) fn mark_used_in(self, slot: u32) {
        self.head().mark(slot);
    }

    /// The cache's number in the process, from 1 on: those of general classes are the classes'.
    pub(super) fn number(self) -> u32 {
        self.head().number.load(Ordering::Relaxed) * STRIDE + self.place as u32
    }

    /// Its shape, at some moment.
    #[inline]
    pub(super) fn shape(self) -> Shape {
        Shape::from_word(self.head().shapes[self.place].load(Ordering::Relaxed))
    }

    /// Bytes of an object.
    pub fn object_bytes(self) -> usize {
        self.shape().object_bytes()
    }

    /// Begins, or changes, with a shape.
    pub(super) fn set_shape(self, shape: Shape) {
        self.head().set_shape(self.place, shape);
    }

    /// Whether there is a cache at the place.
    pub(super) fn exists(self) -> bool {
        Shape::from_word(self.head().shapes[self.place].load(Ordering::Acquire)) != Shape::NONE
    }

    fn is_general(self) -> bool {
        self.head().number.load(Ordering::Relaxed) == 0
    }

    /// What free finds in the page map for the cache's objects: zero for those that are no general class's.
    pub(super) fn class_word(self) -> u8 {
        if self.is_general() { take_index(self.place) as u8 } else { 0 }
    }

    /// What else is known of it, if somebody created it.
    pub(super) fn object_cache(self) -> Option<&'static ObjectCache> {
        if self.is_general() {
            return None;
        }
        // SAFETY: the panel is one of object caches, which are never unmapped.
        unsafe { (&(*self.panel.base().cast::<Panel>()).caches)[self.place].load(Ordering::Relaxed).as_ref() }
    }

    /// Panel and index of the take word in one, for who looks them up often.
    pub fn word_of_both(self) -> usize {
        self.panel.base() as usize | self.index(true)
    }

    /// The cache that [`Self::word_of_both`] said.
    ///
    /// # Safety
    /// It did, and the cache exists still.
    pub unsafe fn from_word_of_both(word: usize) -> Self {
        // SAFETY: panels begin at pages, and an index is less.
        let panel = unsafe { Region::at((word & !(PAGE - 1)) as *mut u8) };
        Handle { panel, place: (word & (PAGE - 1)) / 2, lives: PhantomData }
    }

    // ---- the words of a slot ----

    /// A slot's word to take from.
    pub(super) fn take_word(self, slot: u32) -> usize {
        self.word(slot, true)
    }

    /// A slot's word to give to.
    pub(super) fn give_word(self, slot: u32) -> usize {
        self.word(slot, false)
    }

    pub(super) fn word(self, slot: u32, takes: bool) -> usize {
        // SAFETY: every slot has an area.
        unsafe { slot::load(self.panel.base(), slot, self.index(takes)) }
    }

    /// Replaces a slot's word if the thread is still there and the word still so; then the old array is ours.
    pub(super) fn replace(self, slot: u32, takes: bool, old: usize, new: usize) -> bool {
        self.mark_used_in(slot);
        // SAFETY: every slot has an area; `new` names an array that is ours, or none.
        unsafe { slot::compare_store(self.panel.base(), slot, self.index(takes), old, new) == Stored::Done }
    }

    /// The index of a word in a slot's area.
    pub(super) fn index(self, takes: bool) -> usize {
        if takes { take_index(self.place) } else { give_index(self.place) }
    }

    /// The array that a word names, if it names one.
    pub(super) fn array_of(word: usize, takes: bool) -> Option<Array> {
        if takes { Array::from_take_word(word) } else { Array::from_give_word(word) }
    }

    /// Whether somebody is taking the array of a word away.
    pub(super) fn is_drained(word: usize) -> bool {
        word == DRAINING
    }

    // ---- its parts in the slots ----

    /// Locks a slot's shard; see [`Held::lock`].
    pub(super) fn lock(self, slot: u32, site: Site) -> Held {
        Held::lock(self, slot, site)
    }

    /// A slot's shard, which others may change.
    pub(super) fn shard(self, slot: u32) -> *mut shard::Shard {
        shard::of(self.panel, slot, self.place)
    }

    /// How hot the cache is in a slot: cold, while the process shrinks.
    pub(super) fn heat(self, slot: u32) -> u32 {
        if self.slab().registry().rare.0.reclaim.is_on() { 0 } else { shard::heat(self.shard(slot)) }
    }

    /// An empty private array, sized for the cache as hot as it is in a slot.
    pub(super) fn sized(self, array: Array, slot: u32) -> Array {
        array.sized(self.panel, self.capacity(slot))
    }

    /// A slot's page list, which all caches share.
    pub(super) fn page_list(self, slot: u32) -> *mut PageList {
        shard::page_list(self.slab().region(), slot)
    }

    /// Counts objects that left the depot or a span, or came back.
    pub(super) fn count(self, objects: isize) {
        self.count_only(objects);
        if let Some(account) = self.account() {
            account.charge_anyway(self.shape().object_bytes() as isize * objects);
        }
    }

    /// Counts objects that left, as many of them as the account of the cache has room for; returns how many those are.
    pub(super) fn count_within_limit(self, objects: usize) -> usize {
        let most = self.account().map_or(objects, |account| {
            let bytes = self.shape().object_bytes();
            // By halves: what is left of a limit is left to the next one.
            let tries = core::iter::successors(Some(objects), |&tried| (tried > 1).then_some(tried / 2));
            let charged = tries.filter(|&tried| tried > 0).find(|&tried| account.charge(bytes * tried));
            account.note_peaks();
            charged.unwrap_or(0)
        });
        self.count_only(most as isize);
        most
    }

    /// Who is charged for the cache's objects.
    pub fn account(self) -> Option<&'static Account> {
        self.object_cache()?.account()
    }

    fn count_only(self, objects: isize) {
        let (tally, bytes) = (&self.slab().registry().tally, self.shape().object_bytes() as isize * objects);
        match self.object_cache() {
            None => tally.count(self.place, objects, bytes),
            Some(cache) => {
                cache.count(objects);
                tally.count_bytes(bytes);
            }
        }
    }

    /// Objects outside of their spans and of depots: exact at rest.
    pub(super) fn counted(self) -> u64 {
        match self.object_cache() {
            None => self.slab().registry().tally.objects(self.place),
            Some(cache) => cache.counted(),
        }
    }
}

/// The index of a take word in a slot's area.
#[inline(always)]
pub(super) fn take_index(place: usize) -> usize {
    place * 2
}

/// The index of a give word.
#[inline(always)]
pub(super) fn give_index(place: usize) -> usize {
    place * 2 + 1
}
