//! A program with many caches or segments: no lock is held for longer because there are more.
//!
//! Only on the simulated machine: there the same work always takes the same time, so holds can be compared, and each
//! test has a process of its own. On the host, many caches would disturb other tests of the process.

#![cfg(test)]

use super::object_cache::{ObjectCache, Wanted};
use super::{enter, heap::heap};
use crate::central::Central;
use crate::group::Group;
use crate::{heap as malloc, percpu};
use machine::sync::measure_holds;
use machine::{clock, here, slot, test_support};
use std::vec::Vec;

/// A part has the numbers of four chunks, each with 127 caches.
const OF_A_PART: usize = 4 * 127;

fn central() -> &'static Central {
    heap().central()
}

/// A cache of which the slot has a magazine.
fn used() -> &'static ObjectCache {
    let cache = ObjectCache::create(&Wanted::plain(b"many", 48, 8)).expect("there is memory");
    use_again(&cache);
    cache
}

fn use_again(cache: &&'static ObjectCache) {
    let object = cache.allocate();
    assert!(!object.is_null(), "there is memory");
    // SAFETY: ours, once.
    unsafe { cache.free(object) };
}

fn in_a_process(work: impl FnOnce()) {
    if !clock::IS_STEADY {
        return;
    }
    test_support::play(1, || {
        percpu::enter();
        assert!(enter(), "there is memory");
        // SAFETY: the contentions of the runtime's locks last as long as the process.
        unsafe { measure_holds() };
        work();
    });
}

/// The longest hold of the drain lock so far.
fn drain_ns() -> u64 {
    heap().locks().drain.report().waited.max_hold_ns
}

#[test]
fn each_cache_is_in_one_part_and_no_part_is_longer_for_more_caches() {
    in_a_process(|| {
        let made: Vec<_> = (0..2 * OF_A_PART).map(|_| used().cache().number()).collect();
        let parts: Vec<Vec<u32>> =
            central().parts().map(|part| central().caches_of(part).map(|cache| cache.number()).collect()).collect();
        let all: Vec<u32> = parts.concat();
        assert!(all.is_sorted_by(|one, other| one < other), "a cache is in two parts");
        assert!(made.iter().all(|number| all.binary_search(number).is_ok()), "a cache is in no part");
        assert!(parts.len() >= 3 && parts.iter().all(|part| part.len() <= OF_A_PART), "{} parts", parts.len());
        // One part at each call, then again from the first one.
        let turn: Vec<_> = (0..parts.len()).map(|_| central().next_part()).collect();
        assert!(turn.iter().any(|part| part.is_last) && turn.windows(2).all(|pair| pair[0] != pair[1]), "{turn:?}");
    });
}

#[test]
fn own_turn_looks_at_a_part_at_a_time() {
    in_a_process(|| {
        let caches: Vec<_> = (0..2 * OF_A_PART).map(|_| used()).collect();
        let slot = slot::current().expect("the thread has a slot");
        let (mut from, mut calls) = (0, 0);
        loop {
            let (done, next) = heap().cpu.reclaim_own(slot, from, usize::MAX, 0).expect("no thread drains");
            assert!(next >= from && next - from <= 512, "from {from} to {next} under one hold");
            (from, calls) = (next, calls + 1);
            if !done.is_more {
                break;
            }
        }
        assert!(calls >= 3, "{calls} calls for {} caches", caches.len());
    });
}

#[test]
fn holds_of_the_drain_lock_do_not_grow_with_the_number_of_caches() {
    in_a_process(|| {
        let slot = slot::current().expect("the thread has a slot");
        // So many that all walks meet full parts.
        let mut caches: Vec<_> = (0..6 * OF_A_PART).map(|_| used()).collect();
        let walk = |caches: &[&'static ObjectCache]| {
            caches.iter().for_each(use_again);
            malloc::trim(0);
            caches.iter().for_each(use_again);
            heap().cpu.reclaim_idle(slot, crate::central::coarse_time(), 0).expect("no handler is under way");
            drain_ns()
        };
        let few = walk(&caches);
        caches.extend((0..12 * OF_A_PART).map(|_| used()));
        let many = walk(&caches);
        assert!(few > 0 && many <= few + few / 4, "{few} ns, and with three times as many caches {many} ns");
    });
}

#[test]
fn release_looks_at_a_bounded_number_of_segments_at_a_time() {
    in_a_process(|| {
        const SEGMENTS: usize = 150;
        // Each nearly fills a segment.
        let blocks: Vec<_> = (0..SEGMENTS).map(|_| malloc::allocate(60 << 20)).collect();
        assert!(blocks.iter().all(|block| !block.is_null()), "there is address space");
        let look = || {
            let (mut from, mut calls, mut bytes) = (2, 0, 0);
            loop {
                let (released, next) = heap().page_heap().release_some_segments(from);
                (calls, bytes) = (calls + 1, bytes + released);
                let Some(next) = next else { return (calls, bytes) };
                assert!(next > from && next - from <= 64, "from {from} to {next} under one hold");
                from = next;
            }
        };
        let (calls, _) = look();
        assert!(calls >= 2, "all segments are looked at under one hold");
        // SAFETY: ours, once each.
        blocks.into_iter().for_each(|block| unsafe { malloc::free(block) });
        assert!(look().1 > SEGMENTS / 2 * (60 << 20), "empty segments stay");
    });
}

#[test]
fn end_of_a_group_frees_a_bounded_number_of_spans_at_a_time() {
    in_a_process(|| {
        let end = |objects: usize| {
            let group = Group::new("many").expect("there is memory");
            let made = (0..objects).filter_map(|_| group.core().allocate(30_000, 16)).count();
            assert_eq!(made, objects, "there is memory");
            drop(group);
            drain_ns()
        };
        let few = end(6000);
        let many = end(18_000);
        assert!(few > 0 && many <= few + few / 4, "{few} ns, and with three times as many spans {many} ns");
    });
}

#[test]
fn release_of_spare_magazines_sorts_them_without_the_lock() {
    in_a_process(|| {
        let (depot, locks) = (&heap().cpu.depot, heap().locks());
        let (cache, slot) = (used().cache(), slot::current().expect("the thread has a slot"));
        let release = |count: usize| {
            let empty = |_| depot.find_empty(&depot.lock(cache, slot, here!())).expect("there is memory");
            let push = |magazine| depot.spare().push(locks, magazine).expect("no handler");
            let mut magazines: Vec<_> = (0..count).map(empty).collect();
            // Some are in use, so few pages can be released, and most magazines come back.
            let in_use: Vec<_> = (0..count / 4).map(|at| magazines.swap_remove(at * 3)).collect();
            magazines.into_iter().for_each(push);
            depot.spare().release(locks);
            in_use.into_iter().for_each(push);
            locks.spare.report().waited.max_hold_ns
        };
        // Afterwards, blank pages are taken apart, too.
        release(1000);
        let few = release(1000);
        let many = release(8000);
        assert!(few > 0 && many <= few + few / 4, "{few} ns, and with eight times as many {many} ns");
    });
}
