//! Stress: many more threads than CPUs, blocks that are freed by other threads than theirs, and everything that disturbs
//! restartable operations: migration, signals, kicks, and a thread that takes all arrays away again and again, as far as its kicks
//! are not refused.
//!
//! What is checked: each block's contents whenever it is moved, handed over or freed; at the end, the heap's invariants, and that
//! it holds nothing more than before; and that no lock was ever asked for below another. Nothing else is shared between the threads: they
//! meet in the heap. `COMMENSAL_TEST_EFFORT` multiplies how long each of the three modes is stressed.
//!
//! The output says how much happened: operations, trims and kicks. A failure names the block and the byte.
//!
//! Planted: a heap that gives one block in a thousand twice.

mod common;

use commensal::caches;
use commensal::heap::{self, locks};
use commensal::machine::fault::{self, Plan, Point};
use commensal::machine::{kick, slot};
use common::blocks::Block;
use common::model::{AtRest, Failure, Heap, Model, Owned, Subject};
use common::planted::SameBlockTwice;
use common::random::Random;
use common::{PATIENCE, child, disturbed, random, seconds};
use std::os::unix::thread::JoinHandleExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const THREADS_PER_CPU: usize = 4;
/// Bytes that one thread owns at once.
const LIMIT: usize = 16 << 20;

struct Worker<S: Subject> {
    model: Model<S>,
    random: Random,
    inbox: Receiver<Block>,
    others: Vec<Sender<Block>>,
}

impl<S: Subject> Worker<S> {
    /// Works until told to stop; how many operations it made.
    fn run(&mut self, stop: &AtomicBool) -> Result<u64, Failure> {
        let mut operations = 0;
        while !stop.load(Ordering::Relaxed) {
            self.model.step(self.random.operation())?;
            operations += 1;
            if self.random.once_in(4) {
                self.exchange()?;
            }
            if self.random.once_in(256) {
                disturbed::migrate(&mut self.random);
            }
        }
        self.model.free_all()?;
        Ok(operations)
    }

    /// Sends a block to somebody, and takes in what others sent.
    fn exchange(&mut self) -> Result<(), Failure> {
        let which = self.random.next() as u32;
        if let Some(block) = self.model.give_up(which) {
            let other = self.random.below(self.others.len());
            // Whoever has stopped leaves its inbox to the end.
            self.others[other].send(block).expect("inboxes outlive all threads");
        }
        self.inbox.try_iter().try_for_each(|block| self.model.take_in(block))
    }
}

type Ended<S> = (Result<u64, Failure>, Worker<S>);

fn start_workers<S: Subject + 'static>(
    seed: u64, stop: &Arc<AtomicBool>, subject: impl Fn() -> S,
) -> Vec<JoinHandle<Ended<S>>> {
    let count = THREADS_PER_CPU * thread::available_parallelism().map_or(1, |cpus| cpus.get()).max(2);
    let (senders, inboxes): (Vec<_>, Vec<_>) = (0..count).map(|_| channel()).unzip();
    let start = |(number, inbox)| {
        let number = number as u64 + 1;
        let model = Model::new(subject(), Owned::untracked(), number, LIMIT);
        let mut worker = Worker { model, random: Random::new(seed, number), inbox, others: senders.clone() };
        let stop = stop.clone();
        thread::spawn(move || {
            let result = worker.run(&stop);
            stop.fetch_or(result.is_err(), Ordering::Relaxed);
            (result, worker)
        })
    };
    inboxes.into_iter().enumerate().map(start).collect()
}

/// Repeats `work` until told to stop; how often.
fn repeat(stop: &Arc<AtomicBool>, mut work: impl FnMut() + Send + 'static) -> JoinHandle<u64> {
    let stop = stop.clone();
    thread::spawn(move || (0..).take_while(|_| !stop.load(Ordering::Relaxed)).inspect(|_| work()).count() as u64)
}

fn start_disturbances<T>(seed: u64, stop: &Arc<AtomicBool>, workers: &[JoinHandle<T>]) -> [JoinHandle<u64>; 3] {
    disturbed::handle(disturbed::nothing);
    let threads: Vec<_> = workers.iter().map(|worker| worker.as_pthread_t()).collect();
    let (mut naps, mut targets) = (Random::new(seed, 1001), Random::new(seed, 1002));
    let trims = repeat(stop, move || {
        // One kick in a few is refused, this trim's or another's.
        if naps.once_in(2) {
            fault::arm(Point::Kick, Plan::Once { skip: naps.below(4) as u32 });
        }
        heap::trim(0);
        thread::sleep(Duration::from_micros(naps.below(4000) as u64));
    });
    let kicks = repeat(stop, || {
        // A refusal is no failure here: then the arrays stay where they are.
        let _ = kick::restart(0);
        thread::sleep(Duration::from_micros(50));
    });
    let signals = repeat(stop, move || {
        // SAFETY: the workers are joined after this thread.
        unsafe { libc::pthread_kill(threads[targets.below(threads.len())], disturbed::SIGNAL) };
        thread::sleep(Duration::from_micros(20));
    });
    [trims, kicks, signals]
}

/// The whole stress, in this process.
fn stress<S: Subject + 'static>(seed: u64, duration: Duration, subject: impl Fn() -> S) -> Result<(), Failure> {
    caches::upgrade_if_shared();
    let at_rest = AtRest::begin();
    let (stop, calm) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let workers = start_workers(seed, &stop, subject);
    let disturbances = start_disturbances(seed, &calm, &workers);
    let end = Instant::now() + duration;
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(5));
    }
    calm.store(true, Ordering::Relaxed);
    let [trims, kicks, signals] = disturbances.map(|thread| thread.join().expect("no panic"));
    stop.store(true, Ordering::Relaxed);
    // The inboxes stay until all have ended.
    let ended: Vec<_> = workers.into_iter().map(|worker| worker.join().expect("no panic")).collect();
    let mut operations = 0;
    for (result, mut worker) in ended {
        operations += result?;
        worker.inbox.try_iter().try_for_each(|block| worker.model.take_in(block))?;
        worker.model.free_all()?;
    }
    println!("{:?}: {operations} operations, {trims} trims, {kicks} kicks, {signals} signals", slot::mode());
    for (name, contention) in locks::classes() {
        assert_eq!(
            contention.report().out_of_order,
            0,
            "locks of {name} were asked for by who held one of their rank or above"
        );
    }
    at_rest.check(&Owned::default())
}

/// Acts the stress out in a process that is prepared so.
fn act_out(prepare: impl FnOnce(&mut Command) -> &mut Command) {
    if child::case().is_some() {
        let seed = random::seed();
        let result = stress(seed, Duration::from_secs_f64(seconds(1.0)), || Heap);
        return result.unwrap_or_else(|failure| panic!("{failure}\n{}", random::replay(seed)));
    }
    let outcome = child::run(prepare(&mut child::command("stress")));
    outcome.expect_success();
    println!("{}", outcome.stdout.trim());
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
        let found = stress(random::seed(), PATIENCE, || SameBlockTwice::new(1000));
        return println!("found: {}", found.expect_err("the planted bug was not found"));
    }
    let outcome = child::run(&mut child::command("planted"));
    // Whoever frees the block second may be faster than whoever looks into it.
    let found = outcome.stdout.contains("found: Contents") || outcome.stderr.starts_with("commensal: ");
    assert!(found, "{}", outcome.report());
}
