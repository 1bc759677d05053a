//! What only a signal handler on top of a lock's holder meets, set up from the inside: this thread holds a shard, another one holds
//! the shard that is asked for, and so this thread must not wait.

#![cfg(test)]

use super::array::Array;
use super::lingering::NOBODY;
use super::region::general;
use super::take::Source;
use super::*;
use crate::page::Span;
use crate::{heap, percpu};
use core::ptr::null_mut;
use machine::sync::{AtomicBool, AtomicU32};
use machine::{here, test_support};
use std::boxed::Box;
use std::sync::Mutex;
use std::thread;
use std::vec;
use std::vec::Vec;

/// Slots that no thread is in, here: slots are given from the lowest on.
const ASKED_FOR: u32 = 900;
const GIVING: u32 = 902;
const CLASS: usize = 20;
const OTHER_CLASS: usize = 21;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs `test` on a heap that nobody else uses.
fn alone(test: impl FnOnce()) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    test_support::play(1, test);
}

/// Something happened, or whoever was to do it panicked: true when this goes out of scope.
struct Happens<'a>(&'a AtomicBool);

impl Drop for Happens<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn wait_for(event: &AtomicBool) {
    // Acquire pairs with the release in `drop`.
    while !event.load(Ordering::Acquire) {
        machine::sync::spin_loop();
    }
}

fn cache() -> Handle<'static> {
    general().class(CLASS)
}

/// Runs `work` while its thread holds one shard, and another thread the shard of a slot.
fn where_waiting_is_forbidden(slot: u32, work: impl FnOnce(Handle<'static>) + Send) {
    let first = heap::allocate(100);
    assert!(!first.is_null());
    let (held, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let hold = || {
        let held = Happens(&held);
        percpu::enter();
        let _theirs = cache().lock(slot, here!());
        drop(held);
        wait_for(&done);
    };
    let meet = || {
        let _done = Happens(&done);
        percpu::enter();
        wait_for(&held);
        let _ours = general().class(OTHER_CLASS).lock(0, here!());
        work(cache());
    };
    let jobs: Vec<Box<dyn FnOnce() + Send>> = vec![Box::new(hold), Box::new(meet)];
    test_support::run(jobs, |jobs| {
        thread::scope(|scope| jobs.into_iter().for_each(|job| drop(scope.spawn(job))));
    });
    // SAFETY: allocated above.
    unsafe { heap::free(first) };
}

/// A span of a slot, with all its objects but those of one array, which is returned.
fn span_of(cache: Handle<'_>, slot: u32) -> (*mut Span, Array) {
    slot::count_as_used(slot);
    let array = cache.fill_from_spans(slot, Source::NewSpan).expect("there is memory");
    (cache.lock(slot, here!()).spans.giving().expect("a span that gives"), array)
}

/// A program that swings by several arrays goes to the depot for each; when its arrays have grown, for none.
#[test]
fn arrays_grow_with_the_load_and_stay_grown() {
    alone(|| {
        let wanted = Wanted {
            name: b"growing",
            bytes: 904,
            alignment: 8,
            constructor: None,
            destructor: None,
            argument: std::ptr::null_mut(),
            readers: None,
        };
        let cache = ObjectCache::create(&wanted).expect("there is memory");
        let swing = |times: usize| {
            for _ in 0..times {
                let objects: Vec<_> = (0..40).map(|_| cache.allocate()).collect();
                // SAFETY: each was allocated above.
                objects.into_iter().for_each(|object| unsafe { cache.free(object) });
            }
        };
        let refills = || {
            let mut refills = 0;
            general().rows(|row| {
                refills += if row.known.name == Name::Created(cache.name()) { row.parts.refills } else { 0 }
            });
            refills
        };
        // Whoever is disturbed long enough finds the cache cool, and where the thread is moved to, arrays have to grow first.
        // What the process can have is known from its first allocation on.
        let grows = slot::mode() == slot::Mode::ConcurrencyId;
        let has_grown = (0..100).any(|_| {
            swing(50);
            let before = refills();
            swing(20);
            // Arrays as they are at first would be refilled more than once for each swing.
            refills() - before <= 4
        });
        assert!(has_grown || !grows, "20 swings never went without refills");
        heap::check::check_valid(|_| {});
        // SAFETY: nobody uses it.
        assert_eq!(unsafe { cache.destroy() }, Ok(()));
        heap::check::check_valid(|_| {});
    });
}

#[test]
fn an_object_whose_shard_is_held_is_given_back_later() {
    alone(object_whose_shard_is_held);
}

fn object_whose_shard_is_held() {
    let mut object = None;
    let mut before = 0;
    where_waiting_is_forbidden(ASKED_FOR, |cache| {
        // The holder of the shard set the span up, so to say: nobody else looks at it now.
        let span = cache.new_span(ASKED_FOR).expect("there is memory");
        // SAFETY: the span is new.
        let taken = unsafe {
            (*cache.shard(ASKED_FOR)).spans.insert(span);
            (*span).take()
        }
        .expect("a new span has objects");
        // SAFETY: as above.
        before = unsafe { (*span).in_use() };
        cache.put_one(taken);
        assert_ne!(cache.slab().deferred.load(Ordering::Relaxed), 0, "the object waits for the next slow path");
        // SAFETY: as above.
        assert_eq!(unsafe { (*span).in_use() }, before, "the span was changed under its owner's lock");
        object = Some((span as usize, taken as usize));
    });
    let (span, taken) = object.expect("the work was done");
    let general = general();
    general.put_deferred();
    assert_eq!(general.slab.deferred.load(Ordering::Relaxed), 0);
    // SAFETY: descriptions of spans are never freed.
    let span = unsafe { &*(span as *const Span) };
    let is_back = span.cache == 0 || span.is_free(taken as *mut u8);
    assert!(is_back && span.in_use() == before - 1, "the object is not in its span: {span:?}");
}

#[test]
fn a_span_that_is_taken_over_belongs_to_the_shard_whose_ring_it_is_in() {
    alone(span_that_is_taken_over);
}

fn span_that_is_taken_over() {
    let mut taken = None;
    where_waiting_is_forbidden(ASKED_FOR, |cache| {
        let (span, array) = span_of(cache, GIVING);
        cache.steal_span(ASKED_FOR, cache.near(ASKED_FOR)).expect("another slot has a span to give");
        // SAFETY: descriptions of spans are never freed.
        let owner = unsafe { (*span).owner() };
        assert_ne!(owner, ASKED_FOR, "the shard that is held got a span");
        assert_eq!(cache.lock(owner, here!()).spans.giving(), Some(span), "a span is not in its owner's ring");
        taken = Some((owner, array));
    });
    let (owner, array) = taken.expect("the work was done");
    percpu::enter();
    // All objects come back, and the last one lets the span go, if the lock of its owner guards it.
    cache().flush_out(owner, array);
}

/// Seen by destructors: with owner or not.
static SPANS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

unsafe extern "C" fn look_at_the_span(object: *mut u8, _: *mut u8) {
    let span = general().slab.zone.span_of(object).expect("an object lies in a span");
    // SAFETY: descriptions of spans are never freed.
    let is_owned = unsafe { (*span).owner() } != NOBODY;
    SPANS[usize::from(is_owned)].fetch_add(1, Ordering::Relaxed);
}

/// Else a shard that is put in order in a child takes it for its own, whose objects are at their destructors, or gone.
#[test]
fn a_span_whose_objects_end_is_nobodys() {
    alone(|| {
        let ends = || SPANS.each_ref().map(|spans| spans.swap(0, Ordering::Relaxed));
        let destructor = Some(look_at_the_span as Hook);
        let (constructor, argument, readers) = (None, null_mut(), None);
        let wanted = Wanted { name: b"seen", bytes: 5000, alignment: 8, constructor, destructor, argument, readers };
        let cache = ObjectCache::create(&wanted).expect("there is memory");
        let objects: Vec<_> = (0..100).map(|_| cache.allocate()).collect();
        // SAFETY: ours, once each.
        objects.into_iter().for_each(|object| unsafe { cache.free(object) });
        cache.shrink();
        let [by_shrinking, owned] = ends();
        assert!(by_shrinking >= 100 && owned == 0, "{by_shrinking} objects of nobody, {owned} of a slot");
        let object = cache.allocate();
        // SAFETY: as above.
        unsafe { cache.free(object) };
        // SAFETY: nobody uses it any more.
        unsafe { cache.destroy() }.expect("nothing of it is alive");
        let [at_the_end, owned] = ends();
        assert!(at_the_end > 0 && owned == 0, "{at_the_end} objects of nobody, {owned} of a slot");
    });
}
