//! Memory groups: first caches that threads race for, limits that they reach together, entries, forks.

use crate::blocks::{Block, Table, check_empty_heap};
use crate::forks::must_be_well;
use crate::heaps::{crowd, nothing_is_live};
use crate::protocol::{BOTH, NO_SIGNALS, protocols};
use commensal_runtime::group::Group;
use commensal_runtime::{heap, profile};
use fastrand::Rng;
use machine::simulation::explore::Outcome;
use machine::simulation::{Rates, fork};
use machine::slot::Mode;
use std::cell::RefCell;

protocols! {
    "groups":
        "groups that threads enter, allocate in at the same time, also for the first time, and hand blocks of to each other",
        shared, NO_SIGNALS, BOTH => by_ids ChangesTear;
    "group limits":
        "a limit that threads reach at the same time, also beside groups that come and go: never passed, and refused only when it is really reached",
        limited, Rates { refuse: 0, ..NO_SIGNALS }, &[Mode::ConcurrencyId] => by_ids SectionsGoOn;
    "group forks": "forks while threads are inside groups: in the child, only the one that forked is",
        forked, NO_SIGNALS, BOTH => by_ids NoWipe;
}

const THREADS: usize = 3;
/// Large objects, in small arrays; and blocks of pages.
const SIZES: [usize; 3] = [5000, 20_000, 50_000];

/// Runs `work` inside a group; what it allocates there is given back, or handed to who does, before the group goes.
fn within<R>(group: &Group<'_>, work: impl FnOnce() -> R) -> R {
    // SAFETY: as said.
    unsafe { group.within(work) }
}

fn step(own: &mut Vec<Block>, group: &Group<'_>, table: &Table, random: &mut Rng) {
    let size = SIZES[random.usize(..SIZES.len())];
    match random.u8(..10) {
        0..=2 if own.len() < 6 => own.extend(Block::of_group(group.core(), size)),
        3 | 4 if own.len() < 6 => within(group, || own.extend(Block::new(size))),
        5 => {
            let block = own.pop();
            own.extend(table.exchange(block, random));
        }
        6 => {
            let block = own.pop();
            own.extend(block.map(|block| block.resize(size)));
        }
        _ => own.pop().into_iter().for_each(Block::free),
    }
}

/// All that is left is charged to nobody.
fn end(group: Group<'_>) -> Result<(), String> {
    heap::trim(0);
    let charged = group.charged();
    match group.destroy() {
        Ok(()) if charged == 0 => Ok(()),
        Ok(()) => Err(format!("{charged} bytes were charged when nothing was in use")),
        Err((_, busy)) => Err(format!("a group was not destroyed: {busy}")),
    }
}

fn shared(seed: u64) -> Outcome {
    let (Ok(one), Ok(two)) = (Group::new("one"), Group::new("two")) else { return Ok(()) };
    let table = Table::new(2);
    // Each block is sampled, and some are not freed before the group goes.
    let is_sampled = seed.is_multiple_of(3) && profile::start(1);
    crowd(THREADS, seed, None, &|_, random| {
        let mut own = Vec::new();
        for _ in 0..20 {
            let groups = if random.bool() { [&one, &two] } else { [&two, &one] };
            match random.u8(..3) {
                0 => within(groups[0], || step(&mut own, groups[1], &table, random)),
                _ => step(&mut own, groups[0], &table, random),
            }
        }
        if is_sampled && random.bool() {
            std::mem::forget(own);
        } else {
            own.into_iter().for_each(Block::free);
        }
    });
    table.empty();
    heap::check::check_valid(|_| {});
    // Where the machine refused a kick, arrays of other slots keep what they have until the group goes.
    for group in [one, two] {
        let caches = group.statistics().caches;
        assert!(caches <= 2, "{caches} caches of two classes");
        group.destroy().expect("a group is destroyed");
    }
    let mut table = String::new();
    heap::report::write_slabinfo(&mut table).expect("a string takes it");
    let names = table.lines().filter_map(|row| row.split_whitespace().next());
    let left: Vec<_> = names.filter(|name| name.starts_with("malloc-") && name.contains('/')).collect();
    assert!(left.is_empty(), "caches of groups that are no more are left: {left:?}");
    nothing_is_live()?;
    profile::stop();
    check_empty_heap();
    Ok(())
}

fn limited(seed: u64) -> Outcome {
    const OBJECT: usize = 5120;
    const MOST: usize = 12;
    let Ok(parent) = Group::new("parent") else { return Ok(()) };
    let Ok(group) = parent.child("child") else { return Ok(()) };
    let bytes = (MOST * OBJECT) as u64;
    let limiting = if Rng::with_seed(seed).bool() { &parent } else { &group };
    limiting.set_limit(Some(bytes));
    let held = RefCell::new(Vec::new());
    crowd(THREADS, seed, None, &|_, random| {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for _ in 0..10 {
            // What another group has in arrays is charged to the parent, too.
            if random.u8(..6) == 0
                && let Ok(other) = parent.child("other")
            {
                Block::of_group(other.core(), OBJECT).into_iter().for_each(Block::free);
                others.extend(random.bool().then_some(other));
            }
            if random.u8(..3) > 0 {
                own.extend(Block::of_group(group.core(), OBJECT));
            } else {
                own.pop().into_iter().for_each(Block::free);
            }
            let charged = limiting.charged();
            assert!(charged <= bytes, "{charged} bytes are charged of {bytes}");
        }
        own.extend(std::iter::from_fn(|| Block::of_group(group.core(), OBJECT)));
        held.borrow_mut().append(&mut own);
    });
    let held = held.into_inner();
    // The last one who was refused was refused when all was taken, if nothing stood in the way of taking it.
    let (statistics, refused_kicks) = (limiting.statistics(), commensal_runtime::machine::kick::register().is_err());
    let mut cached = 0;
    heap::check::check_valid(|_| cached += 1);
    let is_full = held.len() == MOST || refused_kicks;
    assert!(held.len() <= MOST && is_full, "{} objects, and {cached} in arrays: {statistics:?}", held.len());
    assert!(statistics.peak <= bytes, "{statistics:?}");
    held.into_iter().for_each(Block::free);
    heap::check::check_valid(|_| {});
    if !refused_kicks {
        end(group)?;
        end(parent)?;
    }
    Ok(())
}

fn forked(seed: u64) -> Outcome {
    // Every process has allocated before it has a second thread.
    Block::new(100).into_iter().for_each(Block::free);
    let Ok(group) = Group::new("forked") else { return Ok(()) };
    let table = Table::new(2);
    let live = |own: &mut Vec<Block>, random: &mut Rng| {
        let table = Table::new(1);
        (0..10).for_each(|_| step(own, &group, &table, random));
        own.drain(..).for_each(Block::free);
        table.empty();
        // The thread that forked is inside, and nobody else.
        match group.statistics().inside {
            1 => Ok(()),
            _ => Err("others are inside than the child's only thread"),
        }
    };
    crowd(THREADS, seed, None, &|thread, random| {
        let mut own = Vec::new();
        let when = if thread == 0 { random.usize(..12) } else { usize::MAX };
        for at in 0..12 {
            if at == when {
                let mut child_random = random.fork();
                let ended = within(&group, || fork(random.bool(), &mut || live(&mut own, &mut child_random)));
                must_be_well(ended);
            }
            step(&mut own, &group, &table, random);
        }
        own.into_iter().for_each(Block::free);
    });
    table.empty();
    heap::check::check_valid(|_| {});
    group.destroy().expect("a group is destroyed");
    check_empty_heap();
    Ok(())
}
