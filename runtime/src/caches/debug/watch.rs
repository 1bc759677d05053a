//! Allocating and freeing in debug caches.

use super::layout::{Found, Layout, Options, Record, State};
use super::report::{self, Moment};
use super::state::{Debug, MOST_BYTES};
use crate::caches::heap::{Heap, heap};
use crate::caches::object_cache::{ObjectCache, Wanted, construct, destroy};
use crate::caches::sharing::enter;
use crate::central::size_class::{self, SMALL};
use crate::central::{CacheRef, CacheState, Home};
use crate::misuse::{self, Line};
use crate::page_heap::PAGE;
use crate::percpu;
use core::fmt::Write;
use machine::sync::Ordering;
use machine::{code, here, process, slot};

impl ObjectCache {
    /// Turns debugging on for a cache that only this thread knows. Returns the layout's bytes; none: no memory.
    pub(in crate::caches) fn begin_debug(&self, options: Options, bytes: usize, alignment: usize) -> Option<usize> {
        let metadata = &heap().page_heap().metadata;
        // A destroyed cache leaves it to the next one at its id.
        let debug = self.debug_place().or_else(|| {
            let made = metadata.cut(size_of::<Debug>(), align_of::<Debug>())?.cast();
            self.debug.store(made, Ordering::Relaxed);
            self.debug_place()
        })?;
        let layout = Layout::of(options, bytes, alignment);
        let home = Home { begin_object: Some(begin_object), end_object: Some(end_object), ..*self.state.home() };
        // SAFETY: no other thread knows the cache.
        unsafe {
            *debug.layout.get() = layout;
            self.state.set_home(home);
        }
        if options.has(Options::TRACK) {
            code::prepare();
        }
        let shows_damage = options.has(Options::REDZONE) || options.has(Options::POISON);
        if shows_damage && !heap().cold.checks_at_exit.swap(true, Ordering::Relaxed) {
            percpu::for_process(|| process::at_exit(check_now));
        }
        Some(layout.whole)
    }

    pub(in crate::caches) fn end_debug(&self) {
        if let Some(debug) = self.debug_place() {
            // SAFETY: as above.
            unsafe { *debug.layout.get() = Layout::NONE };
        }
    }

    pub(crate) fn take_watched(&self, debug: &Debug, bytes: usize, from: usize) -> Option<*mut u8> {
        let (cache, depot) = (self.cache(), &heap().cpu.depot);
        loop {
            let whole = (take_single(cache))
                .or_else(|| heap().cpu.flush_and_retry(bytes, || take_single(cache)))
                .or_else(|| self.release_quarantine(debug, 0).then(|| take_single(cache))?)
                .or_else(|| depot.take_reserved(cache, &self.reserve))?;
            // A damaged object is dropped. SAFETY: the object is ours.
            if let Some(object) = unsafe { debug.employ(&self.state, whole, bytes, from) } {
                return Some(object);
            }
        }
    }

    /// Frees an object to a debug cache, unless it finds misuse.
    pub(crate) fn put_watched(&self, debug: &Debug, object: *mut u8, from: usize) {
        let Some(whole) = self.watched_at(debug, object, from) else { return };
        // SAFETY: an object begins there.
        if !unsafe { debug.retire(&self.state, whole, from) } {
            return;
        }
        if debug.layout().options.has(Options::QUARANTINE) && debug.quarantine.push(heap().locks(), whole) {
            // An object in quarantine counts as free.
            heap().central().count(self.cache(), -1);
            self.release_quarantine(debug, MOST_BYTES);
        } else {
            heap().cpu.depot.put_one(self.cache(), whole);
        }
    }

    /// Bytes requested for an object in use; none, after a report, if it is none.
    pub(crate) fn watched_bytes(&self, debug: &Debug, object: *mut u8, from: usize) -> Option<usize> {
        let whole = self.watched_at(debug, object, from)?;
        // SAFETY: an object begins there.
        unsafe {
            let found = match debug.layout().record_of(whole) {
                None => Found::Record,
                Some(record) if record.state() == State::Free => Found::AfterFree,
                Some(record) => return Some(record.bytes()),
            };
            report::report(&self.state, debug.layout(), whole, found, Moment::Used(from));
        }
        None
    }

    /// The start of an object's layout; none, after a report, if no object of the cache begins there.
    fn watched_at(&self, debug: &Debug, object: *mut u8, from: usize) -> Option<*mut u8> {
        let Some(whole) = self.whole_at(object) else {
            report::report_stranger(&self.state, object, from);
            return None;
        };
        if debug.layout().object(whole) != object {
            report::report(&self.state, debug.layout(), whole, Found::Interior(object), Moment::Used(from));
            return None;
        }
        Some(whole)
    }

    fn whole_at(&self, object: *mut u8) -> Option<*mut u8> {
        // A span keeps its cache while an object of it lives.
        let span = heap().page_heap().span_of(object).filter(|span| span.cache() == self.cache().number());
        span?.object_at(object)
    }

    /// Frees the oldest objects in quarantine until at most so many bytes are left. Returns whether it freed any.
    pub(in crate::caches) fn release_quarantine(&self, debug: &Debug, most_bytes: usize) -> bool {
        let mut any = false;
        while let Some(whole) = debug.quarantine.pop_beyond(heap().locks(), most_bytes, debug.layout().whole) {
            any = true;
            // SAFETY: the object is free, and ours.
            if !unsafe { debug.check_unused(&self.state, whole, Moment::LeavingQuarantine) } {
                // Damaged, and dropped.
                continue;
            }
            heap().central().count(self.cache(), 1);
            heap().cpu.depot.put_one(self.cache(), whole);
        }
        any
    }

    /// Reports all objects that show damage.
    fn check_all(&self, debug: &Debug) {
        let number = self.cache().number();
        heap().page_heap().for_each_span(|span, _| {
            // Threads may still change objects, so look at damage twice. An object without a record may be under
            // construction, perhaps by a thread that vanished in a fork. SAFETY: descriptions of spans are never freed.
            unsafe {
                for whole in span.carved().take_while(|_| span.cache() == number) {
                    let found = debug.damage(whole).filter(|&found| found != Found::Record);
                    if let Some(found) = found.filter(|_| debug.damage(whole) == found && span.cache() == number) {
                        report::report(&self.state, debug.layout(), whole, found, Moment::AtExit);
                    }
                }
            }
        });
    }
}

unsafe fn begin_object(state: &CacheState, whole: *mut u8) {
    let Some(debug) = debug_of(state) else { return };
    let layout = debug.layout();
    // SAFETY: passed on: the memory is ours, and as large as the layout says.
    unsafe {
        Record::begin(whole, layout.options);
        let record = Record::of(whole);
        record.set_bytes(layout.bytes);
        layout.fill_before(whole);
        layout.fill_from(whole, 0, layout.unused_byte());
        record.settle(State::Free);
        construct(state, layout.object(whole));
    }
}

unsafe fn end_object(state: &CacheState, whole: *mut u8) {
    let Some(debug) = debug_of(state) else { return };
    // SAFETY: passed on.
    unsafe {
        destroy(state, debug.layout().object(whole));
        Record::end(whole);
    }
}

fn debug_of(state: &CacheState) -> Option<&'static Debug> {
    ObjectCache::watching(CacheRef::of(state)).map(|(_, debug)| debug)
}

/// A single object out of a span, without magazines of the slot.
fn take_single(cache: CacheRef) -> Option<*mut u8> {
    let depot = &heap().cpu.depot;
    let slot = depot.slot_or_none(slot::current());
    let mut magazine = depot.fill_by_all_means(cache, slot, 1)?;
    let object = magazine.pop();
    depot.keep_empty(&depot.lock(cache, slot, here!()), magazine);
    object
}

#[cold]
pub(crate) fn report_mixed_caches(object: *mut u8) {
    let cache = heap().central().cache_at(object);
    if let Some((cache, debug)) = cache.and_then(ObjectCache::watching)
        && let Some(whole) = cache.whole_at(object)
    {
        return report::report(&cache.state, debug.layout(), whole, Found::OtherCache, Moment::Flushed);
    }
    misuse::report(misuse::Found::OtherCache, misuse::Call::Free, object);
}

impl Heap {
    /// Turns debugging on for the size classes with such rules. Earlier allocations stay as they are.
    pub(crate) fn begin_debug(&self) {
        for class in 1..SMALL {
            let (bytes, mut name) = (size_class::size(class), Line::new());
            let _ = write!(name, "malloc-{bytes}");
            if Options::of(name.as_bytes()) == Options::NONE {
                continue;
            }
            // Aligned requests get a class whose size is a multiple of the alignment.
            let alignment = (1 << bytes.trailing_zeros()).min(PAGE);
            match ObjectCache::create(&Wanted::plain(name.as_bytes(), bytes, alignment)) {
                Ok(cache) => self.watch_class(class, cache),
                Err(_) => process::complain(b"commensal: no memory to watch a size class; it is not watched\n"),
            }
        }
    }
}

extern "C" fn check_now() {
    enter();
    heap().central().caches().filter_map(ObjectCache::watching).for_each(|(cache, debug)| cache.check_all(debug));
}
