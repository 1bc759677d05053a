//! Where tests of the runtime run: on a simulated machine that is disturbed at random, by a seed.

use crate::simulation::{self, Place, Random, Rates, Settings, simulate};
use crate::slot;

/// What a thread does.
type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// No signals: without a simulation's handler they do nothing. No refusals: a test of those asks for them.
const RATES: Rates = Rates { signal: 0, refuse: 0, ..Rates::USUAL };

/// Runs a program as the first thread of a process on its own machine. The seed decides how many CPUs the machine has
/// and everything that happens; the mode is that of this process. Panics if the simulation ends before the program.
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

/// Runs jobs at the same time, each as a simulated thread of its own.
pub fn run<'a>(jobs: Vec<Job<'a>>, _natively: impl FnOnce(Vec<Job<'a>>)) {
    simulation::run(jobs.into_iter().map(|job| (job as simulation::Job<'_>, Place::Anywhere)).collect(), None);
}
