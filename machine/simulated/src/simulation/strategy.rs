//! Strategies: they decide what happens next.

use crate::engine::Scene;
use fastrand::Rng;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    Go,
    /// Another thread, which is on a CPU, goes on instead.
    Run(usize),
    /// The oldest store in the buffer of this CPU becomes visible.
    Drain(usize),
    /// The current thread leaves its CPU, for those that wait for it, or comes back at once.
    Preempt,
    Migrate(usize),
    Signal(usize),
    Offline(usize),
    Online(usize),
    /// The current thread's next system call fails.
    Refuse,
}

/// A choice other than the default, with its time: before a step of a thread. As text it is PROCESS:THREAD:STEP:CHOICE,
/// like `1000:2:17:run:1`, or `1000:2:17.1:run:1` for the second decision there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deviation {
    pub process: u32,
    pub thread: u32,
    pub step: u64,
    /// Decisions for the thread since its last step.
    pub ask: u32,
    pub choice: Choice,
}

impl fmt::Display for Deviation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Deviation { process, thread, step, ask, choice } = self;
        write!(formatter, "{process}:{thread}:{step}")?;
        if *ask > 0 {
            write!(formatter, ".{ask}")?;
        }
        formatter.write_str(":")?;
        match choice {
            Choice::Go => formatter.write_str("go"),
            Choice::Run(thread) => write!(formatter, "run:{thread}"),
            Choice::Drain(cpu) => write!(formatter, "drain:{cpu}"),
            Choice::Preempt => formatter.write_str("preempt"),
            Choice::Migrate(cpu) => write!(formatter, "migrate:{cpu}"),
            Choice::Signal(thread) => write!(formatter, "signal:{thread}"),
            Choice::Offline(cpu) => write!(formatter, "offline:{cpu}"),
            Choice::Online(cpu) => write!(formatter, "online:{cpu}"),
            Choice::Refuse => formatter.write_str("refuse"),
        }
    }
}

impl FromStr for Deviation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("found '{text}'; expected PROCESS:THREAD:STEP:CHOICE, as in 1000:2:17:run:1");
        let mut words = text.trim().split(':');
        let parse = |word: Option<&str>| word.and_then(|word| word.parse::<u64>().ok()).ok_or_else(wrong);
        let (process, thread) = (parse(words.next())? as u32, parse(words.next())? as u32);
        let when = words.next().ok_or_else(wrong)?;
        let (step, ask) = when.split_once('.').unwrap_or((when, "0"));
        let (step, ask) = (parse(Some(step))?, parse(Some(ask))? as u32);
        let kind = words.next().ok_or_else(wrong)?;
        let mut target = || parse(words.next()).map(|number| number as usize);
        let choice = match kind {
            "go" => Choice::Go,
            "run" => Choice::Run(target()?),
            "drain" => Choice::Drain(target()?),
            "preempt" => Choice::Preempt,
            "migrate" => Choice::Migrate(target()?),
            "signal" => Choice::Signal(target()?),
            "offline" => Choice::Offline(target()?),
            "online" => Choice::Online(target()?),
            "refuse" => Choice::Refuse,
            _ => return Err(wrong()),
        };
        Ok(Deviation { process, thread, step, ask, choice })
    }
}

/// A strategy. The same answers to the same questions give the same run.
pub trait Strategy {
    /// Chooses the next event. An impossible choice becomes the usual one.
    fn choose(&mut self, scene: &Scene<'_>) -> Choice;
}

/// Rates of events, in 65,536 steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Another thread goes on.
    pub switch: u16,
    /// A store becomes visible.
    pub drain: u16,
    /// The thread leaves its CPU.
    pub preempt: u16,
    /// The thread moves to another CPU.
    pub migrate: u16,
    /// A thread gets a signal.
    pub signal: u16,
    /// A CPU goes off-line or comes back.
    pub hotplug: u16,
    /// A system call fails; in 65,536 system calls.
    pub refuse: u16,
}

impl Rates {
    /// All events happen, but no system call fails.
    pub const USUAL: Rates =
        Rates { switch: 12_000, drain: 8_000, preempt: 300, migrate: 300, signal: 300, hotplug: 30, refuse: 0 };
    /// Threads go on in turn, undisturbed.
    pub const QUIET: Rates =
        Rates { switch: 12_000, drain: 8_000, preempt: 0, migrate: 0, signal: 0, hotplug: 0, refuse: 0 };
}

#[derive(Clone, Debug)]
pub struct Random {
    random: Rng,
    rates: Rates,
}

impl Random {
    pub fn new(seed: u64, rates: Rates) -> Self {
        Random { random: Rng::with_seed(seed), rates }
    }

    fn other(&mut self, scene: &Scene<'_>) -> Choice {
        match self.random.choice(scene.running) {
            None => scene.usual,
            Some(&thread) if thread == scene.current && scene.may_go => scene.usual,
            Some(&thread) => Choice::Run(thread),
        }
    }
}

impl Strategy for Random {
    fn choose(&mut self, scene: &Scene<'_>) -> Choice {
        let rates = self.rates;
        let mut number = self.random.u16(..);
        let mut falls_on = |rate: u16| {
            let falls = number < rate;
            number = number.wrapping_sub(rate);
            if falls {
                number = u16::MAX;
            }
            falls
        };
        if scene.has_waiting_stores && falls_on(rates.drain) {
            return scene.drain_from(self.random.usize(..scene.cpus));
        }
        if scene.must_leave || !scene.may_go || falls_on(rates.switch) {
            return self.other(scene);
        }
        if falls_on(rates.preempt) {
            return Choice::Preempt;
        }
        if falls_on(rates.migrate) {
            return Choice::Migrate(self.random.usize(..scene.cpus));
        }
        if falls_on(rates.signal) {
            return Choice::Signal(self.random.usize(..scene.threads));
        }
        if falls_on(rates.hotplug) {
            let cpu = self.random.usize(..scene.cpus);
            return if self.random.bool() { Choice::Offline(cpu) } else { Choice::Online(cpu) };
        }
        if rates.refuse > 0 && scene.enters_kernel() && self.random.u16(..) < rates.refuse {
            return Choice::Refuse;
        }
        scene.usual
    }
}

/// Replays recorded choices at the same steps, each thread's in order. Skips steps that no longer occur.
#[derive(Clone, Debug, Default)]
pub struct Replay(BTreeMap<(u32, u32), VecDeque<Deviation>>);

impl Replay {
    pub fn new(deviations: impl IntoIterator<Item = Deviation>) -> Self {
        let mut by_thread = Replay::default();
        for deviation in deviations {
            by_thread.0.entry((deviation.process, deviation.thread)).or_default().push_back(deviation);
        }
        by_thread
    }
}

impl Strategy for Replay {
    fn choose(&mut self, scene: &Scene<'_>) -> Choice {
        let (usual, (step, ask)) = (scene.usual, scene.when);
        let Some(own) = self.0.get_mut(&(scene.process, scene.current as u32)) else { return usual };
        while own.front().is_some_and(|next| next.step < step) {
            own.pop_front();
        }
        match own.front() {
            // Earlier ones at the same step may be missing.
            Some(next) if next.step == step && next.ask <= ask => own.pop_front().map_or(usual, |next| next.choice),
            _ => usual,
        }
    }
}
