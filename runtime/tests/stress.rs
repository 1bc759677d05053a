//! Stress: many more threads than CPUs, blocks that are freed by other threads than theirs, and everything that disturbs
//! restartable operations: migration, signals, kicks, a shepherd that comes each millisecond, and a thread that takes all arrays away again
//! and again, as far as its kicks are not refused.
//!
//! What is checked: each block's contents whenever it is moved, handed over or freed; at the end, the heap's invariants, and that
//! it holds nothing more than before; and that no lock was ever asked for below another. Nothing else is shared between the threads: they
//! meet in the heap. The output says how much happened: operations, trims and kicks. A failure names the block and the byte.

mod common;

use commensal_runtime::caches;
use commensal_runtime::heap::{self, locks};
use commensal_runtime::machine::fault::{self, Plan, Point};
use commensal_runtime::machine::{kick, slot};
use commensal_runtime::upkeep::{self, Report};
use common::blocks::Block;
use common::child::act_out_prepared;
use common::disturbed::{self, Crowd};
use common::model::{AtRest, Failure, Model, Owned};
use common::peak::comes;
use common::random::Random;
use common::subject::{Bug, Subject};
use common::{PATIENCE, child, random, seconds};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const THREADS_PER_CPU: usize = 4;
/// Bytes that one thread owns at once.
const LIMIT: usize = 16 << 20;

/// Blocks that others have sent to a thread.
type Inbox = Mutex<Vec<Block>>;

/// Works until told to stop; how many operations it made.
fn work(
    model: &mut Model, mut random: Random, inbox: &Inbox, all: &[Inbox], stop: &AtomicBool,
) -> Result<u64, Failure> {
    let mut operations = 0;
    while !stop.load(Ordering::Relaxed) {
        model.step(random.operation())?;
        operations += 1;
        if random.once_in(4) {
            let sent = model.give_up(random.next() as u32);
            all[random.below(all.len())].lock().expect("no panic").extend(sent);
            take_in(model, inbox)?;
        }
        if random.once_in(256) {
            disturbed::migrate(&mut random);
        }
    }
    model.free_all()?;
    Ok(operations)
}

fn take_in(model: &mut Model, inbox: &Inbox) -> Result<(), Failure> {
    let blocks = std::mem::take(&mut *inbox.lock().expect("no panic"));
    blocks.into_iter().try_for_each(|block| model.take_in(block))
}

/// Trims until told to stop; how often. One kick in a few is refused, a trim's or another's: then the arrays stay where they are.
fn trim_again_and_again(mut random: Random, stop: &AtomicBool) -> u64 {
    let trim = |_: &u64| {
        if random.once_in(2) {
            fault::arm(Point::Kick, Plan::Once { skip: random.below(4) as u32 });
        }
        heap::trim(0);
        thread::sleep(Duration::from_micros(random.below(4000) as u64));
    };
    (0..).take_while(|_| !stop.load(Ordering::Relaxed)).inspect(trim).count() as u64
}

/// The whole stress, in this process.
fn stress(seed: u64, duration: Duration, bug: Option<Bug>) -> Result<(), Failure> {
    static CROWD: Crowd = Crowd::new();
    upkeep::set_knob("interval_ms", 1).expect("it is in range");
    caches::upgrade_if_shared();
    let at_rest = AtRest::begin();
    let cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let inboxes: Vec<Inbox> = (0..THREADS_PER_CPU * cpus.clamp(2, 12)).map(|_| Inbox::default()).collect();
    let model = |number: usize| Model::new(Subject::new(bug), Owned::untracked(), number as u64, LIMIT);
    let (stop, end) = (AtomicBool::new(false), Instant::now() + duration);
    disturbed::handle(disturbed::nothing);
    let (all, stop) = (&inboxes, &stop);
    let (results, trims) = thread::scope(|scope| {
        let start = |(number, inbox)| {
            scope.spawn(move || {
                let _member = CROWD.enrol();
                let random = Random::new(seed, number as u64);
                let result = work(&mut model(number + 1), random, inbox, all, stop);
                stop.fetch_or(result.is_err(), Ordering::Relaxed);
                result
            })
        };
        let workers: Vec<_> = all.iter().enumerate().map(start).collect();
        let trims = CROWD.disturb_while(seed, || {
            let trimmer = scope.spawn(move || trim_again_and_again(Random::new(seed, 1001), stop));
            while Instant::now() < end && !stop.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, Ordering::Relaxed);
            trimmer.join().expect("no panic")
        });
        (workers.into_iter().map(|worker| worker.join().expect("no panic")).collect::<Vec<_>>(), trims)
    });
    // Nobody may be in the heap while it is checked.
    upkeep::set_knob("shepherd", 0).expect("it is in range");
    assert!(comes(|| !Report::read().has_shepherd), "the shepherd stays");
    let mut operations = 0;
    for result in results {
        operations += result?;
    }
    let mut rest = model(0);
    inboxes.iter().try_for_each(|inbox| take_in(&mut rest, inbox))?;
    rest.free_all()?;
    println!(
        "{:?}: {operations} operations, {trims} trims, kicks made and refused: {:?}",
        slot::mode(),
        kick::counts()
    );
    for (name, contention) in locks::classes() {
        let found = contention.report().out_of_order;
        assert_eq!(found, 0, "locks of {name} were asked for by who held one of their rank or above");
    }
    at_rest.check(&Owned::default())
}

fn act_out(prepare: impl FnOnce(&mut Command) -> &mut Command) {
    act_out_prepared(prepare, |seed| stress(seed, Duration::from_secs_f64(seconds(1.0)), None));
}

#[test]
fn heap_under_stress_with_concurrency_ids_stays_whole() {
    act_out(|command| command);
}

#[test]
fn heap_under_stress_in_fallback_mode_stays_whole() {
    act_out(|command| command.envs([child::FALLBACK]));
    assert!(child::case().is_none() || slot::mode() == slot::Mode::PerThread);
}

#[test]
fn planted_a_block_given_twice_is_found() {
    if child::case().is_some() {
        let found = stress(random::seed(), PATIENCE, Some(Bug::SameBlockTwice(1000)));
        return println!("found: {}", found.expect_err("the planted bug was not found"));
    }
    let outcome = child::run(&mut child::command("planted"));
    // Whoever frees the block second may be faster than whoever looks into it.
    let found = outcome.stdout.contains("found: contents") || outcome.stderr.starts_with("commensal: ");
    assert!(found, "{}", outcome.report());
}
