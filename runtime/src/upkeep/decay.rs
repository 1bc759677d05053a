//! How many dirty pages of free runs are idle: a pure calculation.
//!
//! Pages are idle for a time if they were idle at each moment of it. So their number is the least of its quarters of an
//! interval.
//!
//! ```text
//!   dirty and free   ▔▔▔▔╲      ╱▔▔▔▔▔▔▔
//!                         ╲____╱
//!   least, by quarter  9  5  3  3  7  9  9      of the last 16, or more: idle
//! ```
//!
//! **Patience.** A process that works keeps the pages of its highest peak in the last intervals: [`LEAST_PATIENCE`] at
//! least, [`MOST_PATIENCE`] at most. When many pages are needed again that were idle for some quarters, pages must stay
//! idle [`TIMES`] times as long from then on. So most swings are learnt before any page goes back. If many of the pages
//! at stake are *refilled*, because they went back and were needed again, patience doubles. After [`CALM`] quarters in
//! which nothing needed it, it halves.
//!
//! **Rest.** A process that took hardly any run for [`REST`] quarters rests. Then patience does not apply, so a peak is
//! gone after two intervals at most. A process that came back from shorter rests, and needed many pages, gets up to
//! [`LONGEST_REST`] quarters.
//!
//! Source: decaying per-CPU lists have the low-water mark, tcmalloc the peak of the last intervals; how both are learnt
//! is ours.

const QUARTERS: usize = 4;
pub const LEAST_PATIENCE: u32 = 4;
pub const MOST_PATIENCE: u32 = 128;
const KNOWN: usize = QUARTERS * MOST_PATIENCE as usize;
/// Pages must be idle for this many times as long as pages were that were needed again.
const TIMES: u32 = 4;
/// The same for a whole process that rests.
const TIMES_RESTED: u32 = 2;
/// Quarters after which patience that was not needed halves; or twice the patience, if that is more.
const CALM: u32 = 32 * QUARTERS as u32;
/// Quarters with hardly any run handed out after which patience ends.
const REST: u32 = 6;
/// The same of a process that comes back from longer rests, at most.
const LONGEST_REST: u32 = 16;
/// Runs from one look to the next that count as hardly any.
pub const FEW_RUNS: u64 = 8;
/// Refills are many if they are one part in this many of the pages at stake, or more.
const MUCH: u64 = 4;
/// Pages are few if they are less than one part in this many of the pages in use, or than 1 MiB.
const LITTLE: u64 = 32;
const LITTLE_PAGES: u64 = (1 << 20) / crate::page_heap::PAGE as u64;
/// Each quarter, one part in this many of the pages stops being at stake.
const FORGETS: u64 = 64;

/// The history of idle pages. All-zero memory has none.
#[derive(Debug)]
#[repr(C)]
pub struct Decay {
    /// End of the quarter; 0: before the first look.
    pub ends_ns: u64,
    quarter_ns: u64,
    /// The least so far in this quarter, and in each earlier one; each plus `given` at that time.
    current: i64,
    least: [i64; KNOWN],
    /// Number of known quarters, and the newest one's place.
    known: u32,
    newest: u32,
    /// Pages given back, less those that upkeep itself made free.
    given: i64,
    /// Intervals of patience, less the least.
    patience: u32,
    /// Quarters since many pages were needed again that had been idle for half of the patience, or since many refills.
    calm: u32,
    /// Quarters since more than a few runs were handed out.
    resting: u32,
    /// How long the last rest was, in quarters, and the quarters since; the rest counts for an interval.
    rested: u32,
    awake: u32,
    /// Quarters beyond [`REST`] until this process rests.
    longer_rest: u32,
    /// Quarters since a rest that was half as long or longer.
    rest_calm: u32,
    /// Pages given back whose refill would still count.
    at_stake: u64,
    refilled: u64,
    /// Recent refills since they were many: each quarter, a fourth is forgotten.
    lately: u64,
    /// Runs handed out at the last look, and at the end of the last quarter.
    handed_out: u64,
    handed_out_before: u64,
}

/// Observations of a look, in pages.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The fewest dirty pages of free runs since the last look.
    pub least: u64,
    pub refilled: u64,
    pub in_use: u64,
    pub handed_out: u64,
}

impl Decay {
    pub const NEW: Self = Decay {
        ends_ns: 0,
        quarter_ns: 0,
        current: 0,
        least: [0; KNOWN],
        known: 0,
        newest: 0,
        given: 0,
        patience: 0,
        calm: 0,
        resting: 0,
        rested: 0,
        awake: 0,
        longer_rest: 0,
        rest_calm: 0,
        at_stake: 0,
        refilled: 0,
        lately: 0,
        handed_out: 0,
        handed_out_before: 0,
    };

    pub fn observe(&mut self, now_ns: u64, interval_ns: u64, seen: Seen) {
        let quarter_ns = (interval_ns / QUARTERS as u64).max(1);
        if self.ends_ns == 0 || self.quarter_ns != quarter_ns || now_ns + quarter_ns < self.ends_ns {
            // The first look, or the history is of other quarters.
            (self.quarter_ns, self.ends_ns, self.known) = (quarter_ns, now_ns + quarter_ns, 0);
            (self.current, self.refilled, self.resting) = (i64::MAX, seen.refilled, 0);
        }
        let least = seen.least as i64 + self.given;
        self.current = self.current.min(least);
        let is_few_since = seen.handed_out - self.handed_out <= FEW_RUNS;
        let is_few_before = self.hands_out_few();
        self.handed_out = seen.handed_out;
        if now_ns < self.ends_ns {
            return;
        }
        let over = 1 + (now_ns - self.ends_ns) / quarter_ns;
        self.ends_ns += over * quarter_ns;
        self.note(self.current);
        let much = (seen.in_use / LITTLE).max(LITTLE_PAGES);
        self.learn_from_reuse(much);
        // There was no look in these quarters: the least in all of them is a lower bound in each.
        (1..over.min(KNOWN as u64)).for_each(|_| self.note(least));
        self.current = i64::MAX;
        self.learn_from_refills(seen.refilled - self.refilled, much, over);
        let rested = self.resting;
        self.resting = match over.min(KNOWN as u64) as u32 {
            // The runs may be from just now.
            _ if !is_few_since => 0,
            over if !is_few_before => over - 1,
            over => self.resting.saturating_add(over),
        };
        if self.resting == 0 {
            let has_woken = rested > 0;
            self.rested = if has_woken { rested } else { self.rested };
            self.awake = if has_woken { 0 } else { self.awake.saturating_add(over as u32) };
        }
        (self.refilled, self.handed_out_before) = (seen.refilled, seen.handed_out);
    }

    fn hands_out_few(&self) -> bool {
        self.handed_out - self.handed_out_before <= FEW_RUNS
    }

    fn note(&mut self, least: i64) {
        self.newest = (self.newest + 1) % KNOWN as u32;
        self.least[self.newest as usize] = least;
        self.known = (self.known + 1).min(KNOWN as u32);
    }

    /// If many pages are needed again, makes patience a multiple of the time that they were idle.
    fn learn_from_reuse(&mut self, much: u64) {
        let needed = self.of_quarter(0) + much as i64;
        // The peak may have come in several quarters.
        let before = |peak: u32| (peak..self.known).take_while(|&age| self.of_quarter(age) >= needed).count() as u32;
        let idle = (1..=QUARTERS as u32).map(before).max().unwrap_or(0);
        if idle == 0 {
            return;
        }
        // The quarters at its ends were idle in part.
        let wanted = (TIMES * (idle + 2)).div_ceil(QUARTERS as u32);
        if 2 * wanted >= self.patience() {
            self.calm = 0;
        }
        self.set_patience(wanted.max(self.patience()));
        self.learn_from_rest();
    }

    /// Many pages are needed again: if a rest came before, the process rests later from now on.
    fn learn_from_rest(&mut self) {
        let rested = match self.resting {
            0 if self.awake < QUARTERS as u32 => self.rested,
            now => now,
        };
        // For the peak after a longer rest, pages would be kept in vain.
        if (1..LONGEST_REST).contains(&rested) {
            let longer = (TIMES_RESTED * (rested + 1)).min(LONGEST_REST).saturating_sub(REST);
            if 2 * longer >= self.longer_rest {
                self.rest_calm = 0;
            }
            self.longer_rest = self.longer_rest.max(longer);
        }
    }

    fn learn_from_refills(&mut self, refilled: u64, much: u64, quarters: u64) {
        (0..quarters.min(FORGETS)).for_each(|_| self.lately -= self.lately.div_ceil(QUARTERS as u64));
        // Refills before the first return teach nothing.
        self.lately = if self.at_stake > 0 { self.lately + refilled } else { 0 };
        if self.lately >= much.max(self.at_stake / MUCH) {
            self.learn_from_rest();
            self.set_patience(2 * self.patience());
            self.calm = 0;
            (self.at_stake, self.lately) = (0, 0);
            return;
        }
        self.calm = self.calm.saturating_add(quarters as u32);
        if self.calm >= CALM.max(2 * QUARTERS as u32 * self.patience()) {
            self.set_patience(self.patience() / 2);
            self.calm = 0;
        }
        self.rest_calm = self.rest_calm.saturating_add(quarters as u32);
        if self.rest_calm >= CALM {
            (self.longer_rest, self.rest_calm) = (self.longer_rest / 2, 0);
        }
        for _ in 0..quarters.min(FORGETS * 16) {
            self.at_stake -= self.at_stake / FORGETS;
        }
    }

    /// Intervals that pages must be idle for.
    pub fn patience(&self) -> u32 {
        self.patience + LEAST_PATIENCE
    }

    fn set_patience(&mut self, intervals: u32) {
        self.patience = intervals.clamp(LEAST_PATIENCE, MOST_PATIENCE) - LEAST_PATIENCE;
    }

    /// Quarters that pages must be idle for now.
    pub fn wanted(&self) -> u32 {
        if self.resting >= self.rest() { QUARTERS as u32 } else { self.patience() * QUARTERS as u32 }
    }

    /// Quarters with hardly any run after which the process rests.
    fn rest(&self) -> u32 {
        REST + self.longer_rest
    }

    /// The least of a quarter, 0 being the newest, for the pages that are left now.
    fn of_quarter(&self, age: u32) -> i64 {
        self.least[self.place_of(age)] - self.given
    }

    fn place_of(&self, age: u32) -> usize {
        (self.newest as usize + KNOWN - age as usize) % KNOWN
    }

    /// Pages that are idle for as long as patience demands.
    pub fn idle(&self) -> u64 {
        self.idle_for(self.wanted())
    }

    /// Pages that are idle for an interval: for when memory is short.
    pub fn idle_without_patience(&self) -> u64 {
        self.idle_for(QUARTERS as u32)
    }

    fn idle_for(&self, quarters: u32) -> u64 {
        if self.known < quarters {
            return 0;
        }
        (0..quarters).map(|age| self.of_quarter(age)).min().unwrap_or(0).max(0) as u64
    }

    /// When more than `keep` pages will be idle if nothing else happens. None: they are now.
    pub fn idle_at_ns(&self, keep: u64) -> Option<u64> {
        if self.idle() > keep {
            return None;
        }
        let usual = self.quarters_until_idle(self.wanted(), keep);
        let rest = if self.hands_out_few() { self.rest().saturating_sub(self.resting) } else { self.rest() + 1 };
        let at_rest = self.quarters_until_idle(QUARTERS as u32, keep).max(rest);
        Some(self.ends_ns + u64::from(usual.min(at_rest).max(1) - 1) * self.quarter_ns)
    }

    /// Quarters, including this one, until more than `keep` pages will have been idle for `wanted` of them.
    fn quarters_until_idle(&self, wanted: u32, keep: u64) -> u32 {
        let is_low = |least: i64| least <= keep as i64;
        let known = self.known.min(wanted);
        let newest_low = (0..known).find(|&age| is_low(self.of_quarter(age)));
        let current_is_low = self.current != i64::MAX && is_low(self.current - self.given);
        match newest_low {
            _ if current_is_low => wanted + 1,
            Some(age) => wanted - age,
            None => wanted - known,
        }
    }

    pub fn gave(&mut self, pages: u64) {
        self.given += pages as i64;
        self.at_stake += pages;
    }

    /// Counts pages that upkeep made free, and that had been idle in a slot: for an interval, and not for longer.
    pub fn came_idle(&mut self, pages: u64) {
        self.given -= pages as i64;
        for age in QUARTERS as u32..KNOWN as u32 {
            self.least[self.place_of(age)] -= pages as i64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const LOOKS: u64 = 20;

    /// A load, in pages in use, on a heap that shrinks only when pages are given back.
    struct Load {
        decay: Decay,
        now_ns: u64,
        pages: u64,
        dirty: u64,
        refilled: u64,
        handed_out: u64,
        least: u64,
    }

    impl Load {
        fn new() -> Self {
            Load { decay: Decay::NEW, now_ns: SECOND, pages: 0, dirty: 0, refilled: 0, handed_out: 0, least: 0 }
        }

        fn seen(&self, least: u64) -> Seen {
            Seen { least, refilled: self.refilled, in_use: self.pages, handed_out: self.handed_out }
        }

        fn use_for(&mut self, pages: u64, seconds: f64) -> u64 {
            self.handing_out(2 * FEW_RUNS, pages, seconds)
        }

        /// Uses `pages` for some seconds, with other runs all the time, and counts the pages given back.
        fn handing_out(&mut self, runs: u64, pages: u64, seconds: f64) -> u64 {
            let total = self.pages + self.dirty;
            self.refilled += pages.saturating_sub(total);
            (self.pages, self.dirty) = (pages, total.max(pages) - pages);
            self.least = self.least.min(self.dirty);
            let mut given = 0;
            for _ in 0..(seconds * LOOKS as f64) as u64 {
                self.now_ns += SECOND / LOOKS;
                self.handed_out += runs;
                self.decay.observe(self.now_ns, SECOND, self.seen(self.least));
                self.least = self.dirty;
                let idle = self.decay.idle().min(self.dirty);
                self.dirty -= idle;
                self.least = self.dirty;
                self.decay.gave(idle);
                given += idle;
            }
            given
        }
    }

    #[test]
    fn pages_idle_for_four_intervals_go_back_once() {
        let mut load = Load::new();
        load.use_for(10_000, 3.0);
        assert_eq!(load.use_for(1000, 3.99), 0, "not yet");
        assert_eq!(load.use_for(1000, 0.3), 9000, "after four intervals and a quarter at most");
        assert_eq!(load.use_for(1000, 10.0), 0);
    }

    #[test]
    fn pages_needed_by_a_peak_within_four_intervals_stay() {
        let mut load = Load::new();
        let given: u64 = (0..50).map(|_| load.use_for(10_000, 0.3) + load.use_for(1000, 3.5)).sum();
        assert_eq!(given, 0);
    }

    /// Pages that go back in the first swings, and in the following ones.
    fn given_in(swings: [usize; 2], swing: impl Fn(&mut Load) -> u64) -> [u64; 2] {
        let mut load = Load::new();
        swings.map(|swings| (0..swings).map(|_| swing(&mut load)).sum())
    }

    #[test]
    fn swings_that_are_longer_are_learnt() {
        for (low, most) in [(1.5, 0), (3.0, 0), (7.0, 1), (12.0, 2), (30.0, 3)] {
            let [first, later] = given_in([10, 20], |load| load.use_for(10_000, 1.0) + load.use_for(1000, low));
            assert!(first <= most * 9000 && later == 0, "{first}, then {later} pages, low for {low} seconds");
        }
        let given = given_in([10, 20], |load| {
            let rise: u64 = (1..=8).map(|part| load.use_for(1000 + 9000 * part / 8, 0.25)).sum();
            rise + load.use_for(10_000, 1.0) + load.use_for(1000, 2.0)
        });
        assert_eq!(given, [0, 0], "peaks that are slow to come");
    }

    #[test]
    fn swings_with_pauses_are_learnt() {
        let swing = |load: &mut Load, pause| load.use_for(10_000, 0.5) + load.handing_out(0, 1000, pause);
        for (pause, most) in [(1.0, 0), (1.5, 1), (2.5, 1), (3.0, 1)] {
            let [first, later] = given_in([10, 20], |load| swing(load, pause));
            assert!(first <= most * 9000 && later == 0, "{first}, then {later} pages, pauses of {pause} seconds");
        }
        // Pauses that become longer teach in time.
        let mut load = Load::new();
        let given: u64 = [0.8, 1.2, 2.0, 3.0, 0.3, 3.0].map(|pause| swing(&mut load, pause)).iter().sum();
        assert_eq!(given, 0);
        // A process that stops for good rests after four intervals then.
        load.use_for(10_000, 0.5);
        assert_eq!(load.handing_out(0, 1000, 4.5), 9000);
    }

    #[test]
    fn ripples_teach_nothing() {
        let mut load = Load::new();
        (0..20).for_each(|_| {
            load.use_for(10_000, 1.0);
            load.use_for(9800, 2.0);
        });
        assert_eq!(load.decay.patience(), LEAST_PATIENCE);
    }

    #[test]
    fn decay_patience_after_a_long_calm_returns_to_the_least() {
        let mut load = Load::new();
        for _ in 0..10 {
            load.use_for(10_000, 1.0);
            load.use_for(1000, 3.0);
        }
        assert!(load.decay.patience() > LEAST_PATIENCE);
        let rest = f64::from(load.decay.patience()) + 0.3;
        assert_eq!(load.use_for(1000, rest), 9000);
        load.use_for(1000, 300.0);
        assert_eq!(load.decay.patience(), LEAST_PATIENCE, "after a long calm");
    }

    #[test]
    fn patience_is_for_loads_and_not_for_who_rests() {
        let mut load = Load::new();
        for _ in 0..10 {
            load.use_for(10_000, 1.0);
            load.use_for(1000, 7.0);
        }
        assert!(load.decay.patience() > 8);
        load.use_for(10_000, 1.0);
        load.use_for(1000, 0.1);
        assert_eq!(load.handing_out(0, 1000, 1.3), 0, "not yet");
        assert_eq!(load.handing_out(0, 1000, 0.6), 9000, "two intervals after the peak");
        // It also tells when, for callers that do not look sooner.
        load.use_for(10_000, 1.0);
        load.use_for(1000, 0.1);
        let at = load.decay.idle_at_ns(0).expect("not yet");
        assert!(at <= load.now_ns + 4 * SECOND, "{at}: it came back from a rest of two intervals");
        load.now_ns = at;
        load.decay.observe(at, SECOND, load.seen(load.dirty));
        assert_eq!(load.decay.idle(), load.dirty);
    }

    #[test]
    fn decay_tells_when_pages_will_be_idle() {
        let mut load = Load::new();
        load.use_for(10_000, 3.0);
        load.use_for(1000, 0.1);
        let at = load.decay.idle_at_ns(0).expect("not yet");
        let soon = u64::from(REST) * SECOND / QUARTERS as u64;
        assert!((load.now_ns..load.now_ns + soon + SECOND / 2).contains(&at), "{at}: when it rests");
        // No look until then.
        load.now_ns = at;
        load.decay.observe(at, SECOND, load.seen(9000));
        assert_eq!((load.decay.idle(), load.decay.idle_at_ns(8999)), (9000, None));
        assert!(load.decay.idle_at_ns(9000).is_some());
    }

    #[test]
    fn pages_that_upkeep_made_free_are_idle_for_an_interval() {
        let mut load = Load::new();
        load.use_for(10_000, 3.0);
        load.decay.came_idle(500);
        load.dirty += 500;
        load.least += 500;
        assert_eq!((load.decay.idle_without_patience(), load.decay.idle()), (500, 0));
        assert_eq!(load.use_for(10_000, 2.5), 0, "not yet: the process works");
        assert_eq!(load.use_for(10_000, 0.8), 500);
    }

    #[test]
    fn another_interval_or_an_earlier_clock_begins_anew() {
        let mut load = Load::new();
        load.use_for(10_000, 3.0);
        load.use_for(1000, 0.9);
        load.decay.observe(load.now_ns, 8 * SECOND, load.seen(9000));
        assert_eq!(load.decay.idle(), 0);
        load.decay.observe(SECOND, 8 * SECOND, load.seen(9000));
        assert!(load.decay.idle_at_ns(0).expect("not yet") <= 33 * SECOND);
    }
}
