//! The depots' working set, in virtual time.

use commensal_runtime::{heap, upkeep};
use machine::clock;
use machine::simulation::{Job, Place, Settings, run, simulate, sleep};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// Magazines hold 32 of them at first, and up to 125.
const BYTES: usize = 512;
const INTERVAL_MS: u32 = 10;
const INTERVAL_NS: u64 = INTERVAL_MS as u64 * 1_000_000;
/// Between two batches: there are many in an interval.
const PAUSE_NS: u64 = 100_000;

/// For so many intervals, one thread allocates batches and another one frees them. Then so many blocks are cached.
fn cached_after(phases: &[(usize, u64)]) -> Vec<usize> {
    let settings = Settings { cpus: 2, most_steps: u64::MAX, store_buffer: 0, ..Settings::default() };
    let (known, under_way, is_over) =
        (RefCell::new(BTreeSet::<usize>::new()), RefCell::new(Vec::new()), Cell::new(false));
    let phase = |&(batch, intervals): &(usize, u64)| {
        let produce = || {
            let end = clock::now_ns() + intervals * INTERVAL_NS;
            while clock::now_ns() < end {
                let blocks: Vec<usize> = (0..batch).map(|_| heap::allocate(BYTES) as usize).collect();
                known.borrow_mut().extend(&blocks);
                under_way.borrow_mut().extend(blocks);
                sleep(PAUSE_NS);
            }
            is_over.set(true);
        };
        let consume = || {
            while !is_over.get() || !under_way.borrow().is_empty() {
                let blocks = under_way.take();
                // SAFETY: the other thread allocated them, and left them to us.
                blocks.into_iter().for_each(|block| unsafe { heap::free(block as *mut u8) });
                sleep(PAUSE_NS);
            }
        };
        is_over.set(false);
        let jobs: Vec<(Job<'_>, Place)> = vec![(Box::new(produce), Place::On(0)), (Box::new(consume), Place::On(1))];
        run(jobs, None);
        let mut cached = 0;
        heap::check::check_valid(|object| cached += usize::from(known.borrow().contains(&(object as usize))));
        cached
    };
    let simulated = simulate(settings, None, || {
        upkeep::set_knob("shepherd", 0).expect("it is in range");
        upkeep::set_knob("interval_ms", INTERVAL_MS).expect("it is in range");
        phases.iter().map(phase).collect()
    });
    simulated.outcome.unwrap_or_else(|failure| panic!("{failure}"))
}

/// Planted: a depot with room for 256 KiB, and turns that trim nothing.
#[test]
fn depot_keeps_its_working_set_and_shrinks_within_two_intervals() {
    const MANY: usize = 2000;
    const FEW: usize = 100;
    let [grown, shrunk] = cached_after(&[(MANY, 20), (FEW, 3)])[..] else { panic!("there were two phases") };
    println!("{grown} blocks are cached after batches of {MANY}, {shrunk} after batches of {FEW}");
    assert!(grown >= MANY * 9 / 10, "{grown} of {MANY} blocks are cached");
    // Each of two slots has two magazines, and one in its depot.
    assert!(shrunk <= 6 * 125, "{shrunk} blocks are cached, and {FEW} are needed");
}
