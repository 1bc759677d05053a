//! Misuse of the heap ends the program: with SIGABRT, and with one line on standard error that says what was found.
//!
//! These are the cases that the C programs do not have (`dropin/c/misuse.c`).

mod common;

use commensal_runtime::{heap, machine::slot};
use common::child;
use common::random::Random;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

fn block(bytes: usize) -> *mut u8 {
    let block = heap::allocate(bytes);
    assert!(!block.is_null());
    block
}

fn free(block: *mut u8) {
    // SAFETY: it is not safe; that is the point.
    unsafe { heap::free(block) }
}

/// A block whose span stays in use, so that what is wrong with its neighbour can be told.
fn block_with_neighbour(bytes: usize) -> *mut u8 {
    let (first, _second) = (block(bytes), block(bytes));
    first
}

/// When it is found.
#[derive(Clone, Copy, PartialEq)]
enum Found {
    AtOnce,
    /// At once, if another thread's magazine can be drained: by concurrency ids.
    ByIds,
    /// At once, but a thread that migrates before leaves its magazine behind: it must have its own slot.
    InFallback,
    /// When a trim returns the magazine of a slot that frees in a hurry.
    Late,
}
use Found::{AtOnce, ByIds, InFallback, Late};

/// Frees too many objects of a size for a look at each, and returns those that are left.
fn hurry(bytes: usize) -> Vec<*mut u8> {
    let blocks: Vec<_> = (0..5000).map(|_| block(bytes)).collect();
    // Some stay, so that no span is given back as a whole: nobody could tell then what was in it.
    blocks.iter().enumerate().filter(|(number, _)| number % 10 != 0).for_each(|(_, &block)| free(block));
    blocks.into_iter().step_by(10).collect()
}

/// Frees a block, and again if another thread gets another slot. The first thread runs meanwhile, so that it keeps its.
fn is_freed_again_elsewhere(block: *mut u8) -> bool {
    let (address, slot, is_over) = (block as usize, slot::current(), AtomicBool::new(false));
    free(block);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let is_elsewhere = slot::current() != slot;
            if is_elsewhere {
                free(address as *mut u8);
            }
            is_over.store(true, Ordering::Relaxed);
            is_elsewhere
        });
        while !is_over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        other.join().expect("no panic")
    })
}

/// What is done, what is said of it, when, and how it is done.
type Crime = (&'static str, &'static str, Found, fn());

const CRIMES: [Crime; 16] = [
    ("block freed twice", "double free", AtOnce, || {
        let block = block_with_neighbour(40);
        free(block);
        free(block);
    }),
    ("block freed twice with other calls in between", "double free", AtOnce, || {
        let (block, others) = (block_with_neighbour(40), [(); 60].map(|()| block(40)));
        free(block);
        others.into_iter().for_each(free);
        free(block);
    }),
    ("block freed twice in a hurry", "double free", Late, || {
        let left = hurry(200);
        free(left[17]);
        free(left[17]);
    }),
    ("block freed twice in a hurry that is over", "double free", InFallback, || {
        // With each size once: on a busy machine, 300 frees may be too slow for a hurry.
        for bytes in [200, 180, 160, 140, 120, 100] {
            let blocks: Vec<_> = (0..400).map(|_| block(bytes)).collect();
            blocks[..300].iter().for_each(|&block| free(block));
            free(blocks[310]);
            blocks[310..350].iter().for_each(|&block| free(block));
            // So late that a refill looks at the magazine before it takes it.
            thread::sleep(Duration::from_millis(20));
            (0..200).for_each(|_| _ = block(bytes));
        }
    }),
    ("block freed by two threads", "double free", AtOnce, || {
        let address = block_with_neighbour(1000) as usize;
        // One after the other: at the same moment, both may succeed.
        (0..2).for_each(|_| thread::spawn(move || free(address as *mut u8)).join().expect("no panic"));
    }),
    ("block freed by its thread and then by another one", "double free", ByIds, || {
        let address = block_with_neighbour(1000) as usize;
        free(address as *mut u8);
        thread::spawn(move || free(address as *mut u8)).join().expect("no panic");
    }),
    ("block freed in one slot and then in another one", "double free", ByIds, || {
        let is_in_one_slot = (0..500).all(|_| !is_freed_again_elsewhere(block_with_neighbour(1000)));
        // On a machine with one CPU, nothing could be seen.
        if is_in_one_slot {
            let block = block_with_neighbour(1000);
            (0..2).for_each(|_| free(block));
        }
    }),
    ("huge block freed twice", "double free", AtOnce, || {
        let block = block(100 << 20);
        free(block);
        free(block);
    }),
    ("pointer that is not aligned", "pointer into an object", AtOnce, || {
        free(block_with_neighbour(1000).wrapping_add(1))
    }),
    ("pointer into an object", "pointer into an object", AtOnce, || free(block_with_neighbour(100).wrapping_add(16))),
    ("pointer into an object in a hurry", "pointer into an object", Late, || free(hurry(200)[3].wrapping_add(16))),
    ("pointer behind the last object", "pointer into an object", AtOnce, || {
        free((block(100) as usize / 0x10000 * 0x10000 + 0xffc0) as *mut u8);
    }),
    ("pointer into a block that moves", "pointer into an object", AtOnce, || {
        let block = block_with_neighbour(1000).wrapping_add(16);
        // SAFETY: it is not safe; that is the point.
        unsafe { heap::reallocate(block, 3000) };
    }),
    ("pointer to nowhere", "foreign pointer", AtOnce, || free(std::ptr::without_provenance_mut(0x1234_5678_9000))),
    ("pointer of another allocator", "foreign pointer", AtOnce, || {
        free(block(10));
        free(Box::into_raw(Box::new([0u64; 100])).cast());
    }),
    ("foreign pointer before the first allocation", "foreign pointer", AtOnce, || {
        free(Box::into_raw(Box::new(1u64)).cast());
    }),
];

#[test]
fn misuse_aborts_with_one_line_that_names_it() {
    if let Some(case) = child::case() {
        let (_, _, found, commit) = CRIMES.iter().find(|(crime, ..)| *crime == case).expect("it is in the table");
        commit();
        if *found == Late {
            heap::trim(0);
        }
        return;
    }
    for (crime, expected, found, _) in CRIMES {
        let modes = match found {
            ByIds => &child::MODES[..1],
            InFallback => &child::MODES[1..],
            AtOnce | Late => &child::MODES,
        };
        for &mode in modes {
            child::run(child::command(crime).envs(mode)).expect_abort(expected);
        }
    }
}

/// Writes a byte at an offset from a block.
fn write(block: *mut u8, offset: isize) {
    // SAFETY: it is not safe; that is the point.
    unsafe { block.offset(offset).write_volatile(0x2a) }
}

/// A block that begins inside a line of memory, or at the beginning of one, with another block before it.
fn inside_a_line(is_inside: bool) -> *mut u8 {
    let mut blocks: Vec<_> = (0..200).map(|_| block(40)).collect();
    blocks.sort();
    blocks
        .into_iter()
        .skip(100)
        .find(|&block| (block as usize).is_multiple_of(64) != is_inside)
        .expect("one of four is")
}

/// What is done to a hardened heap, what is said of it, and how it is done. The heap is looked at when the program ends.
const CRIMES_HARDENED: [(&str, &str, fn()); 10] = [
    ("byte behind the end", "overflow", || {
        let block = block_with_neighbour(40);
        write(block, 40);
        free(block);
    }),
    ("byte behind the end of a block that stays", "overflow", || write(block_with_neighbour(40), 47)),
    ("byte before the beginning", "underflow", || {
        let block = inside_a_line(true);
        write(block, -1);
        free(block);
    }),
    ("byte before the beginning, in another line", "overflow", || write(inside_a_line(false), -1)),
    ("byte behind the end of a large block", "overflow", || {
        let block = block(100_000);
        write(block, 100_000);
        free(block);
    }),
    ("write after free", "write after free", || {
        let block = block_with_neighbour(5000);
        free(block);
        write(block, 2500);
    }),
    ("write after free, whose span leaves", "write after free", || {
        let blocks: Vec<_> = (0..200).map(|_| block(5000)).collect();
        blocks.iter().for_each(|&block| free(block));
        write(blocks[199], 4000);
        heap::trim(0);
        // SAFETY: ends the process without a look at what is left.
        unsafe { libc::_exit(0) };
    }),
    ("block freed twice", "double free", || {
        let block = block_with_neighbour(40);
        free(block);
        free(block);
    }),
    ("block freed twice in a hurry", "double free", || {
        let left = hurry(200);
        free(left[17]);
        free(left[17]);
    }),
    ("pointer into an object", "pointer into an object", || free(block_with_neighbour(100).wrapping_add(16))),
];

/// Valid use of a hardened heap by threads and fork children, of all sizes.
fn honest() {
    let work = |seed: u64| {
        let mut random = Random::new(seed, 0);
        let mut blocks: Vec<(*mut u8, usize)> = Vec::new();
        for _ in 0..3000 {
            let bytes = random.size(17);
            if blocks.len() > 100 || (random.once_in(2) && !blocks.is_empty()) {
                let (old, length) = blocks.swap_remove(random.below(blocks.len()));
                // SAFETY: the block is ours, and that long.
                unsafe {
                    assert!(length == 0 || old.add(length - 1).read() == length as u8, "the block of {length} bytes");
                    if random.once_in(2) {
                        free(old);
                        continue;
                    }
                    let new = heap::reallocate(old, bytes.max(1));
                    assert!(length == 0 || bytes < length || new.add(length - 1).read() == length as u8);
                    blocks.push((new, bytes.max(1)));
                }
            } else {
                blocks.push((heap::allocate_aligned(bytes, 1 << random.below(8)), bytes));
            }
            let &(block, length) = blocks.last().expect("one was pushed");
            assert!(!block.is_null());
            // SAFETY: the block is ours, and that long.
            unsafe { block.write_bytes(length as u8, length) };
        }
        blocks.into_iter().for_each(|(block, _)| free(block));
    };
    thread::scope(|scope| {
        let threads = [1, 2, 3].map(|seed| scope.spawn(move || work(seed)));
        // SAFETY: the child uses only the heap, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            work(4);
            heap::examine_at_exit();
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: the child is ours.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0, "the child's end");
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
}

/// Writes to large blocks of a hardened heap that the processor refuses.
const FAULTS: [(&str, fn()); 4] = [
    ("write after a large block was freed", || {
        let block = block(200_000);
        free(block);
        write(block, 100_000);
    }),
    ("write behind a large block", || write(block(200_000), 200_704)),
    ("write before a large block", || write(block(200_000), -1)),
    ("write behind a large block in a mapping of an earlier one", || {
        let old = block(200_000);
        free(old);
        let new = block(150_000);
        assert_eq!(new, old, "the mapping was not kept");
        write(new, 151_552);
    }),
];

/// The process's mappings, and the access to each.
fn mappings() -> Vec<(std::ops::Range<usize>, String)> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("it is there");
    let address = |text: &str| usize::from_str_radix(text, 16).expect("an address");
    let mapping = |line: &str| {
        let mut words = line.split(' ');
        let (start, end) = words.next()?.split_once('-')?;
        Some((address(start)..address(end), words.next()?.to_owned()))
    };
    maps.lines().filter_map(mapping).collect()
}

/// Blocks come in random order, and freed ones wait.
fn order() {
    const BYTES: usize = 40;
    let blocks: Vec<_> = (0..500).map(|_| block(BYTES)).collect();
    let ascending = blocks.windows(2).filter(|pair| pair[1] as usize == pair[0] as usize + 48).count();
    assert!(ascending < 50, "{ascending} of 500 blocks lie behind the one before");
    let (first, others) = blocks.split_at(60);
    others.iter().for_each(|&block| free(block));
    for &freed in first {
        free(freed);
        assert!((0..60).all(|_| block(BYTES) != freed), "a block that was just freed is used again");
    }
    // Of 1,000 granules, one in sixteen should be a guard.
    let all: Vec<_> = (0..64_000).map(|_| block(1000)).collect();
    let guards = mappings().into_iter().filter(|(_, access)| access == "---p").map(|(range, _)| range.len());
    let guards = guards.filter(|bytes| (1..4).contains(&(bytes / 0x10000)) && bytes.is_multiple_of(0x10000)).count();
    assert!((25..120).contains(&guards), "{guards} guards");
    all.into_iter().for_each(free);
    let (large, new) = (block(200_000), block(200_000));
    free(large);
    // SAFETY: the block is ours, and so is what it becomes.
    let grown = unsafe { heap::reallocate(block(150_000), 190_000) };
    assert_eq!(grown, large, "it did not grow within its mapping");
    [grown, new].into_iter().for_each(free);
    let is_mapped = |block: *mut u8| mappings().iter().any(|(range, _)| range.contains(&(block as usize)));
    assert!(is_mapped(grown) && is_mapped(new));
    heap::trim(0);
    assert!(!is_mapped(grown) && !is_mapped(new), "trimming does not unmap freed blocks");
}

#[test]
fn hardened_heap_finds_writes_out_of_bounds_and_nothing_else() {
    if let Some(case) = child::case() {
        heap::conf::apply_environment();
        match CRIMES_HARDENED.iter().find(|(crime, ..)| *crime == case) {
            Some((_, _, commit)) => commit(),
            None => match FAULTS.iter().find(|(crime, _)| *crime == case) {
                Some((_, commit)) => commit(),
                None if case == "order" => order(),
                None => honest(),
            },
        }
        heap::examine_at_exit();
        return;
    }
    let run = |crime| child::run(child::command(crime).env("COMMENSAL_CONF", "harden:on"));
    for (crime, expected, _) in CRIMES_HARDENED {
        run(crime).expect_abort(expected);
    }
    for (crime, _) in FAULTS {
        let outcome = run(crime);
        assert_eq!(outcome.status.and_then(|status| status.signal()), Some(libc::SIGSEGV), "{}", outcome.report());
    }
    run("order").expect_success();
    run("honest").expect_success();
    child::run(child::command("honest").env("COMMENSAL_CONF", "harden:on").env(child::FALLBACK.0, child::FALLBACK.1))
        .expect_success();
}
