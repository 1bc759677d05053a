//! Runs all bodies on the simulated machine, in both slot modes: the bodies must pass, and must find what is planted.
//!
//! Each run of a case is a process with its own seed. `COMMENSAL_TEST_EFFORT` multiplies the number of runs of each
//! case.

use machine::simulation::explore::Plan;
use machine::simulation::worker;
use machine::simulation::{self, Place, Rates, Settings, simulate};
use machine::slot::Mode;
use simulated_conformance::case::{Case, Cases};
use simulated_conformance::runner::Child;
use simulated_conformance::{Ended, Fork, Job, Outcome, Placement, Runner, cases};
use std::io::Write;
use std::time::Duration;

/// Time limits in steps, for bodies without an end. Short at first, because some planted bugs make bodies hang.
const STEPS: [u64; 5] = [30_000, 100_000, 300_000, 1_000_000, 4_000_000];
/// A run that makes so many times more steps than it should go on for has no end.
const GRACE: u64 = 50;
/// Every body has some work to do however short it may go on.
const LEAST: u64 = 5_000_000;
/// What a worker may take between two signs of life: it gives none within a run.
const PATIENCE: Duration = Duration::from_secs(600);
/// Runs of a machine's case without more effort, and tries of each length at a planted one.
const SEEDS: u64 = 2;

/// How often threads change, and stores become visible. Bodies want to be disturbed all the time.
const PLANS: [Plan; 3] = [
    Plan::Random(Rates::USUAL),
    Plan::Random(Rates { switch: 1500, ..Rates::USUAL }),
    Plan::Random(Rates { drain: 1000, ..Rates::USUAL }),
];

/// How late it may be in the end: a lost wake-up costs a second.
const MOST_NS: u64 = 20_000_000_000;
const MOST_NS_IF_PLANTED: u64 = 1_000_000_000;

fn run(case: &Case, mode: Mode, seed: u64, steps: u64) -> Outcome {
    let exit = worker::work(
        PATIENCE,
        |_| {},
        |_, output| {
            let most_steps = (steps * GRACE).max(LEAST);
            let store_buffer = if seed.is_multiple_of(4) { 0 } else { 4 };
            let most_ns = if case.planted.is_some() { MOST_NS_IF_PLANTED } else { MOST_NS };
            let settings =
                Settings { cpus: CPUS, seed, mode, store_buffer, most_steps, most_ns, ..Settings::default() };
            let strategy = PLANS[seed as usize % PLANS.len()].strategy(seed);
            let report = simulate(settings, Some(strategy), || (case.run)(&Simulated { mode, seed, steps }));
            let outcome = report.outcome.unwrap_or_else(|failure| Err(failure.to_string()));
            output.write_all(outcome.err().unwrap_or_default().as_bytes()).expect("memory can be written");
        },
    );
    exit.what().map_or(Ok(()), Err)
}

fn runs() -> u64 {
    let set = std::env::var("COMMENSAL_TEST_EFFORT").ok();
    let effort = set.map_or(1.0, |text| text.parse().expect("COMMENSAL_TEST_EFFORT is a number"));
    (SEEDS as f64 * effort).ceil() as u64
}

fn pass(mode: Mode, cases: Cases) {
    let mut failures = Vec::new();
    for seed in 0..runs() {
        if !failures.is_empty() {
            break;
        }
        for case in &cases {
            let outcome = run(case, mode, seed, STEPS[2]);
            println!("{} in mode {mode:?}, seed {seed}: {outcome:?}", case.name);
            failures.extend(outcome.err().map(|what| format!("{} in mode {mode:?}, seed {seed}: {what}\n", case.name)));
        }
    }
    assert!(failures.is_empty(), "{}", failures.concat());
}

fn find(mode: Mode, planted: Cases) {
    let find_one = |case: &Case| {
        for steps in STEPS {
            for seed in 0..SEEDS {
                match run(case, mode, seed, steps) {
                    Ok(()) => println!("{} misses {:?}", case.name, case.planted),
                    Err(what) => {
                        println!("{} finds {:?}: {what}", case.name, case.planted);
                        return None;
                    }
                }
            }
        }
        Some(format!("{} in mode {mode:?} misses what is planted: {}\n", case.name, case.planted.unwrap_or("")))
    };
    let missed: Vec<_> = planted.into_iter().filter_map(find_one).collect();
    assert!(missed.is_empty(), "{}", missed.concat());
}

simulated_conformance::tests! { cases, pass, find }

const CPUS: usize = 4;

/// One run of one case: its threads are coroutines, which a strategy disturbs between any two steps.
#[derive(Clone, Copy, Debug)]
struct Simulated {
    mode: Mode,
    seed: u64,
    steps: u64,
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
