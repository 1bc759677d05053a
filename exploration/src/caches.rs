//! Object caches: created and destroyed by several threads at once, and tuned and shrunk while they are in use.

use crate::blocks::{Block, Table, check_empty_heap};
use crate::forks::crowd_with_a_child;
use crate::heaps::crowd;
use crate::protocol::{BOTH, NO_SIGNALS, protocols};
use commensal_runtime::caches::{Cache, ObjectCache, Untunable, Wanted};
use commensal_runtime::heap;
use fastrand::Rng;
use machine::simulation::explore::Outcome;
use machine::simulation::sleep;
use machine::slot::Mode;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

protocols! {
    "cache tuning": "a cache that is tuned, shrunk and filled ahead while threads use it",
        tuned, NO_SIGNALS, BOTH => by_ids RestartIsFence, by_ids SectionsGoOn;
    "cache creation":
        "caches that threads create and destroy, also the same one at the same time, while others go over all of them",
        created, NO_SIGNALS, BOTH => by_ids SectionsGoOn, in_fallback ChangesTear;
    "array sizes": "caches that are used so much that their arrays grow, in slots that lend each other room for it",
        sized, NO_SIGNALS, &[Mode::ConcurrencyId] => by_ids RestartIsFence;
    "middle sizes":
        "blocks of some hundred KiB that are used so much that slots keep them, in slots that lend each other room",
        middle, NO_SIGNALS, &[Mode::ConcurrencyId] => by_ids RestartIsFence, by_ids SectionsGoOn;
    "watched cache": "a cache that watches its users, none of which does anything wrong, also where one of them forks",
        watched, NO_SIGNALS, BOTH => by_ids NoWipe;
}

/// Large objects: arrays of them are small, so that few operations reach everything behind these.
const BYTES: usize = 5000;
const THREADS: usize = 3;

pub(crate) fn create(bytes: usize) -> Option<&'static ObjectCache> {
    create_called(b"explored", bytes)
}

fn create_called(name: &[u8], bytes: usize) -> Option<&'static ObjectCache> {
    ObjectCache::create(&Wanted::plain(name, bytes, 8)).ok()
}

/// Nobody uses the cache, and all objects were given back.
pub(crate) fn destroy(cache: &ObjectCache) {
    // SAFETY: as said.
    assert_eq!(unsafe { cache.destroy() }, Ok(()), "all objects were given back");
}

fn tuned(seed: u64) -> Outcome {
    let Some(cache) = create(BYTES) else { return Ok(()) };
    let table = Table::new(2);
    crowd(THREADS, seed, None, &|_, random| {
        let mut own = Vec::new();
        for _ in 0..30 {
            match random.u8(..12) {
                0..=4 if own.len() < 6 => own.extend(Block::of(cache)),
                5 | 6 => {
                    let block = own.pop();
                    own.extend(table.exchange(block, random));
                }
                7 => change(cache, random),
                8 => own.drain(..own.len() / 2).for_each(Block::free),
                _ => own.pop().into_iter().for_each(|block| block.free_to(cache)),
            }
        }
        own.into_iter().for_each(|block| block.free_to(cache));
    });
    heap::check::check_valid(|_| {});
    table.empty();
    destroy(cache);
    check_empty_heap();
    Ok(())
}

fn change(cache: &ObjectCache, random: &mut Rng) {
    const SHAPES: [(usize, usize); 4] = [(8, 4), (2, 1), (1, 1), (12, 3)];
    match random.u8(..6) {
        0 => {
            cache.shrink();
        }
        1 => {
            let _ = cache.prefill(random.usize(..4));
        }
        _ => {
            let (limit, batch) = SHAPES[random.usize(..SHAPES.len())];
            let tuned = cache.tune(limit, batch);
            assert!(matches!(tuned, Ok(()) | Err(Untunable::Refused)), "{tuned:?}");
        }
    }
}

/// So large that a slot has room for few more.
const SIZED_BYTES: usize = 120_000;
/// So many objects of a cache are in use at a time: several arrays, until these have grown.
const DEPTH: usize = 24;
/// So long that a slot rests.
const REST_NS: u64 = 150_000_000;

/// Caches grow, until slots have used up their room for that. Then all rest, and a thread wants more, which it gets from slots where others go on, with
/// arrays that have what they need: so these are taken away from who uses them.
fn sized(seed: u64) -> Outcome {
    let caches: Vec<_> = (0..2).filter_map(|_| create(SIZED_BYTES)).collect();
    if caches.is_empty() {
        return Ok(());
    }
    let (table, wanting) = (Table::new(2), AtomicUsize::new(0));
    // Of all threads: where the one that wants more gets no CPU, the others end within the limit of steps.
    let patience = AtomicI32::new(5000);
    crowd(THREADS, seed, None, &|thread, random| {
        for round in 0..2 {
            let (cache, other) = (caches[round % caches.len()], caches[(round + 1) % caches.len()]);
            grow(cache, random.usize(10..16), random);
            let wants = random.usize(..THREADS) == thread;
            wanting.fetch_add(usize::from(wants), Ordering::Relaxed);
            sleep(REST_NS);
            if wants {
                grow(cache, random.usize(10..16), random);
                grow(other, random.usize(14..24), random);
                wanting.fetch_sub(1, Ordering::Relaxed);
            } else {
                let may_go_on = || patience.fetch_sub(1, Ordering::Relaxed) > 0 && wanting.load(Ordering::Relaxed) > 0;
                let goes_on = |number: &i32| *number < 40 || may_go_on();
                (0..).take_while(goes_on).filter_map(|_| Block::of(cache)).for_each(|block| block.free_to(cache));
            }
            table.exchange(Block::of(cache), random).into_iter().for_each(Block::free);
        }
    });
    heap::check::check_valid(|_| {});
    table.empty();
    caches.into_iter().for_each(destroy);
    check_empty_heap();
    Ok(())
}

/// Uses so many objects at once that arrays run out, again and again.
fn grow(cache: &'static ObjectCache, bursts: usize, random: &mut Rng) {
    for _ in 0..bursts {
        let own: Vec<_> = (0..random.usize(DEPTH / 2..DEPTH)).filter_map(|_| Block::of(cache)).collect();
        own.into_iter().for_each(|block| block.free_to(cache));
    }
}

/// Blocks of middle sizes that slots keep. Others get and free them, trims take them away, and slots rest.
fn middle(seed: u64) -> Outcome {
    const SIZES: [usize; 4] = [40_000, 200_000, 600_000, 2_000_000];
    heap::check::begin_middle();
    let table = Table::new(2);
    let sizes = &SIZES[seed as usize % 3..];
    crowd(THREADS, seed, None, &|_, random| {
        let mut own = Vec::new();
        for _ in 0..50 {
            let size = sizes[random.usize(..sizes.len())];
            match random.u8(..16) {
                0..=5 if own.len() < 6 => own.extend(Block::new(size)),
                6 | 7 => {
                    let block = own.pop();
                    own.extend(table.exchange(block, random));
                }
                8 | 9 => heap::check::grow_middle(size),
                10 if random.u8(..4) == 0 => _ = heap::trim(0),
                10 if random.u8(..8) == 0 => sleep(REST_NS),
                11 => {
                    let block = own.pop();
                    own.extend(block.map(|block| block.resize(size)));
                }
                _ => own.pop().into_iter().for_each(Block::free),
            }
        }
        own.into_iter().for_each(Block::free);
    });
    heap::check::check_valid(|_| {});
    table.empty();
    check_empty_heap();
    Ok(())
}

/// Caches that come and go are called so, by the size of their objects.
const NAMES: [&[u8]; 2] = [b"explored-which-has-a-long-name", b"explored"];

/// The slab table has no row that is partly of one cache, and partly of another.
fn check_table() {
    const FIRST_SPAN: usize = 64 << 10;
    const SPAN: usize = 256 << 10;
    let mut table = String::new();
    heap::report::write_slabinfo(&mut table).expect("a string takes it");
    for row in table.lines().filter(|row| row.starts_with("explored")) {
        let (name, figures) = row.split_once(' ').expect("a name, and figures");
        let kind = NAMES.iter().position(|known| name.as_bytes() == *known).expect(row);
        let figures: Vec<usize> = figures.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
        let (objects, bytes, spans) = (figures[1], figures[2], figures[9]);
        let wanted = BYTES + kind * 1000;
        let fit = |first| objects == first * (FIRST_SPAN / wanted) + (spans - first) * (SPAN / wanted);
        assert!(bytes == wanted && (0..=spans).any(fit), "{row}");
    }
}

fn created(seed: u64) -> Outcome {
    let shared = Cache::<[u64; 700]>::new("shared");
    crowd(THREADS, seed, None, &|thread, random| {
        if thread == 0 {
            (0..random.usize(1..4)).for_each(|_| check_table());
        }
        for _ in 0..random.usize(1..5) {
            if random.u8(..3) == 0 {
                heap::trim(0);
            }
            let kind = random.usize(..2);
            let Some(cache) = create_called(NAMES[kind], BYTES + kind * 1000) else { continue };
            let blocks: Vec<_> = (0..random.usize(1..5)).filter_map(|_| Block::of(cache)).collect();
            let object = shared.alloc([seed; 700]);
            blocks.into_iter().for_each(|block| block.free_to(cache));
            destroy(cache);
            assert!(object.is_ok_and(|object| object.iter().all(|&word| word == seed)), "an object is another's, too");
        }
    });
    heap::check::check_valid(|_| {});
    assert!(shared.destroy().is_ok(), "an object of the shared cache is alive");
    check_empty_heap();
    Ok(())
}

fn watched(seed: u64) -> Outcome {
    let Some(cache) = create_called(b"watched", 9000) else { return Ok(()) };
    let table = Table::new(2);
    let step = |own: &mut Vec<Block>, table: &Table, random: &mut Rng| match random.u8(..8) {
        0..=3 if own.len() < 6 => own.extend(Block::of(cache)),
        4 => {
            let block = own.pop();
            own.extend(table.exchange(block, random));
        }
        5 => own.pop().into_iter().for_each(Block::free),
        6 if random.u8(..4) == 0 => drop(cache.shrink()),
        _ => own.pop().into_iter().for_each(|block| block.free_to(cache)),
    };
    let end = |own: Vec<Block>| own.into_iter().for_each(|block| block.free_to(cache));
    let live = |own: &mut Vec<Block>, random: &mut Rng| {
        let table = Table::new(1);
        (0..20).for_each(|_| step(own, &table, random));
        end(std::mem::take(own));
        table.empty();
        Block::of(cache).map(|block| block.free_to(cache)).ok_or("a child gets no memory")
    };
    crowd_with_a_child((THREADS, 20), seed, &|_, own, random| step(own, &table, random), &live, &end);
    table.empty();
    heap::check::check_valid(|_| {});
    destroy(cache);
    check_empty_heap();
    Ok(())
}
