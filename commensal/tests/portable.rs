//! What programs use on all targets: the same tests for the runtime and for the plain means of other targets.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use commensal::Commensal;
use commensal::caches::{Alive, Cache, Constructed, OutOfMemory, Untunable};
use commensal::counter::{CounterSet, LazyCounter, NoMemory};
use commensal::rcu::{Cell, Loaded};

#[global_allocator]
static GLOBAL: Commensal = Commensal;

#[test]
fn blocks_that_grow_and_are_aligned_keep_their_contents() {
    #[repr(align(4096))]
    struct Page([u8; 4096]);

    commensal::settings::apply_environment();
    let mut numbers = Vec::new();
    let mut pages = Vec::new();
    for number in 0..10_000_usize {
        numbers.push(number);
        if number % 100 == 0 {
            pages.push(Box::new(Page([number as u8; 4096])));
        }
    }
    assert!(numbers.iter().enumerate().all(|(at, &number)| at == number));
    for (at, page) in pages.iter().enumerate() {
        assert_eq!((&raw const **page).addr() % 4096, 0);
        assert!(page.0.iter().all(|&byte| byte == (at * 100) as u8));
    }
    assert!(vec![0_u8; 100_000].iter().all(|&byte| byte == 0));
}

#[test]
fn counter_of_several_threads_has_the_sum_of_all_additions() {
    static COUNTER: LazyCounter = LazyCounter::new();
    static SET: CounterSet<3> = CounterSet::new();

    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..3000 {
                    COUNTER.add(2);
                    COUNTER.sub(1);
                    SET.add(number % 3, 1);
                }
            });
        }
    });
    assert_eq!(COUNTER.sum(), 12_000);
    let reading = COUNTER.read();
    assert!(reading.value.abs_diff(12_000) <= reading.error);
    assert_eq!([0, 1, 2].map(|index| SET.sum(index)), [4000; 3]);
    assert_eq!((SET.len(), COUNTER.reset(), COUNTER.sum()), (3, 12_000, 0));
    COUNTER.set(-5);
    assert_eq!((COUNTER.sum(), COUNTER.sum_positive(), COUNTER.read_positive().value), (-5, 0, 0));
    assert!(COUNTER.compare(-6).is_gt() && COUNTER.compare(-5).is_eq() && COUNTER.compare(7).is_lt());
}

#[test]
fn limited_additions_of_several_threads_stop_at_the_limit() {
    const LIMIT: i64 = 1000;
    let counter = LazyCounter::<1024>::with_range();
    let added = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..LIMIT {
                    added.fetch_add(usize::from(counter.limited_add(1, LIMIT)), Relaxed);
                    assert!(counter.sum() <= LIMIT);
                }
            });
        }
    });
    assert_eq!((counter.sum(), added.into_inner()), (LIMIT, LIMIT as usize));
    assert!(!counter.limited_add(1, LIMIT) && !counter.limited_add(i64::MAX, LIMIT));
    assert!(counter.limited_add(-1, 0) && counter.limited_add(1, LIMIT));
}

#[test]
fn counters_are_bound_shared_and_rebound() {
    let mut counter = LazyCounter::bound();
    counter.add(1);
    // SAFETY: this thread owns the counter.
    unsafe { counter.add_local(2) };
    counter.share().expect("there is memory");
    assert!(counter.is_shared());
    // SAFETY: it is upgraded.
    unsafe { counter.add_local(3) };
    counter.add_remote(4);
    assert_eq!((counter.try_add(5), counter.sum()), (Ok(()), 15));
    counter.rebind();
    assert_eq!(counter.sum(), 15);
}

#[test]
#[should_panic]
fn counter_of_no_index_panics() {
    CounterSet::<2>::new().add(2, 1);
}

/// Counts its drops.
struct Told(Arc<AtomicUsize>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn values_of_a_cache_are_dropped_by_their_owners() {
    let drops = Arc::new(AtomicUsize::new(0));
    let cache: Cache<Told> = Cache::new("told");
    let [one, other] = [(); 2].map(|()| cache.alloc(Told(drops.clone())).expect("there is memory"));
    assert_eq!((cache.alive(), drops.load(Relaxed)), (2, 0));
    drop(one);
    assert_eq!((cache.alive(), drops.load(Relaxed)), (1, 1));
    drop(other);
    assert!(cache.destroy().is_ok());
    assert_eq!(drops.load(Relaxed), 2);
}

#[test]
fn objects_stay_constructed_until_their_cache_goes() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    static DROPPED: AtomicUsize = AtomicUsize::new(0);

    struct Object(usize);

    impl Drop for Object {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Relaxed);
        }
    }

    let cache: Cache<Object, Constructed> = Cache::constructed("objects", || {
        MADE.fetch_add(1, Relaxed);
        Object(0)
    });
    let mut object = cache.get().expect("there is memory");
    object.0 = 7;
    drop(object);
    assert_eq!(cache.get().expect("there is memory").0, 7);
    assert_eq!(DROPPED.load(Relaxed), 0);
    drop(cache);
    assert_eq!(MADE.load(Relaxed), DROPPED.load(Relaxed));
}

#[test]
fn objects_of_a_cache_are_exclusive_and_change_threads() {
    static CACHE: Cache<[usize; 20]> = Cache::new("exclusive");

    let work = |thread: usize| {
        let mut mine = Vec::new();
        for turn in 0..500 {
            mine.push((CACHE.alloc([thread * 1000 + turn; 20]).expect("there is memory"), thread * 1000 + turn));
            if turn % 3 == 0 {
                drop(mine.swap_remove(turn % mine.len()));
            }
        }
        assert!(mine.iter().all(|(object, number)| object.iter().all(|word| word == number)));
        mine
    };
    let others: Vec<_> = (1..5).map(|thread| thread::spawn(move || work(thread))).collect();
    for other in others {
        drop(other.join().expect("each object is whole"));
    }
    assert_eq!(CACHE.alive(), 0);
}

#[test]
fn cache_with_a_live_object_is_not_destroyed() {
    let cache: Cache<u64> = Cache::new("alive");
    std::mem::forget(cache.alloc(1).expect("there is memory"));
    let (cache, alive) = cache.destroy().expect_err("an object is alive");
    assert_eq!((alive, cache.alive()), (Alive::Objects(1), 1));
}

#[test]
fn cache_is_prefilled_tuned_and_shrunk() {
    let cache: Cache<[u8; 100]> = Cache::new("tuned");
    assert_eq!((cache.tune(10, 0), cache.tune(10, 11)), (Err(Untunable::Numbers), Err(Untunable::Numbers)));
    assert_eq!((cache.tune(10, 5), cache.prefill(100)), (Ok(()), Ok(())));
    let objects: Vec<_> = (0..200).map(|number| cache.alloc([number; 100]).expect("there is memory")).collect();
    assert!(objects.iter().zip(0..).all(|(object, number)| **object == [number; 100]));
    drop(objects);
    cache.shrink();
    assert_eq!((cache.alive(), cache.alloc([1; 100]).is_ok()), (0, true));
}

#[test]
fn cache_takes_types_without_size_and_values_that_stay_on_their_thread() {
    static NOTHING: Cache<()> = Cache::new("nothing");
    // The cache itself is shared, but has no value of the type.
    static LOCAL: Cache<Rc<u32>> = Cache::new("local");

    let nothing = [(); 3].map(|()| NOTHING.alloc(()).expect("there is memory"));
    assert_eq!(NOTHING.alive(), nothing.len());
    assert_eq!(**LOCAL.alloc(Rc::new(5)).expect("there is memory"), 5);
}

#[test]
fn cell_shows_whole_values_and_drops_each_once() {
    let drops = Arc::new(AtomicUsize::new(0));
    let value = |number: usize| ([number; 8], Told(drops.clone()));
    let cell = Cell::new(value(0)).expect("there is memory");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut least = 0;
                while !is_over.load(Relaxed) {
                    let now = cell.load();
                    assert!(now.0.iter().all(|&number| number == now.0[0]) && now.0[0] >= least);
                    least = now.0[0];
                }
            });
        }
        for number in 1..=500 {
            cell.store(value(number)).expect("there is memory");
        }
        is_over.store(true, Relaxed);
    });
    let last = cell.load();
    cell.store(value(501)).expect("there is memory");
    assert_eq!((last.0[0], cell.load().0[0]), (500, 501));
    drop(last);
    drop(cell);
    while drops.load(Relaxed) < 502 {
        thread::yield_now();
    }
    assert_eq!(drops.load(Relaxed), 502);
}

#[test]
fn updates_of_several_threads_are_all_in_the_cell() {
    let cell = Cell::new(0_u64).expect("there is memory");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).for_each(|_| drop(cell.rcu(|now| now + 1).expect("there is memory"))));
        }
    });
    assert_eq!(*cell.load(), 2000);
}

/// Planted bug that was seen here: an error of the plain means without `Error`, which does not compile.
#[test]
fn errors_tell_what_is_wrong_on_all_targets() {
    let errors: [&dyn std::error::Error; 4] =
        [&OutOfMemory(Rc::new(1)), &NoMemory, &Alive::Objects(2), &Untunable::Numbers];
    let texts = errors.map(|error| error.to_string());
    assert!(texts.iter().zip(["memory", "memory", "2 objects", "batch"]).all(|(text, word)| text.contains(word)));
}

/// A type for which two implementations fit is ambiguous. Planted bug that was seen here: a loaded value of the plain
/// means that other threads may take, so that a program would compile there and not on x86-64 Linux.
#[test]
fn loaded_value_stays_on_its_thread_on_all_targets() {
    trait Stays<Way> {
        const IS_SO: bool = true;
    }
    struct AsItIsSend;
    impl<T> Stays<()> for T {}
    impl<T: Send> Stays<AsItIsSend> for T {}

    const { assert!(<Loaded<'static, u32> as Stays<_>>::IS_SO) }
}
