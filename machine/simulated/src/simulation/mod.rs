//! Simulations: a machine with its settings, what runs on it, and what came of it.
//!
//! ```text
//! let settings = Settings { cpus: 4, seed: 7, ..Settings::default() };
//! let report = simulate(settings, Some(strategy), || { … threads::run(jobs) … });
//! ```

mod exhaustive;
pub mod explore;
mod minimise;
mod pct;
mod strategy;
pub mod worker;

pub use crate::engine::{Costs, Ended, Job, Moment, NS, Place, Scene, Topology, Way};
pub use exhaustive::{Exhausted, exhaust};
pub use pct::Priorities;
pub use strategy::{Choice, Deviation, Random, Rates, Replay, Strategy};

use crate::engine::{self, Access, Engine};
use crate::slot::Mode;
use std::ffi::CString;
use std::fmt;

/// What a machine is like.
#[derive(Clone, Debug)]
pub struct Settings {
    /// CPUs, 1 to 1024.
    pub cpus: usize,
    /// What chances of the machine itself start from: which slot a thread gets.
    pub seed: u64,
    /// How slots are given.
    pub mode: Mode,
    /// Stores that a CPU's buffer holds, where a strategy decides; 0: memory is sequentially consistent.
    pub store_buffer: usize,
    /// What operations cost where no strategy decides.
    pub costs: Costs,
    /// How far a step moves time on where a strategy decides.
    pub tick_ns: u64,
    /// How long a thread may stay on its CPU while others wait for that.
    pub slice_ns: u64,
    /// A simulation that makes more has no end.
    pub most_steps: u64,
    /// Nor has one that takes longer, in simulated time.
    pub most_ns: u64,
    /// Whether the trace is kept for people.
    pub keeps_trace: bool,
    /// A descriptor that gets it as it happens.
    pub sink: Option<i32>,
    /// The process's environment.
    pub environment: Vec<(CString, CString)>,
    /// The kernel fails to give a slot to one thread in so many, as by chance; 0: to none.
    pub slotless_one_in: u8,
    /// The kernel has no membarrier.
    pub denies_membarrier: bool,
    /// What is wrong with the machine, so that what checks it can be checked.
    pub defects: Vec<Defect>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            cpus: 2,
            seed: 0,
            mode: Mode::ConcurrencyId,
            store_buffer: 8,
            costs: Costs::SIMPLE,
            tick_ns: 20,
            slice_ns: 20_000,
            most_steps: 10_000_000,
            most_ns: u64::MAX,
            keeps_trace: false,
            sink: None,
            environment: Vec::new(),
            slotless_one_in: 0,
            denies_membarrier: false,
            defects: Vec::new(),
        }
    }
}

impl Settings {
    pub(crate) fn is_broken(&self, defect: Defect) -> bool {
        self.defects.contains(&defect)
    }
}

/// What can be wrong with a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A restart orders memory, but lets sections go on.
    RestartIsFence,
    /// Kicks reach nobody.
    KicksGetLost,
    /// A thread that leaves its CPU goes on in the middle of its section.
    SectionsGoOn,
    /// All threads are in slot 0.
    OneSlot,
    /// Pages that are to be wiped in children keep what they hold.
    NoWipe,
    /// The newest store in a buffer becomes visible first.
    StoresOvertake,
    /// A store may stay in a buffer for ever.
    StoresStay,
    /// What reads and writes at once does so in two steps.
    ChangesTear,
}

/// Why a simulation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody can ever go on.
    Deadlock {
        /// What each thread waits for.
        state: String,
    },
    /// It did not end.
    NoEnd {
        /// How many steps were made.
        steps: u64,
        /// How late it was, in nanoseconds.
        ns: u64,
        /// What each thread is doing.
        state: String,
    },
    /// The process ended itself, and this is what it complained of.
    Died(String),
    /// A thread panicked.
    Panicked(String),
    /// The simulated program did what the simulation does not allow.
    Contract(String),
    /// A check found something.
    Found(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Deadlock { state } => write!(formatter, "nobody can go on: {state}"),
            Failure::NoEnd { steps, ns, state } => {
                write!(formatter, "no end within {steps} steps and {} ms: {state}", ns / 1_000_000)
            }
            Failure::Died(complaint) => write!(formatter, "the process ended itself: {complaint}"),
            Failure::Panicked(message) => write!(formatter, "a thread panicked: {message}"),
            Failure::Contract(what) => write!(formatter, "not allowed in a simulation: {what}"),
            Failure::Found(what) => formatter.write_str(what),
        }
    }
}

/// What came of a simulation.
#[derive(Clone, Debug)]
pub struct Report<R> {
    /// What the first thread returned, or why there is nothing.
    pub outcome: Result<R, Failure>,
    /// Steps of all threads.
    pub steps: u64,
    /// How late it was on the CPU that was furthest ahead, in nanoseconds.
    pub time_ns: u64,
    /// The same for two runs in which the same happened.
    pub hash: u64,
    /// The choices that were not the usual ones: by these the run can be repeated.
    pub deviations: Vec<Deviation>,
    /// What happened, a line each, if the settings say so.
    pub trace: Vec<String>,
}

/// Runs `main` as the first thread of a process on its own machine. The strategy decides what happens when; without
/// one, the costs of operations do.
///
/// One at a time in a process: others wait.
pub fn simulate<R>(settings: Settings, strategy: Option<Box<dyn Strategy>>, main: impl FnOnce() -> R) -> Report<R> {
    assert!(engine::here().is_none(), "a simulation within a simulation");
    assert!((1..=crate::slot::MAX).contains(&settings.cpus), "found {} CPUs; expected 1 to 1024", settings.cpus);
    let mut result = None;
    let mut engine = Engine::new(settings, strategy);
    let place = &mut result;
    let ended = engine.run(Box::new(move || *place = Some(main())));
    let (trace, steps, time_ns) = engine.into_report();
    Report {
        outcome: ended.map(|()| result.expect("the first thread ended")),
        steps,
        time_ns,
        hash: trace.hash,
        deviations: trace.deviations,
        trace: trace.lines.unwrap_or_default(),
    }
}

fn here() -> engine::Here {
    engine::here().expect("called by a thread of a simulation")
}

/// Runs jobs at the same time, each as its own thread, and returns when all have ended. Signals that a strategy sends
/// call `handler`, if there is one.
pub fn run(jobs: Vec<(Job<'_>, Place)>, handler: Option<&(dyn Fn() + Sync)>) {
    here().run(jobs, handler, true);
}

/// The same for one job, on a thread to which the kernel gives no slot.
pub fn run_without_slot(job: Job<'_>) {
    here().run(vec![(job, Place::Anywhere)], None, false);
}

/// Runs `child` in a copy of the process with only this thread, and waits. Only an ordinary fork runs handlers.
pub fn fork(runs_handlers: bool, child: &mut dyn FnMut() -> Result<(), &'static str>) -> Ended {
    here().fork(runs_handlers, child)
}

/// Copies the process with only the calling thread, which continues there to the end of its job. The copy gets none,
/// and a signal handler may return with that, too. The parent gets how the copy ended.
pub fn fork_on(runs_handlers: bool) -> Option<Ended> {
    here().fork_on(runs_handlers)
}

/// The calling thread lets others go on.
pub fn pause() {
    here().yield_cpu();
}

/// The calling thread waits for so long.
pub fn sleep(ns: u64) {
    here().sleep(ns);
}

/// The calling thread computes for so long, where time is what decides.
pub fn work(ns: u64) {
    here().step(Access::Work { ns });
}

/// The time where the calling thread is, which does not ask for it: so it takes none.
pub fn time_ns() -> u64 {
    here().with(|engine| engine.time_ns())
}

/// CPUs that kicks have interrupted so far, those of the threads that kicked not among them.
pub fn interrupts() -> u64 {
    here().with(|engine| engine.interrupts())
}

/// Steps of all threads so far.
pub fn steps() -> u64 {
    here().with(|engine| engine.steps())
}

/// Says who knows what lies where in what the simulation is about, for the trace. It makes no steps.
pub fn set_namer(namer: impl Fn(usize) -> Option<String> + 'static) {
    here().with(|engine| engine.set_namer(Box::new(namer)));
}

/// Says what lies at an address, for the trace.
pub fn name<T>(what: &T, name: &str) {
    here().with(|engine| engine.name((&raw const *what).addr(), size_of::<T>(), name));
}
