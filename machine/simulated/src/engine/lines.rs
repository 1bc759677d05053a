//! The directory of cache lines, and what an operation costs where time is simulated: a first, simple model.
//!
//! A line is in the caches of some CPUs; one that writes it takes it away from all others. Whoever has it pays for a hit. Whoever
//! has not pays for a transfer, and transfers of one line come one after the other. All CPUs are equally far from each other.

use super::Access;
use crate::simulation::Settings;
use crate::syscall;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

const LINE: usize = 64;
const PAGE: usize = 4096;
/// Words of a set of CPUs.
const WORDS: usize = crate::slot::MAX / 64;

/// Nanoseconds of what takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// An access to a line that the CPU has.
    pub hit: u64,
    /// What reads and writes as one, or a full fence, besides.
    pub locked: u64,
    /// A line's way from another CPU, or from memory.
    pub transfer: u64,
    /// A page's first touch: the fault and the zeroes.
    pub fault: u64,
    /// Into the kernel and back.
    pub system_call: u64,
    /// Interrupting one CPU.
    pub kick: u64,
    /// Reading the clock.
    pub clock: u64,
}

impl Costs {
    /// Round figures of a processor of these years: an order of magnitude, no forecast.
    pub const SIMPLE: Costs =
        Costs { hit: 1, locked: 5, transfer: 60, fault: 500, system_call: 150, kick: 1500, clock: 25 };
}

/// A line: who has it, and when it can travel again.
#[derive(Clone, Debug, Default)]
struct Line {
    free_at: u64,
    /// The only one that has it, and so may write it.
    only: Option<u32>,
    /// All that have it, if these are several.
    several: Option<Box<[u64; WORDS]>>,
}

impl Line {
    fn is_at(&self, cpu: u32) -> bool {
        let is_among = |several: &[u64; WORDS]| several[cpu as usize / 64] >> (cpu % 64) & 1 == 1;
        self.only == Some(cpu) || self.several.as_deref().is_some_and(is_among)
    }

    /// It comes to a CPU, to be written or to be shared.
    fn come_to(&mut self, cpu: u32, writes: bool) {
        if writes || (self.only.is_none() && self.several.is_none()) {
            (self.only, self.several) = (Some(cpu), None);
            return;
        }
        let only = self.only.take();
        let several = self.several.get_or_insert_default();
        for cpu in only.into_iter().chain([cpu]) {
            several[cpu as usize / 64] |= 1 << (cpu % 64);
        }
    }
}

/// Multiplies: addresses are no secret.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("only addresses are hashed");
    }
    fn write_usize(&mut self, number: usize) {
        self.0 = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

type Table<V> = HashMap<usize, V, BuildHasherDefault<Spread>>;

/// All lines that anybody touched.
#[derive(Debug)]
pub struct Lines {
    costs: Costs,
    lines: Table<Line>,
    pages: Table<()>,
    /// Addresses in here are in pages that fault.
    space: (usize, usize),
}

impl Lines {
    pub fn new(settings: &Settings) -> Self {
        Lines { costs: settings.costs, lines: Table::default(), pages: Table::default(), space: (0, 0) }
    }

    /// Pages fault in this range of addresses.
    pub fn set_space(&mut self, start: usize, end: usize) {
        self.space = (start, end);
    }

    /// What an operation costs that begins now.
    pub fn cost(&mut self, access: Access, cpu: usize, now: u64) -> u64 {
        let costs = self.costs;
        match access {
            Access::Nothing | Access::Slot => costs.hit,
            Access::Load { at, .. } => self.touch(at, cpu, now, false),
            Access::Store { at, is_locked, .. } => {
                self.touch(at, cpu, now, true) + if is_locked { costs.locked } else { 0 }
            }
            Access::Change { at, .. } => self.touch(at, cpu, now, true) + costs.locked,
            Access::Zero { at, bytes } => (at / LINE..(at + bytes).div_ceil(LINE))
                .fold(0, |cost, line| cost + self.touch(line * LINE, cpu, now + cost, true)),
            Access::Fence { is_full } => {
                if is_full {
                    costs.locked
                } else {
                    0
                }
            }
            Access::Clock => costs.clock,
            Access::Work { ns } => ns,
            Access::System { number: syscall::GETTID | syscall::GETPID } => costs.system_call / 2,
            Access::System { .. } => costs.system_call,
            Access::Kick { .. } => costs.kick,
        }
    }

    fn touch(&mut self, at: usize, cpu: usize, now: u64, writes: bool) -> u64 {
        let costs = self.costs;
        let mut cost = costs.hit;
        if (self.space.0..self.space.1).contains(&at) && self.pages.insert(at / PAGE, ()).is_none() {
            cost += costs.fault;
        }
        let line = self.lines.entry(self.line(at)).or_default();
        let cpu = cpu as u32;
        if if writes { line.only == Some(cpu) } else { line.is_at(cpu) } {
            return cost;
        }
        // A line that nobody has comes from memory, as long a way as from a neighbour.
        let start = (now + cost).max(line.free_at);
        line.free_at = start + costs.transfer;
        line.come_to(cpu, writes);
        line.free_at - now
    }

    /// Which line an address is in. Outside of the simulated process's space, as on stacks, addresses differ from run to run, and so each word has
    /// a line of its own.
    fn line(&self, at: usize) -> usize {
        const OUTSIDE: usize = 1 << 63;
        if (self.space.0..self.space.1).contains(&at) { at / LINE } else { OUTSIDE | at }
    }

    /// Nobody knows the lines and pages of a range any more.
    pub fn forget(&mut self, start: usize, end: usize) {
        if end - start < PAGE * 64 {
            for line in start / LINE..end.div_ceil(LINE) {
                self.lines.remove(&line);
            }
            for page in start / PAGE..end / PAGE {
                self.pages.remove(&page);
            }
        } else {
            self.lines.retain(|line, _| !(start / LINE..end.div_ceil(LINE)).contains(line));
            self.pages.retain(|page, ()| !(start..end).contains(&(page * PAGE)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: usize = 1 << 40;

    fn lines() -> Lines {
        let costs = Costs { hit: 1, locked: 5, transfer: 60, fault: 0, system_call: 0, kick: 0, clock: 0 };
        let mut lines = Lines::new(&Settings { costs, ..Settings::default() });
        lines.set_space(SPACE, 2 * SPACE);
        lines
    }

    fn load(at: usize) -> Access {
        Access::Load { at: SPACE + at, size: 8 }
    }

    fn store(at: usize) -> Access {
        Access::Store { at: SPACE + at, size: 8, is_locked: false }
    }

    #[test]
    fn who_has_a_line_pays_for_a_hit() {
        let mut lines = lines();
        assert_eq!(lines.cost(load(0), 0, 0), 61, "from memory");
        assert_eq!(lines.cost(load(8), 0, 100), 1, "the same line");
        assert_eq!(lines.cost(store(0), 0, 200), 1, "nobody else has it");
        assert_eq!(lines.cost(load(64), 0, 300), 61, "another line");
        assert_eq!(lines.cost(Access::Change { at: SPACE, size: 8 }, 0, 400), 6);
    }

    #[test]
    fn writing_takes_a_line_away_and_reading_shares_it() {
        let mut lines = lines();
        lines.cost(store(0), 0, 0);
        assert_eq!(lines.cost(load(0), 900, 1000), 61);
        assert_eq!([lines.cost(load(0), 0, 2000), lines.cost(load(0), 900, 2000)], [1, 1], "both have it");
        assert_eq!(lines.cost(store(0), 0, 3000), 61, "the other one has it, too");
        assert_eq!(lines.cost(load(0), 900, 4000), 61, "it was taken away");
    }

    #[test]
    fn a_line_makes_one_way_after_the_other() {
        let mut lines = lines();
        let ways: Vec<u64> = (0..4).map(|cpu| lines.cost(store(0), cpu, 0)).collect();
        assert_eq!(ways, [61, 121, 181, 241]);
    }

    #[test]
    fn zeroing_costs_its_lines_and_what_is_forgotten_comes_from_memory() {
        let mut lines = lines();
        let zero = Access::Zero { at: SPACE, bytes: 256 };
        assert_eq!(lines.cost(zero, 0, 0), 4 * 61);
        assert_eq!(lines.cost(zero, 0, 1000), 4);
        lines.forget(SPACE, SPACE + 128);
        assert_eq!(lines.cost(zero, 0, 2000), 2 * 61 + 2);
    }

    #[test]
    fn words_outside_share_no_lines() {
        let mut lines = lines();
        let outside = |at| Access::Store { at, size: 4, is_locked: false };
        assert_eq!([lines.cost(outside(64), 0, 0), lines.cost(outside(68), 1, 0)], [61, 61]);
        assert_eq!(lines.cost(outside(64), 0, 1000), 1);
    }
}
