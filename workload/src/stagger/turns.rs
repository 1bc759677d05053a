//! When a CPU's upkeep is due, by each of the ways. Numbers in, numbers out; times count from when all began together.
//!
//! ```text
//!   aligned   │████          │████          │████            every CPU at the boundary
//!   skew      │ █ █ █ █      │ █ █ █ █      │ █ █ █ █        three jiffies apart
//!   posted    │█  █ █  █ █   │ █  █  █ █ █  │█ █ █   █       each from its last run on, after a period of its own
//!   grid      │█   █   █   █ │█   █   █   █ │█   █   █   █   each in its window
//! ```
//!
//! Sources: the patch that [`grid`] names, and its review, for *posted* and *aligned*; for *skew* the kernel's
//! `__round_jiffies_relative()`, which rounds a time that is three jiffies a CPU later than the one that it hands back.

use commensal_runtime::upkeep::grid;

/// Jiffies of an interval: of a second, at the usual 250 Hz.
pub const JIFFIES: u64 = 250;
/// Between a CPU and the next one.
const SKEW_JIFFIES: u64 = 3;
/// Who runs so many jiffies late goes on from now, and not from when it was due.
const LATE_JIFFIES: u64 = 2;

words! {
    /// How upkeep is spread over the interval: *aligned* as the kernel did, *posted* by the patch, and *grid* as the
    /// runtime does.
    pub enum Way {
        Aligned = "aligned",
        Skew = "skew",
        Posted = "posted",
        Grid = "grid",
    }
}

words! {
    /// When those are queued that had nothing to do for a while.
    pub enum Shepherd {
        /// All at once, when it finds them, which it does once an interval.
        Zero = "zero",
        /// Each in its next window.
        Grid = "grid",
    }
}

words! {
    /// Which CPUs are on-line.
    pub enum Online {
        /// All of them.
        All = "all",
        /// Those with even ids, which keep them.
        Even = "even",
    }
}

impl Online {
    const fn stride(self) -> u32 {
        match self {
            Online::All => 1,
            Online::Even => 2,
        }
    }

    pub const fn of(self, cpus: u32) -> u32 {
        cpus.div_ceil(self.stride())
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Arm {
    pub way: Way,
    /// Whether all together run as often as with one period for all, where each has its own.
    pub has_equal_rate: bool,
    pub shepherd: Shepherd,
    pub online: Online,
}

#[derive(Clone, Copy, Debug)]
pub struct Turns {
    arm: Arm,
    interval_ns: u64,
    /// Its id, and its place among those that are on-line.
    pub cpu: u32,
    rank: u32,
    online: u32,
    /// What is left of a posted period at equal run rate.
    scale: f64,
}

/// The period of a CPU by the posted formula.
fn posted_period(interval_ns: u64, cpu: u32, online: u32) -> u64 {
    interval_ns + grid::slot_time(interval_ns, cpu % online, online)
}

impl Turns {
    /// Those of the CPU with a rank among so many, some of which may be off-line. `rank < arm.online.of(cpus)`.
    pub fn of(arm: Arm, interval_ns: u64, rank: u32, cpus: u32) -> Self {
        let (stride, online) = (arm.online.stride(), arm.online.of(cpus));
        let period = |cpu| posted_period(interval_ns, cpu, online);
        let rates = (0..online).map(|rank| interval_ns as f64 / period(rank * stride) as f64);
        let scale = if arm.has_equal_rate { rates.sum::<f64>() / f64::from(online) } else { 1.0 };
        Self { arm, interval_ns, cpu: rank * stride, rank, online, scale }
    }

    /// When it is due next, after it was due once and has run by now. All began as if they had been due at 0.
    pub fn next(&self, due_ns: u64, now_ns: u64) -> u64 {
        match self.arm.way {
            Way::Aligned => grid::next(now_ns, self.interval_ns, 0, 1),
            Way::Skew => self.skewed(now_ns),
            Way::Posted => {
                let jiffy = self.jiffy_ns();
                let is_late = now_ns > due_ns + LATE_JIFFIES * jiffy;
                let from = if is_late { now_ns / jiffy * jiffy } else { due_ns };
                let period = posted_period(self.interval_ns, self.cpu, self.online);
                from + (period as f64 * self.scale) as u64
            }
            Way::Grid => grid::next(now_ns, self.interval_ns, self.rank, self.online),
        }
    }

    /// When it is due that was resting when something came to be done, by `now_ns`.
    pub fn queued(&self, now_ns: u64) -> u64 {
        let found = grid::next(now_ns, self.interval_ns, 0, 1);
        match self.arm.shepherd {
            Shepherd::Zero => found,
            // Whose window is the first has it when it is found.
            Shepherd::Grid => grid::next(found - 1, self.interval_ns, self.rank, self.online),
        }
    }

    /// Whether it is too late for the turn that was due: only ours have windows.
    pub fn is_missed(&self, due_ns: u64, now_ns: u64) -> bool {
        self.arm.way == Way::Grid && now_ns >= due_ns + grid::window(self.interval_ns, self.rank, self.online)
    }

    /// When a timer goes off that was set for then: at the next jiffy.
    pub fn tick(&self, due_ns: u64) -> u64 {
        due_ns.next_multiple_of(self.jiffy_ns())
    }

    /// It hands back times that are multiples of the interval when three jiffies for each CPU are added.
    fn skewed(&self, now_ns: u64) -> u64 {
        let skew = SKEW_JIFFIES * u64::from(self.cpu) * self.jiffy_ns();
        grid::next(now_ns + skew, self.interval_ns, 0, 1) - skew
    }

    fn jiffy_ns(&self) -> u64 {
        self.interval_ns / JIFFIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const SECOND: u64 = 1_000_000_000;
    const JIFFY: u64 = SECOND / JIFFIES;

    fn arm(way: Way, online: Online) -> Arm {
        Arm { way, has_equal_rate: false, shepherd: Shepherd::Zero, online }
    }

    fn turns(arm: Arm, cpus: u32) -> Vec<Turns> {
        (0..arm.online.of(cpus)).map(|rank| Turns::of(arm, SECOND, rank, cpus)).collect()
    }

    /// The first so many times at which one is due, each time a little late.
    fn dues(turns: &Turns, count: usize) -> Vec<u64> {
        let due = |due: &u64| Some(turns.next(*due, turns.tick(*due) + 70_000));
        std::iter::successors(Some(turns.next(0, 0)), due).take(count).collect()
    }

    #[test]
    fn grid_windows_of_two_cpus_never_overlap() {
        for (online, cpus) in [(Online::All, 72), (Online::Even, 72), (Online::Even, 71)] {
            let all = turns(arm(Way::Grid, online), cpus);
            let mut dues: Vec<u64> = all.iter().map(|turns| dues(turns, 1)[0] % SECOND).collect();
            dues.sort_unstable();
            let least = SECOND / u64::from(online.of(cpus));
            assert!(dues.windows(2).all(|pair| pair[1] - pair[0] >= least), "{dues:?}");
            assert!(all.iter().all(|turns| !turns.is_missed(5 * SECOND, turns.tick(5 * SECOND) + JIFFY)));
            assert!(all.iter().all(|turns| turns.is_missed(5 * SECOND, 5 * SECOND + least + 1)));
        }
    }

    #[test]
    fn posted_periods_differ_and_ids_share_slots_when_some_are_off() {
        let period = |turns: &Turns| (dues(turns, 9)[8] - dues(turns, 9)[0]) as f64 / 8.0 / SECOND as f64;
        let all = turns(arm(Way::Posted, Online::All), 72);
        assert_eq!((period(&all[0]), std::format!("{:.3}", period(&all[71])).as_str()), (1.0, "1.986"));
        let rate: f64 = all.iter().map(|turns| 1.0 / period(turns)).sum::<f64>() / 72.0;
        assert_eq!(std::format!("{rate:.3}"), "0.697");
        let even = turns(arm(Way::Posted, Online::Even), 72);
        // Ids 2 and 38 of 36.
        assert_eq!(dues(&even[1], 9), dues(&even[19], 9));
    }

    #[test]
    fn at_equal_run_rate_all_together_run_as_often() {
        for online in Online::ALL {
            let arm = Arm { has_equal_rate: true, ..arm(Way::Posted, online) };
            let all = turns(arm, 72);
            let rate: f64 = all.iter().map(|turns| SECOND as f64 / dues(turns, 1)[0] as f64).sum();
            assert!((rate / all.len() as f64 - 1.0).abs() < 1e-6, "{rate}");
        }
    }

    #[test]
    fn skew_wraps_within_the_interval() {
        let all = turns(arm(Way::Skew, Online::All), 168);
        let due = |cpu: usize| dues(&all[cpu], 1)[0];
        assert_eq!([due(0), due(1), due(83)], [SECOND, SECOND - 3 * JIFFY, JIFFY]);
        // One interval is not enough for 84, so that they come between the others.
        assert_eq!([due(84), due(167)], [SECOND - 2 * JIFFY, SECOND - JIFFY]);
    }

    #[test]
    fn rested_cpu_is_queued_at_once_or_in_a_window() {
        let queued = |shepherd| {
            let all = turns(Arm { shepherd, ..arm(Way::Posted, Online::All) }, 72);
            all.iter().map(|turns| turns.queued(3 * SECOND + 5)).collect::<Vec<u64>>()
        };
        assert!(queued(Shepherd::Zero).iter().all(|due| *due == 4 * SECOND));
        let windows = queued(Shepherd::Grid);
        assert!(windows[0] == 4 * SECOND && windows.windows(2).all(|pair| pair[1] - pair[0] >= SECOND / 72));
    }

    #[test]
    fn very_late_turn_goes_on_from_the_time_it_ran() {
        let turns = turns(arm(Way::Posted, Online::All), 72)[36];
        assert_eq!(turns.next(SECOND, SECOND + JIFFY), SECOND * 5 / 2);
        assert_eq!(turns.next(SECOND, 2 * SECOND + 1), SECOND * 7 / 2);
    }
}
