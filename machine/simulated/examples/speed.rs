//! How many operations on cache lines the engine makes in a second.
//!
//! Every CPU has a thread of its own, which in turn adds to one word of all, to one of a few, and to one of its own: so lines are fought over,
//! shared by some, and kept. `cargo run --release -p simulated --example speed [CPUS]`

use simulated::simulation::{Job, Place, Settings, run, simulate};
use simulated::sync::{AtomicU64, Ordering};
use simulated::vm;
use std::time::Instant;

const OPERATIONS: usize = 20_000_000;
const LINE: usize = 64;
/// Threads that share a word of a few.
const FEW: usize = 8;

fn main() {
    let cpus: usize = std::env::args().nth(1).map_or(256, |text| text.parse().expect("a number of CPUs"));
    let rounds = OPERATIONS / cpus / 3;
    let start = Instant::now();
    let settings = Settings { cpus, most_steps: u64::MAX, ..Settings::default() };
    let report = simulate(settings, None, || {
        let bytes = (cpus * 2 + 1) * LINE;
        let bytes = bytes.next_multiple_of(vm::PAGE);
        let memory = vm::reserve(core::ptr::null_mut(), bytes, vm::Access::ReadWrite).expect("there is memory");
        // SAFETY: each line begins with an atomic, which zeroes are.
        let word = |line: usize| unsafe { &*memory.add(line * LINE).cast::<AtomicU64>() };
        let job = |cpu: usize| -> (Job<'_>, Place) {
            let [all, few, own] = [word(0), word(1 + cpu / FEW), word(1 + cpus + cpu)];
            let work = move || {
                for _ in 0..rounds {
                    all.fetch_add(1, Ordering::Relaxed);
                    few.fetch_add(1, Ordering::Relaxed);
                    own.fetch_add(1, Ordering::Relaxed);
                }
            };
            (Box::new(work), Place::On(cpu))
        };
        run((0..cpus).map(job).collect(), None);
        word(0).load(Ordering::Relaxed)
    });
    assert_eq!(report.outcome, Ok((rounds * cpus) as u64));
    let operations = (rounds * cpus * 3) as f64;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{cpus} CPUs: {:.1} million line operations a second ({operations} in {seconds:.2} s)",
        operations / seconds / 1e6
    );
}
