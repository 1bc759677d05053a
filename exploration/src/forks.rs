//! Forks at any step: children that use heap and counters of which other threads were in the middle.

use crate::blocks::{Block, SIZES, Table};
use crate::heaps::{Owned, crowd, end, nothing_is_live};
use crate::protocol::{BOTH, NO_SIGNALS, protocols};
use commensal_runtime::counter::LazyCounter;
use commensal_runtime::{heap, profile};
use fastrand::Rng;
use machine::simulation::explore::Outcome;
use machine::simulation::{Ended, Rates, fork, fork_on};
use machine::slot::{self, Mode};
use machine::sync::{Ordering, fence};
use std::cell::Cell;

protocols! {
    "fork": "bare and ordinary forks by threads while others are anywhere in the heap",
        forked, NO_SIGNALS, BOTH => by_ids NoWipe;
    "sampled forks": "forks while blocks are sampled, each one: the child frees its parent's, and the profile of each tells its own",
        sampled, NO_SIGNALS, BOTH => by_ids NoWipe;
    "fork in handlers": "forks by signal handlers, on top of threads that are anywhere in the heap",
        forked_by_handlers, Rates { signal: 400, ..Rates::USUAL }, &[Mode::ConcurrencyId] => by_ids NoWipe;
    "guarded blocks": "guarded blocks that other threads than theirs free and move, and a fork child that goes on with them",
        guarded, NO_SIGNALS, BOTH => by_ids SectionsGoOn, in_fallback ChangesTear;
    "counter forks": "a child sees a counter as it was, and counts on by itself, also on top of a thread that a handler interrupts",
        counted, Rates { signal: 200, ..Rates::USUAL }, BOTH => by_ids SectionsGoOn;
}

const THREADS: usize = 3;
const CHILD_SIZES: [usize; 5] = [32, 4096, 20_000, 32_768, 50_000];

/// A process that has all its memory from here has allocated before it has a second thread: creating one allocates. A program with another malloc
/// may have threads that fork before it has the heap.
fn begin(seed: u64) {
    if seed.is_multiple_of(2) {
        Block::new(CHILD_SIZES[0]).expect("there is memory").free();
    }
}

/// What a child does: it uses what its thread owns, and allocates and frees much more. Not in a handler, it may have threads, too: one that waits
/// for others on top of a lock's holder waits for ever, with any malloc.
pub(crate) fn live(owned: &mut Owned, in_handler: bool, random: &mut Rng) -> Result<(), &'static str> {
    let table = Table::new(1);
    owned.check();
    for _ in 0..30 {
        owned.step(&CHILD_SIZES, &table, random);
    }
    owned.check();
    if !in_handler && random.bool() {
        let seed = random.u64(..);
        crowd(2, seed, None, &|_, random| {
            let mut owned = Owned::default();
            (0..8).for_each(|_| owned.step(&CHILD_SIZES, &table, random));
            owned.free_all();
        });
    }
    std::mem::take(owned).free_all();
    table.empty();
    heap::trim(0);
    let mut blocks: Vec<Block> = (0..8).filter_map(|number| Block::new(CHILD_SIZES[number % 5])).collect();
    if blocks.len() < 8 {
        return Err("a child gets no memory");
    }
    blocks.drain(..).for_each(Block::free);
    Ok(())
}

pub(crate) fn must_be_well(ended: Ended) {
    match ended {
        Ended::Well => {}
        Ended::Found(what) => panic!("{what}"),
        Ended::Died(why) => panic!("a fork child died: {why}"),
        Ended::Hung(why) => panic!("a fork child hung: {why}"),
    }
}

/// Threads that take so many steps with what they own. The first one forks somewhere on its way, and its child does `live`.
pub(crate) fn crowd_with_a_child<Own: Default>(
    (threads, steps): (usize, usize), seed: u64, step: &dyn Fn(usize, &mut Own, &mut Rng),
    live: &dyn Fn(&mut Own, &mut Rng) -> Result<(), &'static str>, end: &dyn Fn(Own),
) {
    crowd(threads, seed, None, &|thread, random| {
        let mut own = Own::default();
        let when = if thread == 0 { random.usize(..steps) } else { usize::MAX };
        for at in 0..steps {
            if at == when {
                let mut child_random = random.fork();
                must_be_well(fork(random.bool(), &mut || live(&mut own, &mut child_random)));
            }
            step(thread, &mut own, random);
        }
        end(own);
    });
}

fn forked(seed: u64) -> Outcome {
    begin(seed);
    let table = Table::new(3);
    let step = |_, owned: &mut Owned, random: &mut Rng| owned.step(&SIZES, &table, random);
    crowd_with_a_child((THREADS, 25), seed, &step, &|owned, random| live(owned, false, random), &Owned::free_all);
    end(&table)
}

/// With a mean gap of one byte, each block is sampled.
fn sampled(seed: u64) -> Outcome {
    if !profile::start(1) {
        return Err("a profile needs memory, and there is some".into());
    }
    let table = Table::new(3);
    let step = |_, owned: &mut Owned, random: &mut Rng| owned.step(&SIZES, &table, random);
    let live = |owned: &mut Owned, random: &mut Rng| {
        live(owned, false, random)?;
        let told: f64 = profile::sites().map(|reading| reading.site.live().bytes).sum();
        // Blocks of threads that do not exist here are live for ever. No figure may be below zero.
        if told < -0.5 { Err("a child tells of less than nothing") } else { Ok(()) }
    };
    crowd_with_a_child((THREADS, 12), seed, &step, &live, &Owned::free_all);
    end(&table)?;
    nothing_is_live()
}

/// All blocks are guarded while there is room, or some.
fn guarded(seed: u64) -> Outcome {
    const SIZES: [usize; 5] = [32, 100, 1000, 4096, 8192];
    if !heap::check::guard([1, 1, 4000][seed as usize % 3]) {
        return Err("the pool needs memory, and there is some".into());
    }
    let table = Table::new(3);
    let step = |_, owned: &mut Owned, random: &mut Rng| owned.step(&SIZES, &table, random);
    let live = |owned: &mut Owned, random: &mut Rng| {
        owned.check();
        (0..20).for_each(|_| owned.step(&SIZES, &Table::new(1), random));
        live(owned, false, random)
    };
    crowd_with_a_child((THREADS, 40), seed, &step, &live, &Owned::free_all);
    let mut all: Vec<Block> = (0..256).filter_map(|_| Block::new(SIZES[2])).collect();
    let count = all.iter().filter(|block| block.is_guarded()).count();
    all.drain(..).for_each(Block::free);
    if seed % 3 < 2 && count < 120 {
        return Err(format!("places are lost: {count} of 256 blocks are guarded"));
    }
    end(&table)
}

fn forked_by_handlers(seed: u64) -> Outcome {
    begin(seed);
    let (table, forks) = (Table::new(3), Cell::new(0));
    let handler = || {
        forks.set(forks.get() + 1);
        if forks.get() <= 2 {
            let mut random = Rng::with_seed(seed ^ forks.get());
            // The child goes on where its thread was interrupted.
            match fork_on(random.bool()) {
                Some(ended) => must_be_well(ended),
                None if random.bool() => {}
                None => live(&mut Owned::default(), true, &mut random).expect("a child lives on"),
            }
        }
    };
    crowd(THREADS, seed, Some(&handler), &|_, random| {
        let mut owned = Owned::default();
        (0..25).for_each(|_| owned.step(&SIZES, &table, random));
        owned.free_all();
    });
    end(&table)
}

/// One thread forks, and so do handlers, whose children go on with what was interrupted: also with moving edges, under a lock that a
/// vanished holder seems to have. The counter is upgraded before, meanwhile or in the child, and with it comes the process's first area.
fn counted(seed: u64) -> Outcome {
    let counter = LazyCounter::<64>::with_range();
    // What was added, and what of that was begun: in a child the difference is what other threads were in the middle of.
    let (added, on_their_way, forks) = (Cell::new(0), Cell::new(0), Cell::new(0));
    // Whether a thread waits for others of its own: in the child of a handler on top of it, these do not exist, and it would wait for ever.
    let waits = Cell::new(false);
    let shares_at = Rng::with_seed(seed).u32(..30);
    if shares_at < 10 {
        let _ = counter.share();
    }
    let add = |amount: i64| {
        on_their_way.update(|some| some + amount.abs());
        counter.add(amount);
        // What waits in a CPU's store buffer is not in a child.
        fence(Ordering::SeqCst);
        on_their_way.update(|some| some - amount.abs());
        added.update(|sum| sum + amount);
    };
    // By how much the counter is ahead of what was added. A handler may fork here, too, and its child adds before it goes on here: look again.
    let ahead = || {
        loop {
            let (before, sum) = (added.get(), counter.sum());
            if before == added.get() {
                break sum - before;
            }
        }
    };
    let live = || {
        let before = ahead();
        if before.abs() > on_their_way.get() {
            return Err("a child sees another count than its parent");
        }
        (0..200).for_each(|_| add(3));
        if ahead() == before { Ok(()) } else { Err("a child lost additions of its own") }
    };
    // Threads of a child's own draw from slots that are theirs alone.
    let live_with_threads = || {
        live()?;
        let before = ahead();
        let _ = counter.share();
        waits.set(true);
        crowd(THREADS, seed, None, &|_, _| (0..40).for_each(|_| add(1)));
        waits.set(false);
        if ahead() == before { Ok(()) } else { Err("threads of a child lost additions") }
    };
    let handler = || {
        forks.update(|forks| forks + 1);
        // Signal handlers use no slots in fallback mode.
        if forks.get() <= 2 && !waits.get() && slot::mode() == Mode::ConcurrencyId {
            match fork_on(forks.get() == 1) {
                Some(ended) => must_be_well(ended),
                None => live().expect("a child counts on"),
            }
        }
    };
    crowd(THREADS, seed, Some(&handler), &|thread, random| {
        for step in 0..20 {
            match (thread, step) {
                (0, 10) => must_be_well(fork(random.bool(), &mut || live_with_threads())),
                (1, step) if step == shares_at => _ = counter.share(),
                _ => {}
            }
            add(random.i64(-20..=20));
        }
    });
    let (expected, found) = (added.get(), counter.sum());
    assert_eq!(expected, found, "what was added, and what the counter says");
    Ok(())
}
