//! What the published curves measured, on the simulated machine: each of so many threads adds, again and again.

use simulated::simulation::{self, Costs, Job, Place, Settings, run, simulate, time_ns};
use simulated::sync::{AtomicU32, AtomicU64, Ordering};

/// Threads add for so long, and as much longer for each thread, in nanoseconds.
const LEAST_NS: u64 = 3000;
const EACH_NS: u64 = 1500;
/// Of that, the first part in so many is left out.
const WARM_UP: u64 = 4;
/// In so many nanoseconds all have heard when it begins.
const SOON_NS: u64 = 40_000;
/// And begin so closely together.
const STEP_NS: u64 = 20;

/// Nanoseconds of an addition of each of so many threads to one word, each on a CPU of its own, on a machine with so
/// many CPUs.
pub fn increment_ns(cpus: usize, costs: Costs, threads: u32) -> Result<f64, String> {
    simulated(cpus, costs, || together_ns(threads))
}

fn simulated<T>(cpus: usize, costs: Costs, work: impl FnOnce() -> T) -> Result<T, String> {
    let settings = Settings { cpus, costs, most_steps: u64::MAX, most_ns: super::MOST_NS, ..Settings::default() };
    simulate(settings, None, work).outcome.map_err(|failure| format!("the simulation failed: {failure}"))
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

    /// One line, N CPUs, known times: what comes out follows from these.
    #[test]
    fn throughput_is_what_follows_from_the_costs() {
        for (threads, expected, by) in [
            (1, 5.0, 0.02),
            // Of two in turn each waits for its request: a latency, and its own operation.
            (2, 45.0, 0.03),
            // Of many nobody does: the line goes from one to the next after its service, and the operation.
            (4, 4.0 * 20.0, 0.03),
            (32, 32.0 * 20.0, 0.03),
            // Each tenth goes to the other socket.
            (64, 64.0 * (20.0 + 100.0 / 10.0), 0.05),
        ] {
            let found = increment_ns(128, costs(), threads).expect("nothing fails");
            assert!((found / expected - 1.0).abs() < by, "{found} ns, and {expected} were expected");
        }
    }

    #[test]
    fn threads_of_one_core_slow_each_other_down() {
        let topology = Topology { threads: 2, has_siblings_last: true, cores: 16, clusters: 1, near_sockets: 2 };
        let costs = Costs { topology, sibling_percent: 150, ..costs() };
        let took = |threads| {
            let longest = AtomicU64::new(0);
            let work = |start| {
                (0..100).for_each(|_| simulation::work(100));
                longest.fetch_max(time_ns() - start, Ordering::Relaxed);
            };
            simulated(64, costs, || on_each(threads, &work)).unwrap();
            longest.into_inner() as f64
        };
        let (one, both) = (took(32), took(64));
        assert!((both / one / 1.5 - 1.0).abs() < 0.03, "{one} ns with one thread of each core, {both} ns with both");
    }
}
