//! A counter that costs its only user a plain addition, and does not become slow with many users.

use std::thread;

use commensal::counter::{CounterSet, LazyCounter};

static REQUESTS: LazyCounter = LazyCounter::new();
/// Requests by outcome: counters that belong together share what an upgrade takes.
static OUTCOMES: CounterSet<2> = CounterSet::new();
const DONE: usize = 0;
const FAILED: usize = 1;

fn serve(number: i64) {
    REQUESTS.add(1);
    OUTCOMES.add(if number % 10 == 0 { FAILED } else { DONE }, 1);
}

fn main() {
    thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(|| (0..1000).for_each(serve))));
    });
    assert_eq!(REQUESTS.sum(), 4000);
    assert_eq!([DONE, FAILED].map(|outcome| OUTCOMES.sum(outcome)), [3600, 400]);
    // Reading is faster than summing, and says how far it may be off.
    let reading = REQUESTS.read();
    assert!(reading.value.abs_diff(4000) <= reading.error);
    // A quota: the counter never exceeds the limit.
    assert!(REQUESTS.limited_add(1, 4001) && !REQUESTS.limited_add(1, 4001));
    println!("{} requests", REQUESTS.sum());
}
