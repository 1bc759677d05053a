//! The seam between the bodies and whatever runs them: where threads, interrupts and forks come from.
//!
//! The host's runner makes threads of the operating system, sends them signals, and moves them between CPUs. A
//! simulated machine's runner schedules coroutines, and can do all of this between any two steps.

use crate::case::Outcome;
use machine::slot::Mode;
use machine::sync::{AtomicU64, AtomicUsize, Ordering};
use machine::{clock, thread};

/// What one thread does. It has not [`thread::enter`]ed yet.
pub type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// What a child of a fork does: it must not allocate, since locks of the allocator may have been held by others.
pub type Child<'a> = &'a mut dyn FnMut() -> Result<(), &'static str>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Each on a CPU of its own, as far as CPUs last, and undisturbed: for races of single instructions.
    Apart,
    /// Moved from one CPU to another all the time.
    Moved,
    Anywhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    Ordinary,
    Bare,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Well,
    Found(String),
    Died,
    Hung,
}

impl Ended {
    /// The child's finding, its death and its hanging as errors.
    pub fn well(self) -> Outcome {
        match self {
            Ended::Well => Ok(()),
            Ended::Found(what) => Err(what),
            Ended::Died => Err("a fork child died".into()),
            Ended::Hung => Err("a fork child hung".into()),
        }
    }
}

pub trait Runner: Sync {
    fn mode(&self) -> Mode;

    fn seed(&self) -> u64;

    /// More threads than there are CPUs, but not many more.
    fn width(&self) -> usize;

    /// How many of the lowest slots the threads of one [`run`](Self::run) with as many jobs will mostly be in.
    fn slots(&self) -> usize;

    /// Whether a body that could go on for ever should.
    fn goes_on(&self) -> bool;

    /// Called in loops that wait for another thread.
    fn pause(&self);

    /// Runs the jobs at the same time, each on a new thread, and returns when these threads are dead. Meanwhile it
    /// calls `interrupt` on any of them between any two instructions, as a signal handler. A job may call this again,
    /// with [`Placement::Anywhere`] and no interrupt.
    fn run(&self, placement: Placement, jobs: Vec<Job<'_>>, interrupt: Option<&(dyn Fn() + Sync)>);

    /// Runs a job on a thread to which the machine could give no slot. False: no such thread can be made here.
    fn run_without_slot(&self, job: Job<'_>) -> bool;

    /// Runs `child` in a copy of the process, with the calling thread only, and waits for it.
    fn fork(&self, fork: Fork, child: Child<'_>) -> Ended;
}

/// `count` jobs that call `work` with their number, after they have entered.
pub fn crowd<'a>(count: usize, work: &'a (dyn Fn(usize) + Sync)) -> Vec<Job<'a>> {
    let job = |number| {
        Box::new(move || {
            thread::enter();
            work(number);
        }) as Job<'a>
    };
    (0..count).map(job).collect()
}

/// Runs one job on a thread of its own, which has entered, and returns what it returns.
pub fn alone<R: Send>(runner: &dyn Runner, job: impl FnOnce() -> R + Send) -> R {
    let mut result = None;
    let place = &mut result;
    let job: Job<'_> = Box::new(move || {
        thread::enter();
        *place = Some(job());
    });
    runner.run(Placement::Anywhere, vec![job], None);
    result.expect("the runner returns when its jobs have ended")
}

/// Runs `child` in a child of each kind of fork.
pub fn in_children(runner: &dyn Runner, mut child: impl FnMut(Fork) -> Result<(), &'static str>) -> Result<(), String> {
    [Fork::Bare, Fork::Ordinary].into_iter().try_for_each(|fork| runner.fork(fork, &mut || child(fork)).well())
}

pub fn wait_until(runner: &dyn Runner, condition: impl Fn() -> bool) {
    while !condition() {
        runner.pause();
    }
}

/// Lets others go on for so long.
pub fn pause_for(runner: &dyn Runner, ns: u64) {
    let end = clock::now_ns() + ns;
    wait_until(runner, || clock::now_ns() > end);
}

/// Keeps the CPU for so long.
pub fn stay(ns: u64) {
    let end = clock::now_ns() + ns;
    while clock::now_ns() < end {}
}

/// Returns when so many threads have arrived, of which the caller is one.
pub fn meet(runner: &dyn Runner, arrived: &AtomicUsize, count: usize) {
    arrived.fetch_add(1, Ordering::Relaxed);
    wait_until(runner, || arrived.load(Ordering::Relaxed) >= count);
}

/// A place for each thread of a crowd, which an interrupt finds by the identity of the thread that it hit.
pub struct Places<T>(Vec<(AtomicU64, T)>);

impl<T: Default> Places<T> {
    pub fn new(count: usize) -> Self {
        Places((0..count).map(|_| (AtomicU64::new(0), T::default())).collect())
    }

    /// The calling thread's place from now on; it has entered.
    pub fn settle(&self, number: usize) -> &T {
        let (owner, place) = &self.0[number];
        // Relaxed: only interrupts of this very thread look for this identity.
        owner.store(thread::identity(), Ordering::Relaxed);
        place
    }

    pub fn own(&self) -> Option<&T> {
        let me = thread::identity();
        let mine = |(owner, _): &&(AtomicU64, T)| me != 0 && owner.load(Ordering::Relaxed) == me;
        self.0.iter().find(mine).map(|(_, place)| place)
    }

    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, place)| place)
    }
}

pub fn random(runner: &dyn Runner, thread: usize) -> fastrand::Rng {
    fastrand::Rng::with_seed(runner.seed() ^ (thread as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Repeats a body as long as the runner goes on.
pub fn repeat(runner: &dyn Runner, mut round: impl FnMut() -> Outcome) -> Outcome {
    loop {
        round()?;
        if !runner.goes_on() {
            return Ok(());
        }
    }
}
