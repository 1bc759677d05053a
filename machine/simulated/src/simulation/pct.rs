//! Random priorities with few changes, after Burckhardt, Kothari, Musuvathi and Nagarakatte, "A Randomized Scheduler
//! with Probabilistic Guarantees of Finding Bugs" (ASPLOS 2010). The runnable thread with the highest priority runs. At
//! a few random steps it gets a lower one, or, other than in the paper, something else happens to it.

use super::Scene;
use super::strategy::{Choice, Rates, Strategy};
use fastrand::Rng;

/// Binary logarithms of the least and largest length of a run, from which the steps of changes are drawn.
const SHORTEST: u32 = 5;
const LONGEST: u32 = 16;

/// The least initial priority of a thread.
const FIRST: u32 = u32::MAX / 2;

#[derive(Clone, Debug)]
pub struct Priorities {
    random: Rng,
    rates: Rates,
    /// Of each thread; a new thread gets a random one.
    priorities: Vec<u32>,
    /// The next waiting thread gets this: lower than all others.
    lowest: u32,
    /// The steps of changes, the last first, with the new priority if it is that, below the initial ones.
    changes: Vec<(u64, u32)>,
    drain: u16,
}

impl Priorities {
    /// A run with this seed and number of changes. Changes with a rate can happen.
    pub fn new(seed: u64, changes: u32, rates: Rates) -> Self {
        let mut random = Rng::with_seed(seed);
        let length = 1 << random.u32(SHORTEST..=LONGEST);
        let mut changes: Vec<(u64, u32)> =
            (0..changes).map(|number| (random.u64(..length), FIRST - 1 - number)).collect();
        changes.sort_unstable_by_key(|&(step, _)| std::cmp::Reverse(step));
        let drain = [0, rates.drain, u16::MAX / 2][random.usize(..3)];
        Priorities { random, rates, priorities: Vec::new(), lowest: FIRST / 2, changes, drain }
    }

    fn priority(&mut self, thread: usize) -> u32 {
        while self.priorities.len() <= thread {
            let priority = self.random.u32(FIRST..);
            self.priorities.push(priority);
        }
        self.priorities[thread]
    }

    fn set_priority(&mut self, thread: usize, priority: u32) {
        self.priority(thread);
        self.priorities[thread] = priority;
    }

    /// The change at one of the few steps.
    fn change(&mut self, scene: &Scene<'_>, lower: u32) -> Option<Choice> {
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
                self.set_priority(scene.current, lower);
                None
            }
            1 => Some(Choice::Preempt),
            2 => Some(Choice::Migrate(self.random.usize(..scene.cpus))),
            3 => {
                let threads: Vec<usize> = (0..scene.threads).filter(|&thread| scene.may_be_signalled(thread)).collect();
                self.random.choice(threads).map(Choice::Signal)
            }
            _ => {
                let cpu = self.random.usize(..scene.cpus);
                Some(if self.random.bool() { Choice::Offline(cpu) } else { Choice::Online(cpu) })
            }
        }
    }
}

impl Strategy for Priorities {
    fn choose(&mut self, scene: &Scene<'_>) -> Choice {
        if scene.has_waiting_stores && self.random.u16(..) < self.drain {
            return scene.drain_from(self.random.usize(..scene.cpus));
        }
        if scene.may_go
            && let Some(&(_, lower)) = self.changes.last().filter(|(step, _)| *step <= scene.all_steps)
        {
            self.changes.pop();
            if let Some(choice) = self.change(scene, lower) {
                return choice;
            }
        }
        if self.rates.refuse > 0 && scene.enters_kernel() && self.random.u16(..) < self.rates.refuse {
            return Choice::Refuse;
        }
        if scene.must_leave && scene.may_go {
            self.lowest -= 1;
            self.set_priority(scene.current, self.lowest);
        }
        let Some(&first) = scene.running.first() else { return scene.usual };
        let mut best = first;
        for &thread in scene.running {
            if self.priority(thread) > self.priority(best) {
                best = thread;
            }
        }
        if best == scene.current && scene.may_go { Choice::Go } else { Choice::Run(best) }
    }
}
