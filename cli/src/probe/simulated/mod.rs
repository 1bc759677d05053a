//! A simulated machine, whose operations take as long as a cost model says.

#[allow(clippy::duplicate_mod, reason = "one source for both machines")]
#[path = "../figures/mod.rs"]
mod figures;
pub mod increments;

use figures::{Machine, measure};
use lab::profile::Profile;
pub use simulated::simulation::Costs;
use simulated::simulation::{Job, NS, Place, Settings, Topology, Way, interrupts, run, simulate, work};
use simulated_workload as workload;
use simulated_workload::Threads;
use simulated_workload::caches::{Dedicated, General, Source};
use simulated_workload::counters::Calls;

/// A simulation that takes an hour of its own time has no end.
pub const MOST_NS: u64 = 3_600_000_000_000;

/// Measures what the words say on a machine with so many CPUs, and these costs.
pub fn measured((cpus, costs): (usize, Costs), probe: &str, words: &[&str]) -> Result<Vec<f64>, String> {
    let settings = Settings { cpus, costs, most_steps: u64::MAX, most_ns: MOST_NS, ..Settings::default() };
    let report = simulate(settings, None, || measure(probe, words, &Simulated { cpus }));
    report.outcome.unwrap_or_else(|failure| Err(format!("the simulation failed: {failure}")))
}

/// The costs that a profile says.
pub fn costs(profile: &Profile) -> Costs {
    let number = |name: &str| profile.cost(name).value;
    let time = |name: &str| (number(name) * NS as f64).round() as u64;
    let way = |of: &str| Way { latency: time(&format!("{of}.latency")), service: time(&format!("{of}.service")) };
    let of = profile.topology;
    Costs {
        hit: time("hit"),
        add: time("add"),
        section: time("section"),
        locked: time("locked"),
        memory: time("memory"),
        ways: ["core", "cluster", "socket", "other", "far"].map(way),
        grip: time("grip"),
        shared: time("shared"),
        turn: number("turn").round() as u32,
        sibling_percent: number("sibling_percent").round() as u64,
        zero: time("zero"),
        row: time("row"),
        fault: time("fault"),
        system_call: time("system_call"),
        kick: time("kick"),
        further_kick: time("further_kick"),
        kicked: time("kicked"),
        wake_up: time("wake_up"),
        pause: time("pause"),
        clock: time("clock"),
        topology: Topology {
            threads: of.threads,
            has_siblings_last: of.siblings_last,
            cores: of.cores_of_cluster,
            clusters: of.clusters_of_socket,
            near_sockets: of.near_sockets,
        },
    }
}

struct Simulated {
    cpus: usize,
}

impl Machine for Simulated {
    fn threads(&self, count: u32) -> Result<impl Threads, String> {
        if self.cpus < count as usize {
            return Err(format!("{count} threads at once need as many CPUs, and there is {}", self.cpus));
        }
        Ok(FromFirst)
    }

    fn calls(&self) -> Result<Calls, String> {
        Err(NO_LIBRARY.to_owned())
    }

    fn general_calls(&self, _: usize) -> Result<impl Source, String> {
        Err::<General, _>(NO_LIBRARY.to_owned())
    }

    fn cache_calls(&self, _: usize, _: bool) -> Result<impl Source, String> {
        Err::<Dedicated, _>(NO_LIBRARY.to_owned())
    }

    fn resident(&self) -> Result<u64, String> {
        Err("a simulated machine does not tell what is in memory".to_owned())
    }

    fn interrupts(&self) -> Result<u64, String> {
        Ok(interrupts())
    }
}

const NO_LIBRARY: &str = "a simulated machine has no library in C to call";

/// Threads of the simulated machine, from its first CPU on.
struct FromFirst;

impl Threads for FromFirst {
    fn run(&self, count: u32, work: &(dyn Fn(u32) + Sync)) {
        let job = |number: u32| (Box::new(move || work(number)) as Job<'_>, Place::On(number as usize));
        run((0..count).map(job).collect(), None);
    }

    fn busy(&self, ns: u64) {
        work(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured_on(cpus: usize, line: &str) -> Vec<f64> {
        let words: Vec<&str> = line.split_whitespace().collect();
        measured((cpus, Costs::SIMPLE), words[0], &words[1..]).unwrap()
    }

    #[test]
    fn zeroing_for_many_cpus_costs_more_than_for_few() {
        let setup = |cpus: usize, form| measured_on(256, &format!("counters life {cpus} 8 {form}"))[2];
        assert!(setup(256, "eager") > 2.0 * setup(8, "eager"));
        assert!(setup(256, "lazy") * 10.0 < setup(256, "eager"));
    }

    /// Each kick reaches every busy CPU but the one that kicks.
    #[test]
    fn kicks_reach_all_that_are_busy() {
        let of = |arm| measured_on(72, &format!("kicks groups 20 71 {arm}"));
        let (on_create, on_replace) = (of("kick-on-create"), of("kick-on-replace-only"));
        assert_eq!((on_create[0], on_create[1]), (100.0, 7100.0), "five caches in each group");
        assert_eq!((on_replace[0], on_replace[1]), (0.0, 0.0));
        assert!(on_create[3] > 10.0 * on_replace[3]);
        let replaced = measured_on(72, "kicks replace 20 71");
        // One for all slots: each has one magazine of the cache, as its few frees are examined.
        assert!((19.0..=20.0).contains(&replaced[0]), "{replaced:?}");
        // Who waits for a lock is on no CPU.
        assert!((1000.0..=1420.0).contains(&replaced[1]), "{replaced:?}");
    }

    /// The slow paths move whole arrays, and share no line. Arrays grow until a swing fits, whatever the size of
    /// objects.
    #[test]
    fn allocations_of_two_threads_scale_whatever_arrays_hold() {
        let pair = |words: &str| measured_on(8, &format!("cache pair {words}"))[0];
        for (few, many) in [("1 64 small-arrays", "2 64 small-arrays"), ("2 64 general", "2 2000 general")] {
            let (first, second) = (pair(few), pair(many));
            assert!(second < 1.2 * first, "{few}: {first} ns, {many}: {second} ns");
        }
    }
}
