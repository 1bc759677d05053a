//! How much of a thread's time may go into writing the page.

const MILLISECOND: u64 = 1_000_000;

/// One part in so many of a thread's time, at most.
const SHARE: u64 = 400;
/// What is saved up for when there is much to say.
const SAVED_NS: i64 = 200_000;
/// The most that is owed, which takes two seconds to make up for. No writing takes so long by itself: a process with
/// more was stopped meanwhile, maybe for hours, and would write nothing for days.
const OWED_NS: i64 = 5 * MILLISECOND as i64;

/// What may be spent on writing.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Allowance {
    since_ns: u64,
    /// Below zero after one that took longer.
    ns: i64,
}

impl Allowance {
    /// Whether there is any.
    pub(super) fn is_left(&mut self, now_ns: u64) -> bool {
        let more = now_ns.saturating_sub(self.since_ns) / SHARE;
        if more > 0 {
            // What is less than a nanosecond's worth is left for the next look.
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

    /// Who was stopped while he wrote says something again soon after he goes on.
    ///
    /// Planted bug that was seen here: no bound of what is owed.
    #[test]
    fn what_was_stopped_for_hours_is_not_silent_for_days() {
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

    /// What a writing took has passed four hundred times before there is another, however often somebody looks.
    ///
    /// Planted bug that was seen here: what is less than one part in 400 of the time since the last look, forgotten.
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
            assert!(
                (exactly..=exactly + step + SHARE).contains(&passed),
                "after {passed}, not {exactly}, by steps of {step}"
            );
        }
    }
}
