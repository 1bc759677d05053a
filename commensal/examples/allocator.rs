//! All of a program's memory from Commensal, and a report of it.

use std::collections::HashMap;
use std::thread;

use commensal::Commensal;

#[global_allocator]
static GLOBAL: Commensal = Commensal;

fn main() {
    // Applies COMMENSAL_CONF from here on. Try COMMENSAL_CONF=stats:exit.
    commensal::settings::apply_environment();
    let count = |text: &str| {
        let mut counts = HashMap::new();
        text.chars().for_each(|letter| *counts.entry(letter).or_insert(0) += 1);
        counts
    };
    let counts = thread::spawn(move || count(&"a banquet".repeat(1000))).join().expect("the thread counts");
    // The map comes from another thread, and is freed here.
    assert_eq!(counts[&'a'], 2000);
    println!("{} different letters", counts.len());
}
