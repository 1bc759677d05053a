//! Cases set up from the inside. Some only a signal handler above a lock's holder meets: this thread holds a shard, and
//! another thread holds the wanted shard, so this thread must not wait.

#![cfg(test)]

use super::object_cache::{ObjectCache, Wanted};
use super::reading::Name;
use super::{enter, heap::heap};
use crate::central::{CacheRef, Central, NOBODY, Source};
use crate::depot::{Hints, Magazine};
use crate::page_heap::Span;
use crate::{heap as malloc, percpu};
use machine::sync::{AtomicBool, AtomicU32, Ordering};
use machine::{here, slot, test_support};
use std::boxed::Box;
use std::sync::Mutex;
use std::thread;
use std::vec;
use std::vec::Vec;

/// Slots without threads, because threads get the lowest slots.
const ASKED_FOR: u32 = 900;
const GIVING: u32 = 902;
const CLASS: usize = 20;
const OTHER_CLASS: usize = 21;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone(test: impl FnOnce()) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    test_support::play(1, test);
}

/// True when this goes out of scope, also if its thread panicked.
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

fn cache() -> CacheRef {
    heap().class(CLASS)
}

fn central() -> &'static Central {
    heap().central()
}

/// Runs `work` while this thread holds one shard, and another thread the shard of a slot.
fn where_waiting_is_forbidden(slot: u32, work: impl FnOnce(CacheRef) + Send) {
    assert!(enter(), "there is memory");
    let first = malloc::allocate(100);
    assert!(!first.is_null());
    let (held, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let hold = || {
        let held = Happens(&held);
        percpu::enter();
        let _theirs = central().lock(cache(), slot, here!());
        drop(held);
        wait_for(&done);
    };
    let meet = || {
        let _done = Happens(&done);
        percpu::enter();
        wait_for(&held);
        let _ours = central().lock(heap().class(OTHER_CLASS), 0, here!());
        work(cache());
    };
    let jobs: Vec<Box<dyn FnOnce() + Send>> = vec![Box::new(hold), Box::new(meet)];
    test_support::run(jobs, |jobs| {
        thread::scope(|scope| jobs.into_iter().for_each(|job| drop(scope.spawn(job))));
    });
    // SAFETY: allocated above.
    unsafe { malloc::free(first) };
}

/// A span of a slot, and the magazine with its other objects.
fn span_of(cache: CacheRef, slot: u32) -> (&'static Span, Magazine) {
    slot::count_as_used(slot);
    let capacity = central().capacity(cache, slot);
    let magazine = heap().cpu.depot.fill(cache, slot, Source::NewSpan, capacity).expect("there is memory");
    (central().lock(cache, slot, here!()).ring().giving().expect("a span that gives"), magazine)
}

/// A program that swings by several magazines goes to the depot for each, until its magazines have grown.
#[test]
fn busy_cache_grows_its_magazines_and_keeps_them() {
    alone(|| {
        let cache = ObjectCache::create(&Wanted::plain(b"growing", 904, 8)).expect("there is memory");
        let swing = |times: usize| {
            for _ in 0..times {
                let objects: Vec<_> = (0..40).map(|_| cache.allocate()).collect();
                // SAFETY: each was allocated above.
                objects.into_iter().for_each(|object| unsafe { cache.free(object) });
            }
        };
        let refills = || {
            let mut refills = 0;
            heap().rows(|row| {
                refills += if row.known.name == Name::Created(cache.state.name()) { row.parts.refills } else { 0 }
            });
            refills
        };
        // A disturbed thread finds the cache cool, or must grow magazines in another slot first.
        let grows = slot::mode() == slot::Mode::ConcurrencyId;
        let has_grown = (0..100).any(|_| {
            swing(50);
            let before = refills();
            swing(20);
            // With initial magazines, each swing needs more refills.
            refills() - before <= 4
        });
        assert!(has_grown || !grows, "20 swings never went without refills");
        malloc::check::check_valid(|_| {});
        // SAFETY: no thread uses it.
        assert_eq!(unsafe { cache.destroy() }, Ok(()));
        malloc::check::check_valid(|_| {});
    });
}

#[test]
fn object_whose_shard_is_held_is_given_back_later() {
    alone(|| {
        let mut object = None;
        let mut before = 0;
        where_waiting_is_forbidden(ASKED_FOR, |cache| {
            // The shard's holder has set up the span, so to say; no other thread looks at it.
            let span = central().new_span(cache, ASKED_FOR).expect("there is memory");
            cache.ring(ASKED_FOR).insert(span);
            let taken = span.take(&span.places(), |_| ()).expect("a new span has objects");
            before = span.in_use();
            heap().cpu.depot.put_one(cache, taken);
            assert!(!heap().cpu.depot.deferred.is_empty(), "the object waits for the next slow path");
            assert_eq!(span.in_use(), before, "the span was changed under its owner's lock");
            object = Some((span, taken as usize));
        });
        let (span, taken) = object.expect("the work was done");
        heap().cpu.put_deferred();
        assert!(heap().cpu.depot.deferred.is_empty());
        let is_back = span.cache() == 0 || span.is_free(taken as *mut u8);
        assert!(is_back && span.in_use() == before - 1, "the object is not in its span: {span:?}");
    });
}

#[test]
fn stolen_span_belongs_to_the_shard_whose_ring_it_is_in() {
    alone(|| {
        let mut taken = None;
        where_waiting_is_forbidden(ASKED_FOR, |cache| {
            let (span, magazine) = span_of(cache, GIVING);
            let stolen = heap().cpu.depot.steal_span(cache, ASKED_FOR, cache.near(ASKED_FOR));
            stolen.expect("another slot has a span to give");
            let owner = span.owner();
            assert_ne!(owner, ASKED_FOR, "the shard that is held got a span");
            let first = central().lock(cache, owner, here!()).ring().giving().map(Span::as_ptr);
            assert_eq!(first, Some(span.as_ptr()), "a span is not in its owner's ring");
            taken = Some((owner, magazine));
        });
        let (owner, magazine) = taken.expect("the work was done");
        percpu::enter();
        // All objects come back. The last one frees the span, if its owner's lock guards it.
        heap().cpu.depot.flush_out(cache(), owner, magazine);
    });
}

/// A consumer's full magazines go straight to the slot that stole from it, until it needs one itself, and stay with it
/// while the other slot's lock is held: many consumers must not queue there.
#[test]
fn full_magazines_go_to_the_slot_that_took_the_last_ones() {
    alone(|| {
        assert!(enter(), "there is memory");
        percpu::enter();
        let (producer, consumer) = (ASKED_FOR, GIVING);
        [producer, consumer].into_iter().for_each(slot::count_as_used);
        let wanted = ObjectCache::create(&Wanted::plain(b"handed", 48, 8)).expect("there is memory");
        let (cache, depot) = (wanted.cache(), &heap().cpu.depot);
        let full_in = || [producer, consumer].map(|slot| Hints::of(cache, slot).full_count());
        let hand_over = |magazine| {
            let empty = depot.exchange(cache, consumer, magazine).expect("there is memory");
            depot.push(cache, consumer, empty);
        };
        let fill = || depot.fill_by_all_means(cache, consumer, 4).expect("there is memory");
        hand_over(fill());
        assert_eq!(full_in(), [0, 1], "no slot has taken any");
        let taken = depot.steal(cache, producer, core::iter::once(consumer), 0).expect("there is one");
        hand_over(taken);
        assert_eq!(full_in(), [1, 0], "it goes to the slot that took the last one");
        let held = depot.lock(cache, producer, here!());
        hand_over(fill());
        drop(held);
        assert_eq!(full_in(), [1, 1], "the lock is held");
        let own = depot.pop(cache, consumer, &mut None).expect("there is one");
        hand_over(own);
        assert_eq!(full_in(), [1, 1], "the slot needs them itself");
        let mut empty = depot.find_empty(&depot.lock(cache, producer, here!()));
        let last = depot.pop(cache, producer, &mut empty).expect("there is one");
        assert!(empty.is_none(), "an empty magazine stays in return");
        depot.push(cache, producer, last);
        malloc::check::check_valid(|_| {});
        // SAFETY: no thread uses it.
        assert_eq!(unsafe { wanted.destroy() }, Ok(()));
    });
}

/// Counted by destructors: without owner, with owner.
static SPANS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

unsafe extern "C" fn look_at_the_span(object: *mut u8, _: *mut u8) {
    let span = heap().page_heap().span_of(object).expect("an object lies in a span");
    let is_owned = span.owner() != NOBODY;
    SPANS[usize::from(is_owned)].fetch_add(1, Ordering::Relaxed);
}

/// Otherwise a child that repairs the shard claims the span, whose objects are being destroyed or gone.
#[test]
fn span_whose_objects_end_is_nobodys() {
    alone(|| {
        let ends = || SPANS.each_ref().map(|spans| spans.swap(0, Ordering::Relaxed));
        let wanted = Wanted { destructor: Some(look_at_the_span), ..Wanted::plain(b"seen", 5000, 8) };
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
        // SAFETY: no thread uses it any more.
        unsafe { cache.destroy() }.expect("nothing of it is alive");
        let [at_the_end, owned] = ends();
        assert!(at_the_end > 0 && owned == 0, "{at_the_end} objects of nobody, {owned} of a slot");
    });
}
