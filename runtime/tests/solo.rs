//! A process that has one thread all its life: the property of tests/properties.rs in solo mode.
//!
//! A program of its own, without the harness that cargo's tests have: that makes threads.

mod common;

use commensal_runtime::heap;
use commensal_runtime::heap::report;
use commensal_runtime::machine::{root, thread};
use commensal_runtime::rcu;
use commensal_runtime::rcu::TypesafeCache;
use commensal_runtime::rcu::qsbr::CooperativeReader;
use commensal_runtime::upkeep;
use common::peak::{Blocks, MIB};
use common::programs::{hold, operations, run_one};
use common::subject::Subject;
use common::{PATIENCE, child, forked};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

const TEST: &str = "one_program_with_one_thread";

fn main() {
    let mut names = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).peekable();
    if child::case().is_none() && names.peek().is_some() && !names.any(|name| TEST.contains(&name)) {
        return;
    }
    if thread::is_alone() {
        first_blocks_need_no_heap();
    }
    hold(1.0, operations(200), |program| {
        run_one(Subject::new(None), program)?;
        assert!(report::process().is_none_or(|process| process.shared_since_ns == 0), "one thread is not solo mode");
        Ok(())
    });
    // Not where a machine cannot tell.
    if thread::is_alone() {
        what_readers_might_have_seen_goes_at_once_but_in_sections();
        what_is_deferred_is_freed_at_once_but_in_sections();
        process_that_swings_keeps_what_it_needs_again();
        memory_goes_back_and_nobody_is_made_for_it();
    }
    println!("test {TEST} ... ok");
}

/// Each in a process of its own: blocks of any size, until a reason comes up why the heap must begin.
fn first_blocks_need_no_heap() {
    type Begins = fn();
    let begin: [(&str, Begins); 6] = [
        ("a large block", || assert!(!heap::allocate(300 << 10).is_null())),
        ("an aligned block", || assert!(!heap::allocate_aligned(100, 64).is_null())),
        ("many blocks at once", || (0..3000).for_each(|_| assert!(!heap::allocate(16).is_null()))),
        ("a full area", || (0..300).for_each(|_| assert!(!heap::allocate(4096).is_null()))),
        ("a thread", || std::thread::spawn(|| assert!(!heap::allocate(16).is_null())).join().expect("it ended")),
        ("a question", || assert!(report::process().expect("there are blocks").in_use_bytes >= 100_000)),
    ];
    for (what, begins) in begin {
        let outcome = forked::run(|| {
            let blocks: Vec<_> = (0..200).map(|number| (heap::allocate(number * 7), number * 7)).collect();
            for &(block, bytes) in &blocks {
                // SAFETY: the block is ours, and as large.
                unsafe { block.write_bytes(bytes as u8, bytes) };
            }
            // SAFETY: the block is ours.
            let moved = unsafe { heap::reallocate(blocks[100].0, 5000) };
            // Memory that was used before.
            Blocks::of(60_000, &[60_000]).free();
            // SAFETY: ours, and as large.
            let zeroed = unsafe { std::slice::from_raw_parts(heap::allocate_zeroed(50_000), 50_000) };
            if root::is_installed() || zeroed.iter().any(|&byte| byte != 0) {
                return Err("the heap has begun, or zeroed memory is not zero".into());
            }
            begins();
            for (number, &(block, bytes)) in blocks.iter().enumerate() {
                let block = if number == 100 { moved } else { block };
                // SAFETY: the block is ours, and as large.
                let is_intact = unsafe { (0..bytes).all(|at| block.add(at).read() == bytes as u8) };
                // SAFETY: as above.
                if !is_intact || unsafe { heap::usable_bytes(block) } < bytes {
                    return Err(format!("block {number} has changed"));
                }
                // SAFETY: as above.
                unsafe { heap::free(block) };
            }
            if heap::trim(0) < 64 << 10 {
                return Err("free pages of the first blocks stay".into());
            }
            if root::is_installed() { Ok(()) } else { Err("the heap has not begun".into()) }
        });
        assert_eq!(outcome, Ok(()), "{what}");
    }
    let twice = || {
        let block = heap::allocate(100);
        // SAFETY: not at all: the second free is the misuse.
        unsafe {
            heap::free(block);
            heap::free(block);
        }
        Ok(())
    };
    assert!(forked::run(twice).is_err(), "a double free of a first block goes unnoticed");
    assert!(!root::is_installed(), "only children had a heap");
}

fn what_is_deferred_is_freed_at_once_but_in_sections() {
    // SAFETY: ours.
    let defer = || unsafe { rcu::defer_free(heap::allocate(96)) };
    defer();
    assert!(rcu::waiting().objects == 0 && thread::is_alone(), "nobody could have it, and it was not freed at once");
    // In a section of a reader that registered, or of one that did not: each in a process of its own, as a worker comes of it.
    for registers in [true, false] {
        let held = forked::run(|| {
            let reader = registers.then(|| CooperativeReader::register().expect("there is memory"));
            let section = (!registers).then(rcu::read);
            defer();
            let is_there = rcu::waiting().objects == 1;
            drop((reader, section));
            rcu::barrier();
            match (is_there, rcu::waiting().objects) {
                (true, 0) => Ok(()),
                (false, _) => Err("it was freed in the thread's own section".into()),
                _ => Err("it was not freed after the section".into()),
            }
        });
        assert_eq!(held, Ok(()), "registered: {registers}");
    }
}

fn what_readers_might_have_seen_goes_at_once_but_in_sections() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Object([u64; 500]);
    impl Drop for Object {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
    static OBJECTS: TypesafeCache<Object> = TypesafeCache::new("object", || Object([1; 500]));
    let churn = || {
        let objects: Vec<_> = (0..100).map(|_| OBJECTS.get().expect("there is memory")).collect();
        assert!(objects.iter().all(|object| object.0[499] == 1));
        drop(objects);
        OBJECTS.shrink();
        DROPPED.swap(0, Ordering::Relaxed)
    };
    assert!(churn() >= 100 && thread::is_alone(), "nobody could look at them, and they did not go at once");
    let held = forked::run(|| {
        let section = rcu::read();
        let in_section = churn();
        drop(section);
        rcu::barrier();
        match (in_section, DROPPED.load(Ordering::Relaxed)) {
            (0, 100..) => Ok(()),
            (0, _) => Err("they did not go after the section".into()),
            _ => Err("they went in the thread's own section".into()),
        }
    });
    assert_eq!(held, Ok(()));
}

/// But little once all of it is free.
fn process_that_swings_keeps_what_it_needs_again() {
    const BYTES: usize = 6 * MIB;
    // Only frees give pages back meanwhile.
    upkeep::set_knob("interval_ms", 60_000).expect("it is in range");
    let figures = || report::process().expect("it is used");
    let released_by = |swings: u32| {
        let before = figures().released_bytes;
        (0..swings).for_each(|_| Blocks::of(8 * BYTES, &[BYTES]).free());
        (figures().released_bytes - before) as usize / MIB
    };
    let stays = Blocks::of(6 * BYTES, &[BYTES]);
    let (first, later) = (released_by(4), released_by(16));
    assert!((16..=100).contains(&first) && later <= 8, "{first} MiB, then {later} MiB went back");
    stays.free();
    let dirty = figures().dirty_bytes as usize / MIB;
    assert!(dirty <= 24, "{dirty} MiB are kept by a process that uses none");
}

/// By whoever comes along a slow path: here the only thread.
fn memory_goes_back_and_nobody_is_made_for_it() {
    const BYTES: usize = 100_000;
    upkeep::set_knob("interval_ms", 20).expect("it is in range");
    let use_some = |count: usize| {
        let blocks: Vec<_> = (0..count).map(|_| heap::allocate(BYTES)).collect();
        for block in blocks {
            // SAFETY: the block is ours, and as large.
            unsafe {
                block.write_bytes(1, BYTES);
                heap::free(block);
            }
        }
    };
    use_some(500);
    let end = Instant::now() + PATIENCE;
    while report::process().expect("it is used").released_bytes < 40_000_000 {
        assert!(Instant::now() < end, "little goes back: {:?}", report::process());
        use_some(1);
        sleep(Duration::from_millis(1));
    }
    let tasks = std::fs::read_dir("/proc/self/task").expect("the kernel tells").count();
    assert!(thread::is_alone() && tasks == 1, "{tasks} threads");
}
