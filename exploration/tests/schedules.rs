//! Every schedule of the small bodies. In a process there is one simulation at a time, so each body has its own.

use exploration::schedules::{SMALL, Small};
use machine::simulation::worker::work;
use std::io::Write;
use std::thread;
use std::time::Duration;

/// Far more than the longest takes.
const PATIENCE: Duration = Duration::from_secs(1200);

/// What is wrong with a schedule of a body, if anything is.
fn exhaust(small: &Small) -> Option<String> {
    let exit = work(
        PATIENCE,
        |_| {},
        |_, output| {
            let wrong = small.exhaust().err().unwrap_or_default();
            output.write_all(wrong.as_bytes()).expect("memory can be written");
        },
    );
    exit.what()
}

#[test]
fn counters_keep_their_promises_in_each_small_schedule() {
    let wrong: Vec<String> = thread::scope(|scope| {
        let all: Vec<_> = SMALL.iter().map(|small| scope.spawn(|| exhaust(small))).collect();
        all.into_iter().filter_map(|one| one.join().expect("a thread that waits for its process")).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
