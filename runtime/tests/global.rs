//! Commensal as this very program's global allocator, of which it asks nothing but what Rust's collections ask.
//!
//! Threads come from the C library, whose own tables come from its own malloc: nobody calls us when a thread is created, so the
//! runtime has to find out on its own slow paths that the process is shared.

use commensal::Commensal;
use commensal::heap::report;
use std::collections::BTreeMap;
use std::thread;

#[global_allocator]
static GLOBAL: Commensal = Commensal;

const THREADS: u64 = 8;
const WORDS: u64 = 20_000;

/// A map of strings that the caller frees, perhaps on another thread.
fn words(thread: u64) -> BTreeMap<String, Vec<u64>> {
    let mut words = BTreeMap::<String, Vec<u64>>::new();
    for n in 0..WORDS {
        words.entry(format!("{:x}", n * n % 997)).or_default().push(n ^ thread);
    }
    words
}

#[test]
fn threads_make_a_process_shared() {
    let made = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || words(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    for (number, words) in made.into_iter().enumerate() {
        let expected = self::words(number as u64);
        assert_eq!(words, expected);
    }
    let process = report::process().expect("the heap is in use");
    assert!(process.shared_since_ns > 0, "the runtime takes a process with {THREADS} threads for one with one");
    assert!(process.slots_used > 0 && process.run_bytes > 0, "{process:?}");
}
