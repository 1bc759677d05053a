//! The heap profile: which allocations are sampled, and what the samples say.

mod common;

use commensal_runtime::caches::{ObjectCache, Wanted};
use commensal_runtime::group::Group;
use commensal_runtime::heap;
use commensal_runtime::machine::probe;
use commensal_runtime::profile::{self, Figures, Region};
use commensal_runtime::upkeep;
use common::child::in_both_modes;
use common::forked;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const MEAN: u64 = 16 << 10;

/// Sums of all sites: allocated, and live.
fn told() -> (Figures, Figures) {
    profile::sites().fold(Default::default(), |(mut allocated, mut live): (Figures, Figures), reading| {
        allocated += reading.site.allocated;
        live += reading.site.live();
        (allocated, live)
    })
}

fn random(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

/// Allocates and frees at random, in bursts and one by one. Returns bytes allocated, and adds what stays live.
fn work(seed: u64, live: &mut Vec<*mut u8>) -> (f64, f64) {
    const SIZES: [usize; 9] = [16, 24, 64, 200, 700, 4096, 20_000, 50_000, 300_000];
    let (mut state, mut blocks, mut all) = (seed, 0.0, 0.0);
    for _ in 0..400 {
        let bytes = SIZES[random(&mut state) % SIZES.len()];
        for _ in 0..1 + random(&mut state) % (400_000 / bytes).clamp(1, 300) {
            let block = heap::allocate(bytes);
            assert!(!block.is_null());
            live.push(block);
            (blocks, all) = (blocks + 1.0, all + bytes as f64);
        }
        let keep = random(&mut state) % 300;
        while live.len() > keep {
            let at = random(&mut state) % live.len();
            let block = live.swap_remove(at);
            // SAFETY: the block is ours.
            unsafe { heap::free(block) };
        }
        if random(&mut state).is_multiple_of(40) {
            heap::trim(0);
        }
    }
    (blocks, all)
}

/// Planted bugs that were seen here: a magazine that leaves its slot refunds nothing; a gap that is drawn anew at each
/// magazine.
#[test]
fn estimates_are_right_within_their_error() {
    in_both_modes(estimates_are_right);
}

/// A planted bug that was seen here: a sample counts by the probability of both kinds.
#[test]
fn estimates_are_right_while_blocks_are_guarded() {
    in_both_modes(|| {
        assert!(heap::check::guard(MEAN / 2));
        estimates_are_right();
    });
}

fn estimates_are_right() {
    assert!(profile::start(MEAN));
    let (mut live, mut blocks, mut bytes) = (Vec::new(), 0.0, 0.0);
    for seed in 0..60 {
        let more = work(seed, &mut live);
        (blocks, bytes) = (blocks + more.0, bytes + more.1);
    }
    let (allocated, _) = told();
    let right = |estimate: f64, truth: f64, error: f64| (estimate / truth - 1.0).abs() < error;
    // Five standard deviations each: 0.0017 and 0.012.
    assert!(right(allocated.bytes, bytes, 0.0085), "{allocated:?}, {bytes} bytes");
    assert!(right(allocated.blocks, blocks, 0.06), "{allocated:?}, {blocks} blocks");
    assert_eq!(profile::lost(), 0);
    // SAFETY: the blocks are ours.
    live.drain(..).for_each(|block| unsafe { heap::free(block) });
    let (_, live) = told();
    assert!(live.blocks.abs() < 1e-3 && live.bytes.abs() < 1.0, "{live:?}");
    profile::stop();
    heap::check::check_valid(|_| {});
}

/// Three call sites allocate known bytes in whole objects, a thousand times. For each time and site, the estimate and its error follow
/// from the number of samples.
///
/// Standard deviations of the means are at most 0.18 %, and that of the coverage is 0.4 %.
#[test]
fn thousand_estimates_by_site_are_right_and_their_intervals_cover_the_truth() {
    const TIMES: usize = 1000;
    const MEAN: f64 = 8192.0;
    const SITES: [(&[u8], usize, usize); 3] =
        [(b"small", 64, 40_000), (b"middle", 1024, 3000), (b"large", 20_480, 200)];
    in_both_modes(|| {
        assert!(profile::start(MEAN as u64));
        let regions = SITES.map(|(name, ..)| Region::named(name));
        let samples = || {
            regions.map(|region| {
                let here = profile::sites().filter(|reading| reading.site.labels.region == region.number());
                here.map(|reading| f64::from(reading.site.samples)).sum::<f64>()
            })
        };
        let (mut sums, mut covered, mut before) = ([0.0; 3], 0, samples());
        for _ in 0..TIMES {
            for (region, (_, bytes, blocks)) in regions.iter().zip(SITES) {
                let _within = region.enter();
                for _ in 0..blocks {
                    // SAFETY: the block is ours.
                    unsafe { heap::free(std::hint::black_box(heap::allocate(bytes))) };
                }
            }
            let now = samples();
            for (site, (_, bytes, blocks)) in SITES.into_iter().enumerate() {
                let (count, probability) = (now[site] - before[site], -(-(bytes as f64) / MEAN).exp_m1());
                let (estimate, truth) = (count * bytes as f64 / probability, (bytes * blocks) as f64);
                let deviation = bytes as f64 / probability * (count * (1.0 - probability)).sqrt();
                sums[site] += estimate / truth / TIMES as f64;
                covered += usize::from((estimate - truth).abs() <= 1.96 * deviation);
            }
            before = now;
        }
        assert!(sums.iter().all(|mean| (0.99..1.01).contains(mean)), "{sums:?}");
        let coverage = covered as f64 / (3 * TIMES) as f64;
        assert!((0.93..0.97).contains(&coverage), "{coverage}");
    });
}

/// Planted bugs that were seen here: the same two.
#[test]
fn each_allocation_is_counted_once() {
    const SIZES: [usize; 5] = [16, 64, 1000, 8192, 32_768];
    const THREADS: u64 = 3;
    in_both_modes(|| {
        assert!(profile::start(1 << 60));
        let counts = SIZES.map(|_| AtomicUsize::new(0));
        let table = Mutex::new(Vec::new());
        let work = |seed| {
            let (mut state, mut own) = (seed, Vec::new());
            for _ in 0..40_000 {
                match random(&mut state) % 16 {
                    0..7 => {
                        let size = random(&mut state) % SIZES.len();
                        let block = heap::allocate(SIZES[size]);
                        assert!(!block.is_null());
                        counts[size].fetch_add(1, Ordering::Relaxed);
                        own.push(block.expose_provenance());
                    }
                    7 | 8 => std::mem::swap(&mut own, &mut table.lock().expect("no thread panicked")),
                    9 if random(&mut state).is_multiple_of(200) => _ = heap::trim(0),
                    _ => own.pop().into_iter().for_each(free),
                }
            }
            own.into_iter().for_each(free);
        };
        let work = &work;
        thread::scope(|scope| (1..=THREADS).for_each(|seed| drop(scope.spawn(move || work(seed)))));
        for (bytes, count) in SIZES.into_iter().zip(&counts) {
            heap::check::check_gaps(bytes, count.load(Ordering::Relaxed));
        }
        assert_eq!(profile::sites().count(), 0, "samples were to be rare");
    });
}

/// Planted bugs: upkeep does not look, the slow paths do not look, a tracer ends samples that the program began.
#[test]
fn samples_begin_and_end_with_a_tracer_unless_the_program_began_them() {
    in_both_modes(|| {
        upkeep::set_knob("shepherd", 0).expect("a setting");
        let mut live = Vec::new();
        let mut on_slow_paths_until = |is_on: bool| {
            let end = Instant::now() + Duration::from_secs(20);
            while profile::is_on() != is_on {
                assert!(Instant::now() < end, "sampling: {}, and not so for 20 s", !is_on);
                work(1, &mut live);
            }
        };
        let at_a_tick = || {
            upkeep::tick();
            profile::is_on()
        };
        probe::attach();
        on_slow_paths_until(true);
        probe::detach();
        on_slow_paths_until(false);
        probe::attach();
        assert!(at_a_tick());
        profile::stop();
        assert!(at_a_tick(), "a tracer asks for samples");
        probe::detach();
        assert!(!at_a_tick());

        assert!(profile::start(MEAN));
        probe::attach();
        assert!(at_a_tick());
        probe::detach();
        assert!(at_a_tick(), "the program asks for samples");
        profile::stop();
        assert!(!at_a_tick());

        probe::attach();
        assert!(at_a_tick());
        assert!(profile::start(MEAN));
        probe::detach();
        assert!(at_a_tick(), "the program asks for samples since then");
    });
}

/// A program with a mean gap of one byte, where each block is sampled and stands for itself.
struct Exact {
    blocks: Vec<(*mut u8, usize)>,
}

impl Exact {
    fn begin() -> Self {
        assert!(profile::start(1));
        Exact { blocks: Vec::new() }
    }

    fn keep(&mut self, block: *mut u8, bytes: usize) {
        assert!(!block.is_null(), "{bytes} bytes");
        self.blocks.push((block, bytes));
        self.check();
    }

    fn resize(&mut self, index: usize, bytes: usize) {
        let (block, _) = self.blocks.swap_remove(index);
        // SAFETY: the block is ours.
        self.keep(unsafe { heap::reallocate(block, bytes) }, bytes);
    }

    fn check(&self) {
        let live = told().1;
        let bytes: usize = self.blocks.iter().map(|block| block.1).sum();
        let expected = (self.blocks.len() as f64, bytes as f64);
        let is_right = |told: f64, truth: f64| (told - truth).abs() <= truth * 1e-6 + 1e-6;
        assert!(is_right(live.blocks, expected.0) && is_right(live.bytes, expected.1), "{live:?}: {expected:?}");
    }

    fn end(mut self) {
        while let Some((block, _)) = self.blocks.pop() {
            // SAFETY: the block is ours.
            unsafe { heap::free(block) };
            self.check();
        }
        profile::stop();
        assert_eq!(profile::lost(), 0);
        heap::check::check_valid(|_| {});
    }
}

/// Planted bugs that were seen here: a sample counted twice; a block with a new length that keeps its old sample.
#[test]
fn blocks_of_every_kind_are_told_while_they_live() {
    in_both_modes(blocks_are_told);
}

/// Planted bugs that were seen here: a guarded block that is freed without a word to the profile.
#[test]
fn guarded_blocks_are_told_while_they_live() {
    in_both_modes(|| {
        assert!(heap::check::guard(1));
        blocks_are_told();
    });
}

fn blocks_are_told() {
    let mut exact = Exact::begin();
    for bytes in [1, 100, 5000, 32_768, 50_000, 300_000, 5 << 20, 70 << 20] {
        exact.keep(heap::allocate(bytes), bytes);
        exact.keep(heap::allocate_zeroed(bytes), bytes);
    }
    for (bytes, alignment) in [(100, 64), (3000, 4096), (70_000, 32), (100_000, 1 << 16), (40, 1 << 21)] {
        exact.keep(heap::allocate_aligned(bytes, alignment), bytes);
    }
    // In place.
    exact.keep(heap::allocate(600_000), 600_000);
    exact.resize(exact.blocks.len() - 1, 400_000);
    for (index, bytes) in [(0, 90), (3, 6000), (5, 100), (8, 60_000), (9, 400_000), (2, 7 << 20), (1, 20)] {
        exact.resize(index, bytes);
    }
    exact.end();
}

/// Planted bugs that were seen here: a group that ends without a word to the profile; a sample that notes no block.
#[test]
fn blocks_of_groups_are_told_and_charged() {
    in_both_modes(|| {
        let group = Group::new("sampled").expect("there is memory");
        let mut exact = Exact::begin();
        for bytes in [24, 3000, 200_000] {
            exact.keep(group.core().allocate(bytes, 16).expect("there is room"), bytes);
            // SAFETY: what is allocated in the group is freed before it ends.
            exact.keep(unsafe { group.within(|| heap::allocate(bytes)) }, bytes);
        }
        assert!(group.charged() >= 2 * (24 + 3000 + 200_000));
        exact.resize(4, 250_000);
        exact.end();
        assert_eq!(group.charged(), 0);
        // Those that live when a group ends, end with it.
        assert!(profile::start(1));
        assert!(group.core().allocate(100, 16).is_some() && group.core().allocate(100_000, 16).is_some());
        assert!(told().1.blocks > 1.9);
        drop(group);
        assert!(told().1.blocks.abs() < 1e-3);
    });
}

/// Planted bugs that were seen here: objects given one by one, or many at once, that no gap counts.
#[test]
fn objects_of_typed_caches_are_told_as_allocated_only() {
    in_both_modes(|| {
        let cache = ObjectCache::create(&Wanted::plain(b"typed", 120, 8)).expect("there is memory");
        let exact = Exact::begin();
        let mut objects: Vec<_> = (0..300).map(|_| cache.allocate()).collect();
        let mut bulk = [null_mut(); 100];
        assert_eq!(cache.allocate_bulk(&mut bulk), bulk.len());
        objects.extend(bulk);
        let allocated = told().0;
        assert!(
            (allocated.blocks - 400.0).abs() < 1e-3 && (allocated.bytes - 400.0 * 120.0).abs() < 1.0,
            "{allocated:?}"
        );
        // SAFETY: the objects are ours.
        objects.into_iter().for_each(|object| unsafe { cache.free(object) });
        exact.end();
    });
}

#[test]
fn fork_child_goes_on_with_its_parents_samples() {
    in_both_modes(|| {
        let mut exact = Exact::begin();
        exact.keep(heap::allocate(100), 100);
        let in_child = || {
            // SAFETY: the child has its own copy of the block.
            unsafe { heap::free(exact.blocks[0].0) };
            let block = heap::allocate(70_000);
            let live = told().1;
            let is_right = !block.is_null() && (live.bytes - 70_000.0).abs() < 1.0;
            if is_right { Ok(()) } else { Err(format!("live in the child: {live:?}")) }
        };
        assert_eq!(forked::run(in_child), Ok(()));
        exact.end();
    });
}

fn free(block: usize) {
    // SAFETY: the block is ours.
    unsafe { heap::free(with_exposed_provenance_mut(block)) }
}
