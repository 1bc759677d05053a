//! A strategy's view of the engine.

use super::{Access, Engine};
use crate::simulation::Choice;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub may_go: bool,
    /// The current thread should let others go on: it waits for them, or has gone on for long.
    pub must_leave: bool,
    pub usual: Choice,
    pub(super) access: Option<Access>,
}

pub struct Scene<'a> {
    engine: &'a Engine,
    moment: Moment,
}

impl<'a> Scene<'a> {
    pub(super) fn new(engine: &'a Engine, moment: Moment) -> Self {
        Scene { engine, moment }
    }

    pub fn moment(&self) -> Moment {
        self.moment
    }

    pub fn running(&self) -> &[usize] {
        &self.engine.running
    }

    pub fn current(&self) -> usize {
        self.engine.current
    }

    pub fn process(&self) -> u32 {
        self.engine.process
    }

    /// Number of the current thread's next step.
    pub fn step(&self) -> u64 {
        self.engine.threads[self.engine.current].steps
    }

    /// Number of decisions for the current thread since its last step.
    pub fn ask(&self) -> u32 {
        self.engine.threads[self.engine.current].asks
    }

    /// Steps of all threads so far.
    pub fn all_steps(&self) -> u64 {
        self.engine.steps
    }

    pub fn cpus(&self) -> usize {
        self.engine.cpus.len()
    }

    /// Threads so far, dead ones included.
    pub fn threads(&self) -> usize {
        self.engine.threads.len()
    }

    pub fn has_waiting_stores(&self) -> bool {
        self.engine.waiting_stores > 0
    }

    pub fn waiting_stores(&self, cpu: usize) -> usize {
        self.engine.cpus[cpu].stores.len()
    }

    /// Makes visible the oldest store of the first CPU with one, from `first` on.
    pub fn drain_from(&self, first: usize) -> Choice {
        let cpus = (0..self.cpus()).map(|next| (first + next) % self.cpus());
        cpus.into_iter().find(|&cpu| self.waiting_stores(cpu) > 0).map_or(self.moment.usual, Choice::Drain)
    }

    pub fn may_be_signalled(&self, thread: usize) -> bool {
        self.engine.is_possible(Choice::Signal(thread), None)
    }

    /// Whether another thread waits for the current one's CPU, and may take it now.
    pub fn may_be_preempted(&self) -> bool {
        let waits = !self.engine.cpus[self.engine.cpu()].queue.is_empty();
        waits && self.engine.is_possible(Choice::Preempt, self.moment.access)
    }

    pub fn enters_kernel(&self) -> bool {
        matches!(self.moment.access, Some(Access::System { .. }))
    }
}
