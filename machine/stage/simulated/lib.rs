//! Where the runtime's tests play: on a simulated machine that is disturbed at random, by a seed.

use machine::simulation::{self, Place, Random, Rates, Settings, simulate};
use machine::slot;

/// What a thread does.
pub type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// No signals: without a simulation's handler they do nothing. No refusals: whoever tests them says so.
const RATES: Rates = Rates { signal: 0, refuse: 0, ..Rates::USUAL };

/// Runs a program as the first thread of a process on a machine of its own, of which the seed decides how many CPUs it has and all that
/// happens on it; panics if it is not the program that ends the simulation. In the mode that this process would be in.
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

/// Runs jobs at the same time, each as a thread of its own.
pub fn run(jobs: Vec<Job<'_>>) {
    simulation::run(jobs.into_iter().map(|job| (job as simulation::Job<'_>, Place::Anywhere)).collect(), None);
}
