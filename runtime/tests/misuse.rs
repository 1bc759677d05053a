//! Misuse of the heap ends the program: with SIGABRT, and with one line on standard error that says what was found.
//!
//! Frees of small objects are looked at when their array goes back to its span, so a trim follows where that matters.

mod common;

use commensal::caches::{self, Cache};
use commensal::heap;
use common::child;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

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
const CRIMES: [(&str, &str, fn()); 15] = [
    ("small block freed twice", "double free", || {
        let block = block_with_neighbour(40);
        free(block);
        free(block);
    }),
    ("small block freed twice with others in between", "double free", || {
        let blocks: Vec<_> = (0..5000).map(|_| block(200)).collect();
        // Some stay, so that no span is given back as a whole: nobody could tell then what was in it.
        let freed = blocks.iter().enumerate().filter(|(number, _)| number % 10 != 0);
        freed.for_each(|(_, &block)| free(block));
        free(blocks[17]);
    }),
    ("small block freed by two threads", "double free", || {
        let address = block_with_neighbour(1000) as usize;
        let threads = [(); 2].map(|()| std::thread::spawn(move || free(address as *mut u8)));
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }),
    ("large block freed twice", "free of", || {
        let block = block(100_000);
        free(block);
        free(block);
    }),
    ("huge block freed twice", "free of", || {
        let block = block(100 << 20);
        free(block);
        free(block);
    }),
    ("pointer into a small block", "pointer into an object", || free(block_with_neighbour(100).wrapping_add(16))),
    ("pointer that is not aligned", "pointer into an object", || free(block_with_neighbour(1000).wrapping_add(1))),
    ("pointer behind the last object", "pointer into an object", || {
        free((block(100) as usize / 0x10000 * 0x10000 + 0xffc0) as *mut u8);
    }),
    ("pointer into a large block", "pointer into an object", || free(block(100_000).wrapping_add(4096))),
    ("pointer to nowhere", "foreign pointer", || free(std::ptr::without_provenance_mut(0x1234_5678_9000))),
    ("pointer to the stack", "foreign pointer", || free([0u64; 4].as_mut_ptr().cast())),
    ("pointer of another allocator", "foreign pointer", || {
        free(block(10));
        free(Box::into_raw(Box::new([0u64; 100])).cast());
    }),
    ("foreign pointer before the first allocation", "foreign pointer", || {
        free(Box::into_raw(Box::new(1u64)).cast());
    }),
    ("reallocation of a foreign pointer", "foreign pointer", || {
        // SAFETY: it is not safe; that is the point.
        unsafe { heap::reallocate([0u64; 4].as_mut_ptr().cast(), 100) };
    }),
    ("wrong size at a sized free", "with size", || {
        // SAFETY: the block is ours.
        unsafe { heap::check_size(block(100), 1000, heap::ALIGNMENT) };
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
        let outcome = child::run(&mut child::command(crime));
        let signal = outcome.status.and_then(|status| status.signal());
        assert_eq!(signal, Some(libc::SIGABRT), "{}", outcome.report());
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        assert!(lines.len() == 1 && lines[0].starts_with("commensal: "), "expected one line: {}", outcome.report());
        assert!(lines[0].contains(expected), "expected {expected:?}: {}", outcome.report());
    }
}

#[test]
fn proper_use_does_not_die() {
    if child::case().is_some() {
        let blocks: Vec<_> = (0..10_000).map(|number| block(number * 7)).collect();
        blocks.into_iter().for_each(free);
        free(std::ptr::null_mut());
        heap::trim(0);
        return;
    }
    let outcome = child::run(&mut child::command("use"));
    outcome.expect_success();
    assert_eq!(outcome.stderr, "");
}

/// A typed cache that a rule has watched: the report leads to the Rust functions.
mod watched {
    use super::*;

    type Tally = [u8; 40];
    static TALLIES: Cache<Tally> = Cache::new("tally");

    #[inline(never)]
    fn make_tally() -> caches::Box<'static, Tally> {
        TALLIES.alloc([0; 40]).expect("there is memory")
    }

    #[inline(never)]
    fn drop_tally(tally: caches::Box<'static, Tally>) {
        drop(tally);
        std::hint::black_box(());
    }

    /// The functions, inlined ones too, that the places of a section of the report lie in. Where nothing is inlined, the first ones are the
    /// library's.
    fn functions(report: &str, section: &str) -> String {
        let lines = report.lines().skip_while(|line| !line.starts_with(section)).skip(1);
        let places =
            lines.take_while(|line| line.starts_with("    ")).filter_map(|place| place.trim().rsplit_once('+'));
        let resolve = |(file, offset): (&str, &str)| {
            let resolved = Command::new("addr2line").args(["-iCfe", file, offset]).output().expect("addr2line");
            String::from_utf8_lossy(&resolved.stdout).into_owned()
        };
        places.map(resolve).collect()
    }

    #[test]
    fn overrun_report_names_the_functions_that_owned_the_object() {
        if child::case().is_some() {
            let mut tally = make_tally();
            // SAFETY: it is not safe; that is the point.
            unsafe { tally.as_mut_ptr().add(40).write(1) };
            return drop_tally(tally);
        }
        let mut command = child::command("crime");
        let outcome = child::run(command.env("COMMENSAL_CONF", "cache.tally.debug:all"));
        let text = "commensal: cache tally: object ";
        assert!(outcome.stderr.starts_with(text), "{}", outcome.report());
        assert!(outcome.stderr.contains("of 40 bytes was written to behind its end: byte 40 is 0x01"));
        for (section, function) in [("  allocated", "make_tally"), ("  now", "drop_tally")] {
            let found = functions(&outcome.stderr, section);
            assert!(found.contains(function), "{section}: {found}, {}", outcome.report());
        }
    }
}
