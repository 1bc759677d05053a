//! A strategy's view of the engine, at a decision.

use super::{Access, Engine};
use crate::simulation::Choice;

pub struct Scene<'a> {
    pub(super) engine: &'a Engine,
    pub(super) access: Option<Access>,
    pub may_go: bool,
    /// The current thread should let others go on: it waits for them, or has gone on for long.
    pub must_leave: bool,
    pub usual: Choice,
    pub process: u32,
    pub current: usize,
    /// Number of the current thread's next step, and of the decisions for it since the last one.
    pub when: (u64, u32),
    /// Steps of all threads so far.
    pub all_steps: u64,
    /// The threads on CPUs.
    pub running: &'a [usize],
    pub cpus: usize,
    /// Threads so far, dead ones included.
    pub threads: usize,
    pub has_waiting_stores: bool,
}

impl Scene<'_> {
    pub fn waiting_stores(&self, cpu: usize) -> usize {
        self.engine.cpus[cpu].stores.len()
    }

    /// Makes visible the oldest store of the first CPU with one, from `first` on.
    pub fn drain_from(&self, first: usize) -> Choice {
        let mut cpus = (0..self.cpus).map(|next| (first + next) % self.cpus);
        cpus.find(|&cpu| self.waiting_stores(cpu) > 0).map_or(self.usual, Choice::Drain)
    }

    pub fn may_be_signalled(&self, thread: usize) -> bool {
        self.engine.is_possible(Choice::Signal(thread), None)
    }

    /// Whether another thread waits for the current one's CPU, and may take it now.
    pub fn may_be_preempted(&self) -> bool {
        let waits = !self.engine.cpus[self.engine.cpu()].queue.is_empty();
        waits && self.engine.is_possible(Choice::Preempt, self.access)
    }

    pub fn enters_kernel(&self) -> bool {
        matches!(self.access, Some(Access::System { .. }))
    }
}
