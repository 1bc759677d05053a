//! The directory of cache lines, and the costs of operations in simulated time.
//!
//! A line is in the caches of some CPUs; a CPU that writes it takes it away from all others. A CPU that has the line
//! pays for a hit. Another one requests it from its last holder, or from memory. Other waiters get it one after the
//! other, the nearest first; `costs` has the times. A CPU can use a line until it leaves.

use super::Access;
use super::arbiter::{Queue, Use, Waiter};
use super::costs::{Costs, Distance, Location, NS};
use crate::simulation::Settings;
use crate::syscall;
use crate::vm::PAGE;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

const LINE: usize = 64;

/// The outcome of an operation that begins now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It takes so long.
    Takes(u64),
    /// It waits for a line. Contains the time of the next grant, unless that is already planned.
    Waits(Option<Grant>),
}

/// The time of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    pub at: u64,
    line: usize,
}

/// The CPU that got a line, the end of its operation, and the next grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    pub cpu: usize,
    pub done_at: u64,
    pub next: Option<Grant>,
}

/// A line: its holders, and when it can travel again.
#[derive(Default)]
struct Line {
    free_at: u64,
    /// CPUs that have it. A single one may write it.
    holders: Vec<u32>,
    /// The last holder; none: it is in memory.
    last: Option<u32>,
    /// Its waiters. Kept for the next time.
    queue: Option<Box<Queue>>,
}

impl Line {
    fn serves(&self, cpu: u32, purpose: Use) -> bool {
        self.holders.contains(&cpu) && (purpose == Use::Read || self.holders.len() == 1)
    }

    fn come_to(&mut self, cpu: u32, purpose: Use) {
        self.last = Some(cpu);
        if purpose == Use::Write {
            self.holders.clear();
        }
        self.holders.push(cpu);
    }

    /// Whether the next CPU shares it, so that it need not travel from one to the next.
    fn is_copied(&self, purpose: Use) -> bool {
        purpose == Use::Read && self.holders.len() > 1
    }

    fn next(&self, number: usize) -> Option<Grant> {
        self.is_waited_for().then_some(Grant { at: self.free_at, line: number })
    }

    fn is_waited_for(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| !queue.is_empty())
    }
}

/// A hash by multiplication: addresses are no secret.
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

pub struct Lines {
    map: Map,
    lines: Table<Line>,
    pages: Table<()>,
    space: Range<usize>,
    /// Times that a CPU wanted a line that only others had, or that others had to give up.
    pub transfers: u64,
}

struct Map {
    costs: Costs,
    locations: Vec<Location>,
}

impl Map {
    fn location(&self, cpu: u32) -> Location {
        self.locations[cpu as usize]
    }

    /// How long an uncontended line takes to reach a CPU, and how long that CPU then makes waiters wait.
    fn way(&self, line: &Line, cpu: u32, purpose: Use) -> (u64, u64) {
        let costs = &self.costs;
        let Some(last) = line.last else { return (costs.memory, costs.memory) };
        let here = self.location(cpu);
        let distance = |other: u32| self.location(other).distance(here);
        let distance = match purpose == Use::Write && line.holders.len() > 1 {
            // All copies must go, and the farthest one answers last.
            true => line.holders.iter().filter(|&&other| other != cpu).map(|&other| distance(other)).max(),
            false => Some(distance(last)),
        };
        let way = costs.way(distance.unwrap_or(Distance::Core));
        (way.latency, if line.is_copied(purpose) { costs.shared } else { way.service })
    }

    fn new_queue(&self) -> Box<Queue> {
        Box::new(Queue::new(self.locations.iter().map(|location| location.cluster + 1).max().unwrap_or(1)))
    }
}

/// An acting CPU, with the time and its slowdown in percent.
#[derive(Clone, Copy, Debug)]
pub struct Actor {
    pub cpu: usize,
    pub now: u64,
    pub percent: u64,
}

impl Lines {
    /// Addresses of the `space` lie in pages that fault.
    pub fn new(settings: &Settings, space: Range<usize>) -> Self {
        let (costs, topology) = (settings.costs, settings.costs.topology);
        let locations = (0..settings.cpus).map(|cpu| topology.location(cpu, settings.cpus)).collect();
        let map = Map { costs, locations };
        Lines { map, lines: Table::default(), pages: Table::default(), space, transfers: 0 }
    }

    #[inline]
    pub fn ask(&mut self, access: Access, actor: Actor) -> Asked {
        let takes = |time| Asked::Takes(time * actor.percent / 100);
        match access {
            Access::Nothing => Asked::Takes(0),
            Access::Own | Access::Slot => takes(self.map.costs.hit),
            Access::Pause => takes(self.map.costs.pause),
            Access::Load { at, .. } => self.touch(at, actor, Use::Read, 0),
            Access::Store { at, is_locked: false, .. } => self.touch(at, actor, Use::Write, 0),
            Access::Add { at, .. } => self.touch(at, actor, Use::Write, self.map.costs.add),
            Access::Store { at, .. } | Access::Change { at, .. } => {
                self.touch(at, actor, Use::Write, self.map.costs.locked)
            }
            Access::Zero { at, bytes } => Asked::Takes(self.zero(at, bytes, actor)),
            Access::Fence { is_full } => takes(if is_full { self.map.costs.locked } else { 0 }),
            Access::Clock => takes(self.map.costs.clock),
            Access::Work { ns } => takes(ns * NS),
            Access::System { number: syscall::GETTID | syscall::GETPID } => takes(self.map.costs.system_call / 2),
            Access::System { .. } => takes(self.map.costs.system_call),
            // A CPU that interrupts itself does nothing.
            Access::Kick { cpu, .. } if cpu == actor.cpu => Asked::Takes(0),
            Access::Kick { is_further, .. } => {
                takes(if is_further { self.map.costs.further_kick } else { self.map.costs.kick })
            }
        }
    }

    fn fault(&mut self, at: usize) -> u64 {
        let is_first = self.space.contains(&at) && self.pages.insert(at / PAGE, ()).is_none();
        if is_first { self.map.costs.fault } else { 0 }
    }

    #[inline]
    fn touch(&mut self, at: usize, actor: Actor, purpose: Use, besides: u64) -> Asked {
        let own = (self.map.costs.hit + besides) * actor.percent / 100;
        let fault = self.fault(at);
        let (number, cpu, now) = (self.line(at), actor.cpu as u32, actor.now + fault);
        let line = self.lines.entry(number).or_default();
        if line.serves(cpu, purpose) {
            return Asked::Takes(own + fault);
        }
        self.transfers += u64::from(line.last.is_some());
        if line.free_at <= now && !line.is_waited_for() {
            let (latency, service) = self.map.way(line, cpu, purpose);
            // No other CPU gets it before it has come. Copies of a shared line are made one after the other.
            line.free_at = now + if line.is_copied(purpose) { service } else { latency + self.map.costs.grip };
            line.come_to(cpu, purpose);
            return Asked::Takes(own + fault + latency);
        }
        let queue = line.queue.get_or_insert_with(|| self.map.new_queue());
        let is_first = queue.is_empty();
        queue.join(self.map.location(cpu).cluster, Waiter { cpu, asked_at: now, purpose, own });
        Asked::Waits(if is_first { line.next(number) } else { None })
    }

    pub fn grant(&mut self, grant: Grant) -> Granted {
        let line = self.lines.get_mut(&grant.line).expect("lines that are waited for are not forgotten");
        let holder = line.last.map(|cpu| self.map.location(cpu).cluster);
        let waiter = line.queue.as_mut().and_then(|queue| queue.take(&self.map.costs, holder)).expect("somebody waits");
        let (latency, service) = self.map.way(line, waiter.cpu, waiter.purpose);
        let from = grant.at.max(line.free_at);
        let comes_at = (from + service).max(waiter.asked_at + latency);
        line.free_at = if line.is_copied(waiter.purpose) { from + service } else { comes_at + self.map.costs.grip };
        line.come_to(waiter.cpu, waiter.purpose);
        let next = line.next(grant.line);
        Granted { cpu: waiter.cpu as usize, done_at: comes_at + waiter.own, next }
    }

    /// Zeroes memory: a row of lines, which is fetched ahead, and does not wait in queues.
    fn zero(&mut self, at: usize, bytes: usize, actor: Actor) -> u64 {
        let mut time = actor.now;
        for line in at / LINE..(at + bytes).div_ceil(LINE) {
            time += self.fault(line * LINE) + self.map.costs.zero * actor.percent / 100;
            let (cpu, number) = (actor.cpu as u32, self.line(line * LINE));
            let line = self.lines.entry(number).or_default();
            if !line.serves(cpu, Use::Write) {
                time = time.max(line.free_at) + self.map.costs.row;
                line.free_at = time;
                line.come_to(cpu, Use::Write);
            }
        }
        time - actor.now
    }

    /// The line of an address. Outside the space, addresses differ from run to run, so each word has its own.
    fn line(&self, at: usize) -> usize {
        const OUTSIDE: usize = 1 << 63;
        if self.space.contains(&at) { at / LINE } else { OUTSIDE | at }
    }

    /// In a fork child: forgets waiters, which do not exist there.
    pub fn forget_waiters(&mut self) {
        self.lines.values_mut().for_each(|line| line.queue = None);
    }

    /// Forgets the lines and pages of a range, except lines with waiters.
    pub fn forget(&mut self, start: usize, end: usize) {
        let lines = start / LINE..end.div_ceil(LINE);
        if end - start < PAGE * 64 {
            for line in lines {
                if self.lines.get(&line).is_some_and(|line| !line.is_waited_for()) {
                    self.lines.remove(&line);
                }
            }
            for page in start / PAGE..end / PAGE {
                self.pages.remove(&page);
            }
        } else {
            self.lines.retain(|number, line| !lines.contains(number) || line.is_waited_for());
            self.pages.retain(|page, ()| !(start..end).contains(&(page * PAGE)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::costs::{Topology, Way};
    use super::*;

    const SPACE: usize = 1 << 40;

    fn lines_at(costs: Costs, cpus: usize) -> Lines {
        Lines::new(&Settings { costs, cpus, ..Settings::default() }, SPACE..2 * SPACE)
    }

    fn lines() -> Lines {
        lines_at(Costs { fault: 0, ..Costs::SIMPLE }, 1000)
    }

    fn load(at: usize) -> Access {
        Access::Load { at: SPACE + at, size: 8 }
    }

    fn store(at: usize) -> Access {
        Access::Store { at: SPACE + at, size: 8, is_locked: false }
    }

    fn takes(lines: &mut Lines, access: Access, cpu: usize, now_ns: u64) -> u64 {
        match lines.ask(access, Actor { cpu, now: now_ns * NS, percent: 100 }) {
            Asked::Takes(time) => time / NS,
            Asked::Waits(_) => panic!("CPU {cpu} waits at {now_ns} ns"),
        }
    }

    #[test]
    fn cached_line_costs_a_hit() {
        let mut lines = lines();
        assert_eq!(takes(&mut lines, load(0), 0, 0), 61, "from memory");
        assert_eq!(takes(&mut lines, load(8), 0, 100), 1, "the same line");
        assert_eq!(takes(&mut lines, store(0), 0, 200), 1, "nobody else has it");
        assert_eq!(takes(&mut lines, load(64), 0, 300), 61, "another line");
        assert_eq!(takes(&mut lines, Access::Change { at: SPACE, size: 8 }, 0, 400), 6);
        let slow = Actor { cpu: 0, now: 500 * NS, percent: 150 };
        assert_eq!(lines.ask(Access::Change { at: SPACE, size: 8 }, slow), Asked::Takes(9 * NS));
    }

    #[test]
    fn writing_takes_a_line_away_and_reading_shares_it() {
        let mut lines = lines();
        takes(&mut lines, store(0), 0, 0);
        assert_eq!(takes(&mut lines, load(0), 900, 1000), 61);
        assert_eq!([takes(&mut lines, load(0), 0, 2000), takes(&mut lines, load(0), 900, 2000)], [1, 1], "shared");
        assert_eq!(takes(&mut lines, store(0), 0, 3000), 61, "the other one has it, too");
        assert_eq!(takes(&mut lines, load(0), 900, 4000), 61, "it was taken away");
    }

    /// All CPUs but the first request a line on its way to the first. Returns when each was done, in nanoseconds.
    fn turns(lines: &mut Lines, cpus: usize, access: Access) -> Vec<(usize, u64)> {
        takes(lines, access, 0, 0);
        let mut next = None;
        for cpu in 1..cpus {
            match lines.ask(access, Actor { cpu, now: 0, percent: 100 }) {
                Asked::Waits(grant) => next = next.or(grant),
                Asked::Takes(_) => panic!("CPU {cpu} does not wait"),
            }
        }
        let mut turn = |grant: &mut Option<Grant>| -> Option<(usize, u64)> {
            let granted = lines.grant((*grant)?);
            *grant = granted.next;
            Some((granted.cpu, granted.done_at / NS))
        };
        std::iter::from_fn(move || turn(&mut next)).collect()
    }

    #[test]
    fn line_wanted_by_several_cpus_goes_to_one_after_the_other() {
        assert_eq!(turns(&mut lines(), 4, store(0)), [(1, 121), (2, 181), (3, 241)]);
    }

    #[test]
    fn those_who_wait_have_sent_their_requests_already() {
        let ways = [Way { latency: 60 * NS, service: 20 * NS }; 5];
        let costs = Costs { ways, ..Costs::SIMPLE };
        assert_eq!(turns(&mut lines_at(Costs { fault: 0, ..costs }, 4), 4, store(0)), [(1, 81), (2, 101), (3, 121)]);
        // Even if the line is free when the request comes, it takes a latency.
        let mut lines = lines_at(Costs { fault: 0, memory: 10 * NS, ..costs }, 2);
        assert_eq!(turns(&mut lines, 2, store(0)), [(1, 61)]);
    }

    #[test]
    fn line_stays_with_its_cpu_for_the_grip() {
        let ways = [Way { latency: 60 * NS, service: 20 * NS }; 5];
        let costs = Costs { fault: 0, memory: 10 * NS, grip: 50 * NS, ways, ..Costs::SIMPLE };
        let mut lines = lines_at(costs, 2);
        takes(&mut lines, store(0), 0, 0);
        let asked = lines.ask(store(0), Actor { cpu: 1, now: 5 * NS, percent: 100 });
        let Asked::Waits(Some(grant)) = asked else { panic!("{asked:?}") };
        assert_eq!(grant.at, 60 * NS, "50 after it came");
        assert_eq!(takes(&mut lines, store(0), 0, 59), 1);
        assert_eq!(lines.grant(grant), Granted { cpu: 1, done_at: 81 * NS, next: None });
        // And not afterwards: the line is on its way.
        assert!(matches!(lines.ask(store(0), Actor { cpu: 0, now: 61 * NS, percent: 100 }), Asked::Waits(Some(_))));
    }

    /// Lines of a machine with these threads, and clusters in a socket, where each distance costs more.
    fn spread(threads: usize, clusters: usize, cpus: usize) -> Lines {
        let ways = [10, 20, 30, 40, 50].map(|ns| Way { latency: ns * NS, service: ns * NS });
        let topology = Topology { threads, has_siblings_last: false, cores: 2, clusters, near_sockets: 2 };
        lines_at(Costs { fault: 0, ways, topology, ..Costs::SIMPLE }, cpus)
    }

    #[test]
    fn line_takes_longer_between_cpus_that_are_farther_apart() {
        let mut lines = spread(2, 2, 32);
        takes(&mut lines, store(0), 0, 0);
        for (at, (cpu, ns)) in
            [(1, 11), (0, 11), (2, 21), (0, 21), (4, 31), (0, 31), (8, 41), (0, 41), (16, 51)].into_iter().enumerate()
        {
            assert_eq!(takes(&mut lines, store(0), cpu, 1000 * (1 + at as u64)), ns, "to CPU {cpu}");
        }
    }

    #[test]
    fn write_to_a_shared_line_waits_for_the_farthest_cpu() {
        let mut lines = spread(1, 1, 8);
        takes(&mut lines, store(0), 0, 0);
        for (at, cpu) in [7, 2, 1].into_iter().enumerate() {
            takes(&mut lines, load(0), cpu, 1000 * (1 + at as u64));
        }
        // It had the line last, and CPU 7 shares it.
        assert_eq!(takes(&mut lines, store(0), 1, 9000), 51);
        assert_eq!(takes(&mut lines, store(0), 1, 10_000), 1);
    }

    #[test]
    fn copies_are_made_while_others_are_on_their_way() {
        let costs = Costs { fault: 0, shared: 5 * NS, ..Costs::SIMPLE };
        // The first one after the writer takes the line from it.
        let mut lines = lines_at(costs, 4);
        takes(&mut lines, store(0), 3, 0);
        takes(&mut lines, load(0), 0, 1000);
        assert_eq!([1, 2].map(|cpu| takes(&mut lines, load(0), cpu, 1100 + 10 * cpu as u64)), [61, 61]);
        assert_eq!(turns(&mut lines_at(costs, 4), 4, load(0)), [(1, 121), (2, 126), (3, 131)]);
    }

    #[test]
    fn zeroing_costs_its_lines_and_what_is_forgotten_comes_from_memory() {
        let mut lines = lines_at(Costs { fault: 0, zero: 2 * NS, row: 30 * NS, ..Costs::SIMPLE }, 2);
        let zero = Access::Zero { at: SPACE, bytes: 256 };
        assert_eq!(takes(&mut lines, zero, 0, 0), 4 * 32);
        assert_eq!(takes(&mut lines, zero, 0, 1000), 8);
        lines.forget(SPACE, SPACE + 128);
        assert_eq!(takes(&mut lines, zero, 0, 2000), 2 * 32 + 2 * 2);
    }

    #[test]
    fn words_outside_share_no_lines() {
        let mut lines = lines();
        let outside = |at| Access::Store { at, size: 4, is_locked: false };
        assert_eq!([takes(&mut lines, outside(64), 0, 0), takes(&mut lines, outside(68), 1, 0)], [61, 61]);
        assert_eq!(takes(&mut lines, outside(64), 0, 1000), 1);
    }

    #[test]
    fn kicks_cost_whoever_makes_them_less_when_there_are_many() {
        let mut lines = lines_at(Costs { kick: 2300 * NS, further_kick: 1200 * NS, ..Costs::SIMPLE }, 3);
        let kick = |cpu, is_further| Access::Kick { cpu, is_further };
        let costs = [kick(0, false), kick(1, false), kick(2, true)].map(|kick| takes(&mut lines, kick, 0, 0));
        assert_eq!(costs, [0, 2300, 1200]);
    }
}
