//! Decisions before a step.
//!
//! The engine asks a strategy before each step of a thread, and whenever the current thread cannot continue. It records
//! choices that differ from the default, so that a list of these replays the whole run.

use super::costs::NS;
use super::lines::{Actor, Asked, Grant};
use super::scene::Scene;
use super::thread::{Place, State, Wait};
use super::{Access, Due, Engine, Happening, Next};
use crate::simulation::{Choice, Deviation, Failure};
use std::cmp::Reverse;

/// Steps in a row of a thread while others could run: a thread that spins must not wait for ever.
const PATIENCE: u32 = 2000;
/// Advance of time by a step, with a strategy.
const TICK: u64 = 20 * NS;
/// Advance of time when a thread yields and no other can run: it waits for a moment, or for a sleeping thread.
const PAUSE: u64 = 1000 * NS;
/// Most choices between two steps.
const MOST_CHOICES: u32 = 64;

impl Engine {
    #[inline]
    pub(super) fn decide(&mut self, access: Access) -> Next {
        self.steps += 1;
        if self.steps > self.settings.most_steps || self.time_ns() > self.settings.most_ns {
            let state = self.describe();
            self.fail(Failure::NoEnd { steps: self.steps, ns: self.time_ns(), state });
        }
        if self.failure.is_some() {
            return Next::Suspend;
        }
        let thread = self.thread();
        thread.steps += 1;
        thread.asks = 0;
        if self.strategy.is_some() { self.decide_by_strategy(access) } else { self.decide_by_time() }
    }

    #[inline]
    pub(super) fn perform(&mut self, access: Access) {
        match access {
            Access::Fence { is_full } => self.happened(Happening::Fence { is_full }),
            Access::Zero { at, bytes } => self.happened(Happening::Zeroed { at, bytes }),
            Access::System { number } => self.happened(Happening::System(number)),
            Access::Kick { cpu, .. } => self.happened(Happening::Kicked(cpu as u32)),
            Access::Slot => {
                let slot = self.threads[self.current].slot;
                self.happened(Happening::Slot(slot));
            }
            _ => {}
        }
    }

    /// Chooses the step of the CPU that is furthest behind.
    fn decide_by_time(&mut self) -> Next {
        let cpu = self.cpu();
        let mut now = self.cpus[cpu].time;
        if self.timers.first().is_some_and(|&(until, _)| until <= now) {
            self.fire_timers(now);
        }
        if now >= self.cpus[cpu].slice_end && !self.cpus[cpu].queue.is_empty() {
            self.preempt(None);
            self.leave_to_others();
            return Next::Suspend;
        }
        if std::mem::take(&mut self.gives_way) && self.is_only_one() {
            now += PAUSE;
            self.cpus[cpu].time = now;
        }
        while let Some(&Reverse(next)) = self.agenda.peek()
            && next < (now, Due::Cpu(cpu))
        {
            match next {
                (_, Due::Line(grant)) => {
                    self.agenda.pop();
                    self.grant(grant);
                }
                (_, Due::Cpu(_)) => {
                    self.agenda.push(Reverse((now, Due::Cpu(cpu))));
                    self.leave_to_others();
                    return Next::Suspend;
                }
            }
        }
        Next::Go
    }

    /// Begins a step, in simulated time. True: the CPU waits for a line, and the step takes effect with that.
    #[inline]
    pub(super) fn begin(&mut self, access: Access) -> bool {
        if self.strategy.is_some() {
            return false;
        }
        let cpu = self.cpu();
        let actor = Actor { cpu, now: self.cpus[cpu].time, percent: self.percent(cpu) };
        match self.lines.ask(access, actor) {
            Asked::Takes(time) => {
                self.cpus[cpu].time += time;
                false
            }
            Asked::Waits(grant) => {
                self.cpus[cpu].waits_for_line = true;
                self.agenda.extend(grant.map(|grant| Reverse((grant.at, Due::Line(grant)))));
                self.leave_to_others();
                true
            }
        }
    }

    #[inline]
    pub(super) fn percent(&self, cpu: usize) -> u64 {
        let is_shared = self.siblings.get(cpu).is_some_and(|siblings| {
            siblings.iter().any(|&other| self.cpus[other].thread.is_some() && !self.cpus[other].waits_for_line)
        });
        if is_shared { self.settings.costs.sibling_percent } else { 100 }
    }

    fn grant(&mut self, grant: Grant) {
        let granted = self.lines.grant(grant);
        let cpu = &mut self.cpus[granted.cpu];
        (cpu.time, cpu.waits_for_line) = (granted.done_at, false);
        self.agenda.push(Reverse((granted.done_at, Due::Cpu(granted.cpu))));
        self.agenda.extend(granted.next.map(|grant| Reverse((grant.at, Due::Line(grant)))));
    }

    fn decide_by_strategy(&mut self, access: Access) -> Next {
        let me = self.current;
        self.now += TICK;
        let cpu = self.cpu();
        self.cpus[cpu].time = self.now;
        self.in_a_row += 1;
        if self.timers.first().is_some_and(|&(until, _)| until <= self.now) {
            self.fire_timers(self.now);
        }
        if self.now >= self.cpus[cpu].slice_end && !self.cpus[cpu].queue.is_empty() {
            self.preempt(None);
        }
        if self.gives_way && self.is_only_one() {
            self.now += PAUSE;
        }
        for _ in 0..MOST_CHOICES {
            if self.threads[me].state != State::Running {
                self.leave_to_others();
                return Next::Suspend;
            }
            match self.ask(Some(access)) {
                Choice::Go => break,
                Choice::Run(thread) => {
                    self.switch_to(thread);
                    return Next::Suspend;
                }
                Choice::Preempt => self.preempt(None),
                Choice::Migrate(to) => self.preempt(Some(to)),
                Choice::Refuse => self.threads[me].is_refused = true,
                other => self.apply(other),
            }
        }
        self.gives_way = false;
        if self.has_signal() { Next::Interrupt } else { Next::Go }
    }

    /// Applies a choice that concerns more than the current thread.
    fn apply(&mut self, choice: Choice) {
        match choice {
            Choice::Drain(cpu) => self.drain_one(cpu),
            Choice::Signal(thread) => self.signal(thread),
            Choice::Offline(cpu) => self.set_offline(cpu),
            Choice::Online(cpu) => self.set_online(cpu),
            Choice::Go | Choice::Run(_) | Choice::Preempt | Choice::Migrate(_) | Choice::Refuse => {}
        }
    }

    fn switch_to(&mut self, thread: usize) {
        self.current = thread;
        // Its step was asked for earlier, and takes effect now.
        let cpu = self.cpu();
        self.cpus[cpu].time = self.cpus[cpu].time.max(self.now);
        self.in_a_row = 0;
        self.gives_way = false;
    }

    /// Lets another thread go on, because the current one cannot.
    pub(super) fn leave_to_others(&mut self) {
        if self.strategy.is_none() {
            return self.leave_by_time();
        }
        for _ in 0..MOST_CHOICES {
            if self.running.is_empty() && !self.skip_to_next_timer() {
                return self.fail_with_deadlock();
            }
            match self.ask(None) {
                Choice::Run(thread) => return self.switch_to(thread),
                other => self.apply(other),
            }
        }
        if let Some(&first) = self.running.first() {
            self.switch_to(first);
        }
    }

    fn leave_by_time(&mut self) {
        loop {
            let next = self.agenda.peek().map(|&Reverse((time, _))| time);
            match self.timers.first() {
                Some(&(until, _)) if next.is_none_or(|time| until <= time) => self.fire_timers(until),
                _ if next.is_none() => return self.fail_with_deadlock(),
                _ => {}
            }
            let (time, cpu) = match self.agenda.pop() {
                Some(Reverse((time, Due::Cpu(cpu)))) => (time, cpu),
                Some(Reverse((_, Due::Line(grant)))) => {
                    self.grant(grant);
                    continue;
                }
                None => continue,
            };
            // A CPU whose thread has left, or whose time has advanced, has another entry, or will get one.
            if self.cpus[cpu].time == time
                && !self.cpus[cpu].waits_for_line
                && let Some(thread) = self.cpus[cpu].thread
            {
                self.current = thread;
                return;
            }
        }
    }

    fn is_only_one(&self) -> bool {
        self.running.len() == 1 && self.cpus[self.cpu()].queue.is_empty()
    }

    /// Advances time to the next timer, as no thread can run before.
    fn skip_to_next_timer(&mut self) -> bool {
        let Some(&(until, _)) = self.timers.first() else { return false };
        self.now = self.now.max(until);
        self.fire_timers(until);
        true
    }

    fn fail_with_deadlock(&mut self) {
        self.fail(Failure::Deadlock { state: self.describe() });
    }

    /// Asks the strategy, and records its choice. An impossible choice becomes the usual one.
    fn ask(&mut self, access: Option<Access>) -> Choice {
        let must_leave = access.is_none() || self.gives_way || self.in_a_row > PATIENCE;
        let mut strategy = self.strategy.take().expect("asked where there is one");
        let usual = self.usual(access.is_some(), must_leave);
        let thread = &self.threads[self.current];
        let when @ (step, ask) = (thread.steps, thread.asks);
        let choice = strategy.choose(&Scene {
            engine: self,
            access,
            may_go: access.is_some(),
            must_leave,
            usual,
            process: self.process,
            current: self.current,
            when,
            all_steps: self.steps,
            running: &self.running,
            cpus: self.cpus.len(),
            threads: self.threads.len(),
            has_waiting_stores: self.waiting_stores > 0,
        });
        self.strategy = Some(strategy);
        let choice = if self.is_possible(choice, access) { choice } else { usual };
        if choice != usual {
            let deviation = Deviation { process: self.process, thread: self.current as u32, step, ask, choice };
            self.trace.deviate(deviation);
        }
        self.thread().asks += 1;
        choice
    }

    /// The usual choice: the thread goes on, or, if it should not, the next one does.
    fn usual(&self, may_go: bool, must_leave: bool) -> Choice {
        if may_go && !must_leave {
            return Choice::Go;
        }
        let cpu = self.cpu();
        let behind = self.running.iter().find(|&&thread| self.threads[thread].cpu > cpu);
        match behind.or(self.running.first()) {
            Some(&thread) if thread != self.current || !may_go => Choice::Run(thread),
            _ => Choice::Go,
        }
    }

    pub(super) fn is_possible(&self, choice: Choice, access: Option<Access>) -> bool {
        let may_go = access.is_some();
        let is_disturbed = |thread: usize| self.threads[thread].place == Place::Anywhere;
        match choice {
            Choice::Go => may_go,
            Choice::Run(thread) => self.running.contains(&thread) && (thread != self.current || !may_go),
            Choice::Drain(cpu) => self.cpus.get(cpu).is_some_and(|cpu| !cpu.stores.is_empty()),
            Choice::Preempt => may_go && is_disturbed(self.current),
            Choice::Migrate(cpu) => may_go && is_disturbed(self.current) && cpu < self.cpus.len() && cpu != self.cpu(),
            Choice::Signal(thread) => self
                .threads
                .get(thread)
                .is_some_and(|thread| thread.handler.is_some() && thread.state != State::Dead && !thread.has_signal),
            Choice::Offline(cpu) => self.cpus.get(cpu).is_some_and(|cpu| cpu.thread.is_none_or(is_disturbed)),
            Choice::Online(cpu) => cpu < self.cpus.len(),
            Choice::Refuse => {
                matches!(access, Some(Access::System { number }) if super::kernel::may_be_refused(number))
            }
        }
    }

    fn describe(&self) -> String {
        let describe = |thread: &super::thread::Thread| match thread.state {
            State::Dead => None,
            State::Ready => Some(format!("{} waits for CPU {}", thread.name, thread.cpu)),
            State::Running => Some(format!("{} is on CPU {}", thread.name, thread.cpu)),
            State::Blocked(Wait::Futex(at)) => Some(format!("{} sleeps on {}", thread.name, self.space.name(at))),
            State::Blocked(Wait::Children) => Some(format!("{} waits for its children", thread.name)),
            State::Blocked(Wait::Time) => Some(format!("{} sleeps", thread.name)),
        };
        self.threads.iter().filter_map(describe).collect::<Vec<_>>().join(", ")
    }
}
