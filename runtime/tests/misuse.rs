//! Misuse of the heap ends the program: with SIGABRT, and with one line on standard error that says what was found.
//!
//! These are the cases that the C programs do not have (`dropin/c/misuse.c`). Frees of small objects are looked at when their array goes
//! back to its span, so a trim follows.

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

/// What is done, what is said of it, and how it is done.
const CRIMES: [(&str, &str, fn()); 8] = [
    ("block freed twice with others in between", "double free", || {
        let blocks: Vec<_> = (0..5000).map(|_| block(200)).collect();
        // Some stay, so that no span is given back as a whole: nobody could tell then what was in it.
        let freed = blocks.iter().enumerate().filter(|(number, _)| number % 10 != 0);
        freed.for_each(|(_, &block)| free(block));
        free(blocks[17]);
    }),
    ("block freed by two threads", "double free", || {
        let address = block_with_neighbour(1000) as usize;
        let threads = [(); 2].map(|()| std::thread::spawn(move || free(address as *mut u8)));
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }),
    ("huge block freed twice", "free of", || {
        let block = block(100 << 20);
        free(block);
        free(block);
    }),
    ("pointer that is not aligned", "pointer into an object", || free(block_with_neighbour(1000).wrapping_add(1))),
    ("pointer behind the last object", "pointer into an object", || {
        free((block(100) as usize / 0x10000 * 0x10000 + 0xffc0) as *mut u8);
    }),
    ("pointer to nowhere", "foreign pointer", || free(std::ptr::without_provenance_mut(0x1234_5678_9000))),
    ("pointer of another allocator", "foreign pointer", || {
        free(block(10));
        free(Box::into_raw(Box::new([0u64; 100])).cast());
    }),
    ("foreign pointer before the first allocation", "foreign pointer", || {
        free(Box::into_raw(Box::new(1u64)).cast());
    }),
];

#[test]
fn misuse_aborts_with_one_line_that_names_it() {
    if let Some(case) = child::case() {
        let (_, _, commit) = CRIMES.iter().find(|(crime, ..)| *crime == case).expect("it is in the table");
        commit();
        heap::trim(0);
        return;
    }
    for (crime, expected, _) in CRIMES {
        child::run(&mut child::command(crime)).expect_abort(expected);
    }
}
