//! What the published curves measured, on the simulated machine: each of so many threads adds, again and again.

use lab::profile::Operation;
use simulated::simulation::{self, Costs, Job, Place, Settings, run, simulate, time_ns};
use simulated::slot;
use simulated::sync::{AtomicI64, AtomicU32, AtomicU64, Ordering};

/// Additions of each thread to its own word: they all take the same time.
const OWN: u64 = 500;
/// To one word, they do not: so long, and as much longer for each thread, in nanoseconds.
const LEAST_NS: u64 = 3000;
const EACH_NS: u64 = 1500;
/// Of that, the first part in so many is left out.
const WARM_UP: u64 = 4;
/// In so many nanoseconds all have heard when it begins.
const SOON_NS: u64 = 40_000;
/// And begin so closely together.
const STEP_NS: u64 = 20;

/// Nanoseconds of an addition of each of so many threads, each on a CPU of its own, on a machine with so many CPUs.
pub fn increment_ns(cpus: usize, costs: Costs, operation: Operation, threads: u32) -> Result<f64, String> {
    let settings = Settings { cpus, costs, most_steps: u64::MAX, most_ns: super::MOST_NS, ..Settings::default() };
    let report = simulate(settings, None, || match operation {
        Operation::AtomicIncrement => together_ns(threads),
        Operation::PerCpuIncrement => own_ns(threads),
    });
    report.outcome.map_err(|failure| format!("the simulation failed: {failure}"))
}

/// Runs `work` in so many threads, from the same moment on, which it is told.
fn on_each(threads: u32, work: &(dyn Fn(u64) + Sync)) {
    let (came, start) = (AtomicU32::new(0), AtomicU64::new(0));
    let job = |number: u32| {
        let (came, start) = (&came, &start);
        let job = move || {
            if came.fetch_add(1, Ordering::Relaxed) + 1 == threads {
                start.store(time_ns() + SOON_NS, Ordering::Relaxed);
            }
            let start = loop {
                match start.load(Ordering::Relaxed) {
                    0 => simulation::work(STEP_NS),
                    start => break start,
                }
            };
            // Work takes longer beside another thread of the core.
            while time_ns() < start {
                simulation::work(STEP_NS);
            }
            work(start);
        };
        (Box::new(job) as Job<'_>, Place::On(number as usize))
    };
    run((0..threads).map(job).collect(), None);
}

/// As many as there are in some time: whoever is ahead goes on, as do those who are not.
fn together_ns(threads: u32) -> f64 {
    let [word, done] = [AtomicU64::new(0), AtomicU64::new(0)];
    let length = LEAST_NS + EACH_NS * u64::from(threads);
    let counted = length - length / WARM_UP;
    on_each(threads, &|start| {
        let (from, to, mut own) = (start + length - counted, start + length, 0);
        loop {
            word.fetch_add(1, Ordering::Relaxed);
            match time_ns() {
                now if now >= to => break,
                now => own += u64::from(now >= from),
            }
        }
        done.fetch_add(own, Ordering::Relaxed);
    });
    counted as f64 * f64::from(threads) / done.into_inner() as f64
}

fn own_ns(threads: u32) -> f64 {
    let total = AtomicU64::new(0);
    on_each(threads, &|_| {
        let own = AtomicI64::new(0);
        let word = (&raw const own).cast_mut().cast::<u8>();
        // SAFETY: it is an atomic, to which this thread alone adds.
        let add = || unsafe { slot::local_add::<0>(word, 1) };
        // The first one brings the line.
        add();
        let start = time_ns();
        (0..OWN).for_each(|_| add());
        total.fetch_add((time_ns() - start) * 1000 / OWN, Ordering::Relaxed);
    });
    total.into_inner() as f64 / 1000.0 / f64::from(threads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulated::simulation::{NS, Topology, Way};

    fn costs() -> Costs {
        let way = |latency, service| Way { latency: latency * NS, service: service * NS };
        let near = way(40, 20);
        Costs {
            locked: 4 * NS,
            add: 2 * NS,
            ways: [near, near, near, way(120, 120), way(300, 300)],
            topology: Topology { threads: 1, has_siblings_last: true, cores: 32, clusters: 1, near_sockets: 2 },
            turn: 20,
            ..Costs::SIMPLE
        }
    }

    fn taken(operation: Operation, threads: u32) -> f64 {
        increment_ns(128, costs(), operation, threads).expect("nothing fails")
    }

    /// One line, N CPUs, known times: what comes out follows from these.
    #[test]
    fn throughput_is_what_follows_from_the_costs() {
        let is_near = |found: f64, expected: f64, by: f64| {
            assert!((found / expected - 1.0).abs() < by, "{found} ns, and {expected} were expected");
        };
        let atomic = |threads| taken(Operation::AtomicIncrement, threads);
        is_near(atomic(1), 5.0, 0.02);
        // Of two in turn each waits for its request: a latency, and its own operation.
        is_near(atomic(2), 45.0, 0.03);
        // Of many nobody does: the line goes from one to the next after its service, and the operation.
        for threads in [4, 8, 32] {
            is_near(atomic(threads), f64::from(threads) * 20.0, 0.03);
        }
        // Each tenth goes to the other socket.
        is_near(atomic(64), 64.0 * (20.0 + 100.0 / 10.0), 0.05);
        is_near(taken(Operation::PerCpuIncrement, 1), 3.0, 0.01);
        is_near(taken(Operation::PerCpuIncrement, 128), 3.0, 0.01);
    }

    #[test]
    fn threads_of_one_core_slow_each_other_down() {
        let topology = Topology { threads: 2, has_siblings_last: true, cores: 16, clusters: 1, near_sockets: 2 };
        let costs = Costs { topology, sibling_percent: 150, ..costs() };
        let own = |threads| increment_ns(64, costs, Operation::PerCpuIncrement, threads).unwrap();
        assert!((own(32) - 3.0).abs() < 0.05, "one of each core");
        assert!((own(64) / 4.5 - 1.0).abs() < 0.03, "both: {}", own(64));
    }
}
