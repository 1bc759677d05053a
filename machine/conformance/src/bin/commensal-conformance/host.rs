//! The host's runner: threads of the operating system.

use crate::arguments::Arguments;
use crate::disturbance::{self, Targets};
use crate::{fork, registration};
use conformance::runner::{Child, Job};
use conformance::{Ended, Fork, Placement, Runner};
use machine::slot::Mode;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a fork child may take, in seconds.
const CHILD_LIMIT: u32 = 600;
/// The same where hanging is what the planted bug does.
const CHILD_LIMIT_IF_PLANTED: u32 = 1;

/// The machine that this process runs on.
pub struct Host {
    mode: Mode,
    seed: u64,
    deadline: Instant,
    child_limit: u32,
    cpus: Vec<usize>,
}

impl Host {
    /// The bodies' time begins now.
    pub fn new(arguments: &Arguments) -> Self {
        let child_limit = if arguments.case.planted.is_some() { CHILD_LIMIT_IF_PLANTED } else { CHILD_LIMIT };
        let deadline = Instant::now() + Duration::from_secs_f64(arguments.seconds);
        Host { mode: arguments.mode, seed: arguments.seed, deadline, child_limit, cpus: disturbance::own_cpus() }
    }
}

impl Runner for Host {
    fn mode(&self) -> Mode {
        self.mode
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn width(&self) -> usize {
        // Large machines need no more: what matters is that threads of one CPU meet.
        (3 * self.cpus.len()).min(24)
    }

    fn slots(&self) -> usize {
        match self.mode {
            Mode::ConcurrencyId => self.cpus.len().min(self.width()) + 1,
            // Those of earlier runs come into use again, but not at once.
            Mode::PerThread => 4 * self.width(),
        }
    }

    fn goes_on(&self) -> bool {
        Instant::now() < self.deadline
    }

    fn pause(&self) {
        /// What another CPU answers in a microsecond would else cost a turn of whoever has work on this one.
        const SPINS: u32 = 64;
        thread_local!(static PAUSES: Cell<u32> = const { Cell::new(0) });
        let pauses = PAUSES.get().wrapping_add(1);
        PAUSES.set(pauses);
        if pauses.is_multiple_of(SPINS) {
            thread::yield_now();
        } else {
            core::hint::spin_loop();
        }
    }

    fn run(&self, placement: Placement, jobs: Vec<Job<'_>>, interrupt: Option<&(dyn Fn() + Sync)>) {
        let targets = Targets::new(jobs.len());
        let over = AtomicBool::new(false);
        let _handler = interrupt.as_ref().map(disturbance::handle);
        thread::scope(|scope| {
            let (targets, over) = (&targets, &over);
            let threads: Vec<_> = jobs
                .into_iter()
                .enumerate()
                .map(|(number, job)| {
                    // A thread inherits where its maker may run, which may have been moved to one CPU.
                    let apart = number % self.cpus.len();
                    let cpus = if placement == Placement::Apart { &self.cpus[apart..=apart] } else { &self.cpus };
                    scope.spawn(move || {
                        disturbance::place(0, cpus);
                        targets.during(number, job);
                    })
                })
                .collect();
            let moved = placement == Placement::Moved;
            let disturber = (moved || interrupt.is_some()).then(|| {
                scope.spawn(move || {
                    disturbance::disturb(targets, over, moved.then_some(&self.cpus[..]), interrupt.is_some(), self.seed)
                })
            });
            // Joined one by one, so that the threads are dead and not only their jobs done.
            threads.into_iter().for_each(|thread| thread.join().expect("jobs do not panic"));
            over.store(true, Ordering::Relaxed);
            if let Some(thread) = disturber {
                thread.join().expect("disturbing does not panic");
            }
        });
    }

    fn run_without_slot(&self, job: Job<'_>) -> bool {
        let run = || {
            let unregistered = registration::undo();
            if unregistered {
                job();
            }
            unregistered
        };
        thread::scope(|scope| scope.spawn(run).join().is_ok_and(|done| done))
    }

    fn fork(&self, fork: Fork, child: Child<'_>) -> Ended {
        fork::fork(fork, child, self.child_limit)
    }
}
