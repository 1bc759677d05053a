//! Runs the runtime's tests on a simulated machine that is disturbed at random, by a seed.

use crate::simulation::{self, Place, Random, Rates, Settings, simulate};
use crate::slot;

type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// No signals, which do nothing without a simulation's handler. No refusals, for which a test must ask.
const RATES: Rates = Rates { signal: 0, refuse: 0, ..Rates::USUAL };

/// Runs a program as the first thread of a process on its own machine. The seed decides the number of CPUs and all that
/// happens; the mode is this process's. Panics if the simulation ends before the program.
pub fn play<R>(seed: u64, program: impl FnOnce() -> R) -> R {
    slot::initialise();
    let settings = Settings {
        seed,
        cpus: [2, 3, 8][(seed % 3) as usize],
        store_buffer: [0, 2, 8][(seed / 3 % 3) as usize],
        mode: slot::mode(),
        most_steps: 1_000_000_000,
        ..Settings::default()
    };
    let report = simulate(settings, Some(Box::new(Random::new(seed, RATES))), program);
    report.outcome.unwrap_or_else(|failure| panic!("on the simulated machine, seed {seed}: {failure}"))
}

/// Runs jobs concurrently, each as a simulated thread.
pub fn run<'a>(jobs: Vec<Job<'a>>, _natively: impl FnOnce(Vec<Job<'a>>)) {
    simulation::run(jobs.into_iter().map(|job| (job as simulation::Job<'_>, Place::Anywhere)).collect(), None);
}
