//! The heap: its upgrade, arrays that change hands, draining, the page map, signals, refusals.

use crate::blocks::{Block, SIZES, Table, check_empty_heap};
use crate::protocol::{BOTH, NO_SIGNALS, protocols};
use commensal_runtime::{heap, percpu, profile};
use fastrand::Rng;
use machine::root;
use machine::simulation::explore::Outcome;
use machine::simulation::{Job, Place, Rates, run, run_without_slot};
use machine::slot::{self, Mode};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

const BY_IDS: &[Mode] = &[Mode::ConcurrencyId];

protocols! {
    "heap upgrade": "the first operations of a process, alone and then by several threads at once",
        upgrade, NO_SIGNALS, BOTH => by_ids OneSlot, by_ids ChangesTear, in_fallback ChangesTear;
    "first blocks": "blocks that a process had before its heap, which threads free, move and hand on",
        first_blocks, NO_SIGNALS, BOTH => by_ids ChangesTear, in_fallback ChangesTear;
    "depot exchange": "blocks of few classes that threads hand over and free for each other",
        |seed| hand_over(seed, &[20_000, 32_768, 8192], 0), NO_SIGNALS, BOTH
            => by_ids SectionsGoOn, by_ids OneSlot, in_fallback ChangesTear;
    "remote drain": "the same while threads take all arrays away from each other",
        take_away, NO_SIGNALS, BOTH => by_ids RestartIsFence, by_ids SectionsGoOn;
    "span owners": "blocks that go back to their spans while these change hands",
        few_spans, NO_SIGNALS, BOTH => in_fallback ChangesTear;
    "page map": "blocks of all sizes, large ones too, that are freed, moved and resized by other threads than theirs",
        |seed| hand_over(seed, &SIZES, 1), NO_SIGNALS, BOTH => by_ids SectionsGoOn, in_fallback ChangesTear;
    "signals": "handlers that allocate, hand over and free on top of threads that do the same",
        interrupted, Rates { signal: 1500, ..Rates::USUAL }, BY_IDS => by_ids SectionsGoOn;
    "generations": "threads that die and leave what they cached, and threads that are born after them, some by threads",
        generations, NO_SIGNALS, &[Mode::PerThread, Mode::ConcurrencyId] => in_fallback ChangesTear;
    "slots of the dead":
        "threads that own slots die, and others take those over, also some that the kernel calls by the same number",
        take_over, NO_SIGNALS, &[Mode::PerThread] => in_fallback ChangesTear;
    "hardened heap": "blocks of all sizes that are freed and moved by other threads than theirs, and no damage is found",
        hardened, NO_SIGNALS, BOTH => by_ids SectionsGoOn, in_fallback ChangesTear;
    "sampled heap": "blocks that other threads than theirs free, and some of them are sampled, while threads drain slots",
        sampled, NO_SIGNALS, BOTH => by_ids SectionsGoOn, in_fallback ChangesTear;
    "refusals": "memory that is refused, and kicks, at any system call",
        |seed| hand_over(seed, &SIZES, 2), Rates { refuse: 12_000, ..NO_SIGNALS }, BOTH => by_ids SectionsGoOn;
}

const THREADS: usize = 3;
const OPERATIONS: usize = 40;
/// Blocks that a thread owns at most.
const OWNED: usize = 6;

/// Runs `work` as several threads, each with random choices of its own, and with a handler on top of them.
pub(crate) fn crowd(threads: usize, seed: u64, handler: Option<&dyn Fn()>, work: &dyn Fn(usize, &mut Rng)) {
    let job = |thread: usize| {
        let mut random = Rng::with_seed(seed.wrapping_mul(31).wrapping_add(thread as u64));
        (Box::new(move || work(thread, &mut random)) as Job<'_>, Place::Anywhere)
    };
    let handler = handler.map(Handler);
    let call = || handler.iter().for_each(|handler| handler.0());
    run((0..threads).map(job).collect(), handler.is_some().then_some(&call));
}

/// A handler that uses what only one host thread may use: all simulated threads are on one.
struct Handler<'a>(&'a dyn Fn());

// SAFETY: the threads of a simulation are coroutines of one host thread.
unsafe impl Sync for Handler<'_> {}

#[derive(Default)]
pub(crate) struct Owned(Vec<Block>);

impl Owned {
    /// One random operation.
    pub(crate) fn step(&mut self, sizes: &[usize], table: &Table, random: &mut Rng) {
        let size = sizes[random.usize(..sizes.len())];
        match random.u8(..10) {
            0..=3 if self.0.len() < OWNED => self.0.extend(Block::new(size)),
            4 | 5 => {
                let block = self.take(random);
                self.0.extend(table.exchange(block, random));
            }
            6 => {
                if let Some(block) = self.take(random) {
                    self.0.push(block.resize(size));
                }
            }
            _ => self.take(random).into_iter().for_each(Block::free),
        }
    }

    fn take(&mut self, random: &mut Rng) -> Option<Block> {
        (!self.0.is_empty()).then(|| self.0.swap_remove(random.usize(..self.0.len())))
    }

    /// Panics unless all is as it was left.
    pub(crate) fn check(&self) {
        self.0.iter().for_each(Block::check);
    }

    pub(crate) fn free_all(self) {
        self.0.into_iter().for_each(Block::free);
    }
}

/// Gives everything back, and looks whether the heap is whole.
pub(crate) fn end(table: &Table) -> Outcome {
    table.empty();
    check_empty_heap();
    Ok(())
}

fn upgrade(seed: u64) -> Outcome {
    let (table, mut random) = (Table::new(2), Rng::with_seed(seed));
    let mut alone = Owned::default();
    // Perhaps none: then the threads make the runtime.
    for _ in 0..random.usize(..6) {
        alone.step(&SIZES[..6], &table, &mut random);
    }
    crowd(THREADS, seed, None, &|_, random| {
        let mut owned = Owned::default();
        (0..random.usize(1..12)).for_each(|_| owned.step(&SIZES[..6], &table, random));
        owned.free_all();
    });
    alone.free_all();
    end(&table)
}

fn first_blocks(seed: u64) -> Outcome {
    const BLOCKS: usize = 24;
    const SMALL: [usize; 4] = [32, 48, 100, 1000];
    let mut random = Rng::with_seed(seed);
    let blocks: Vec<_> = (0..BLOCKS).filter_map(|_| Block::new(SMALL[random.usize(..SMALL.len())])).collect();
    if root::is_installed() {
        return Err("the heap has begun before there were threads".into());
    }
    let blocks = RefCell::new(blocks);
    crowd(THREADS, seed, None, &|_, random| {
        for _ in 0..BLOCKS / THREADS {
            let Some(block) = blocks.borrow_mut().pop() else { return };
            match random.u8(..4) {
                0 => block.resize(SMALL[random.usize(..SMALL.len())]).free(),
                1 => {
                    heap::trim(0);
                    block.free();
                }
                _ => block.free(),
            }
        }
    });
    blocks.into_inner().into_iter().for_each(Block::free);
    check_empty_heap();
    Ok(())
}

/// Threads that work with blocks and hand them over. Before so many operations in thirty, everything that is cached is given back.
fn hand_over(seed: u64, sizes: &[usize], trims: u8) -> Outcome {
    if seed.is_multiple_of(2) {
        heap::check::begin_middle();
    }
    let table = Table::new(3);
    crowd(THREADS, seed, None, &|_, random| {
        let mut owned = Owned::default();
        for _ in 0..OPERATIONS {
            if random.u8(..30) < trims {
                heap::trim(0);
            }
            owned.step(sizes, &table, random);
        }
        owned.free_all();
    });
    end(&table)
}

/// Whatever the hardened heap reports is a false alarm.
/// A sample of some blocks, or of so few that none comes: then the gaps have counted each block once.
fn sampled(seed: u64) -> Outcome {
    const SMALL: [usize; 3] = [8192, 20_000, 32_768];
    const RARE: u64 = 1 << 60;
    let mean = [1 << 13, 1 << 16, RARE, RARE][seed as usize % 4];
    if !profile::start(mean) {
        return Err("a profile needs memory, and there is some".into());
    }
    let (table, counts) = (Table::new(2), [const { Cell::new(0) }; SMALL.len()]);
    crowd(THREADS, seed, None, &|_, random| {
        let mut own = Vec::new();
        for _ in 0..OPERATIONS {
            match random.u8(..12) {
                0..=5 if own.len() < OWNED => {
                    let size = random.usize(..SMALL.len());
                    let block = Block::new(SMALL[size]);
                    counts[size].set(counts[size].get() + usize::from(block.is_some()));
                    own.extend(block);
                }
                6 | 7 => {
                    let block = own.pop();
                    own.extend(table.exchange(block, random));
                }
                8 => _ = heap::trim(0),
                // Another thread may be in any step of an allocation.
                9 if mean != RARE && random.bool() => _ = profile::start(mean),
                _ => own.pop().into_iter().for_each(Block::free),
            }
        }
        own.into_iter().for_each(Block::free);
    });
    heap::check::check_valid(|_| {});
    if mean == RARE {
        SMALL.iter().zip(&counts).for_each(|(&bytes, count)| heap::check::check_gaps(bytes, count.get()));
    }
    table.empty();
    nothing_is_live()?;
    profile::stop();
    check_empty_heap();
    Ok(())
}

/// Of what the profile tells. Its handlers could lose samples, and there are none.
pub(crate) fn nothing_is_live() -> Outcome {
    let live: f64 = profile::sites().map(|reading| reading.site.live().bytes.abs()).sum();
    if live > 0.5 || profile::lost() > 0 {
        return Err(format!("all blocks are free, and {live} bytes are told as live; {} lost", profile::lost()));
    }
    Ok(())
}

fn hardened(seed: u64) -> Outcome {
    // An odd one: a hardened heap has no middle classes.
    let seed = seed | 1;
    const SIZES: [usize; 6] = [32, 1000, 9000, 20_000, 50_000, 300_000];
    heap::check::harden();
    let few = seed as usize % SIZES.len();
    let outcome = hand_over(seed, [&SIZES[..], &SIZES[few..=few]][seed as usize / 7 % 2], 1);
    heap::examine_at_exit();
    outcome
}

/// One thread takes all arrays away, while others use them: what errs here, errs in a few instructions of a section. One in five bodies is long,
/// and all threads take from all.
fn take_away(seed: u64) -> Outcome {
    const SIZES: [usize; 3] = [64, 4096, 20_000];
    if seed.is_multiple_of(5) {
        return hand_over(seed, &SIZES, 3);
    }
    let (table, mut random) = (Table::new(2), Rng::with_seed(seed));
    let sizes = &SIZES[..random.usize(1..=SIZES.len())];
    crowd(THREADS, seed, None, &|thread, random| {
        if thread == 0 {
            (0..random.usize(1..4)).for_each(|_| _ = heap::trim(0));
            return;
        }
        let mut owned = Owned::default();
        (0..random.usize(OWNED..OPERATIONS)).for_each(|_| owned.step(sizes, &table, random));
        owned.free_all();
    });
    end(&table)
}

/// Few operations on few spans: it takes three threads at three places to err here, and a short body has few places. Some blocks are in use, all
/// that is free has gone back to its span, and then threads take blocks, and others, which have no slots, give some back right into their
/// spans.
fn few_spans(seed: u64) -> Outcome {
    const SIZE: usize = 32_768;
    let (table, mut random) = (Table::new(2), Rng::with_seed(seed));
    let mut first: Vec<Block> = (0..random.usize(1..17)).filter_map(|_| Block::new(SIZE)).collect();
    random.shuffle(&mut first);
    first.drain(random.usize(..first.len() + 1).min(2)..).for_each(Block::free);
    for block in first {
        if let Some(block) = table.exchange(Some(block), &mut random) {
            block.free();
        }
    }
    heap::trim(0);
    crowd(THREADS, seed, None, &|_, random| {
        if random.bool() {
            let taken = Block::new(SIZE);
            taken.into_iter().for_each(Block::free);
        } else if let Some(block) = table.exchange(None, random) {
            run_without_slot(Box::new(|| block.free()));
        }
    });
    heap::check::check_valid(|_| {});
    end(&table)
}

/// Some threads live long, and others are born and die meanwhile, so that what the dead leave is found by several at once.
fn generations(seed: u64) -> Outcome {
    const SIZES: [usize; 3] = [20_000, 32_768, 4096];
    let table = Table::new(3);
    let live = |operations: usize, random: &mut Rng| {
        let mut owned = Owned::default();
        for _ in 0..operations {
            if random.u8(..20) == 0 {
                heap::trim(0);
            }
            owned.step(&SIZES, &table, random);
        }
        owned.free_all();
    };
    for generation in 0..2 {
        crowd(THREADS, seed + generation, None, &|_, random| {
            live(random.usize(..10), random);
            for _ in 0..random.usize(..3) {
                let seed = random.u64(..);
                crowd(2, seed, None, &|_, random| live(random.usize(1..6), random));
            }
            live(random.usize(..6), random);
        });
    }
    end(&table)
}

/// Every thread says which slot it owns, for as long as it lives.
fn take_over(seed: u64) -> Outcome {
    slot::initialise();
    let owned = RefCell::new(BTreeSet::new());
    let live = |lives: &dyn Fn()| {
        percpu::enter();
        let Some(slot) = slot::current() else { return };
        assert!(owned.borrow_mut().insert(slot), "two living threads own slot {slot}");
        lives();
        assert_eq!(slot::current(), Some(slot), "a thread lost its slot");
        owned.borrow_mut().remove(&slot);
    };
    live(&|| {
        crowd(THREADS, seed, None, &|_, random| {
            live(&|| {});
            let seed = random.u64(..);
            if random.bool() {
                crowd(random.usize(1..3), seed, None, &|_, _| live(&|| {}));
            }
        });
    });
    Ok(())
}

fn interrupted(seed: u64) -> Outcome {
    const SIZES: [usize; 3] = [20_000, 32_768, 4096];
    let table = Table::new(3);
    let random = RefCell::new(Rng::with_seed(!seed));
    let handler = || {
        // The choices are made at once; what they lead to may be interrupted by handlers of other threads.
        let mut own = random.borrow_mut().fork();
        let mut owned = Owned::default();
        (0..own.usize(1..4)).for_each(|_| owned.step(&SIZES, &table, &mut own));
        owned.free_all();
    };
    crowd(THREADS, seed, Some(&handler), &|_, random| {
        let mut owned = Owned::default();
        (0..OPERATIONS).for_each(|_| owned.step(&SIZES, &table, random));
        owned.free_all();
    });
    end(&table)
}
