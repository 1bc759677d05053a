//! Simulations: a machine with its settings, its program, and a report.
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

pub use crate::engine::{Costs, Ended, Job, NS, Place, Scene, Topology, Way};
pub use exhaustive::{Exhausted, exhaust};
pub use pct::Priorities;
pub use strategy::{Choice, Deviation, Random, Rates, Replay, Strategy};

use crate::engine::{self, Access, Engine, Slots};
use crate::slot::Mode;
use std::ffi::CString;
use std::fmt;

#[derive(Clone, Debug)]
pub struct Settings {
    /// CPUs, 1 to 1024.
    pub cpus: usize,
    /// Seed of the machine's own chances: the slot that a thread gets.
    pub seed: u64,
    pub mode: Mode,
    /// Stores in a CPU's buffer, with a strategy; 0: memory is sequentially consistent.
    pub store_buffer: usize,
    /// Costs of operations, without a strategy.
    pub costs: Costs,
    /// Longest stay of a thread on its CPU while others wait for it.
    pub slice_ns: u64,
    /// Most steps; a simulation with more has no end.
    pub most_steps: u64,
    /// Most simulated time, likewise.
    pub most_ns: u64,
    /// A descriptor that gets the trace as it happens.
    pub sink: Option<i32>,
    /// The process's environment.
    pub environment: Vec<(CString, CString)>,
    /// By chance, the kernel fails to give a slot to one thread in so many; 0: to none.
    pub slotless_one_in: u8,
    /// The kernel has no membarrier.
    pub denies_membarrier: bool,
    /// Planted defects, to check the checkers.
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
            slice_ns: 20_000,
            most_steps: 10_000_000,
            most_ns: u64::MAX,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A restart orders memory, but lets sections go on.
    RestartIsFence,
    /// Kicks reach no CPU.
    KicksGetLost,
    /// A thread that leaves its CPU goes on in the middle of its section.
    SectionsGoOn,
    /// All threads are in slot 0.
    OneSlot,
    /// Pages to be wiped in children keep their contents.
    NoWipe,
    /// The newest store in a buffer becomes visible first.
    StoresOvertake,
    /// A store may stay in a buffer for ever.
    StoresStay,
    /// Read-modify-writes take two steps.
    ChangesTear,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No thread can ever go on.
    Deadlock {
        state: String,
    },
    NoEnd {
        steps: u64,
        ns: u64,
        state: String,
    },
    /// The process ended itself, with this complaint.
    Died(String),
    Panicked(String),
    /// The simulated program broke a rule of the simulation.
    Contract(String),
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

#[derive(Clone, Debug)]
pub struct Report<R> {
    /// The first thread's result, or the failure.
    pub outcome: Result<R, Failure>,
    /// Steps of all threads.
    pub steps: u64,
    /// Equal for two runs with the same events.
    pub hash: u64,
    /// The choices other than the usual ones: they replay the run.
    pub deviations: Vec<Deviation>,
}

/// Runs `main` as the first thread of a process on its own machine. The strategy decides the order of events; without
/// one, the costs of operations do. A process runs one simulation at a time: others wait.
pub fn simulate<R>(settings: Settings, strategy: Option<Box<dyn Strategy>>, main: impl FnOnce() -> R) -> Report<R> {
    assert!(engine::here().is_none(), "a simulation within a simulation");
    assert!((1..=crate::slot::MAX).contains(&settings.cpus), "found {} CPUs; expected 1 to 1024", settings.cpus);
    let mut result = None;
    let mut engine = Engine::new(settings, strategy);
    let place = &mut result;
    let ended = engine.run(Box::new(move || *place = Some(main())));
    let (trace, steps) = (engine.take_trace(), engine.steps);
    let outcome = ended.map(|()| result.expect("the first thread ended"));
    Report { outcome, steps, hash: trace.hash, deviations: trace.deviations }
}

fn here() -> engine::Here {
    engine::here().expect("called by a thread of a simulation")
}

/// Runs jobs concurrently, each as its own thread, to their ends. Signals of a strategy call `handler`.
pub fn run(jobs: Vec<(Job<'_>, Place)>, handler: Option<&(dyn Fn() + Sync)>) {
    here().run(jobs, handler, Slots::Usual);
}

/// The same for one job, on a thread without a slot.
pub fn run_without_slot(job: Job<'_>) {
    here().run(vec![(job, Place::Anywhere)], None, Slots::None);
}

/// Runs `child` in a copy of the process with only this thread, and waits. Only an ordinary fork runs handlers.
pub fn fork(runs_handlers: bool, child: &mut dyn FnMut() -> Result<(), &'static str>) -> Ended {
    here().fork(runs_handlers, child)
}

/// Copies the process with only the calling thread, which continues there to the end of its job. None: this is the
/// copy, in which a signal handler may also return. The parent learns how the copy ended.
pub fn fork_on(runs_handlers: bool) -> Option<Ended> {
    here().fork_on(runs_handlers)
}

pub fn pause() {
    here().yield_cpu();
}

pub fn sleep(ns: u64) {
    here().sleep(ns);
}

/// The calling thread computes for so long, in simulated time.
pub fn work(ns: u64) {
    here().step(Access::Work { ns });
}

/// Time on the calling thread's CPU. This takes no time.
pub fn time_ns() -> u64 {
    here().with(|engine| engine.time_ns())
}

/// Times so far that a CPU wanted a line that only others had, or that others had to give up.
pub fn transfers() -> u64 {
    here().with(|engine| engine.lines.transfers)
}

/// CPUs interrupted by kicks so far, except the kicking threads' own.
pub fn interrupts() -> u64 {
    here().with(|engine| engine.interrupts)
}

pub fn steps() -> u64 {
    here().with(|engine| engine.steps)
}

/// Sets a function that names addresses for the trace. It makes no steps.
pub fn set_namer(namer: impl Fn(usize) -> Option<String> + 'static) {
    here().with(|engine| engine.space.namer = Some(Box::new(namer)));
}
