//! The heap profile: which allocations are sampled, and what the samples say.

mod common;

use commensal::heap;
use commensal::profile::{self, Figures};
use common::child::in_both_modes;
use std::ptr::with_exposed_provenance_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

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

/// Planted bugs that were seen here: see the list in `docs/design/profile.md`.
#[test]
fn estimates_are_right_within_their_error() {
    in_both_modes(|| {
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
    });
}

/// Planted bugs that were seen here: a magazine that leaves its slot refunds nothing; one that is cut reserves all.
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

fn free(block: usize) {
    // SAFETY: the block is ours.
    unsafe { heap::free(with_exposed_provenance_mut(block)) }
}
