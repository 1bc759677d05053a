//! The simulated kernel's scheduler: it places threads on CPUs and gives them slots.
//!
//! Slots are concurrency ids, as Linux assigns them: threads on CPUs have different ones. A CPU tries to keep its last
//! one while it is below the number of threads and of CPUs. Otherwise it gets the lowest free one, or sometimes any.

use super::costs::NS;
use super::thread::{State, Wait, Woken};
use super::{Access, Due, Engine, Happening, Here};
use crate::simulation::Defect;
use fastrand::Rng;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Whether a thread that a handler interrupted was in a restartable section, and its next system call to be refused.
type Interrupted = (bool, bool);

/// When waiting threads wake at the latest.
pub type Timers = BTreeSet<(u64, usize)>;

impl Engine {
    /// Sends a thread to a CPU at a time; it waits there if another thread runs.
    pub(super) fn make_ready(&mut self, thread: usize, at: u64) {
        self.threads[thread].state = State::Ready;
        self.threads[thread].ready_at = if self.strategy.is_none() { at } else { 0 };
        let cpu = self.place_for(thread);
        if self.cpus[cpu].thread.is_none() {
            // An idle CPU's time stood still.
            self.cpus[cpu].time = self.cpus[cpu].time.max(at).max(self.now);
        }
        self.cpus[cpu].queue.push_back(thread);
        self.dispatch(cpu);
    }

    /// The thread's last CPU if idle, else an idle one, else the one with the fewest threads.
    fn place_for(&mut self, thread: usize) -> usize {
        let (place, last) = (self.threads[thread].place, self.threads[thread].cpu);
        let fits = |&cpu: &usize| place.allows(cpu) && !self.cpus[cpu].is_offline;
        if fits(&last) && self.cpus[last].load() == 0 && self.threads[thread].steps > 0 {
            return last;
        }
        let candidates = (0..self.cpus.len()).filter(fits);
        // A thread whose only CPU is off-line goes anywhere, as on Linux.
        candidates.min_by_key(|&cpu| (self.cpus[cpu].load(), cpu)).unwrap_or_else(|| {
            (0..self.cpus.len()).find(|&cpu| !self.cpus[cpu].is_offline).expect("one CPU stays on-line")
        })
    }

    /// An idle CPU takes the next thread of its queue, or of the longest one.
    pub(super) fn dispatch(&mut self, cpu: usize) {
        if self.cpus[cpu].thread.is_some() || self.cpus[cpu].is_offline {
            return;
        }
        let Some(thread) = self.cpus[cpu].queue.pop_front().or_else(|| self.pull(cpu)) else { return };
        self.put_on(thread, cpu);
    }

    fn put_on(&mut self, thread: usize, cpu: usize) {
        let slot = self.give_slot(thread, cpu);
        let threads = &mut self.threads[thread];
        (threads.state, threads.cpu, threads.slot) = (State::Running, cpu, slot);
        self.cpus[cpu].thread = Some(thread);
        // The thread may have been woken without being there yet.
        self.cpus[cpu].time = self.cpus[cpu].time.max(self.threads[thread].ready_at);
        self.cpus[cpu].slice_end = self.cpus[cpu].time + self.settings.slice_ns * NS;
        let at = self.running.partition_point(|&other| self.threads[other].cpu < cpu);
        self.running.insert(at, thread);
        if self.strategy.is_none() {
            self.agenda.push(Reverse((self.cpus[cpu].time, Due::Cpu(cpu))));
        }
        self.happened(Happening::Placed { thread: thread as u32, cpu: cpu as u32, slot });
    }

    fn pull(&mut self, cpu: usize) -> Option<usize> {
        let longest = (0..self.cpus.len()).max_by_key(|&other| (self.cpus[other].queue.len(), Reverse(other)))?;
        let threads = &self.threads;
        let at = self.cpus[longest].queue.iter().position(|&thread| threads[thread].place.allows(cpu))?;
        self.cpus[cpu].time = self.cpus[cpu].time.max(self.cpus[longest].time);
        self.cpus[longest].queue.remove(at)
    }

    fn give_slot(&mut self, thread: usize, cpu: usize) -> Option<u32> {
        if !self.gives_ids() || self.threads[thread].is_without_slot {
            return None;
        }
        if self.settings.is_broken(Defect::OneSlot) {
            return Some(0);
        }
        let bound = self.living().take(self.cpus.len()).count();
        let is_free = |slot: &u32| !self.slots[*slot as usize];
        let coin = if self.strategy.is_none() { 0 } else { self.coin(thread) };
        let last = self.cpus[cpu].last_slot.filter(|&slot| coin % 8 < 5 && (slot as usize) < bound).filter(is_free);
        // Before 6.13, ids of resting threads stay with their CPUs for a while, and other threads get higher ones.
        let any = (coin % 8 == 7).then(|| (coin / 8 % self.cpus.len() as u64) as u32).filter(is_free);
        let lowest = || (0..self.slots.len() as u32).find(is_free);
        let slot = last.or(any).or_else(lowest).expect("there are more slots than CPUs");
        self.slots[slot as usize] = true;
        Some(slot)
    }

    /// The machine's own chance. It depends only on the thread and its step.
    pub(super) fn coin(&self, thread: usize) -> u64 {
        let step = self.threads.get(thread).map_or(0, |thread| thread.steps) << 16 | thread as u64;
        Rng::with_seed(self.settings.seed ^ step.wrapping_mul(0x9e37_79b9_7f4a_7c15)).u64(..)
    }

    pub(super) fn take_off(&mut self, thread: usize) {
        let cpu = self.threads[thread].cpu;
        if self.cpus[cpu].thread == Some(thread) {
            self.leave(thread);
            self.dispatch(cpu);
        }
    }

    /// A thread leaves its CPU idle.
    fn leave(&mut self, thread: usize) {
        let cpu = self.threads[thread].cpu;
        self.abort_section(thread);
        // A context switch is a full fence.
        self.drain(cpu);
        self.cpus[cpu].thread = None;
        if let Some(slot) = self.threads[thread].slot.take() {
            self.slots[slot as usize] = false;
            self.cpus[cpu].last_slot = Some(slot);
        }
        self.running.retain(|&other| other != thread);
    }

    /// Moves the current thread to the end of its CPU's queue, or of another CPU's.
    pub(super) fn preempt(&mut self, to: Option<usize>) {
        let (thread, cpu) = (self.current, self.cpu());
        self.happened(Happening::Preempted);
        self.threads[thread].state = State::Ready;
        let to = to.filter(|&to| !self.cpus[to].is_offline && self.threads[thread].place.allows(to)).unwrap_or(cpu);
        self.cpus[to].time = self.cpus[to].time.max(self.cpus[cpu].time);
        self.cpus[to].queue.push_back(thread);
        self.leave(thread);
        self.dispatch(to);
        // Not from another CPU's queue, which may hold the thread that has just been sent there.
        if self.cpus[cpu].thread.is_none()
            && let Some(next) = self.cpus[cpu].queue.pop_front()
        {
            self.put_on(next, cpu);
        }
    }

    /// Takes a CPU off-line, unless it is the last one.
    pub(super) fn set_offline(&mut self, cpu: usize) {
        if self.cpus[cpu].is_offline || self.cpus.iter().filter(|cpu| !cpu.is_offline).count() < 2 {
            return;
        }
        self.happened(Happening::Offline(cpu as u32));
        self.cpus[cpu].is_offline = true;
        let mut homeless: Vec<usize> = self.cpus[cpu].queue.drain(..).collect();
        if let Some(thread) = self.cpus[cpu].thread {
            self.take_off(thread);
            homeless.push(thread);
        }
        let now = self.cpus[cpu].time;
        homeless.into_iter().for_each(|thread| self.make_ready(thread, now));
    }

    pub(super) fn set_online(&mut self, cpu: usize) {
        if self.cpus[cpu].is_offline {
            self.happened(Happening::Online(cpu as u32));
            self.cpus[cpu].is_offline = false;
            self.cpus[cpu].time = self.cpus[cpu].time.max(self.time());
            self.dispatch(cpu);
        }
    }

    /// The current thread leaves its CPU until it is woken.
    pub(super) fn block(&mut self, wait: Wait, until: Option<u64>) {
        let thread = self.current;
        self.happened(Happening::Blocked(wait));
        self.threads[thread].state = State::Blocked(wait);
        self.threads[thread].blocked_at = self.steps;
        if let Some(until) = until {
            self.timers.insert((until, thread));
        }
        self.take_off(thread);
    }

    pub(super) fn wake(&mut self, thread: usize, why: Woken) {
        self.wake_at(thread, why, self.time() + self.wake_up());
    }

    fn wake_at(&mut self, thread: usize, why: Woken, at: u64) {
        self.happened(Happening::Woken { thread: thread as u32, why });
        self.timers.retain(|&(_, other)| other != thread);
        self.threads[thread].woken = why;
        self.make_ready(thread, at);
    }

    /// Wakes threads whose time is over, as of that time, even if an operation has taken some CPU further.
    pub(super) fn fire_timers(&mut self, now: u64) {
        while let Some(&(until, thread)) = self.timers.first().filter(|(until, _)| *until <= now) {
            self.timers.remove(&(until, thread));
            self.wake_at(thread, Woken::Late, until + self.wake_up());
        }
    }

    /// Delay from waking a thread until it goes on, in simulated time.
    fn wake_up(&self) -> u64 {
        if self.strategy.is_none() { self.settings.costs.wake_up } else { 0 }
    }

    /// Delays a busy CPU by an interrupt, in simulated time, unless it waits anyway.
    pub(super) fn delay(&mut self, cpu: usize) {
        let time = self.settings.costs.kicked;
        let is_at_work = self.cpus[cpu].thread.is_some() && !self.cpus[cpu].waits_for_line;
        if self.strategy.is_none() && time > 0 && cpu != self.cpu() && is_at_work {
            self.cpus[cpu].time += time;
            self.agenda.push(Reverse((self.cpus[cpu].time, Due::Cpu(cpu))));
        }
    }

    /// Signals a thread that has a handler; the signal comes now, or when the thread unmasks it.
    pub(super) fn signal(&mut self, thread: usize) {
        let target = &mut self.threads[thread];
        if target.state != State::Dead && target.handler.is_some() {
            target.has_signal = true;
            self.disturb(thread);
        }
    }

    /// Sends the runtime's signal to a thread, by its kernel number.
    pub fn kick_thread(&mut self, number: u32) {
        let is_it = |thread: &super::thread::Thread| thread.tid == number && thread.state != State::Dead;
        if let Some(thread) = self.threads.iter().position(is_it).filter(|_| self.kick_handler.is_some()) {
            self.threads[thread].has_kick = true;
            self.disturb(thread);
        }
    }

    /// Wakes a sleeping thread for a signal.
    fn disturb(&mut self, thread: usize) {
        let target = &self.threads[thread];
        let sleeps = matches!(target.state, State::Blocked(Wait::Futex(_) | Wait::Time));
        if sleeps && !target.is_masked && !target.in_handler {
            self.wake(thread, Woken::Interrupted);
        }
    }

    pub(super) fn has_signal(&self) -> bool {
        let thread = &self.threads[self.current];
        let has_any = thread.has_kick || (thread.has_signal && thread.handler.is_some());
        has_any && !thread.is_masked && !thread.in_handler && !thread.in_kernel
    }

    /// [`Self::has_signal`] in a simulation without a failure: a handler takes it.
    pub(super) fn takes_signal(&mut self) -> bool {
        self.has_signal() && self.failure.is_none()
    }

    /// Begins a handler on top of the current thread; returns it, and the state for [`Self::leave_handler`].
    pub(super) fn enter_handler(&mut self) -> (Option<super::thread::Handler>, Interrupted) {
        self.drain_own();
        self.abort_section(self.current);
        self.happened(Happening::Interrupted);
        let thread = &mut self.threads[self.current];
        thread.in_handler = true;
        let before = (std::mem::take(&mut thread.section), std::mem::take(&mut thread.is_refused));
        if std::mem::take(&mut thread.has_kick) {
            return (self.kick_handler.as_ref().map(|handler| &raw const **handler), before);
        }
        thread.has_signal = false;
        (thread.handler, before)
    }

    pub(super) fn leave_handler(&mut self, before: Interrupted) {
        self.drain_own();
        let thread = &mut self.threads[self.current];
        (thread.in_handler, thread.is_aborted) = (false, false);
        (thread.section, thread.is_refused) = before;
        self.abort_section(self.current);
        self.happened(Happening::Returned);
    }
}

/// Numbers of the system calls by which threads yield and sleep.
const YIELD: usize = 24;
const SLEEP: usize = 35;

impl Here {
    pub fn sleep(self, ns: u64) {
        self.step(Access::System { number: SLEEP });
        self.with(|engine| engine.block(Wait::Time, Some(engine.time() + ns * NS)));
        self.wait();
    }

    /// The current thread lets others go on, those that wait for its CPU first.
    pub fn yield_cpu(self) {
        self.with(|engine| engine.gives_way = true);
        self.step(Access::System { number: YIELD });
        let is_off = self.with(|engine| {
            let waits = !engine.cpus[engine.cpu()].queue.is_empty();
            if waits {
                engine.preempt(None);
            }
            waits
        });
        if is_off {
            self.wait();
        }
    }
}
