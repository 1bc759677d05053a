//! The simulated kernel's scheduler: when threads come, and who watches sections.

use simulated::clock;
use simulated::simulation::{Costs, Ended, Job, NS, Place, Random, Rates, Settings, fork, run, simulate, sleep, work};
use simulated::slot::{self, Section, restartably};
use simulated::sync::{AtomicU64, Ordering};
use std::cell::Cell;

const QUIET: Rates = Rates { switch: 0, drain: 0, ..Rates::QUIET };

#[test]
fn sleeping_thread_wakes_in_time_while_another_computes() {
    let woke = Cell::new(0);
    let settings = Settings { cpus: 2, ..Settings::default() };
    let report = simulate(settings, None, || {
        let computes = || (0..5).for_each(|_| work(1_000_000));
        let sleeps = || {
            sleep(1_500_000);
            woke.set(clock::now_ns());
        };
        run(vec![(Box::new(computes), Place::On(0)), (Box::new(sleeps), Place::On(1))], None);
    });
    assert_eq!(report.outcome, Ok(()));
    assert!((1_500_000..1_510_000).contains(&woke.get()), "{}", woke.get());
}

/// As under a debugger that stops at each instruction.
#[test]
fn section_that_is_interrupted_at_each_step_is_given_up() {
    let given_up = Cell::new(false);
    let rates = Rates { preempt: u16::MAX, ..QUIET };
    let report = simulate(Settings::default(), Some(Box::new(Random::new(1, rates))), || {
        slot::initialise();
        let job = || {
            let work = |section: &Section| (0..1000).try_fold(None, |_, _| section.slot());
            given_up.set(restartably(None, |section| work(section).map(Some)).is_none());
        };
        run(vec![(Box::new(job), Place::Anywhere)], None);
    });
    assert_eq!((report.outcome, given_up.get()), (Ok(()), true));
}

/// Where time is what decides, threads wait for lines; in a child of another thread nobody does.
#[test]
fn forked_child_inherits_no_waits_for_lines() {
    let report = simulate(Settings { cpus: 3, ..Settings::default() }, None, || {
        let word = AtomicU64::new(0);
        let add = || {
            word.fetch_add(1, Ordering::Relaxed);
        };
        let adds = || (0..3000).for_each(|_| add());
        let forks = || {
            for _ in 0..10 {
                add();
                let child = &mut || {
                    add();
                    // On a CPU whose thread waited, and is not there.
                    run(vec![(Box::new(add) as Job<'_>, Place::On(1)), (Box::new(add), Place::On(2))], None);
                    Ok(())
                };
                assert_eq!(fork(true, child), Ended::Well);
            }
        };
        let jobs: Vec<(Job<'_>, Place)> =
            vec![(Box::new(adds), Place::On(1)), (Box::new(adds), Place::On(2)), (Box::new(forks), Place::On(0))];
        run(jobs, None);
        word.into_inner()
    });
    assert_eq!(report.outcome, Ok(6010));
}

/// It was woken, and is not there yet; that its CPU is busy meanwhile makes it come no sooner.
#[test]
fn woken_thread_arrives_no_sooner_on_a_busy_cpu() {
    let woke = Cell::new(0);
    let costs = Costs { wake_up: 50_000 * NS, ..Costs::SIMPLE };
    let report = simulate(Settings { cpus: 1, costs, ..Settings::default() }, None, || {
        let sleeps = || {
            sleep(10_000);
            woke.set(clock::now_ns());
        };
        let computes = || (0..30).for_each(|_| work(1000));
        run(vec![(Box::new(sleeps) as Job<'_>, Place::On(0)), (Box::new(computes), Place::On(0))], None);
    });
    assert_eq!(report.outcome, Ok(()));
    assert!((60_000..70_000).contains(&woke.get()), "{} ns", woke.get());
}
