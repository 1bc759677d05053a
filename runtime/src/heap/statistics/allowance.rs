//! How much of a thread's time may go into writing the page.

const MILLISECOND: u64 = 1_000_000;

/// Most of a thread's time: one part in this many.
const SHARE: u64 = 400;
/// Most time saved up for a long write.
const SAVED_NS: i64 = 200_000;
/// Most time owed: two seconds to make up for it. Otherwise a process that was stopped for hours writes nothing for
/// days.
const OWED_NS: i64 = 5 * MILLISECOND as i64;

/// The time that may be spent on writing.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Allowance {
    since_ns: u64,
    /// Below zero after a longer write.
    ns: i64,
}

impl Allowance {
    pub(super) fn is_left(&mut self, now_ns: u64) -> bool {
        let more = now_ns.saturating_sub(self.since_ns) / SHARE;
        if more > 0 {
            // The remainder below a nanosecond's worth stays for the next look.
            self.since_ns += more * SHARE;
            self.ns = self.ns.saturating_add(i64::try_from(more).unwrap_or(SAVED_NS)).min(SAVED_NS);
        }
        self.ns > 0
    }

    pub(super) fn spend(&mut self, ns: u64) {
        self.ns = self.ns.saturating_sub(i64::try_from(ns).unwrap_or(i64::MAX)).max(-OWED_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that was stopped during a write writes again soon after it continues.
    /// Planted bug that was seen here: no bound of the time owed.
    #[test]
    fn allowance_after_a_long_stop_owes_a_bounded_pause() {
        const HOUR: u64 = 3_600_000 * MILLISECOND;
        let mut allowance = Allowance::default();
        for stopped in [10 * MILLISECOND, 1000 * MILLISECOND, HOUR] {
            let began = allowance.since_ns + HOUR;
            assert!(allowance.is_left(began), "before {stopped}");
            allowance.spend(stopped);
            let pause = OWED_NS as u64 * SHARE;
            assert!(allowance.is_left(began + stopped + pause + SHARE), "{allowance:?} after {stopped}");
        }
    }

    /// The next write comes after four hundred times the cost of the last, however often threads look.
    /// Planted bug that was seen here: forgetting less than one part in 400 of the time since the last look.
    #[test]
    fn looks_at_the_allowance_lose_none_of_it() {
        const COST: u64 = 250_000;
        for step in [1, SHARE - 1, 1000, 77_777] {
            let mut allowance = Allowance::default();
            let began = 1000 * MILLISECOND;
            assert!(allowance.is_left(began));
            allowance.spend(COST);
            let passed =
                (1..).map(|turn| turn * step).find(|&passed| allowance.is_left(began + passed)).expect("one day");
            let exactly = (COST - SAVED_NS as u64) * SHARE;
            assert!((exactly..=exactly + step + SHARE).contains(&passed), "{passed}, not {exactly}, by {step}");
        }
    }
}
