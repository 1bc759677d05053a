//! The limit of the process: threads that race for its last pages, while others give back what they had.

use crate::blocks::{Block, Table, check_empty_heap};
use crate::forks::must_be_well;
use crate::heaps::crowd;
use crate::protocol::{BOTH, NO_SIGNALS, protocols};
use commensal::heap;
use commensal::heap::limit::{Limit, report, set};
use fastrand::Rng;
use machine::kick;
use machine::simulation::explore::Outcome;
use machine::simulation::{Rates, fork};
use machine::slot::Mode;

protocols! {
    "process limit":
        "the last pages below the limit of the process, which threads race for: it is never passed, and all of it can be taken again",
        raced, Rates { refuse: 0, ..NO_SIGNALS }, BOTH => by_ids SectionsGoOn;
    "process limit forks": "forks at the limit: the child has the same one, for itself",
        forked, Rates { refuse: 0, ..NO_SIGNALS }, &[Mode::ConcurrencyId] => by_ids SectionsGoOn;
}

const THREADS: usize = 3;
const PAGE: usize = 4096;
/// What threads may take: spans of small objects, a few large blocks, and one that has a mapping of its own.
const ROOM: usize = (70 << 20) + 40 * PAGE;
/// Objects whose spans are the smallest, blocks of pages, and blocks with mappings of their own.
const SIZES: [usize; 7] = [5000, 20_000, 36_864, 50_000, 300_000, 66 << 20, 69 << 20];

/// Sets a limit of so many bytes beyond what is held.
fn limit(room: usize) -> u64 {
    // Every process has allocated before it has a second thread.
    Block::new(100).into_iter().for_each(Block::free);
    heap::trim(0);
    let most = report().held + room as u64;
    assert!(set(Limit::Hard, Some(most)), "there is no heap");
    most
}

fn step(own: &mut Vec<Block>, table: &Table, most: u64, random: &mut Rng) {
    let size = SIZES[random.usize(..SIZES.len())];
    match random.u8(..10) {
        0..=4 if own.len() < 6 => own.extend(Block::new(size)),
        5 => {
            let block = own.pop();
            own.extend(table.exchange(block, random));
        }
        6 | 7 => {
            let block = own.pop();
            own.extend(block.map(|block| block.resize(size)));
        }
        _ => own.pop().into_iter().for_each(Block::free),
    }
    check(most);
}

fn check(most: u64) {
    let held = report().held;
    assert!(held <= most, "{held} bytes are held of {most}");
}

/// Takes all that the limit leaves, page by page at the end, alone.
fn take_all(most: u64) -> Outcome {
    let mut all = Vec::new();
    for bytes in [66 << 20, 512 << 10, 10 * PAGE, 9 * PAGE] {
        all.extend(std::iter::from_fn(|| Block::new(bytes)));
    }
    let left = most - report().held;
    all.into_iter().for_each(Block::free);
    match left {
        // Of the smallest of these blocks there is none more.
        0..0x9000 => Ok(()),
        _ => Err(format!("{left} bytes could not be taken when nothing was in use")),
    }
}

/// Grows a block with a mapping of its own, which takes no lock, and shrinks it.
fn swing(most: u64, random: &mut Rng) {
    let Some(mut block) = Block::new(66 << 20) else { return };
    for _ in 0..random.usize(4..12) {
        block = block.resize([66 << 20, 67 << 20, 69 << 20][random.usize(..3)]);
        check(most);
    }
    block.free();
}

/// Takes blocks until the limit refuses, all at once.
fn rush(own: &mut Vec<Block>, most: u64) {
    while own.len() < 12
        && let Some(block) = Block::new(700 << 10)
    {
        own.push(block);
        check(most);
    }
}

/// Planted bug that was seen here: the sum is judged by a load before an addition.
fn raced(seed: u64) -> Outcome {
    let most = limit(ROOM);
    let table = Table::new(2);
    crowd(THREADS, seed, None, &|thread, random| {
        let mut own = Vec::new();
        for _ in 0..6 {
            match random.u8(..3) {
                _ if thread == 0 => swing(most, random),
                0 => {
                    rush(&mut own, most);
                    own.drain(..).for_each(Block::free);
                }
                _ => (0..5).for_each(|_| step(&mut own, &table, most, random)),
            }
        }
        own.into_iter().for_each(Block::free);
    });
    table.empty();
    if kick::register().is_ok() {
        take_all(most)?;
    }
    set(Limit::Hard, None);
    check_empty_heap();
    Ok(())
}

fn forked(seed: u64) -> Outcome {
    let most = limit(ROOM);
    let table = Table::new(2);
    let live = |own: &mut Vec<Block>, random: &mut Rng| {
        let table = Table::new(1);
        (0..10).for_each(|_| step(own, &table, most, random));
        own.drain(..).for_each(Block::free);
        table.empty();
        match report().limit {
            Some(limit) if limit == most => Ok(()),
            _ => Err("the child has another limit"),
        }
    };
    crowd(THREADS, seed, None, &|thread, random| {
        let mut own = Vec::new();
        let when = if thread == 0 { random.usize(..12) } else { usize::MAX };
        for at in 0..12 {
            if at == when {
                let mut child_random = random.fork();
                must_be_well(fork(random.bool(), &mut || live(&mut own, &mut child_random)));
            }
            step(&mut own, &table, most, random);
        }
        own.into_iter().for_each(Block::free);
    });
    table.empty();
    set(Limit::Hard, None);
    check_empty_heap();
    Ok(())
}
