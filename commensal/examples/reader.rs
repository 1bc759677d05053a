//! A loop that reads often: its sections are free, and it reports once in each turn that it is in none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use commensal::rcu::Cell;
use commensal::rcu::qsbr::CooperativeReader;

fn main() {
    let table = Cell::new([0_u64; 16]).expect("there is memory");
    let is_over = AtomicBool::new(false);
    let turns = thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut reader = CooperativeReader::register().expect("there is memory");
            let mut turns = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                let section = reader.read();
                let numbers = table.load_in(&section);
                assert!(numbers.iter().all(|number| number == &numbers[0]));
                drop(section);
                turns += 1;
                // Old tables are freed when each reader has been here.
                reader.checkpoint();
            }
            turns
        });
        for number in 1..=1000 {
            table.store([number; 16]).expect("there is memory");
        }
        is_over.store(true, Ordering::Relaxed);
        reading.join().expect("the reader finds whole tables")
    });
    println!("{turns} turns");
}
