//! What a CPU's page list goes through: bursts of allocations, which take from the zone what the list has not, and
//! frees, which leave it there.
//!
//! Pages are numbers here. Everything is drawn from a seed, and in the same order under each arm, so that arms of a
//! seed have the same load.

/// Pages that change between list and zone in one hold at most, as the kernel's usual batch.
pub const BATCH: u32 = 63;
/// Batches that a burst needs at most, besides what is kept.
const MOST_BATCHES: u64 = 2;
/// Pages that a list keeps.
const KEPT: u32 = BATCH;

#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// From one burst of a CPU to the next, in the mean; and from one hold of another user of the zone to the next.
    pub gap_ns: u64,
    /// The lock is held so long for a batch.
    pub hold_ns: u64,
    /// How long another user of the zone holds the lock, in the mean: unmapping, compacting, reading statistics. At
    /// most twice as long.
    pub others_hold_ns: u64,
    /// From a timer to what it starts, in the mean.
    pub latency_ns: u64,
    /// Of the intervals in which a CPU does nothing, in hundredths.
    pub paused: u32,
}

/// Numbers that look as if they were drawn.
#[derive(Clone, Copy, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Its own for each seed, and for each purpose.
    pub fn of(seed: u64, purpose: u64) -> Self {
        let mut chance = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose.wrapping_mul(0xd134_2543_de82_ef95));
        chance.draw();
        chance
    }

    /// SplitMix64 (G. Steele, D. Lea, C. Flood, 2014).
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(end)) >> 64) as u64
    }

    /// About as an exponential distribution has it: half as likely with each step of two thirds of the mean.
    pub fn around(&mut self, mean: u64) -> u64 {
        let step = mean * 2 / 3;
        u64::from(self.draw().trailing_zeros()) * step + self.below(step.max(1))
    }
}

/// A CPU's page list, and when its load comes again.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    chance: Chance,
    load: Load,
    interval_ns: u64,
    seed: u64,
    pub on_list: u32,
    pub next_burst_ns: u64,
}

impl Pages {
    pub fn of(load: Load, interval_ns: u64, seed: u64) -> Self {
        let mut pages = Self { chance: Chance::of(seed, 1), load, interval_ns, seed, on_list: KEPT, next_burst_ns: 0 };
        pages.go_on(0);
        pages
    }

    pub fn burst(&mut self) -> u32 {
        let needs = KEPT + 1 + self.chance.below(MOST_BATCHES * u64::from(BATCH)) as u32;
        needs.saturating_sub(self.on_list)
    }

    pub fn go_on(&mut self, now_ns: u64) {
        let mut next = now_ns;
        loop {
            next += 1 + self.chance.around(self.load.gap_ns);
            if self.is_active(next) {
                return self.next_burst_ns = next;
            }
        }
    }

    /// Whether the load of this CPU does anything in the interval of that time.
    pub fn is_active(&self, at_ns: u64) -> bool {
        let percent = Chance::of(self.seed, 3 + at_ns / self.interval_ns).below(100);
        self.load.paused == 0 || percent >= u64::from(self.load.paused)
    }

    pub fn surplus(&self) -> u32 {
        self.on_list.saturating_sub(KEPT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Load = Load { gap_ns: 1_000_000, hold_ns: 1, others_hold_ns: 0, latency_ns: 1, paused: 0 };

    #[test]
    fn burst_leaves_on_the_list_what_it_took() {
        let mut pages = Pages::of(LOAD, 1_000_000_000, 1);
        for _ in 0..1000 {
            pages.on_list += pages.burst();
            assert!((0..=MOST_BATCHES as u32 * BATCH).contains(&pages.surplus()));
            let at = pages.next_burst_ns;
            pages.go_on(at);
            assert!(pages.next_burst_ns > at);
        }
    }

    #[test]
    fn load_pauses_for_the_given_share_of_intervals() {
        let interval = 1_000_000_000;
        let pages = Pages::of(Load { paused: 60, ..LOAD }, interval, 1);
        let active = (0..10_000).filter(|&at| pages.is_active(at * interval + 5)).count();
        assert!((3800..4200).contains(&active), "{active}");
        assert!(Pages::of(LOAD, interval, 1).is_active(0));
    }
}
