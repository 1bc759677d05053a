//! Object caches: what their owners rely on. Runs on the simulated machine, too. Caches that threads use, tune, create and destroy at the same
//! time are explored (`exploration/src/caches.rs`).

use commensal_runtime::caches::{Alive, Cache, Constructed, ObjectCache, OutOfMemory, Refused, Untunable, Wanted};
use commensal_runtime::heap::{self, check::check_valid};
use commensal_runtime::machine::fault::{self, Plan, Point};
use commensal_runtime::machine::kick;
use commensal_runtime::machine::test_support::play;
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs a program while no other test is in the heap, and looks afterwards whether the heap is whole.
fn alone<R>(program: impl FnOnce() -> R) -> R {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    play(7, || {
        let result = program();
        check_valid(|_| {});
        result
    })
}

fn wanted(bytes: usize, alignment: usize) -> Wanted<'static> {
    Wanted::plain(b"test", bytes, alignment)
}

fn create(bytes: usize, alignment: usize) -> &'static ObjectCache {
    ObjectCache::create(&wanted(bytes, alignment)).expect("there is memory")
}

/// Nobody uses the cache.
fn destroy(cache: &ObjectCache) -> Result<(), Alive> {
    // SAFETY: as said.
    unsafe { cache.destroy() }
}

/// The object is the caller's.
fn free(cache: &ObjectCache, object: *mut u8) {
    // SAFETY: as said.
    unsafe { cache.free(object) }
}

#[test]
fn objects_are_disjoint_aligned_and_writable_to_their_last_byte() {
    alone(|| {
        let sizes = [1, 8, 17, 24, 40, 64, 100, 1000, 4096, 5000, 40_000, 128 << 10];
        for (bytes, alignment) in
            sizes.iter().flat_map(|&bytes| [1, 8, 64, 4096, 64 << 10].map(|alignment| (bytes, alignment)))
        {
            let cache = create(bytes, alignment);
            let mut starts: Vec<usize> = (0..20).map(|_| cache.allocate() as usize).collect();
            for &start in &starts {
                assert!(start != 0 && start.is_multiple_of(alignment), "{bytes} bytes aligned to {alignment}");
                // SAFETY: the object is ours.
                unsafe { (start as *mut u8).write_bytes(0xa5, bytes) };
            }
            starts.sort_unstable();
            assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= bytes), "objects of {bytes} bytes overlap");
            assert_eq!(cache.alive(), 20);
            starts.into_iter().for_each(|start| free(cache, start as *mut u8));
            assert_eq!(destroy(cache), Ok(()));
        }
    });
}

#[test]
fn cache_with_invalid_options_is_refused() {
    alone(|| {
        let refusal = |wanted: &Wanted<'_>| ObjectCache::create(wanted).err();
        assert_eq!(refusal(&wanted(0, 8)), Some(Refused::Size));
        assert_eq!(refusal(&wanted((128 << 10) + 1, 8)), Some(Refused::Size));
        assert_eq!(refusal(&wanted(8, 0)), Some(Refused::Alignment));
        assert_eq!(refusal(&wanted(8, 24)), Some(Refused::Alignment));
        assert_eq!(refusal(&wanted(8, 128 << 10)), Some(Refused::Alignment));
        assert_eq!(refusal(&Wanted { name: b"", ..wanted(8, 8) }), Some(Refused::Name));
        assert_eq!(refusal(&Wanted { name: b"two words", ..wanted(8, 8) }), Some(Refused::Name));
        let cache = create(64, 8);
        for (limit, batch) in [(0, 0), (8, 0), (500, 126), (7, 8), (64 * 257, 64)] {
            assert_eq!(cache.tune(limit, batch), Err(Untunable::Numbers), "limit {limit}, batch {batch}");
        }
        assert_eq!(destroy(cache), Ok(()));
    });
}

#[test]
fn objects_are_blocks_of_the_heap_too() {
    alone(|| {
        let cache = create(1000, 8);
        let objects: Vec<_> = (0..300).map(|_| cache.allocate()).collect();
        for (number, &object) in objects.iter().enumerate() {
            // SAFETY: the objects are ours, and given up, or moved.
            unsafe {
                assert_eq!(heap::usable_bytes(object), 1000);
                object.write(number as u8);
                let moved = heap::reallocate(object, if number % 2 == 0 { 2000 } else { 900 });
                assert_eq!(moved.read(), number as u8, "the contents were lost on their way");
                heap::free(moved);
            }
        }
        assert_eq!(cache.alive(), 0);
        assert_eq!(destroy(cache), Ok(()));
    });
}

static MADE: AtomicUsize = AtomicUsize::new(0);
static DROPPED: AtomicUsize = AtomicUsize::new(0);

/// Counts its lives.
struct Counted([u64; 25]);

impl Counted {
    const BORN: u64 = 0x0b0e_0b0e;

    fn new() -> Self {
        MADE.fetch_add(1, Ordering::Relaxed);
        Counted([Self::BORN; 25])
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
        assert_eq!(self.0, [Self::BORN; 25], "an object is destroyed that is not constructed");
    }
}

#[test]
fn objects_stay_constructed_between_uses() {
    alone(|| {
        let cache = Cache::<Counted, Constructed>::constructed("counted", Counted::new);
        let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        for round in 0..20 {
            let objects: Vec<_> = (0..500).map(|_| cache.get().expect("there is memory")).collect();
            assert!(objects.iter().all(|object| object.0 == [Counted::BORN; 25]), "round {round}");
        }
        let first = of(&MADE);
        assert!((500..700).contains(&first), "{first} objects constructed for 500 in use");
        // Given back and cut again: constructed again.
        cache.shrink();
        assert_eq!(of(&DROPPED), first, "objects of unused spans are destroyed");
        drop(cache.get().expect("there is memory"));
        assert!(of(&MADE) > first && cache.destroy().is_ok());
        assert_eq!(of(&DROPPED), of(&MADE), "what is constructed is destroyed");
    });
}

#[test]
fn bulk_forms_give_each_object_once() {
    alone(|| {
        let cache = create(72, 8);
        for many in [0, 1, 7, 8, 9, 100, 1000] {
            let mut objects = vec![null_mut(); many];
            assert_eq!(cache.allocate_bulk(&mut objects), many);
            assert_eq!(objects.iter().collect::<BTreeSet<_>>().len(), many, "an object twice");
            assert_eq!(cache.alive(), many);
            // SAFETY: the objects are ours.
            unsafe {
                objects.iter().for_each(|object| object.write_bytes(3, 72));
                cache.free_bulk(&objects);
            }
            assert_eq!(cache.alive(), 0);
        }
        assert_eq!(destroy(cache), Ok(()));
    });
}

#[test]
fn prefilled_cache_allocates_when_memory_runs_out() {
    alone(|| {
        const SET_ASIDE: usize = 200;
        let cache = create(10_000, 8);
        cache.prefill(SET_ASIDE).expect("there is memory");
        cache.prefill(SET_ASIDE / 2).expect("as much is set aside already");
        // From now on no span can be had: what lies in segments is used up, and there are no others.
        let hog = create(20_000, 8);
        fault::arm(Point::Reserve, Plan::Always { skip: 0 });
        let hogged: Vec<_> = std::iter::from_fn(|| Some(hog.allocate()).filter(|object| !object.is_null())).collect();
        let objects: Vec<_> =
            std::iter::from_fn(|| Some(cache.allocate()).filter(|object| !object.is_null())).collect();
        let failed = cache.prefill(1).is_err();
        fault::arm(Point::Reserve, Plan::Never);
        assert!(objects.len() >= SET_ASIDE, "{} of {SET_ASIDE} allocations went well", objects.len());
        assert!(failed, "memory was set aside where there was none");
        hogged.into_iter().for_each(|object| free(hog, object));
        objects.into_iter().for_each(|object| free(cache, object));
        assert_eq!((destroy(hog), destroy(cache)), (Ok(()), Ok(())));
    });
}

#[test]
fn many_caches_are_created_and_destroyed_without_a_kick() {
    const MANY: usize = if cfg!(debug_assertions) { 1000 } else { 10_000 };
    alone(|| {
        let before = kick::counts();
        for round in 0..2 {
            let caches: Vec<_> = (0..MANY).map(|number| create(16 + number % 500, 8)).collect();
            let objects: Vec<_> = caches.iter().map(|cache| cache.allocate()).collect();
            assert!(objects.iter().all(|object| !object.is_null()), "round {round}");
            assert_eq!(objects.iter().collect::<BTreeSet<_>>().len(), MANY);
            for (cache, object) in caches.into_iter().zip(objects) {
                free(cache, object);
                assert_eq!(destroy(cache), Ok(()));
            }
        }
        assert_eq!(kick::counts(), before, "creating and destroying caches kicks nobody");
    });
}

#[test]
fn typed_cache_drops_values_and_keeps_constructed_objects() {
    alone(|| {
        let counted = Rc::new(());
        let values = Cache::<Rc<()>>::new("values");
        let first = values.alloc(counted.clone()).expect("there is memory");
        let second = values.alloc(counted.clone()).expect("there is memory");
        assert_eq!((values.alive(), Rc::strong_count(&counted)), (2, 3));
        drop(first);
        assert_eq!((values.alive(), Rc::strong_count(&counted)), (1, 2));
        std::mem::forget(second);
        let (values, why) = values.destroy().expect_err("an object is alive");
        assert_eq!(why, Alive::Objects(1));
        drop(values);
        assert_eq!(Rc::strong_count(&counted), 2, "nothing was freed");

        let lists = Cache::<Vec<u32>, Constructed>::constructed("lists", || Vec::with_capacity(100));
        // By the address of its elements, how many each list was left with.
        let mut left = BTreeMap::new();
        for number in 0..1000 {
            let mut held: Vec<_> = (0..number % 5).filter_map(|_| lists.get()).collect();
            for list in &mut held {
                let len = left.entry(list.as_ptr() as usize).or_insert(0);
                // An object whose span went back is made anew, perhaps with the same memory.
                *len = if list.is_empty() { 0 } else { *len };
                assert_eq!(list.len(), *len, "an object is not as it was left");
                if list.len() < 100 {
                    list.push(number);
                    *len += 1;
                }
            }
        }
        assert!(left.values().any(|&len| len > 1), "no object came back");
        assert!(lists.destroy().is_ok());
    });
}

#[test]
fn typed_cache_without_memory_returns_the_value() {
    alone(|| {
        fault::arm(Point::Reserve, Plan::Always { skip: 0 });
        let cache = Cache::<[u8; 10 << 10]>::new("hungry");
        let mut boxes = Vec::new();
        let error = loop {
            match cache.alloc([1; 10 << 10]) {
                Ok(object) => boxes.push(object),
                Err(OutOfMemory(value)) => break value,
            }
        };
        fault::arm(Point::Reserve, Plan::Never);
        assert_eq!(error[0], 1);
    });
}
