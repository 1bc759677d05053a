//! Misuse of the heap ends the program: with SIGABRT, and with one line on standard error that says what was found.
//!
//! These are the cases that the C programs do not have (`dropin/c/misuse.c`).

mod common;

use commensal::heap;
use common::child;

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
#[derive(PartialEq)]
enum Found {
    AtOnce,
    /// When a trim returns the magazine of a slot that frees in a hurry.
    Late,
}
use Found::{AtOnce, Late};

/// Frees too many objects of a size for a look at each, and returns those that are left.
fn hurry(bytes: usize) -> Vec<*mut u8> {
    let blocks: Vec<_> = (0..5000).map(|_| block(bytes)).collect();
    // Some stay, so that no span is given back as a whole: nobody could tell then what was in it.
    blocks.iter().enumerate().filter(|(number, _)| number % 10 != 0).for_each(|(_, &block)| free(block));
    blocks.into_iter().step_by(10).collect()
}

/// What is done, what is said of it, when, and how it is done.
type Crime = (&'static str, &'static str, Found, fn());

const CRIMES: [Crime; 14] = [
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
    ("block freed by two threads", "double free", AtOnce, || {
        let address = block_with_neighbour(1000) as usize;
        let threads = [(); 2].map(|()| std::thread::spawn(move || free(address as *mut u8)));
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }),
    ("block freed by its thread and then by another one", "double free", AtOnce, || {
        let address = block_with_neighbour(1000) as usize;
        free(address as *mut u8);
        std::thread::spawn(move || free(address as *mut u8)).join().expect("no panic");
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
    for (crime, expected, ..) in CRIMES {
        child::run(&mut child::command(crime)).expect_abort(expected);
    }
}
