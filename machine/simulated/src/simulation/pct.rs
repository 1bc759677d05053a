//! Random priorities with few changes, after Burckhardt, Kothari, Musuvathi and Nagarakatte, "A Randomized Scheduler with Probabilistic
//! Guarantees of Finding Bugs" (ASPLOS 2010): of those that can go on, the thread with the highest priority does; at a few random steps
//! something happens to the one that goes on. A bug that needs d orderings is found in a run of k steps by n threads with a chance of
//! at least 1 in n·k^(d−1).

use super::strategy::{Choice, Rates, Scene, Strategy};
use fastrand::Rng;

/// Runs are this long, for the choice of the steps at which something happens: a power of two between these two.
const SHORTEST: u32 = 5;
const LONGEST: u32 = 14;

/// A run by priorities.
#[derive(Clone, Debug)]
pub struct Priorities {
    random: Rng,
    rates: Rates,
    /// Of each thread; a thread that has none yet gets a random one.
    priorities: Vec<u32>,
    /// What the next thread that has to wait gets: lower than all others.
    lowest: u32,
    /// The steps at which something happens, the last one first.
    changes: Vec<u64>,
    drain: u16,
}

impl Priorities {
    /// One that begins with a seed, and at so many steps of which something happens. What can happen is what has a rate.
    pub fn new(seed: u64, changes: u32, rates: Rates) -> Self {
        let mut random = Rng::with_seed(seed);
        let length = 1 << random.u32(SHORTEST..=LONGEST);
        let mut changes: Vec<u64> = (0..changes).map(|_| random.u64(..length)).collect();
        changes.sort_unstable_by_key(|&step| std::cmp::Reverse(step));
        let drain = [0, rates.drain, u16::MAX / 2][random.usize(..3)];
        Priorities { random, rates, priorities: Vec::new(), lowest: u32::MAX / 2, changes, drain }
    }

    fn priority(&mut self, thread: usize) -> u32 {
        while self.priorities.len() <= thread {
            let priority = self.random.u32(u32::MAX / 2..);
            self.priorities.push(priority);
        }
        self.priorities[thread]
    }

    fn lower(&mut self, thread: usize) {
        self.priority(thread);
        self.lowest -= 1;
        self.priorities[thread] = self.lowest;
    }

    /// What happens at one of the few steps.
    fn change(&mut self, scene: &Scene<'_>) -> Option<Choice> {
        let rates = self.rates;
        let weights = [rates.switch.min(1000), rates.preempt, rates.migrate, rates.signal, rates.hotplug];
        let mut number = self.random.u32(..weights.iter().map(|&weight| u32::from(weight)).sum::<u32>().max(1));
        let kind = weights.iter().position(|&weight| {
            let falls = number < u32::from(weight);
            number = number.wrapping_sub(weight.into());
            falls
        });
        match kind? {
            0 => {
                self.lower(scene.current());
                None
            }
            1 => Some(Choice::Preempt),
            2 => Some(Choice::Migrate(self.random.usize(..scene.cpus()))),
            3 => Some(Choice::Signal(self.random.usize(..scene.threads()))),
            _ => {
                let cpu = self.random.usize(..scene.cpus());
                Some(if self.random.bool() { Choice::Offline(cpu) } else { Choice::Online(cpu) })
            }
        }
    }
}

impl Strategy for Priorities {
    fn choose(&mut self, scene: &Scene<'_>) -> Choice {
        let moment = scene.moment();
        if scene.has_waiting_stores() && self.random.u16(..) < self.drain {
            let cpus = scene.cpus();
            let first = self.random.usize(..cpus);
            let with_stores = (0..cpus).map(|next| (first + next) % cpus).find(|&cpu| scene.waiting_stores(cpu) > 0);
            return with_stores.map_or(moment.usual, Choice::Drain);
        }
        if moment.may_go && self.changes.last().is_some_and(|&step| step <= scene.all_steps()) {
            self.changes.pop();
            if let Some(choice) = self.change(scene) {
                return choice;
            }
        }
        if self.rates.refuse > 0 && scene.enters_kernel() && self.random.u16(..) < self.rates.refuse {
            return Choice::Refuse;
        }
        if moment.must_leave && moment.may_go {
            self.lower(scene.current());
        }
        let Some(&first) = scene.running().first() else { return moment.usual };
        let mut best = first;
        for &thread in scene.running() {
            if self.priority(thread) > self.priority(best) {
                best = thread;
            }
        }
        if best == scene.current() && moment.may_go { Choice::Go } else { Choice::Run(best) }
    }
}
