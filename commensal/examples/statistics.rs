//! A program that watches its own memory.

use commensal::{Commensal, statistics, upkeep};

#[global_allocator]
static GLOBAL: Commensal = Commensal;

fn main() {
    let blocks: Vec<Box<[u8; 1000]>> = (0..10_000).map(|_| Box::new([1; 1000])).collect();
    let figures = statistics::process().expect("the process has a heap");
    assert!(figures.in_use_bytes >= 10_000_000);
    println!("{} bytes in use", figures.in_use_bytes);
    drop(blocks);
    // Programs that know that they will be idle return memory at once.
    upkeep::trim(0);
    let after = statistics::process().expect("the process has a heap");
    assert!(after.in_use_bytes < 1_000_000, "{} bytes in use", after.in_use_bytes);

    let mut report = String::new();
    statistics::write_text(&mut report).expect("a string grows");
    print!("{report}");
}
