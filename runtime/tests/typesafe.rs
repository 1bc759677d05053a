//! Typesafe caches: what a section has found stays an object of its type, whatever becomes of it; its memory goes back afterwards, all of it, and until then is
//! what the cache uses first. Readers, updaters, sweepers and forks at the same time are explored (`exploration/src/typesafe.rs`).

mod common;

use commensal_runtime::caches::Cache;
use commensal_runtime::heap;
use commensal_runtime::rcu::{self, Link, TypesafeCache};
use common::child::{self, in_both_modes};
use common::{PATIENCE, have_threads};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const MAGIC: u64 = 0x600d_0b1e_c700_0001;
/// Of objects, which are so large that a span has few.
const WORDS: usize = 750;

static MADE: AtomicUsize = AtomicUsize::new(0);
static DROPPED: AtomicUsize = AtomicUsize::new(0);

/// Says whether it is one.
struct Object {
    magic: AtomicU64,
    rest: [AtomicU64; WORDS],
}

impl Object {
    fn new() -> Self {
        MADE.fetch_add(1, Ordering::Relaxed);
        Object { magic: AtomicU64::new(MAGIC), rest: [const { AtomicU64::new(MAGIC) }; WORDS] }
    }

    fn is_whole(&self) -> bool {
        self.magic.load(Ordering::Relaxed) == MAGIC && self.rest[WORDS - 1].load(Ordering::Relaxed) == MAGIC
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        self.magic.store(0, Ordering::Relaxed);
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Objects that exist, in use or not.
fn existing() -> usize {
    MADE.load(Ordering::Relaxed) - DROPPED.load(Ordering::Relaxed)
}

static OBJECTS: TypesafeCache<Object> = TypesafeCache::new("object", Object::new);

/// Takes many objects and gives them back, so that whole spans are given up.
fn churn(many: usize) {
    let objects: Vec<_> = (0..many).map(|_| OBJECTS.get().expect("there is memory")).collect();
    assert!(objects.iter().all(|object| object.is_whole()));
    drop(objects);
    OBJECTS.shrink();
}

/// Planted bug that was seen here: waiting spans are not used again.
#[test]
fn memory_stays_below_its_peak_while_a_section_is_open() {
    in_both_modes(|| {
        const MANY: usize = 200;
        have_threads();
        let section = rcu::read();
        churn(MANY);
        assert!(existing() >= MANY, "the first ones linger: {}", existing());
        // Until all places in these spans have been used.
        (0..5).for_each(|_| churn(MANY));
        let after_few = existing();
        assert!(after_few < 2 * MANY, "{after_few} exist, of which {MANY} are used at once");
        for _ in 0..50 {
            churn(MANY);
        }
        assert!(existing() <= after_few + 16, "{} exist, after some rounds {after_few}", existing());
        assert_eq!(DROPPED.load(Ordering::Relaxed), 0, "while a section is open");
        drop(section);
        // By itself.
        let start = Instant::now();
        while existing() > 0 {
            assert!(start.elapsed() < PATIENCE, "{} exist still", existing());
            thread::sleep(Duration::from_millis(1));
        }
    });
}

#[test]
fn typesafe_cache_drop_waits_for_its_readers() {
    in_both_modes(|| {
        // In safe Rust nobody could look at objects of a cache that another thread ends; in C anybody can.
        let cache = Box::into_raw(Box::new(TypesafeCache::new("passing", Object::new)));
        // SAFETY: it ends below, after the link.
        let borrowed = unsafe { &*cache };
        let link = Link::new(borrowed);
        link.swap(borrowed.get());
        let link = Arc::new(Mutex::new(Some(link)));
        let (is_reading, is_read) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (of_reader, begins, ends) = (Arc::clone(&link), Arc::clone(&is_reading), Arc::clone(&is_read));
        let reader = thread::spawn(move || {
            let section = rcu::read();
            let object = of_reader.lock().unwrap().as_ref().and_then(|link| link.load(&section)).expect("it is there");
            begins.store(true, Ordering::Relaxed);
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(100) {
                assert!(object.is_whole(), "it went while it was looked at");
            }
            ends.store(true, Ordering::Relaxed);
        });
        while !is_reading.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        drop(link.lock().unwrap().take());
        // SAFETY: nobody uses it any more.
        drop(unsafe { Box::from_raw(cache) });
        assert!(is_read.load(Ordering::Relaxed), "it did not wait");
        assert_eq!(existing(), 0);
        reader.join().expect("the reader found it whole");
    });
}

#[test]
fn typesafe_cache_dropped_in_own_section_ends_the_program() {
    if child::case().is_some() {
        have_threads();
        let cache = TypesafeCache::new("passing", Object::new);
        drop(cache.get());
        let _section = rcu::read();
        drop(cache);
        return;
    }
    child::run(&mut child::command("act")).expect_death("waits for readers in a read section");
}

#[test]
fn objects_of_two_caches_are_not_mixed_up() {
    let other = TypesafeCache::new("other", Object::new);
    let link = Link::new(&OBJECTS);
    let of_other = other.get();
    let swapped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| link.swap(of_other)));
    assert!(swapped.is_err());
}

#[test]
fn rules_that_would_harm_readers_are_not_followed() {
    if child::case().is_some() {
        have_threads();
        let link = Link::new(&OBJECTS);
        drop(link.swap(OBJECTS.get()));
        let section = rcu::read();
        let object = link.load(&section).expect("it is there");
        drop(link.swap(None));
        OBJECTS.shrink();
        assert!(object.is_whole(), "it was written to");
        // As a general class's it would be anybody's.
        let blocks: Vec<_> = (0..2000).map(|_| heap::allocate(size_of::<Object>())).collect();
        assert!(!blocks.contains(&std::ptr::from_ref(object).cast_mut().cast()));
        return;
    }
    for conf in ["cache.object.debug:all", "cache.object.debug:poison", "cache.object.dedicated:off"] {
        let mut command = child::command("act");
        child::run(command.env("COMMENSAL_CONF", conf)).expect_success();
    }
}

#[test]
fn watched_cache_constructs_objects_once() {
    if child::case().is_some() {
        let cache = Cache::constructed("object", Object::new);
        // A watched cache keeps no spare memory.
        let _keeps_the_span = cache.get();
        let made = MADE.load(Ordering::Relaxed);
        (0..1000).for_each(|_| assert!(cache.get().expect("there is memory").is_whole(), "it was written to"));
        assert!(MADE.load(Ordering::Relaxed) < made + 100, "it was constructed anew for each use");
        return;
    }
    for conf in ["cache.object.debug:poison", "cache.object.debug:poison+redzone+track"] {
        let mut command = child::command("act");
        child::run(command.env("COMMENSAL_CONF", conf)).expect_success();
    }
}
