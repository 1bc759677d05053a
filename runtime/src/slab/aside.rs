//! Arrays that are laid aside: a slot has one for each general class, to which objects are given that are not free yet.
//!
//! It is like the array that a slot gives free objects to, and works by the same restartable operation; but its words lie in a panel of their own, of
//! which nobody takes anything. Full ones become [`Batch`]es of whoever exchanges them, and others of whoever takes them away from all slots: by a
//! kick, as in `drain`.
//!
//! Runs at the same time: any number of threads; one that takes arrays away.

use super::General;
use super::array::{Array, DRAINING};
use super::batch::Batch;
use super::class::{self, CLASSES};
use super::panel::{Handle, Head};
use super::panels::reserve_panel;
use crate::observe::Why;
use crate::percpu::Region;
use core::marker::PhantomData;
use machine::sync::AtomicPtr;
use machine::{kick, slot};

/// Arrays that are taken away by one kick at most.
const AT_ONCE: usize = 64;

/// A panel of such words.
#[derive(Clone, Copy, Debug)]
pub struct Aside(Region);

/// A word that says [`DRAINING`].
#[derive(Clone, Copy)]
struct Marked {
    slot: u32,
    class: usize,
    before: usize,
}

impl Aside {
    /// By the base of its panel; none if that is null.
    ///
    /// # Safety
    /// It is what [`base`](Self::base) said, or null.
    #[inline(always)]
    pub unsafe fn at(base: *mut u8) -> Option<Self> {
        // SAFETY: passed on.
        (!base.is_null()).then(|| Aside(unsafe { Region::at(base) }))
    }

    /// The base of its panel.
    pub fn base(self) -> *mut u8 {
        self.0.base()
    }

    fn handle(self, class: usize) -> Handle<'static> {
        Handle { panel: self.0, place: class, lives: PhantomData }
    }

    /// The slots and classes whose words may name arrays.
    fn places(self) -> impl Iterator<Item = (u32, Handle<'static>)> {
        let of_slot = move |slot| (1..CLASSES).map(move |class| (slot, self.handle(class)));
        self.handle(1).slots().flat_map(of_slot)
    }

    /// Whether anything is laid aside.
    pub fn is_used(self) -> bool {
        self.places().any(|(slot, cache)| Array::from_give_word(cache.give_word(slot)).is_some())
    }

    /// Objects that are laid aside, and their bytes; exact at rest.
    pub fn count(self) -> (u64, u64) {
        let len = |(slot, cache): (u32, Handle<'_>)| {
            let objects = Array::from_give_word(cache.give_word(slot)).map_or(0, |array| array.len(self.0));
            (objects as u64, (objects * class::size(cache.place)) as u64)
        };
        self.places().map(len).fold((0, 0), |(objects, bytes), (more, theirs)| (objects + more, bytes + theirs))
    }
}

impl<'a> General<'a> {
    /// A panel for arrays that are laid aside; none: no memory, or nobody could take them away again.
    pub fn make_aside(self) -> Option<Aside> {
        if slot::mode() != slot::Mode::ConcurrencyId || kick::register().is_err() {
            return None;
        }
        let panel = reserve_panel()?;
        // SAFETY: the panel is zeroed, and nobody else knows it; zeroes are a valid head.
        unsafe { &*panel.base().cast::<Head>() }.begin((&raw const *self.slab).cast_mut(), 0);
        Some(Aside(panel))
    }

    /// Gives back a panel that nobody has seen.
    pub fn unmake_aside(self, aside: Aside) {
        super::panels::release_panel(aside.0);
    }

    /// Lays an object aside in the slot's array for its class; false if that is full, or if the object is of no general class.
    ///
    /// # Safety
    /// The caller owns the object, and gives it up if the answer is true.
    #[inline(always)]
    pub unsafe fn lay_aside(self, aside: Aside, object: *mut u8) -> bool {
        // SAFETY: passed on; every slot has an area, and class 0's word names no array.
        unsafe {
            let index = self.slab.zone.map.class_word(self.page_map(), object as usize);
            slot::push(aside.0.base(), index, object)
        }
    }

    /// Puts another array in the place of a slot's, if the calling thread is in the slot and its array full, or if it has none: returns the full one. Error: it is
    /// not so, and the other one comes back.
    pub fn exchange_aside(self, aside: Aside, slot: u32, class: usize, new: Batch) -> Result<Option<Batch>, Batch> {
        let cache = aside.handle(class);
        let word = cache.give_word(slot);
        let old = Array::from_give_word(word);
        let is_due = word != DRAINING && old.is_none_or(Array::is_full);
        if is_due && cache.replace(slot, false, word, new.array().moved(self.region, aside.0).give_word()) {
            Ok(old.map(|array| Batch::of(array.moved(aside.0, self.region))))
        } else {
            Err(new)
        }
    }

    /// Takes all arrays away from all slots; `keep` gets each with the slot that it was of. One thread at a time. False: the kernel refused, and some are where they
    /// were.
    pub fn take_away_aside(self, aside: Aside, mut keep: impl FnMut(u32, Batch)) -> bool {
        let mut places = aside.places();
        loop {
            let mut marked = [Marked { slot: 0, class: 0, before: 0 }; AT_ONCE];
            let mut count = 0;
            // One kick serves many.
            while count < AT_ONCE
                && let Some((slot, cache)) = places.next()
            {
                let word = cache.give_word(slot);
                if word == DRAINING {
                    // It was being taken away by a thread that vanished in a fork.
                    // SAFETY: nobody replaces a draining word, and we are the only one who takes.
                    unsafe { slot::compare_exchange(aside.0.base(), slot, cache.index(false), DRAINING, 0) };
                }
                if Array::from_give_word(word).is_some() {
                    // SAFETY: the protocol of `drain`.
                    let before = unsafe { slot::exchange(aside.0.base(), slot, cache.index(false), DRAINING) };
                    marked[count] = Marked { slot, class: cache.place, before };
                    count += 1;
                }
            }
            if count == 0 {
                return true;
            }
            let is_restarted = kick::restart_all().is_ok();
            if is_restarted {
                self.slab.registry().rare.0.kicks.count(Why::Deferred);
            }
            for Marked { slot, class, before } in marked.into_iter().take(count) {
                let (index, next) = (aside.handle(class).index(false), if is_restarted { 0 } else { before });
                // SAFETY: the array is ours if the word is still draining, and goes back or becomes private.
                let kept = unsafe { slot::compare_exchange(aside.0.base(), slot, index, DRAINING, next) };
                if let Some(array) = Array::from_give_word(before)
                    && kept
                    && is_restarted
                {
                    keep(slot, Batch::of(array.moved(aside.0, self.region)));
                }
            }
            if !is_restarted {
                return false;
            }
        }
    }

    /// The same in a process with one thread, which is in the middle of none of the operations: in a fork child. What somebody was taking away is lost.
    pub fn collect_aside(self, aside: Aside, mut keep: impl FnMut(u32, Batch)) {
        for (slot, cache) in aside.places() {
            // SAFETY: nobody else is there, and the calling thread is here.
            let word = unsafe { slot::exchange(aside.0.base(), slot, cache.index(false), 0) };
            if let Some(array) = Array::from_give_word(word) {
                keep(slot, Batch::of(array.moved(aside.0, self.region)));
            }
        }
    }
}

/// Where the base of a panel is known, or is not yet.
pub type AsideWord = AtomicPtr<u8>;
