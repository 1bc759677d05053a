//! The engine: simulated CPUs that run simulated threads, one step after the other.
//!
//! A thread is a coroutine. Before each operation that other threads could see, or that could be disturbed, it reaches
//! [`Here::step`]. There a decision says what happens first: another thread's step, a store that leaves a CPU's buffer,
//! a preemption, or a signal. Then the operation takes effect as a whole. So a strategy and a seed determine the run.
//!
//! ```text
//!   host thread ──▶ drive ──resume──▶ coroutine of thread 3 ──▶ step ──▶ decide: go on ──▶ the operation
//!                     ▲                                          │
//!                     └───────────────suspend────────────────────┘ decide: thread 5 goes on
//! ```
//!
//! With a strategy, time is one number that each step advances. Without one, each CPU has its own time, and an
//! operation takes the time of the cost model. The CPU that is furthest behind makes the next step.

mod arbiter;
mod costs;
mod cpu;
mod decide;
mod fork;
mod kernel;
mod lines;
mod memory;
mod scene;
mod schedule;
mod space;
mod state;
mod thread;
mod trace;

pub use costs::{Costs, NS, Topology, Way};
pub use fork::Ended;
pub use scene::Scene;
pub use thread::{Job, Place, Slots};

use crate::simulation::{Defect, Failure, Settings, Strategy};
use core::cell::Cell;
use core::ffi::CStr;
use core::ptr::NonNull;
use corosensei::CoroutineResult;
use cpu::Cpu;
use lines::{Grant, Lines};
use schedule::Timers;
use space::Space;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::PipeWriter;
use thread::Thread;
use trace::{Event, Happening, Trace};

thread_local! {
    static CURRENT: Cell<Option<NonNull<Engine>>> = const { Cell::new(None) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Here(NonNull<Engine>);

/// Reads memory as the current thread sees it, after its step.
#[inline]
pub fn load(at: usize, size: u8) -> u128 {
    match here() {
        Some(here) => here.with(|engine| engine.load(at, size)),
        None => memory::read(at, size),
    }
}

/// Writes memory, after the current thread's step.
#[inline]
pub fn store(at: usize, size: u8, value: u128) {
    match here() {
        Some(here) => here.with(|engine| engine.store(at, size, value)),
        None => memory::write(at, size, value),
    }
}

/// None while no simulation runs on this host thread.
#[inline]
pub fn here() -> Option<Here> {
    CURRENT.get().map(Here)
}

/// Makes stores to a dying atomic of the calling thread visible.
#[inline]
pub fn settle((at, size): (usize, u8)) {
    if let Some(here) = here() {
        here.with(|engine| engine.settle(at, size));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No instruction.
    Nothing,
    /// An instruction that others cannot see.
    Own,
    /// Waits a moment, as a spinning thread should.
    Pause,
    Load {
        at: usize,
        size: u8,
    },
    /// Writes memory, at once if it is locked.
    Store {
        at: usize,
        size: u8,
        is_locked: bool,
    },
    /// A read-modify-write by one instruction without a lock prefix: others may come in between.
    Add {
        at: usize,
        size: u8,
    },
    /// An atomic read-modify-write.
    Change {
        at: usize,
        size: u8,
    },
    Zero {
        at: usize,
        bytes: usize,
    },
    Fence {
        is_full: bool,
    },
    /// Reads its slot.
    Slot,
    Clock,
    /// Computes for so long.
    Work {
        ns: u64,
    },
    /// Enters the kernel.
    System {
        number: usize,
    },
    /// Interrupts a CPU; `is_further`: not the first one in the same call.
    Kick {
        cpu: usize,
        is_further: bool,
    },
}

/// An event that is due; grants come first, so that a CPU that loses its line does not use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Line(Grant),
    Cpu(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Go,
    Suspend,
    /// A signal handler, and then its step.
    Interrupt,
}

pub struct Engine {
    settings: Settings,
    strategy: Option<Box<dyn Strategy>>,
    /// With a strategy, each step advances it. All times are in picoseconds except in interfaces.
    now: u64,
    pub steps: u64,
    threads: Vec<Thread>,
    cpus: Vec<Cpu>,
    /// The thread whose steps are made.
    current: usize,
    /// The threads on CPUs, in the order of the CPUs.
    running: Vec<usize>,
    /// Without a strategy: the events to come, except of the current thread's CPU.
    agenda: BinaryHeap<Reverse<(u64, Due)>>,
    timers: Timers,
    /// The other threads of each CPU's core; empty if cores have one thread.
    siblings: Vec<Vec<usize>>,
    slots: Vec<bool>,
    /// Stores that wait in buffers.
    waiting_stores: usize,
    pub lines: Lines,
    pub space: Space,
    trace: Trace,
    failure: Option<Failure>,
    complaint: String,
    pub fork_handlers: Vec<extern "C" fn()>,
    /// Runs on threads that [`Self::kick_thread`] interrupts.
    pub kick_handler: Option<Box<dyn Fn() + Sync>>,
    processes: u32,
    process: u32,
    pub had_threads: bool,
    /// In a fork child: the pipe for its report.
    report_to: Option<PipeWriter>,
    /// Steps in a row of the current thread.
    in_a_row: u32,
    /// The current thread waits for others.
    gives_way: bool,
    /// CPUs interrupted by kicks from another CPU.
    pub interrupts: u64,
}

impl Engine {
    pub fn new(mut settings: Settings, strategy: Option<Box<dyn Strategy>>) -> Self {
        state::begin();
        if strategy.is_none() {
            // No strategy decides when a store becomes visible, so it does at once.
            settings.store_buffer = 0;
        }
        let cpus = (0..settings.cpus).map(|_| Cpu::default()).collect();
        let topology = settings.costs.topology;
        let has_siblings = topology.threads > 1;
        let siblings_of = |cpu| topology.siblings(cpu, settings.cpus).collect();
        let siblings = (0..settings.cpus).filter(|_| has_siblings).map(siblings_of).collect();
        let space = Space::new();
        let lines = Lines::new(&settings, space.range());
        Engine {
            now: 0,
            steps: 0,
            threads: Vec::new(),
            cpus,
            current: 0,
            running: Vec::new(),
            agenda: BinaryHeap::new(),
            timers: Timers::default(),
            siblings,
            slots: vec![false; crate::slot::MAX],
            waiting_stores: 0,
            lines,
            space,
            trace: Trace::new(&settings),
            failure: None,
            complaint: String::new(),
            fork_handlers: Vec::new(),
            kick_handler: None,
            processes: 1,
            process: fork::FIRST_PROCESS,
            had_threads: false,
            report_to: None,
            in_a_row: 0,
            gives_way: false,
            interrupts: 0,
            settings,
            strategy,
        }
    }

    /// Runs `main` as the first thread, until it ends or a failure.
    pub fn run(&mut self, main: Job<'_>) -> Result<(), Failure> {
        let first = self.add_thread(main, Place::Anywhere, None, "main".into(), None);
        self.make_ready(first, 0);
        self.current = first;
        self.agenda.clear();
        CURRENT.set(Some(NonNull::from(&mut *self)));
        let ended = drive(Here(NonNull::from(&mut *self)), first);
        CURRENT.set(None);
        ended
    }

    pub fn take_trace(&mut self) -> Trace {
        std::mem::take(&mut self.trace)
    }

    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// The current thread.
    pub fn thread(&mut self) -> &mut Thread {
        &mut self.threads[self.current]
    }

    fn cpu(&self) -> usize {
        self.threads[self.current].cpu
    }

    fn time(&self) -> u64 {
        self.cpus[self.cpu()].time
    }

    pub fn time_ns(&self) -> u64 {
        self.time() / NS
    }

    pub fn environment(&self, name: &CStr) -> Option<&'static CStr> {
        let (_, value) = self.settings.environment.iter().find(|(variable, _)| variable.as_c_str() == name)?;
        // SAFETY: the host's answers last as long as the process; these as long as the simulation, and so its process.
        unsafe { core::ptr::from_ref(value.as_c_str()).as_ref() }
    }

    pub fn hear(&mut self, message: &[u8]) {
        self.complaint = String::from_utf8_lossy(message).trim().into();
        let message = self.complaint.clone();
        self.happened(Happening::Said(message));
    }

    pub fn cpus(&self) -> usize {
        self.cpus.len()
    }

    pub fn gives_ids(&self) -> bool {
        self.settings.mode == crate::slot::Mode::ConcurrencyId
    }

    pub fn begin_section(&mut self) {
        if self.strategy.is_none() {
            let cpu = self.cpu();
            self.cpus[cpu].time += self.settings.costs.section * self.percent(cpu) / 100;
        }
        let thread = self.thread();
        (thread.section, thread.is_aborted) = (true, false);
    }

    pub fn end_section(&mut self) {
        let thread = self.thread();
        (thread.section, thread.is_aborted) = (false, false);
    }

    fn abort_section(&mut self, thread: usize) {
        // In fallback mode no kernel watches them.
        if self.settings.is_broken(Defect::SectionsGoOn) || !self.gives_ids() {
            return;
        }
        let thread = &mut self.threads[thread];
        thread.is_aborted |= thread.section;
    }

    fn happened(&mut self, what: Happening) {
        let event = Event { time: self.time_ns(), cpu: self.cpu() as u32, thread: self.current as u32, what };
        self.trace.add(event, &self.space);
    }

    #[inline]
    pub fn changes_tear(&self) -> bool {
        self.settings.is_broken(Defect::ChangesTear)
    }
}

impl Here {
    /// Runs `work` on the engine; it makes no steps.
    #[inline]
    pub fn with<R>(self, work: impl FnOnce(&mut Engine) -> R) -> R {
        // SAFETY: the engine lives while `CURRENT` names it. All of its coroutines are on one host thread, and none
        // runs within `work`, so there is no other reference.
        unsafe { work(&mut *self.0.as_ptr()) }
    }

    /// Returns when the current thread's next operation is to take effect, at once.
    #[inline]
    pub fn step(self, access: Access) {
        let (me, mut next) = self.with(|engine| (engine.current, engine.decide(access)));
        while next != Next::Go {
            if next == Next::Suspend {
                self.suspend(me);
            }
            next = if self.with(|engine| engine.takes_signal()) {
                self.interrupt();
                // The handler may have caused another signal.
                if self.with(|engine| engine.has_signal()) { Next::Interrupt } else { Next::Go }
            } else {
                Next::Go
            };
        }
        if self.with(|engine| engine.begin(access)) {
            self.suspend(me);
        }
        self.with(|engine| engine.perform(access));
    }

    /// Lets other threads go on until the caller, `me`, does.
    fn suspend(self, me: usize) {
        let yielder = self.with(|engine| engine.threads[me].yielder.get());
        // SAFETY: the thread runs, so its coroutine's yielder exists until it ends.
        unsafe { (*yielder).suspend(()) };
    }

    fn interrupt(self) {
        let (handler, before) = self.with(|engine| engine.enter_handler());
        if let Some(handler) = handler {
            // SAFETY: the owner of the handler waits for the threads that it may interrupt.
            unsafe { (*handler)() };
        }
        self.with(|engine| engine.leave_handler(before));
    }

    /// Yields: the current thread spins until others change something.
    pub fn give_way(self) {
        self.with(|engine| engine.gives_way = true);
        self.step(Access::Pause);
    }

    /// Returns when the current thread, taken off its CPU, goes on.
    fn wait(self) {
        let me = self.with(|engine| {
            let me = engine.current;
            engine.leave_to_others();
            me
        });
        self.suspend(me);
        // A signal may have woken it, or have come meanwhile.
        while self.with(|engine| engine.takes_signal()) {
            self.interrupt();
        }
    }

    /// Ends the process with its last complaint.
    pub fn die(self) -> ! {
        let me = self.with(|engine| {
            let complaint = std::mem::take(&mut engine.complaint);
            engine.fail(Failure::Died(complaint));
            engine.current
        });
        loop {
            self.suspend(me);
        }
    }
}

/// Resumes coroutines until the first thread has ended, or a failure.
fn drive(here: Here, first: usize) -> Result<(), Failure> {
    loop {
        let failure = here.with(|engine| engine.failure.take());
        if let Some(failure) = failure {
            here.with(|engine| engine.end_child(Err(&failure)));
            return Err(failure);
        }
        let thread = here.with(|engine| engine.current);
        let mut coroutine = here.with(|engine| engine.threads[thread].coroutine.take()).expect("a thread that goes on");
        match coroutine.resume(()) {
            CoroutineResult::Yield(()) => here.with(|engine| engine.threads[thread].coroutine = Some(coroutine)),
            CoroutineResult::Return(()) => {
                thread::keep_stack(coroutine);
                here.with(|engine| engine.end_if_child(thread));
                here.with(|engine| engine.end_thread(thread));
                if thread == first {
                    return here.with(|engine| engine.failure.take()).map_or(Ok(()), Err);
                }
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        for thread in &mut self.threads {
            if let Some(coroutine) = thread.coroutine.take() {
                thread::abandon(coroutine);
            }
        }
        state::end();
    }
}
