//! What counters and sets of them are to one who uses them, one call at a time: values, owners, blocks, memory that is not to be had.
//!
//! Calls by several threads come one after another here, so that everything is exact; what happens at the same time is in tests/counters.rs.
//! Each test runs in processes of its own, in both modes of the machine: the process has one area, whose blocks are counted.
//!
//! Planted, each found here: see the tests.

mod common;

use commensal::counter::{CounterSet, Counters, DEFAULT_RANGE, LazyCounter, NoMemory, PerCpuCounter, PerCpuSet};
use commensal::machine::fault::{self, Plan, Point};
use commensal::machine::slot::{self, Mode, Pair, ROW};
use commensal::percpu::{Area, Block, CELL, Preparation};
use common::child::{self, in_both_modes};
use common::random::{self, Random};
use std::cmp::Ordering as Order;
use std::os::unix::process::ExitStatusExt;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::{array, process, thread};

fn area() -> &'static Area {
    Area::of_process().expect("there is address space")
}

/// Does `work` on another thread, and waits for it.
fn elsewhere<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(work).join().expect("no panic"))
}

#[test]
fn counter_an_owner_alone_is_not_upgraded() {
    in_both_modes(|| {
        use_several_slots();
        let counter = LazyCounter::bound();
        for n in 0..10_000 {
            counter.add(n);
            assert!(counter.limited_add(1, i64::MAX));
            assert_eq!(counter.read().error, 0);
        }
        assert!(!counter.is_shared());
        // More than the table asks for where one slot was used, as happens on a busy machine.
        elsewhere(|| (0..1100).for_each(|_| counter.add(1)));
        assert!(counter.is_shared(), "additions from elsewhere upgrade it");
    });
}

/// Whoever adds within limits only is an owner as well; a certain refusal adds nothing; and each owner is counted anew what others add.
#[test]
fn counter_limits_and_new_owners_do_not_upgrade() {
    in_both_modes(|| {
        use_several_slots();
        let mut counter = LazyCounter::new();
        (0..3000).for_each(|n| assert!(counter.limited_add(1, n + 1)));
        assert!(!counter.limited_add(1 << 40, 1 << 20), "there is no room");
        assert!(!counter.is_shared(), "its only thread owns it");
        for _ in 0..200 {
            elsewhere(|| (0..15).for_each(|_| counter.add(1)));
            assert!(!counter.is_shared(), "so few do not upgrade it");
            counter.rebind();
        }
        assert_eq!(counter.sum(), 6000);
    });
}

/// Has many threads at once in slots of the process: as many as there are CPUs, or one for each.
fn use_several_slots() {
    const THREADS: usize = 40;
    let (counter, together) = (LazyCounter::new(), Barrier::new(THREADS));
    counter.share().expect("there is memory");
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                together.wait();
                (0..1000).for_each(|_| counter.add(1));
                together.wait();
            });
        }
    });
    assert_eq!(counter.sum(), 1000 * THREADS as i64);
}

/// A block that was just taken is zero in all rows, but for what its head says of it.
fn assert_zero(block: Block, counters: usize) {
    for index in 0..counters {
        let cells = block.cells(index);
        assert_eq!([block.direct(index), &cells.edges].map(|word| word.load(Relaxed)), [0; 2], "counter {index}");
        assert_eq!([&cells.state, &cells.sequence].map(|word| word.load(Relaxed)), [0; 2], "counter {index}");
        for slot in 0..block.area().rows() as u32 {
            // SAFETY: the block is ours, and has a row for every slot.
            let pair = unsafe { slot::load_pair(block.cell(index), slot) };
            assert_eq!(pair, Pair { left: 0, edge: 0 }, "counter {index} in slot {slot}");
        }
    }
}

/// Several threads add to some counters of many sets, which are then dropped.
fn use_many_sets<const N: usize>(random: &mut Random) {
    const SETS: usize = 40;
    let sets: [CounterSet<N>; SETS] = array::from_fn(|_| CounterSet::new());
    sets.iter().for_each(|set| set.share().expect("there is memory"));
    assert_eq!(area().in_use(), SETS as u64, "a set has one block");
    let add = |mut random: Random| {
        let mut added = [[0; N]; SETS];
        for _ in 0..SETS {
            let (set, index, amount) = (random.below(SETS), random.below(N), random.below(3000) as i64 - 1000);
            match random.below(4) {
                0 => assert!(sets[set].limited_add(index, amount, i64::MAX)),
                _ => sets[set].add(index, amount),
            }
            added[set][index] += amount;
        }
        added
    };
    let added = thread::scope(|scope| {
        let threads: [_; 6] = array::from_fn(|_| {
            scope.spawn({
                let (add, random) = (&add, Random::new(random.next(), 0));
                move || add(random)
            })
        });
        threads.map(|thread| thread.join().expect("no panic"))
    });
    for (number, set) in sets.iter().enumerate() {
        for index in 0..N {
            let expected = added.iter().map(|added| added[number][index]).sum::<i64>();
            assert_eq!(set.sum(index), expected, "counter {index} of set {number}");
        }
    }
    drop(sets);
    assert_eq!(area().in_use(), 0);
    let blocks: [_; SETS] = array::from_fn(|_| area().take(N * CELL, DEFAULT_RANGE).expect("they are ready"));
    blocks.iter().for_each(|block| assert_zero(**block, N));
}

/// Planted: blocks that are not wiped, or wiped but for their shared words, their modes, the touched mask or the last row that it names.
#[test]
fn counter_blocks_come_back_zero() {
    in_both_modes(|| {
        let mut random = Random::new(random::seed(), 0);
        for _ in 0..15 {
            use_many_sets::<1>(&mut random);
            use_many_sets::<4>(&mut random);
            use_many_sets::<9>(&mut random);
        }
        use_several_slots();
        assert_eq!(area().in_use(), 0);
    });
}

/// Planted: an index that is looked at only where a set is not upgraded.
#[test]
fn counter_indices_beyond_the_end_panic() {
    in_both_modes(|| {
        let (lazy, shared, per_cpu) = (CounterSet::<3>::bound(), CounterSet::<3>::new(), PerCpuSet::<3>::new());
        shared.share().expect("there is memory");
        let per_cpu = per_cpu.expect("there is memory");
        panic::set_hook(Box::new(|_| {}));
        let panics = |what: &str, call: &dyn Fn(usize)| {
            (0..3).for_each(call);
            for index in [3, 4, 1 << 40, usize::MAX] {
                let outcome = panic::catch_unwind(AssertUnwindSafe(|| call(index)));
                if outcome.is_ok() {
                    eprintln!("{what} of counter {index} of 3 did not panic");
                    process::exit(1);
                }
            }
        };
        for set in [&lazy, &shared] {
            panics("add", &|index| set.add(index, 1));
            panics("sub", &|index| set.sub(index, 1));
            panics("add_remote", &|index| set.add_remote(index, 1));
            // SAFETY: the set is ours, or upgraded.
            panics("add_local", &|index| unsafe { set.add_local(index, 1) });
            panics("limited_add", &|index| _ = set.limited_add(index, 1, 100));
            panics("limited_add of nothing", &|index| _ = set.limited_add(index, 0, 100));
            panics("read", &|index| _ = set.read(index));
            panics("read_positive", &|index| _ = set.read_positive(index));
            panics("sum", &|index| _ = set.sum(index));
            panics("sum_positive", &|index| _ = set.sum_positive(index));
            panics("compare", &|index| _ = set.compare(index, 1));
            panics("set", &|index| set.set(index, 5));
            panics("reset", &|index| _ = set.reset(index));
            panics("all().add", &|index| set.all().add(index, 1));
            panics("all().add_remote", &|index| set.all().add_remote(index, 1));
        }
        panics("add", &|index| per_cpu.add(index, 1));
        panics("read", &|index| _ = per_cpu.read(index));
        panics("sum", &|index| _ = per_cpu.sum(index));
    });
}

/// Sets whose size is known when the program runs, in memory of the caller's.
///
/// Planted: remote words that begin one too early.
#[test]
fn counter_sets_of_any_length() {
    in_both_modes(|| {
        const MOST: usize = ROW / CELL;
        let mut memory = [0u64; Counters::bytes(MOST) / 8 + 1];
        let place = NonNull::from(&mut memory).cast::<u8>();
        for len in [1, 2, 3, 64, MOST - 1, MOST] {
            let bytes = Counters::bytes(len);
            // SAFETY: the memory is ours, and the set is ended before it is used again.
            let set = unsafe {
                place.write_bytes(0xff, bytes + 8);
                assert!(Counters::begin(place.as_ptr(), len));
                Counters::at(place)
            };
            assert_eq!(set.len(), len);
            let add = || (0..len).for_each(|index| set.add(index, index as i64 + 1));
            let add_twice = || [(); 2].iter().for_each(|()| add());
            add_twice();
            elsewhere(add_twice);
            set.share().expect("there is memory");
            add_twice();
            elsewhere(add_twice);
            (0..len).for_each(|index| assert_eq!(set.sum(index), 8 * (index as i64 + 1), "counter {index} of {len}"));
            // SAFETY: as above.
            assert_eq!(unsafe { place.add(bytes).cast::<u64>().read() }, u64::MAX, "written beyond {bytes} bytes");
            // SAFETY: as above.
            unsafe { set.end() };
            assert_eq!(area().in_use(), 0);
        }
        // SAFETY: the memory is ours.
        let begun = unsafe { [0, MOST + 1].map(|len| Counters::begin(place.as_ptr(), len)) };
        assert_eq!(begun, [false; 2]);
        // SAFETY: zeroed memory is a set of one.
        let one = unsafe {
            place.write_bytes(0, Counters::bytes(1));
            Counters::at(place)
        };
        one.add(0, 5);
        assert_eq!((one.len(), one.sum(0)), (1, 5));
    });
}

/// Eager areas prepare for many CPUs at once, cached ones wipe what was touched; values are the same.
///
/// Planted: an eager area that prepares for one CPU less, or wipes nothing on return of what lies beyond its CPUs.
#[test]
fn counter_areas_of_both_schools() {
    in_both_modes(|| {
        for preparation in [Preparation::ForAll { cpus: 256 }, Preparation::ForAll { cpus: 2 }, Preparation::OnReturn] {
            let area = Area::new(256, preparation).expect("there is address space");
            assert!(area.rows() >= 256);
            for round in 1..=20 {
                let set = PerCpuSet::<3>::new_in(area).expect("there is memory");
                let lazy = CounterSet::<2>::new();
                lazy.add(1, 10);
                lazy.share_in(area, 3).expect("there is memory");
                assert_eq!(area.in_use(), 2);
                add_from_several_threads(&|amount| {
                    set.add(1, amount);
                    lazy.add(1, -amount);
                });
                assert_eq!([0, 1, 2].map(|index| set.sum(index)), [0, TOGETHER, 0], "{preparation:?}, round {round}");
                assert_eq!([0, 1].map(|index| lazy.sum(index)), [0, 10 - TOGETHER]);
                assert!(set.read(1).value.abs_diff(TOGETHER) <= set.read(1).error);
                drop((set, lazy));
                assert_eq!(area.in_use(), 0);
                let block = area.take(3 * CELL, DEFAULT_RANGE).expect("there is memory");
                assert_zero(*block, 3);
            }
        }
        let counter = PerCpuCounter::new().expect("there is memory");
        add_from_several_threads(&|amount| counter.add(amount));
        assert_eq!(counter.sum(), TOGETHER);
        assert!(counter.read().value.abs_diff(TOGETHER) <= counter.read().error);
    });
}

const TOGETHER: i64 = 12 * 5050;

/// Amounts that come to [`TOGETHER`].
fn add_from_several_threads(add: &(dyn Fn(i64) + Sync)) {
    let together = Barrier::new(12);
    thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                together.wait();
                (1..=100).for_each(add);
            });
        }
    });
}

/// Without memory a set stays lazy, valid and exact, and an upgrade later succeeds.
///
/// Planted: a limited addition that has no room in a remote word, and is said to be made.
#[test]
fn counter_no_memory_for_an_upgrade() {
    in_both_modes(|| {
        fault::arm(Point::Reserve, Plan::Always { skip: 0 });
        let set = CounterSet::<2>::bound();
        set.add(0, 5);
        for _ in 0..3 {
            assert_eq!(set.share(), Err(NoMemory));
            set.add(0, 1 << 40);
            elsewhere(|| (0..2000).for_each(|_| set.add(1, 3)));
            assert!(set.limited_add(1, 7, i64::MAX) && !set.limited_add(1, 7, 0));
        }
        assert!(!set.limited_add(1, 1 << 40, i64::MAX), "there is nowhere to put it");
        set.try_add(0, 1 << 40).and_then(|()| set.try_add(0, -1 << 40)).expect("the owner needs no memory");
        elsewhere(|| {
            assert_eq!(set.try_add(1, 1 << 40), Err(NoMemory));
            assert_eq!((set.try_add(1, 5), set.try_add(1, -5)), (Ok(()), Ok(())));
        });
        assert_eq!(([0, 1].map(|index| set.sum(index)), set.is_shared()), ([5 + (3 << 40), 3 * 6007], false));
        assert_eq!(PerCpuSet::<2>::new().err(), Some(NoMemory));
        assert_eq!(Area::of_process().map(Area::in_use), None);
        // Whatever fails on the way, the next try goes as far as it can.
        let failures = (0..).take_while(|&skip| {
            fault::arm(Point::Reserve, Plan::Once { skip });
            set.share().is_err()
        });
        assert!(failures.count() < 4, "and in the end it succeeds");
        fault::arm(Point::Reserve, Plan::Never);
        set.share().expect("there is memory again");
        elsewhere(|| set.try_add(0, 1).expect("it is upgraded"));
        assert_eq!([0, 1].map(|index| set.sum(index)), [6 + (3 << 40), 3 * 6007]);
        assert!(set.limited_add(1, 1 << 40, i64::MAX));
        exhaust_a_chunk();
    });
}

/// An amount that there is not quite enough for has the stock brought to the middle, so that the next one finds enough: else all that
/// follow would go past the cell.
///
/// Planted: stock that is brought to the middle only from far.
#[test]
fn counter_stock_is_there_for_the_next() {
    const FIRST: i64 = 222;
    const NEXT: i64 = 300;
    in_both_modes(|| {
        // The first use says how slots are given.
        LazyCounter::new().share().expect("there is memory");
        if slot::mode() == Mode::PerThread {
            return;
        }
        let is_drawn = || {
            let counter = LazyCounter::new();
            counter.share().expect("there is memory");
            // Opens the cell.
            counter.add(1);
            [FIRST, NEXT, NEXT].iter().for_each(|&amount| counter.add(amount));
            let (reading, sum) = (counter.read(), counter.sum());
            // Nothing more than the last one was drawn from the middle: what a reading cannot see.
            reading.value.abs_diff(sum) == NEXT as u64
        };
        // Once in a while the thread goes on in another slot in the middle of it.
        let drawn = (0..100).filter(|_| is_drawn()).count();
        assert!(drawn > 50, "{drawn} of 100 times");
    });
}

/// Eight threads add to more counters than a chunk has blocks for, and upgrade them or cannot.
///
/// Planted: an upgrade that fails, after which the addition that asked for it is not made; a block that is lost with it.
#[test]
fn counter_memory_comes_and_goes() {
    const COUNTERS: usize = 300;
    const THREADS: usize = 8;
    in_both_modes(|| {
        fault::arm(Point::Reserve, Plan::Always { skip: 0 });
        let counters: Vec<LazyCounter> = (0..COUNTERS).map(|_| LazyCounter::new()).collect();
        let add = |number: usize| {
            let (mut added, mut failures) = (vec![0; COUNTERS], 0);
            for pass in 0..40 {
                for (at, counter) in counters.iter().enumerate() {
                    counter.add(1);
                    if (at + pass + number).is_multiple_of(16) {
                        failures += u32::from(counter.share().is_err());
                    }
                    added[at] += 1 + i64::from(counter.limited_add(1, i64::MAX));
                }
            }
            (added, failures)
        };
        let (done, add) = (AtomicBool::new(false), &add);
        let outcomes = thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    fault::arm(Point::Reserve, Plan::Once { skip: 1 });
                    thread::sleep(Duration::from_micros(100));
                    fault::arm(Point::Reserve, Plan::Always { skip: 0 });
                    thread::sleep(Duration::from_micros(300));
                }
            });
            let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || add(number))).collect();
            let outcomes: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
            done.store(true, Relaxed);
            outcomes
        });
        fault::arm(Point::Reserve, Plan::Never);
        for (at, counter) in counters.iter().enumerate() {
            assert_eq!(counter.sum(), outcomes.iter().map(|(added, _)| added[at]).sum::<i64>(), "counter {at}");
            counter.share().expect("there is memory again");
        }
        assert!(outcomes.iter().any(|(_, failures)| *failures > 0), "no upgrade failed");
        assert_eq!(area().in_use(), COUNTERS as u64);
        drop(counters);
        assert_eq!(area().in_use(), 0);
    });
}

/// Planted: a failed upgrade that leaves the set to whoever adds next.
#[test]
fn counter_no_memory_leaves_the_owner() {
    in_both_modes(|| {
        let counter = LazyCounter::bound();
        elsewhere(|| {
            fault::arm(Point::Reserve, Plan::Always { skip: 0 });
            assert_eq!(counter.share(), Err(NoMemory));
            counter.add(1);
            fault::arm(Point::Reserve, Plan::Never);
        });
        (0..5000).for_each(|_| counter.add(1));
        assert_eq!((counter.sum(), counter.is_shared()), (5001, false), "there was one addition from elsewhere");
    });
}

/// Blocks are cut of what there is until there is no more, and are there again when they came back.
fn exhaust_a_chunk() {
    let before = area().in_use();
    fault::arm(Point::Reserve, Plan::Always { skip: 0 });
    let mut counters: Vec<LazyCounter> = Vec::new();
    let more = || {
        let counter = LazyCounter::new();
        counter.share().map(|()| counter)
    };
    counters.extend((0..1000).map_while(|_| more().ok()));
    let number = counters.len();
    assert!((1..1000).contains(&number) && more().is_err());
    assert_eq!(area().in_use(), before + number as u64);
    drop(counters.split_off(number / 2));
    counters.extend((0..1000).map_while(|_| more().ok()));
    assert_eq!(counters.len(), number);
    fault::arm(Point::Reserve, Plan::Never);
    counters.push(more().expect("there is memory again"));
    drop(counters);
    assert_eq!(area().in_use(), before);
}

/// Planted: a remote word that wraps; a message that is not one line.
#[test]
fn counter_nowhere_to_put_an_addition() {
    if let Some(case) = child::case() {
        fault::arm(Point::Reserve, Plan::Always { skip: 0 });
        let counter = LazyCounter::bound();
        let step: i64 = case.parse().expect("a number");
        elsewhere(|| (0..20).for_each(|_| counter.add(step)));
        return;
    }
    for (step, variable) in
        [1i64 << 40, 1 << 27, -(1 << 29)].iter().flat_map(|step| [(step, None), (step, Some(child::FALLBACK))])
    {
        let outcome = child::run(child::command(&step.to_string()).envs(variable));
        assert_eq!(outcome.status.and_then(|status| status.signal()), Some(libc::SIGABRT), "{}", outcome.report());
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        assert!(
            lines.len() == 1 && lines[0].starts_with("commensal: a counter is about to overflow"),
            "{}",
            outcome.report()
        );
    }
}

/// What a remote word has no room for, or soon has not, upgrades.
///
/// Planted: the amount dropped where the upgrade succeeds.
#[test]
fn counter_large_remote_additions_upgrade() {
    in_both_modes(|| {
        for step in [i64::MIN, -(1 << 40), -(1 << 29), (1 << 27) + 1, 1 << 30, i64::MAX] {
            let counter = LazyCounter::bound();
            counter.add(3);
            elsewhere(|| (0..5).for_each(|_| counter.add(step)));
            assert!(counter.is_shared());
            assert_eq!(counter.sum(), step.wrapping_mul(5).wrapping_add(3));
        }
    });
}

/// A counter that went past the ends of 64 bits reads as what is left; its limits go by what it reads as.
#[test]
fn counter_limits_of_what_wrapped() {
    in_both_modes(|| {
        let counter = LazyCounter::bound();
        counter.add(i64::MAX);
        elsewhere(|| counter.add(5));
        assert_eq!(counter.sum(), i64::MIN + 4);
        assert!(counter.limited_add(1, 0), "{} is below 0, before the upgrade", counter.sum());
        counter.share().expect("there is memory");
        assert!(counter.limited_add(1, 0), "{} is below 0, after the upgrade", counter.sum());
        counter.set(i64::MAX);
        counter.add(i64::MAX);
        assert_eq!(counter.sum(), -2);
        assert!(counter.limited_add(2, 0) && !counter.limited_add(1, 0), "{}", counter.sum());
    });
}

/// A reading near the ends of 64 bits may be beyond them; comparisons are right there, too.
#[test]
fn counter_comparisons_near_the_ends() {
    in_both_modes(|| {
        for end in [i64::MIN, i64::MAX] {
            let counter = LazyCounter::bound();
            counter.add(end);
            counter.share().expect("there is memory");
            // Far from the middle of the slot's stock, on either side.
            for amount in [1, 400, -800, 399] {
                counter.add(amount);
                let sum = counter.sum();
                let compared = [counter.compare(sum), counter.compare(0)];
                assert_eq!(compared, [Order::Equal, sum.cmp(&0)], "{sum}, read as {:?}", counter.read());
            }
        }
    });
}
