//! Counts of the lines that CPUs take from each other, on machines with many.

use commensal_runtime::counter::LazyCounter;
use machine::simulation::{Job, Place, Settings, run, simulate, transfers, work};

const CPUS: usize = 256;

/// Transfers of lines until each CPU has added one so many times to a counter of this value. Before, its cells become as wide as they can.
fn transfers_of(value: i64, additions: u64) -> f64 {
    // Large enough for a cell to be used up by it, and to be widened.
    const STEP: i64 = 1 << 20;
    const STEPS: usize = 8;
    const BETWEEN_NS: u64 = 2000;
    let settings = Settings { cpus: CPUS, most_steps: u64::MAX, store_buffer: 0, ..Settings::default() };
    let measured = simulate(settings, None, || {
        let counter = LazyCounter::new();
        counter.share().expect("there is memory");
        counter.add(value);
        let job = |cpu| {
            let counter = &counter;
            let add = move || {
                // One after the other: a thread that finds the lock taken leaves its cell as it is.
                work(cpu as u64 * BETWEEN_NS);
                for step in 0..STEPS {
                    work(CPUS as u64 * BETWEEN_NS);
                    // As much is taken back.
                    counter.add(if step % 2 == 0 { STEP } else { -STEP });
                }
                (0..additions).for_each(|_| counter.add(1));
            };
            (Box::new(add) as Job<'_>, Place::Anywhere)
        };
        run((0..CPUS).map(job).collect(), None);
        assert_eq!(counter.sum(), value + (CPUS as u64 * additions) as i64);
        transfers()
    });
    measured.outcome.unwrap_or_else(|failure| panic!("{failure}")) as f64
}

/// Planted: widths that stay.
#[test]
fn counter_cells_meet_seldom_where_the_value_is_large() {
    const LARGE: i64 = 1 << 32;
    const ADDITIONS: u64 = 1 << 14;
    // A cell is 32,768 wide, and used up once. Then the thread takes the lock and moves the sum of edges.
    const MOST: f64 = 12.0 / ADDITIONS as f64;
    let of = |value| {
        let [with, without] = [ADDITIONS, 0].map(|additions| transfers_of(value, additions));
        (with - without) / (CPUS as u64 * ADDITIONS) as f64
    };
    let (small, large) = (of(0), of(LARGE));
    println!("{small:.4} transfers for an addition to a small counter, {large:.4} to a large one");
    assert!(
        0.0 < large && large < MOST && large < small / 10.0,
        "{large} transfers for an addition, and {small} to a small counter"
    );
}
