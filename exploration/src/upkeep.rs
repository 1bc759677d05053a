//! Upkeep: slots that are emptied by others, while their threads take and give, and by their own; and forks in the middle of that.
//!
//! Time does not pass by itself here: whoever takes a step says that it is some milliseconds later, and so many turns were missed. To the timetable that is a
//! clock that jumps, ahead and back.

use crate::blocks::{Block, Table};
use crate::caches::{create, destroy};
use crate::forks::{crowd_with_a_child, live};
use crate::heaps::{Owned, crowd, end};
use crate::protocol::{BOTH, NO_SIGNALS, protocols};
use commensal_runtime::heap;
use commensal_runtime::upkeep;
use fastrand::Rng;
use machine::clock;
use machine::simulation::explore::Outcome;
use machine::simulation::{Rates, sleep};

protocols! {
    "upkeep":
        "threads that take and give blocks of few classes, while some of them empty slots that they say are deserted",
        kept_up, NO_SIGNALS, BOTH => by_ids RestartIsFence, by_ids SectionsGoOn, in_fallback ChangesTear;
    "upkeep refused": "the same, while the kernel refuses pages that it should take back, kicks, and memory",
        kept_up, Rates { refuse: 12_000, ..NO_SIGNALS }, BOTH => by_ids SectionsGoOn;
    "upkeep forks": "forks while a slot is emptied: the child's heap is whole, and it can keep its own slots up",
        forked, NO_SIGNALS, BOTH => by_ids NoWipe;
}

const THREADS: usize = 3;
const OPERATIONS: usize = 30;
/// Sizes whose arrays hold few.
const SIZES: [usize; 3] = [20_000, 32_768, 8192];

/// Of a size whose spans come from page lists, sixteen to a span, and blocks of a burst.
const PAGE_LISTS: usize = 4096;
const MANY: usize = 100;

/// As many steps as it takes until nothing is due, at a time some turns later.
fn steps(random: &mut Rng) {
    let later = clock::now_ns() + random.u64(1..6) * 1_000_000 + random.u64(..1_000_000);
    for _ in 0..random.usize(1..8) {
        match upkeep::step(later) {
            Some(at) if at <= later => {}
            _ => return,
        }
    }
}

/// All steps are ours: what a shepherd did at the end, nobody could look at in peace.
fn keep_up() {
    upkeep::set_knob("shepherd", 0).expect("it is in range");
    upkeep::set_knob("interval_ms", 1).expect("it is in range");
}

fn kept_up(seed: u64) -> Outcome {
    let table = Table::new(3);
    keep_up();
    crowd(THREADS, seed, None, &|thread, random| {
        let mut owned = Owned::default();
        for _ in 0..OPERATIONS {
            match (thread, random.u8(..30)) {
                (0, ..10) => steps(random),
                // Others who go over all caches.
                (1.., ..3) => _ = heap::trim(0),
                _ => {}
            }
            owned.step(&SIZES, &table, random);
            match random.u8(..20) {
                // Whoever comes next looks, and joins.
                0 => keep_up(),
                // So long that nobody has come along for what he has.
                1 => sleep(random.u64(..3_000_000)),
                // A cache that ends, perhaps while somebody has what it has in a slot.
                3 => {
                    let Some(cache) = create(SIZES[2]) else { continue };
                    let some: Vec<_> = (0..random.usize(1..6)).filter_map(|_| Block::of(cache)).collect();
                    some.into_iter().for_each(|block| block.free_to(cache));
                    if random.bool() {
                        sleep(random.u64(..2_000_000));
                    }
                    destroy(cache);
                }
                // So many spans that a page list has more than it keeps.
                2 => {
                    let many: Vec<_> = (0..random.usize(..MANY)).filter_map(|_| Block::new(PAGE_LISTS)).collect();
                    many.into_iter().for_each(Block::free);
                }
                _ => {}
            }
        }
        owned.free_all();
    });
    end(&table)
}

fn forked(seed: u64) -> Outcome {
    keep_up();
    let table = Table::new(3);
    let step = |thread, owned: &mut Owned, random: &mut Rng| {
        if thread != 0 && random.bool() {
            steps(random);
        }
        owned.step(&SIZES, &table, random);
    };
    let live = |owned: &mut Owned, random: &mut Rng| {
        steps(random);
        live(owned, false, random)
    };
    crowd_with_a_child((THREADS, 20), seed, &step, &live, &Owned::free_all);
    end(&table)
}
