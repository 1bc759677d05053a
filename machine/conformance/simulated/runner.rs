//! The runner of the simulated machine: its threads are coroutines, which a strategy disturbs between any two steps.

use machine::simulation::{self, Place};
use machine::slot::Mode;
use simulated_conformance::runner::Child;
use simulated_conformance::{Ended, Fork, Job, Placement, Runner};

/// Few, so that threads meet.
pub const CPUS: usize = 4;

/// One run of one case.
#[derive(Clone, Copy, Debug)]
pub struct Simulated {
    pub mode: Mode,
    pub seed: u64,
    /// How many a body goes on for.
    pub steps: u64,
}

impl Runner for Simulated {
    fn mode(&self) -> Mode {
        self.mode
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn width(&self) -> usize {
        CPUS + 2
    }

    fn slots(&self) -> usize {
        match self.mode {
            Mode::ConcurrencyId => CPUS + 1,
            // Those of earlier runs come into use again, but not at once.
            Mode::PerThread => 4 * self.width(),
        }
    }

    fn goes_on(&self) -> bool {
        simulation::steps() < self.steps
    }

    fn pause(&self) {
        simulation::pause();
    }

    fn run(&self, placement: Placement, jobs: Vec<Job<'_>>, interrupt: Option<&(dyn Fn() + Sync)>) {
        let place = |number: usize| match placement {
            Placement::Apart => Place::On(number % CPUS),
            Placement::Moved | Placement::Anywhere => Place::Anywhere,
        };
        let jobs = jobs.into_iter().enumerate();
        let jobs = jobs.map(|(number, job)| (Box::new(job) as simulation::Job<'_>, place(number))).collect();
        simulation::run(jobs, interrupt);
    }

    fn run_without_slot(&self, job: Job<'_>) -> bool {
        simulation::run_without_slot(job);
        true
    }

    fn fork(&self, fork: Fork, child: Child<'_>) -> Ended {
        match simulation::fork(fork == Fork::Ordinary, child) {
            simulation::Ended::Well => Ended::Well,
            simulation::Ended::Found(what) => Ended::Found(what),
            simulation::Ended::Died(_) => Ended::Died,
            simulation::Ended::Hung(_) => Ended::Hung,
        }
    }
}
