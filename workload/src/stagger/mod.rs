//! Upkeep of many CPUs and the one lock that all of it needs: what is beyond each page list's mark goes back to the
//! zone, when it is that CPU's turn.
//!
//! ```text
//!   CPU 0   ──burst────────────drain─────────burst──────▶      a burst takes batches from the zone,
//!   CPU 1   ────────burst──────drain───burst────────────▶      a drain gives batches back:
//!             ▲                 ▲                              one hold of the zone's lock for each
//! ```
//!
//! The lock is the machine's own, with its own accounting. What is simulated is what it is held for
//! ([`Load::hold_ns`]), and on a machine with few CPUs each thread serves several. Only what drains waited for is
//! reported as theirs; what bursts did is reported apart.

mod load;
mod turns;

pub use load::Load;
pub use turns::{Arm, Online, Shepherd, Way};

use crate::Threads;
use crate::shared::Array;
use core::ops::Range;
use load::{BATCH, Chance, Pages};
use machine::clock::now_ns;
use machine::here;
use machine::sync::{AtomicU64, Contention, Lock, Ordering, Waited};
use machine::thread;
use turns::Turns;

/// A batch is gathered, or spread, in so long before or after its hold: 63 pages, each of which lies somewhere else. So
/// whoever waited for a hold has the lock before the same drain's next one, which the lock alone would not see to.
const GATHER_NS: u64 = 10_000;
/// Intervals before it counts, at least, so that periods that differ have come apart; and of so many more some, by
/// chance.
const WARM_UP: u64 = 6;
const MORE_WARM_UP: u64 = 4;
/// Drains that are remembered, of each CPU.
const MARKS: usize = 8;

/// How many do how much.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub cpus: u32,
    /// Threads that do what these do.
    pub threads: u32,
    /// From one upkeep to the next.
    pub interval_ns: u64,
    /// Of those that count.
    pub intervals: u64,
}

/// Has upkeep done for all CPUs by an arm's ways, under a load that is drawn from a seed: what came of it, and each
/// drain that is remembered. None: no memory.
pub fn stagger(
    arm: Arm, size: Size, (load, seed): (Load, u64), threads: &dyn Threads, mut each: impl FnMut(Mark),
) -> Option<[f64; 12]> {
    let online = arm.online.of(size.cpus);
    let cpus = Array::of(online as usize, |rank| Cpu::of(arm, size, load, seed, rank as u32))?;
    let warm_up = WARM_UP * size.interval_ns + Chance::of(seed, 0).below(MORE_WARM_UP * size.interval_ns);
    let counts = warm_up..warm_up + size.intervals * size.interval_ns;
    let run = Run { zone: Zone::new(), load, start_ns: now_ns(), counts, threads };
    threads.run(size.threads, &|number| run.serve(&cpus, number, size.threads));
    cpus.iter().flat_map(|cpu| cpu.marks.iter().take(cpu.drains as usize)).for_each(|mark| each(*mark));
    Some(figures(&cpus, size))
}

/// Holds of drains that had to wait, milliseconds of it, of the longest, and microseconds in the mean; drains of all
/// CPUs and pages that went back in an interval; the shortest and the longest period of a CPU, in intervals; the most
/// pages beyond the mark on a list that nobody was going to look at; the most holds of drains that somebody waited for;
/// holds of bursts that had to wait; and turns that came too late, and were left out.
fn figures(cpus: &[Cpu], size: Size) -> [f64; 12] {
    let sum = |of: fn(&Cpu) -> u64| cpus.iter().map(of).sum::<u64>() as f64;
    let most = |of: fn(&Cpu) -> u64| cpus.iter().map(of).max().unwrap_or(0) as f64;
    let waited = |of: fn(&Cpu) -> &Contention| {
        cpus.iter().map(|cpu| of(cpu).report().waited).fold(Waited::default(), Waited::and)
    };
    let (waits, of_load) = (waited(|cpu| &cpu.waits[1]), waited(|cpu| &cpu.load_waits[1]));
    let [contended, total_ns, max_ns] = [waits.contended, waits.total_wait_ns, waits.max_wait_ns].map(|of| of as f64);
    let [drains, drained] = [sum(|cpu| cpu.drains), sum(|cpu| cpu.drained)].map(|count| count / size.intervals as f64);
    let periods = cpus.iter().filter_map(|cpu| cpu.period(size.interval_ns));
    let [least, longest] = periods.fold([f64::INFINITY, 0.0], |[least, most], of| [of.min(least), of.max(most)]);
    let (stranded, ahead) = (most(|cpu| cpu.stranded.into()), most(|cpu| cpu.ahead));
    [
        contended,
        total_ns / 1e6,
        max_ns / 1e6,
        total_ns / contended.max(1.0) / 1e3,
        drains,
        drained,
        // Whatever was never due twice in a row has no period.
        least.min(longest),
        longest,
        stranded,
        ahead,
        of_load.contended as f64,
        sum(|cpu| cpu.missed),
    ]
}

/// A drain, for a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mark {
    pub cpu: u32,
    /// When it began, from when it counts on.
    pub at_ns: u64,
    /// Whether it had to wait.
    pub has_waited: bool,
}

struct Zone {
    lock: Lock<0>,
    begun: AtomicU64,
    ended: AtomicU64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Drain,
    Burst,
}

impl Zone {
    const fn new() -> Self {
        Zone { lock: Lock::new(), begun: AtomicU64::new(0), ended: AtomicU64::new(0) }
    }

    /// Holds the lock for so long: whether that had to wait, and for how many holds of drains.
    fn hold(&self, who: Who, hold_ns: u64, contention: &Contention, threads: &dyn Threads) -> Option<u64> {
        // Relaxed: a count for people. A hold that ends right now may be counted as one that was waited for; it is one
        // at most.
        let ended = self.ended.load(Ordering::Relaxed);
        let has_waited = !self.lock.try_acquire();
        if has_waited {
            self.lock.acquire(contention, here!());
        }
        let ahead = self.begun.load(Ordering::Relaxed) - ended;
        if who == Who::Drain {
            self.begun.fetch_add(1, Ordering::Relaxed);
        }
        threads.busy(hold_ns);
        if who == Who::Drain {
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: acquired above: no handler of ours takes it, nobody forks.
        unsafe { self.lock.release() };
        has_waited.then_some(ahead)
    }
}

#[repr(C, align(64))]
struct Cpu {
    id: u32,
    turns: Turns,
    pages: Pages,
    /// When another user of the zone comes next.
    others_next_ns: u64,
    others: Chance,
    latency: Chance,
    /// When it is due, and when it is going to run; none while it rests.
    due: Option<(u64, u64)>,
    /// From each time that it was due to the next, all together, and how many there were.
    periods: (u64, u64),
    /// What was waited for before it counts, and then; and what bursts waited for.
    waits: [Contention; 2],
    load_waits: [Contention; 2],
    drains: u64,
    drained: u64,
    stranded: u32,
    ahead: u64,
    missed: u64,
    marks: [Mark; MARKS],
}

struct Run<'a> {
    zone: Zone,
    load: Load,
    start_ns: u64,
    /// When it counts, from the start on.
    counts: Range<u64>,
    threads: &'a dyn Threads,
}

impl Run<'_> {
    fn now(&self) -> u64 {
        now_ns() - self.start_ns
    }

    /// Does what is to be done for these CPUs, one thing after the other, until it is over.
    fn serve(&self, cpus: &Array<Cpu>, number: u32, threads: u32) {
        thread::enter();
        loop {
            // SAFETY: each has one thread, and the last round's are gone.
            let cpus = unsafe { cpus.every(number as usize, threads as usize) };
            let Some(cpu) = cpus.min_by_key(|cpu| cpu.next_event()) else { return };
            let at = cpu.next_event();
            if at >= self.counts.end {
                return;
            }
            let now = self.now();
            if at > now {
                self.threads.rest(at - now);
            }
            if cpu.due.is_some_and(|(_, runs)| runs == at) {
                cpu.upkeep(self);
            } else if cpu.others_next_ns == at {
                cpu.other_hold(self);
            } else {
                cpu.burst(self);
            }
        }
    }
}

impl Cpu {
    fn of(arm: Arm, size: Size, load: Load, seed: u64, rank: u32) -> Self {
        let turns = Turns::of(arm, size.interval_ns, rank, size.cpus);
        let of_cpu = seed << 16 | u64::from(rank);
        let pages = Pages::of(load, size.interval_ns, of_cpu);
        let mut cpu = Cpu {
            id: turns.cpu,
            turns,
            pages,
            others_next_ns: 0,
            others: Chance::of(of_cpu, 2),
            latency: Chance::of(of_cpu, 0),
            due: None,
            periods: (0, 0),
            waits: [const { Contention::new() }; 2],
            load_waits: [const { Contention::new() }; 2],
            drains: 0,
            drained: 0,
            stranded: 0,
            ahead: 0,
            missed: 0,
            marks: [Mark::default(); MARKS],
        };
        cpu.set_due(turns.next(0, 0), load);
        cpu.set_others(0, load);
        cpu
    }

    /// When something is to be done next.
    fn next_event(&self) -> u64 {
        let of_load = self.pages.next_burst_ns.min(self.others_next_ns);
        self.due.map_or(of_load, |(_, runs)| runs.min(of_load))
    }

    fn set_due(&mut self, due: u64, load: Load) {
        if let Some((before, _)) = self.due {
            self.periods = (self.periods.0 + due - before, self.periods.1 + 1);
        }
        self.due = Some((due, self.turns.tick(due) + self.latency.around(load.latency_ns)));
    }

    fn set_others(&mut self, now: u64, load: Load) {
        self.others_next_ns = now + 1 + self.others.around(load.gap_ns);
    }

    /// Its turn: what is beyond the mark goes back, in batches.
    fn upkeep(&mut self, run: &Run) {
        let (due, _) = self.due.expect("it is its turn");
        let begin = run.now();
        if self.turns.is_missed(due, begin) {
            self.missed += 1;
            return self.set_due(self.turns.next(due, begin), run.load);
        }
        let counts = begin >= run.counts.start;
        let (surplus, mut has_waited) = (self.pages.surplus(), false);
        while self.pages.surplus() > 0 {
            let batch = self.pages.surplus().min(BATCH);
            run.threads.busy(GATHER_NS);
            let waits = &self.waits[usize::from(counts)];
            let ahead = run.zone.hold(Who::Drain, run.load.hold_ns, waits, run.threads);
            self.pages.on_list -= batch;
            has_waited |= ahead.is_some();
            self.ahead = self.ahead.max(ahead.unwrap_or(0));
        }
        if counts {
            if let Some(mark) = self.marks.get_mut(self.drains as usize) {
                *mark = Mark { cpu: self.id, at_ns: begin - run.counts.start, has_waited };
            }
            self.drains += 1;
            self.drained += u64::from(surplus);
        }
        if surplus == 0 && !self.pages.is_active(begin) {
            // Nothing came since the last time: it rests.
            self.due = None;
        } else {
            self.set_due(self.turns.next(due, run.now()), run.load);
        }
    }

    /// Its load takes what it needs from the zone, in batches, and leaves it on the list.
    fn burst(&mut self, run: &Run) {
        let counts = usize::from(run.counts.contains(&run.now()));
        let mut needs = self.pages.burst();
        while needs > 0 {
            let batch = needs.min(BATCH);
            let ahead = run.zone.hold(Who::Burst, run.load.hold_ns, &self.load_waits[counts], run.threads);
            run.threads.busy(GATHER_NS);
            self.pages.on_list += batch;
            self.ahead = self.ahead.max(ahead.unwrap_or(0));
            needs -= batch;
        }
        let now = run.now();
        self.pages.go_on(now);
        if self.due.is_none() && self.pages.surplus() > 0 {
            self.stranded = self.stranded.max(self.pages.surplus());
            self.set_due(self.turns.queued(now), run.load);
        }
    }

    /// Another user of the zone comes.
    fn other_hold(&mut self, run: &Run) {
        let waits = &self.load_waits[usize::from(run.counts.contains(&run.now()))];
        let hold_ns = self.others.below(2 * run.load.others_hold_ns + 1);
        let ahead = run.zone.hold(Who::Burst, hold_ns, waits, run.threads);
        self.ahead = self.ahead.max(ahead.unwrap_or(0));
        self.set_others(run.now(), run.load);
    }

    /// Its period, in intervals; none if it was never due twice in a row.
    fn period(&self, interval_ns: u64) -> Option<f64> {
        let (all, count) = self.periods;
        (count > 0).then(|| all as f64 / count as f64 / interval_ns as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::OfStd;

    #[test]
    fn resting_cpu_strands_at_most_two_batches() {
        let size = Size { cpus: 8, threads: 2, interval_ns: 20_000_000, intervals: 3 };
        let load = Load { gap_ns: 5_000_000, hold_ns: 2_000, others_hold_ns: 2_000, latency_ns: 0, paused: 60 };
        let arm = Arm { way: Way::Grid, has_equal_rate: false, shepherd: Shepherd::Grid, online: Online::All };
        let mut marks = std::vec::Vec::new();
        let figures = stagger(arm, size, (load, 5), &OfStd, |mark| marks.push(mark)).unwrap();
        let [_, _, _, _, drains, pages, _, _, stranded, ..] = figures;
        assert!(stranded <= 2.0 * f64::from(BATCH) && drains < 8.0 && pages > 0.0, "{figures:?}");
        assert!(!marks.is_empty() && marks.iter().all(|mark| mark.cpu < size.cpus), "{marks:?}");
    }
}
