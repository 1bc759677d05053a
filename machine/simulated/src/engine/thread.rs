//! Simulated threads: coroutines, and a kernel's and a C library's data of a thread.

use super::{Access, Engine, Happening, Here};
use crate::simulation::Failure;
use crate::thread::Zeroes;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

pub type Job<'a> = Box<dyn FnOnce() + 'a>;
/// A signal handler, called on top of the thread that it interrupts.
pub type Handler = *const (dyn Fn() + Sync);
pub type Routine = Coroutine<(), (), (), DefaultStack>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    Usual,
    None,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    #[default]
    Anywhere,
    /// Only this one; no strategy moves the thread.
    On(usize),
}

impl Place {
    pub fn allows(self, cpu: usize) -> bool {
        match self {
            Place::Anywhere => true,
            Place::On(only) => only == cpu,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Ready,
    Running,
    /// It waits for something else.
    Blocked(Wait),
    /// It has ended, or vanished in a fork.
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Futex(usize),
    Children,
    Time,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Woken {
    #[default]
    Come,
    Late,
    Interrupted,
}

#[derive(Default)]
pub struct Thread {
    pub name: String,
    pub coroutine: Option<Routine>,
    pub yielder: Rc<Cell<*const Yielder<(), ()>>>,
    pub state: State,
    pub woken: Woken,
    /// Its current or last CPU.
    pub cpu: usize,
    pub place: Place,
    pub slot: Option<u32>,
    pub is_without_slot: bool,
    /// It is within a restartable section.
    pub section: bool,
    /// The section must begin again.
    pub is_aborted: bool,
    pub handler: Option<Handler>,
    pub has_signal: bool,
    /// The pending signal is the runtime's.
    pub has_kick: bool,
    pub is_masked: bool,
    pub in_handler: bool,
    /// Its next system call is refused.
    pub is_refused: bool,
    /// It is in a system call of several steps, which no handler interrupts.
    pub in_kernel: bool,
    /// When it fell asleep last, in steps of all threads.
    pub blocked_at: u64,
    pub parent: Option<usize>,
    pub children: usize,
    pub tid: u32,
    pub pointer: u64,
    pub block: Box<Zeroes>,
    pub errno: Box<i32>,
    pub steps: u64,
    /// When it can go on at the earliest, in simulated time.
    pub ready_at: u64,
    /// Decisions since the last step.
    pub asks: u32,
}

thread_local! {
    /// Stacks of ended coroutines, for the next ones.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Numbers of the system calls by which threads begin and end, and by which others wait for them.
const CLONE: usize = 56;
const EXIT: usize = 60;
const WAIT: usize = 61;
const STACK_BYTES: usize = 512 << 10;
/// Distance between two ids, and the first id.
const POINTER_STEP: u64 = 64;

fn take_stack() -> DefaultStack {
    let kept = STACKS.with(|stacks| stacks.borrow_mut().pop());
    kept.unwrap_or_else(|| DefaultStack::new(STACK_BYTES).expect("address space for a coroutine's stack"))
}

pub fn keep_stack(coroutine: Routine) {
    let stack = coroutine.into_stack();
    STACKS.with(|stacks| stacks.borrow_mut().push(stack));
}

/// Abandons a coroutine, and keeps its stack.
pub fn abandon(mut coroutine: Routine) {
    // SAFETY: as with a vanished thread, the stack's values are not dropped. The simulation is over.
    unsafe { coroutine.force_reset() };
    keep_stack(coroutine);
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".into())
}

impl Engine {
    pub(super) fn add_thread(
        &mut self, job: Job<'_>, place: Place, parent: Option<usize>, name: String, handler: Option<Handler>,
    ) -> usize {
        let yielder = Rc::new(Cell::new(std::ptr::null()));
        let cell = Rc::clone(&yielder);
        let body = move |yielder: &Yielder<(), ()>, ()| {
            cell.set(yielder);
            let ended = catch_unwind(AssertUnwindSafe(job));
            let here = super::here().expect("a simulated thread runs in a simulation");
            match ended {
                // Its last stores may still wait.
                Ok(()) => here.step(Access::System { number: EXIT }),
                Err(panic) => here.with(|engine| engine.fail(Failure::Panicked(message(&*panic)))),
            }
        };
        // SAFETY: erases only the lifetime: the starter waits for the end, or the simulation abandons the coroutine.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(take_stack(), body) };
        let number = self.threads.len();
        self.threads.push(Thread {
            name,
            coroutine: Some(coroutine),
            yielder,
            place,
            handler,
            parent,
            tid: self.free_tid(),
            pointer: self.free_pointer(),
            ..Thread::default()
        });
        number
    }

    /// The lowest number that no living thread has: kernels reuse those of the dead, though not so soon.
    fn free_tid(&self) -> u32 {
        let taken: Vec<u32> = self.living().map(|thread| thread.tid).collect();
        (self.process..).find(|tid| !taken.contains(tid)).expect("there are more numbers than threads")
    }

    fn free_pointer(&self) -> u64 {
        let taken: Vec<u64> = self.living().map(|thread| thread.pointer).collect();
        let mut all = (1u64..).map(|number| number * POINTER_STEP);
        all.find(|pointer| !taken.contains(pointer)).expect("there are more numbers than threads")
    }

    fn begin_thread(&mut self, thread: usize, slots: Slots) {
        // A new thread sees its maker's earlier writes.
        self.drain_own();
        self.threads[thread].is_without_slot = slots == Slots::None || self.fails_to_give_slots();
        self.happened(Happening::Born(thread as u32));
        self.make_ready(thread, self.time());
    }

    /// Whether the kernel fails to give a new thread slots.
    fn fails_to_give_slots(&self) -> bool {
        let one_in = u64::from(self.settings.slotless_one_in);
        one_in > 0 && self.gives_ids() && self.coin(self.threads.len()).is_multiple_of(one_in)
    }

    pub(super) fn living(&self) -> impl Iterator<Item = &Thread> {
        self.threads.iter().filter(|thread| thread.state != State::Dead)
    }

    pub(super) fn end_thread(&mut self, thread: usize) {
        self.happened(Happening::Ended);
        self.threads[thread].state = State::Dead;
        self.take_off(thread);
        if let Some(parent) = self.threads[thread].parent {
            self.threads[parent].children -= 1;
            if self.threads[parent].children == 0 && self.threads[parent].state == State::Blocked(Wait::Children) {
                self.wake(parent, Woken::Come);
            }
        }
        if self.living().next().is_some() {
            self.leave_to_others();
        }
    }
}

impl Here {
    pub fn spawn(self, name: String, job: Job<'static>) {
        self.with(|engine| engine.had_threads = true);
        self.step(Access::System { number: CLONE });
        self.with(|engine| {
            let thread = engine.add_thread(job, Place::Anywhere, None, name, None);
            engine.threads[thread].is_masked = true;
            engine.begin_thread(thread, Slots::Usual);
        });
    }

    /// Runs jobs as concurrent threads, and returns when they have ended.
    pub fn run(self, jobs: Vec<(Job<'_>, Place)>, handler: Option<&(dyn Fn() + Sync)>, slots: Slots) {
        if jobs.is_empty() {
            return;
        }
        // SAFETY: only the lifetime is forgotten: we wait for the threads.
        let handler = handler
            .map(|handler| unsafe { core::mem::transmute::<*const (dyn Fn() + Sync), Handler>(&raw const *handler) });
        self.with(|engine| {
            engine.had_threads = true;
            engine.threads[engine.current].children += jobs.len();
        });
        for (job, place) in jobs {
            self.step(Access::System { number: CLONE });
            self.with(|engine| {
                let name = format!("t{}", engine.threads.len());
                let thread = engine.add_thread(job, place, Some(engine.current), name, handler);
                engine.begin_thread(thread, slots);
            });
        }
        self.step(Access::System { number: WAIT });
        let waits = self.with(|engine| {
            let waits = engine.threads[engine.current].children > 0;
            if waits {
                engine.block(Wait::Children, None);
            }
            waits
        });
        if waits {
            self.wait();
        }
    }
}
