//! A simulated machine, whose operations take as long as a cost model says.

#[allow(clippy::duplicate_mod, reason = "one source for both machines")]
#[path = "../figures.rs"]
mod figures;

use commensal_machine_simulated::simulation::{Costs, Job, Place, Settings, run, simulate};
use commensal_workload_simulated as workload;
use commensal_workload_simulated::Threads;
use commensal_workload_simulated::counters::Calls;
use figures::{Machine, measure};

/// Measures what the words say on a machine with so many CPUs.
pub fn measured(cpus: usize, words: &[&str]) -> Result<Vec<f64>, String> {
    let settings = Settings { cpus, costs: Costs::SIMPLE, most_steps: u64::MAX, ..Settings::default() };
    let report = simulate(settings, None, || measure(words, &Simulated { cpus }));
    report.outcome.unwrap_or_else(|failure| Err(format!("the simulation failed: {failure}")))
}

struct Simulated {
    cpus: usize,
}

/// Threads of the simulated machine, from its first CPU on.
struct FromFirst;

impl Machine for Simulated {
    type Threads = FromFirst;

    fn threads(&self, count: u32) -> Result<FromFirst, String> {
        if self.cpus < count as usize {
            return Err(format!("{count} threads at once need as many CPUs, and there is {}", self.cpus));
        }
        Ok(FromFirst)
    }

    fn calls(&self) -> Result<Calls, String> {
        Err("a simulated machine has no library in C to call".to_owned())
    }
}

impl Threads for FromFirst {
    fn run(&self, count: u32, work: &(dyn Fn(u32) + Sync)) {
        let job = |number: u32| (Box::new(move || work(number)) as Job<'_>, Place::On(number as usize));
        run((0..count).map(job).collect(), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_give_the_same_figures() {
        for words in [
            &["life", "80", "8", "eager"][..],
            &["shared", "80", "8", "lazy-and-cached"],
            &["upgraded", "2", "atomic"],
            &["look", "80", "8", "eager"],
        ] {
            let [first, second] = [measured(72, words).unwrap(), measured(72, words).unwrap()];
            assert_eq!(first, second, "{words:?}");
            assert!(first.iter().all(|figure| figure.is_finite()), "{words:?}: {first:?}");
        }
    }

    #[test]
    fn zeroing_for_many_cpus_costs_more_than_for_few() {
        let setup = |cpus: &str, form| measured(256, &["life", cpus, "8", form]).unwrap()[2];
        assert!(setup("256", "eager") > 2.0 * setup("8", "eager"));
        assert!(setup("256", "lazy") * 10.0 < setup("256", "eager"));
    }

    #[test]
    fn what_it_has_not_is_said() {
        for (cpus, words, named) in [
            (1, &["others", "atomic"][..], "2 threads at once"),
            (2, &["called", "own"], "no library in C"),
            (2, &["dinner"], "expected life CPUS"),
        ] {
            let why = measured(cpus, words).unwrap_err();
            assert!(why.contains(named), "{why}");
        }
    }
}
