//! What counters and sets of them are to one who uses them, one call at a time: values, owners, blocks, memory that is not to be had.
//!
//! Calls by several threads come one after another here, so that everything is exact; what happens at the same time is in tests/counters.rs.
//! Each test runs in processes of its own, in both modes of the machine: the process has one area, whose blocks are counted.

mod common;

use commensal_runtime::counter::{CounterSet, Counters, DEFAULT_RANGE, LazyCounter, NoMemory, PerCpuSet, SHARE};
use commensal_runtime::machine::fault::{self, Plan, Point};
use commensal_runtime::machine::slot::{self, Mode, Pair, ROW};
use commensal_runtime::percpu::{Area, Block, CELL, Preparation};
use common::child::{self, in_both_modes};
use std::cmp::Ordering as Order;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::sync::Barrier;
use std::sync::atomic::Ordering::Relaxed;
use std::{process, thread};

fn area() -> &'static Area {
    Area::of_process().expect("there is address space")
}

/// Does `work` on another thread, and waits for it.
fn elsewhere<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(work).join().expect("no panic"))
}

/// Whoever adds within limits only is an owner as well; a certain refusal adds nothing; and each owner is counted anew what others add.
#[test]
fn counter_with_one_owner_at_a_time_is_not_upgraded() {
    in_both_modes(|| {
        use_several_slots();
        let mut counter = LazyCounter::bound();
        for n in 0..10_000 {
            counter.add(n);
            assert!(counter.limited_add(1, i64::MAX));
            assert_eq!(counter.read().error, 0);
        }
        assert!(!counter.limited_add(1 << 40, 1 << 20), "there is no room");
        assert!(!counter.is_shared(), "its only thread owns it");
        for _ in 0..200 {
            elsewhere(|| (0..15).for_each(|_| counter.add(1)));
            assert!(!counter.is_shared(), "so few do not upgrade it");
            counter.rebind();
        }
        assert_eq!(counter.sum(), 10_000 * 9999 / 2 + 10_000 + 3000);
        // More than the table asks for where one slot was used, as happens on a busy machine.
        elsewhere(|| (0..1100).for_each(|_| counter.add(1)));
        assert!(counter.is_shared(), "additions from elsewhere upgrade it");
        let by_limits = LazyCounter::new();
        (0..3000).for_each(|n| assert!(by_limits.limited_add(1, n + 1)));
        assert!(!by_limits.is_shared());
    });
}

/// What amounts from 1 to 100 come to.
const ONCE: i64 = 5050;

/// Adds that from each of so many threads, which are there at once.
fn add_from_threads(threads: usize, add: impl Fn(i64) + Sync) {
    let together = Barrier::new(threads);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                together.wait();
                (1..=100).for_each(&add);
                together.wait();
            });
        }
    });
}

/// Has threads in slots of the process: as many as there are CPUs, or one for each.
fn use_several_slots() {
    let counter = LazyCounter::new();
    counter.share().expect("there is memory");
    add_from_threads(40, |amount| counter.add(amount));
    assert_eq!(counter.sum(), 40 * ONCE);
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
        type Call = fn(&CounterSet<3>, usize);
        let calls: [(&str, Call); 13] = [
            ("add", |set, index| set.add(index, 1)),
            ("sub", |set, index| set.sub(index, 1)),
            ("add_remote", |set, index| set.add_remote(index, 1)),
            // SAFETY: the set is ours, or upgraded.
            ("add_local", |set, index| unsafe { set.add_local(index, 1) }),
            ("limited_add", |set, index| _ = set.limited_add(index, 1, 100)),
            ("limited_add of nothing", |set, index| _ = set.limited_add(index, 0, 100)),
            ("read", |set, index| _ = set.read(index)),
            ("read_positive", |set, index| _ = set.read_positive(index)),
            ("sum", |set, index| _ = set.sum(index)),
            ("sum_positive", |set, index| _ = set.sum_positive(index)),
            ("compare", |set, index| _ = set.compare(index, 1)),
            ("set", |set, index| set.set(index, 5)),
            ("reset", |set, index| _ = set.reset(index)),
        ];
        for (what, call) in calls {
            [&lazy, &shared].into_iter().for_each(|set| panics(what, &|index| call(set, index)));
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
/// Planted: an eager area that prepares for one CPU less, or wipes nothing on return of what lies beyond its CPUs; blocks that are not wiped,
/// or wiped but for their shared words, their modes, the touched mask or the last row that it names.
#[test]
fn counter_areas_of_both_schools() {
    in_both_modes(|| {
        const TOGETHER: i64 = 12 * ONCE;
        for preparation in [Preparation::ForAll { cpus: 256 }, Preparation::ForAll { cpus: 2 }, Preparation::OnReturn] {
            let area = Area::new(256, preparation).expect("there is address space");
            assert!(area.rows() >= 256);
            for round in 1..=20 {
                let set = PerCpuSet::<3>::new_in(area).expect("there is memory");
                let lazy = CounterSet::<2>::new();
                lazy.add(1, 10);
                lazy.share_in(area, 3).expect("there is memory");
                assert_eq!(area.in_use(), 2);
                add_from_threads(12, |amount| {
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
    });
}

/// Without memory a set stays lazy, valid and exact, and an upgrade later succeeds.
///
/// Planted: a limited addition that has no room in a remote word, and is said to be made; a failed upgrade that leaves the set to whoever
/// adds next.
#[test]
fn counter_no_memory_for_an_upgrade() {
    in_both_modes(|| {
        fault::arm(Point::Reserve, Plan::Always { skip: 0 });
        let counter = LazyCounter::bound();
        elsewhere(|| {
            assert_eq!(counter.share(), Err(NoMemory));
            counter.add(1);
        });
        (0..5000).for_each(|_| counter.add(1));
        assert_eq!((counter.sum(), counter.is_shared()), (5001, false), "the owner adds, and one from elsewhere");
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
    });
}

/// An amount that there is not quite enough for has the stock filled up, so that the next one finds enough: else all that follow would go
/// past the cell.
///
/// Planted: stock that is filled up by what would have fitted only.
#[test]
fn counter_stock_is_there_for_the_next() {
    const AMOUNTS: [i64; 5] = [1, 222, 300, 300, 300];
    // Stock that is filled up, and the middle, from which a reading begins.
    const FULL: i64 = DEFAULT_RANGE as i64 / 4 * 3;
    const MIDDLE: i64 = DEFAULT_RANGE as i64 / 2;
    in_both_modes(|| {
        let is_drawn = || {
            let counter = LazyCounter::new();
            counter.share().expect("there is memory");
            AMOUNTS.iter().for_each(|&amount| counter.add(amount));
            // Nothing more than the last one was drawn since: what a reading cannot see.
            counter.read().value - counter.sum() == FULL - AMOUNTS[4] - MIDDLE
        };
        by_ids(|| {
            // Once in a while the thread goes on in another slot in the middle of it.
            let drawn = (0..100).filter(|_| is_drawn()).count();
            assert!(drawn > 50, "{drawn} of 100 times");
        });
    });
}

/// Does something where slots are given by ids: the first use of a counter says how they are.
fn by_ids(work: impl FnOnce()) {
    LazyCounter::new().share().expect("there is memory");
    if slot::mode() == Mode::ConcurrencyId {
        work();
    }
}

/// Cells that are used up again and again become wide where the value is large, and narrow where it is not; a reading is never off by more
/// than it may be.
///
/// Planted: widths that stay; widths without an end; wide cells of which a reading is taken when the value fell.
#[test]
fn counter_cells_widen_with_their_use() {
    const LARGE: i64 = 1 << 28;
    const MANY: i64 = 1 << 20;
    let usual = || u64::from(slot::in_use()) * DEFAULT_RANGE as u64 / 2;
    let error = |counter: &LazyCounter, count: i64, amount: i64| {
        let before = counter.sum();
        (0..count).for_each(|_| counter.add(amount));
        let (sum, reading) = (counter.sum(), counter.read());
        assert_eq!(sum, before + count * amount);
        assert!(reading.value.abs_diff(sum) <= reading.error, "{reading:?} of {sum}");
        assert!(reading.error <= usual().max(sum.unsigned_abs() / 1000), "{reading:?} of {sum}");
        reading.error
    };
    let widens_and_narrows = || {
        let counter = LazyCounter::new();
        counter.share().expect("there is memory");
        let errors =
            [(1, LARGE), (MANY, 1), (1, -LARGE - MANY), (MANY, 1)].map(|(count, by)| error(&counter, count, by));
        let wide = LARGE as u64 / SHARE / u64::from(slot::in_use());
        errors[1] > wide / 2 && errors[2] == 0 && (1..=usual()).contains(&errors[3])
    };
    in_both_modes(|| {
        by_ids(|| {
            // Once in a while the thread goes on in another slot, where the cell stays wide.
            let right = (0..20).filter(|_| widens_and_narrows()).count();
            assert!(right > 10, "{right} of 20 times");
        });
    });
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
        outcome.expect_abort("a counter is about to overflow");
    }
}

/// A counter that went past the ends of 64 bits reads as what is left; its limits go by what it reads as. A reading near the ends may be
/// beyond them; comparisons are right there, too.
#[test]
fn counter_at_the_ends_of_64_bits_wraps() {
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
