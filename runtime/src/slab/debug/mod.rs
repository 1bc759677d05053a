//! Caches that watch their users: red zones, poison, owners, quarantine.
//!
//! ```text
//!   │ record: mark, state, bytes, owners │ red zone │ object as asked for │ red zone │
//!   └ what the span gives                           └ what the program gets
//! ```
//!
//! A rule of the configuration turns this on for a cache, when that is created; for a general class, when the program starts: a cache
//! of this kind then takes the class's place. Such a cache uses no arrays, so its users' fast paths fail, and each of their operations comes
//! here; caches that nobody watches pay nothing for that. An object that is not in use is always as [`Debug::retire`] leaves it,
//! so a look at it can tell whether somebody wrote to it; so can a look at one in use, of what lies around it.
//!
//! Runs at the same time: any threads; a record belongs to whoever made it busy, and the quarantine has a lock. In a signal handler as other
//! slow paths, but that unwinding the stack is up to the C library.

mod layout;
mod quarantine;
mod record;
mod report;

pub use layout::Options;

use super::General;
use super::class::{self, CLASSES};
use super::misuse::{self, Line};
use super::object_cache::{ObjectCache, Wanted};
use super::panel::Handle;
use super::region::general;
use super::sharing;
use crate::page::{PAGE, Span};
use crate::percpu;
use core::cell::UnsafeCell;
use core::fmt::Write;
use core::ptr::null_mut;
use layout::{FREED, Layout, UNSET, ZONE};
use machine::{code, here, process, slot};
use quarantine::Quarantine;
use record::{Record, State};
use report::{Found, Moment};

/// What a cache needs for it, beside itself. All-zero memory is one that watches nothing.
#[derive(Debug)]
pub struct Debug {
    /// Does not change while anybody knows the cache.
    layout: UnsafeCell<Layout>,
    quarantine: Quarantine,
}

// SAFETY: see the fields.
unsafe impl Sync for Debug {}

impl Debug {
    fn layout(&self) -> Layout {
        // SAFETY: it does not change while anybody knows the cache.
        unsafe { *self.layout.get() }
    }

    /// Whether it watches anything.
    pub fn is_on(&self) -> bool {
        self.layout().options != Options::NONE
    }

    /// Bytes before an object.
    pub fn lead(&self) -> usize {
        self.layout().lead
    }

    /// Objects in quarantine, at rest.
    pub fn quarantined(&self) -> usize {
        self.quarantine.len()
    }

    /// Makes a free object of fresh memory.
    ///
    /// # Safety
    /// `whole` is ours, and as large as the layout says.
    pub unsafe fn begin(&self, whole: *mut u8) {
        let layout = self.layout();
        // SAFETY: passed on.
        unsafe {
            Record::begin(whole, layout.options);
            let record = Record::of(whole);
            record.set_bytes(layout.bytes);
            layout.fill_before(whole);
            layout.fill_from(whole, 0, layout.unused_byte());
            record.settle(State::Free);
        }
    }

    /// The reverse: what finds the memory again finds no object there.
    ///
    /// # Safety
    /// As above.
    pub unsafe fn end(&self, whole: *mut u8) {
        // SAFETY: passed on.
        unsafe { Record::end(whole) };
    }

    /// Makes an object, which is free, one of `bytes` bytes in use.
    ///
    /// # Safety
    /// It is ours.
    unsafe fn employ(&self, cache: &ObjectCache, whole: *mut u8, bytes: usize, from: usize) -> *mut u8 {
        let layout = self.layout();
        // SAFETY: passed on.
        unsafe {
            self.check_unused(cache, whole, Moment::BeforeUse);
            let record = Record::of(whole);
            record.become_busy(State::Free);
            record.set_bytes(bytes);
            if layout.options.has(Options::POISON) {
                layout.fill_from(whole, 0, UNSET);
            }
            if layout.options.has(Options::REDZONE) {
                layout.fill_from(whole, bytes, ZONE);
            }
            record.sign(layout.options, State::InUse, from);
        }
        layout.object(whole)
    }

    /// Makes an object, which was in use, one that is free. Ends the program if it cannot be.
    ///
    /// # Safety
    /// It begins an object of the cache.
    unsafe fn retire(&self, cache: &ObjectCache, whole: *mut u8, from: usize) {
        let layout = self.layout();
        // SAFETY: passed on.
        unsafe {
            let die = |found, moment| report::die(cache, layout, whole, found, moment);
            let Some(record) = layout.record_of(whole) else { die(Found::Record, Moment::Freed(from)) };
            if !record.become_busy(State::InUse) {
                die(Found::Twice, Moment::Freed(from));
            }
            if let Some(found) = layout.damage_around(whole, record.bytes()) {
                die(found, Moment::Freed(from));
            }
            if layout.options.has(Options::POISON) {
                layout.fill_from(whole, 0, FREED);
            }
            record.sign(layout.options, State::Free, from);
        }
    }

    /// Ends the program if somebody wrote to an object that is free.
    ///
    /// # Safety
    /// It is one, and ours.
    unsafe fn check_unused(&self, cache: &ObjectCache, whole: *mut u8, moment: Moment) {
        // SAFETY: passed on.
        if let Some(found) = unsafe { self.damage(whole) } {
            report::die(cache, self.layout(), whole, found, moment);
        }
    }

    /// What is wrong with an object, in use or free.
    ///
    /// # Safety
    /// It is the cache's; if others may use it, what is found may be what they are about to do.
    unsafe fn damage(&self, whole: *mut u8) -> Option<Found> {
        let layout = self.layout();
        // SAFETY: passed on.
        unsafe {
            let Some(record) = layout.record_of(whole) else { return Some(Found::Record) };
            match record.state() {
                State::Free if layout.options.has(Options::POISON) => layout.damage_within(whole),
                State::Free | State::InUse => layout.damage_around(whole, record.bytes()),
                State::Busy => None,
            }
        }
    }
}

impl ObjectCache {
    /// Begins to watch, as a rule says; nobody else knows the cache. Returns the layout's bytes of an object; none: no memory.
    pub(super) fn begin_debug(&self, options: Options, bytes: usize, alignment: usize) -> Option<usize> {
        let metadata = &general().state().zone.metadata;
        // A cache that is destroyed leaves it for the next one at its place.
        let debug = self.debug_place().or_else(|| {
            let made = metadata.cut(size_of::<Debug>(), align_of::<Debug>())?.cast::<Debug>();
            self.set_debug_place(made);
            self.debug_place()
        })?;
        let layout = Layout::of(options, bytes, alignment);
        // SAFETY: nobody else knows the cache.
        unsafe { *debug.layout.get() = layout };
        if options.has(Options::TRACK) {
            code::prepare();
        }
        if options.has(Options::REDZONE) || options.has(Options::POISON) {
            check_at_exit();
        }
        Some(layout.whole)
    }

    /// Ceases to watch; nobody knows the cache any more.
    pub(super) fn end_debug(&self) {
        if let Some(debug) = self.debug_place() {
            // SAFETY: as above.
            unsafe { *debug.layout.get() = Layout::NONE };
        }
    }

    /// An object of `bytes` bytes, from a cache that watches.
    pub(super) fn take_watched(&self, debug: &Debug, bytes: usize, from: usize) -> Option<*mut u8> {
        let cache = self.handle();
        let whole = (cache.take_single())
            .or_else(|| general().flush_and_retry(bytes, || cache.take_single()))
            .or_else(|| self.release_quarantine(debug, 0).then(|| cache.take_single())?)
            .or_else(|| cache.take_reserved(&self.reserve))?;
        // SAFETY: the object is ours.
        Some(unsafe { debug.employ(self, whole, bytes, from) })
    }

    /// Takes an object back into a cache that watches; ends the program if there is anything wrong with it.
    pub(super) fn put_watched(&self, debug: &Debug, object: *mut u8, from: usize) {
        let whole = self.watched_at(debug, object, from);
        // SAFETY: an object begins there.
        unsafe { debug.retire(self, whole, from) };
        if debug.layout().options.has(Options::QUARANTINE) && debug.quarantine.push(whole) {
            // What is there is free.
            self.handle().count(-1);
            self.release_quarantine(debug, quarantine::MOST_BYTES);
        } else {
            self.handle().put_one(whole);
        }
    }

    /// Bytes that were asked for when an object in use was allocated; ends the program if it is none.
    pub(super) fn watched_bytes(&self, debug: &Debug, object: *mut u8, from: usize) -> usize {
        let whole = self.watched_at(debug, object, from);
        // SAFETY: an object begins there.
        unsafe {
            match debug.layout().record_of(whole) {
                None => report::die(self, debug.layout(), whole, Found::Record, Moment::Used(from)),
                Some(record) if record.state() == State::Free => {
                    report::die(self, debug.layout(), whole, Found::AfterFree, Moment::Used(from))
                }
                Some(record) => record.bytes(),
            }
        }
    }

    /// Where all of an object lies that the program has; ends the program if none of the cache's begins there.
    fn watched_at(&self, debug: &Debug, object: *mut u8, from: usize) -> *mut u8 {
        let span = self.span_of(object);
        let whole = span.and_then(|span| span.object_at(object));
        match whole {
            Some(whole) if debug.layout().object(whole) == object => whole,
            Some(whole) => report::die(self, debug.layout(), whole, Found::Interior(object), Moment::Used(from)),
            None => report::die_of_stranger(self, object, from),
        }
    }

    fn span_of(&self, object: *mut u8) -> Option<&Span> {
        let span = general().state().zone.span_of(object)?;
        // SAFETY: descriptions of spans are never freed; a span does not change its cache while an object of it lives.
        let span = unsafe { &*span };
        (span.cache == self.handle().number()).then_some(span)
    }

    /// Gives what was longest in quarantine back, until at most so many bytes are in there. Whether there was any.
    pub(super) fn release_quarantine(&self, debug: &Debug, most_bytes: usize) -> bool {
        let mut any = false;
        while let Some(whole) = debug.quarantine.pop_beyond(most_bytes, debug.layout().whole) {
            any = true;
            // SAFETY: it is free, and ours.
            unsafe { debug.check_unused(self, whole, Moment::LeavingQuarantine) };
            self.handle().count(1);
            self.handle().put_one(whole);
        }
        any
    }

    /// Ends the program if any object that there is shows damage.
    fn check_all(&self, debug: &Debug) {
        let number = self.handle().number();
        general().state().zone.for_each_span(|span| {
            // Threads may still run, and objects change: so what is found is looked at twice. An object without a record may be one that
            // somebody is making, or that somebody was making who vanished in a fork.
            // SAFETY: descriptions of spans are never freed.
            unsafe {
                let span = &*span;
                for whole in span.carved().take_while(|_| span.cache == number) {
                    let found = debug.damage(whole).filter(|&found| found != Found::Record);
                    if let Some(found) = found.filter(|_| debug.damage(whole) == found && span.cache == number) {
                        report::die(self, debug.layout(), whole, found, Moment::AtExit);
                    }
                }
            }
        });
    }
}

impl Handle<'_> {
    /// Gives an object back that a general free was told of.
    ///
    /// # Safety
    /// As for [`Self::put_slow`].
    pub unsafe fn put_other(self, object: *mut u8, from: usize) {
        match self.watching() {
            Some((cache, debug)) => cache.put_watched(debug, object, from),
            // SAFETY: passed on.
            None => unsafe { self.put_again(object) },
        }
    }

    /// Bytes that the owner of an object may use.
    pub fn usable_bytes(self, object: *mut u8) -> usize {
        self.watching().map_or_else(|| self.object_bytes(), |(cache, debug)| cache.watched_bytes(debug, object, 0))
    }

    /// Whether it watches its users.
    pub fn is_watched(self) -> bool {
        self.watching().is_some()
    }

    fn watching(self) -> Option<(&'static ObjectCache, &'static Debug)> {
        let cache = self.object_cache()?;
        Some((cache, cache.debug()?))
    }

    /// A single object out of a span, past all arrays.
    fn take_single(self) -> Option<*mut u8> {
        let slot = self.slot_for_spans(slot::current());
        let mut array = self.fill_by_all_means(slot, 1)?;
        let object = array.pop(self.panel);
        self.keep_empty(&mut self.lock(slot, here!()), array);
        object
    }
}

impl<'a> General<'a> {
    /// Watches the general classes that rules say so of, from now on. What was allocated before stays as it is.
    pub fn begin_debug(self) {
        for class in 1..CLASSES {
            let mut name = Line::new();
            let _ = write!(name, "malloc-{}", class::size(class));
            let options = Options::of(name.as_bytes());
            if options != Options::NONE {
                self.begin_debug_of(class, name.as_bytes());
            }
        }
    }

    fn begin_debug_of(self, class: usize, name: &[u8]) {
        let bytes = class::size(class);
        // Whoever asks for an alignment gets it by a class whose size is a multiple.
        let alignment = (1 << bytes.trailing_zeros()).min(PAGE);
        let wanted =
            Wanted { name, bytes, alignment, constructor: None, destructor: None, argument: null_mut(), readers: None };
        match ObjectCache::create(&wanted) {
            Ok(cache) => self.give_class_to(class, cache),
            Err(_) => process::complain(b"commensal: no memory to watch a general class; it is not watched\n"),
        }
    }

    /// Ends the program: an object was given back to another cache than its own.
    #[cold]
    pub(super) fn die_of_mixed_caches(self, object: *mut u8) -> ! {
        if let Some((cache, debug)) = self.cache_at(object).and_then(Handle::watching)
            && let Some(whole) = cache.span_of(object).and_then(|span| span.object_at(object))
        {
            report::die(cache, debug.layout(), whole, Found::OtherCache, Moment::Flushed);
        }
        misuse::die(misuse::Found::OtherCache, object)
    }

    /// An object of at least `bytes`, at most [`class::LARGEST`], by whatever way is left: from the class's cache, or from the one that watches in
    /// its place.
    pub fn take_beyond(self, class: usize, bytes: usize, from: usize) -> Option<*mut u8> {
        match self.watched_class(class).and_then(|cache| Some((cache, cache.debug()?))) {
            Some((cache, debug)) => cache.take_watched(debug, bytes, from),
            None => self.class(class).take_slow(),
        }
    }
}

/// Has all caches that watch looked over when the program exits.
fn check_at_exit() {
    if general().state().registry().rare.0.is_first_to_check() {
        percpu::for_process(|| process::at_exit(check_now));
    }
}

extern "C" fn check_now() {
    sharing::enter();
    general().caches().filter_map(Handle::watching).for_each(|(cache, debug)| cache.check_all(debug));
}
