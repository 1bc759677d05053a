//! The grid: the time of each slot's turn, as a pure calculation.
//!
//! ```text
//!   interval      │◀──────────────── I ────────────────▶│
//!   slots 0 1 2   │  window 0  │  window 1  │  window 2 │  window 0  │ …
//!                 └ slot_time(0)└ slot_time(1)└ slot_time(2)
//! ```
//!
//! With n slots, the one of rank r is due r/n of an interval after each interval's beginning, and its *window* lasts
//! until the next one is due. So all have the same period, windows never overlap, and one slot at a time takes a lock.
//!
//! Source: the review of "mm/vmstat: spread vmstat_update requeue across the stat interval" (2026), which asked for the
//! same period with different offsets. The posted formula, I + I·c/n between runs, gives CPU c a period of
//! its own ([`posted_period`]).

/// Nanoseconds from the beginning of an interval until the slot of a rank is due. `rank < slots`.
pub const fn slot_time(interval_ns: u64, rank: u32, slots: u32) -> u64 {
    debug_assert!(rank < slots);
    (interval_ns as u128 * rank as u128 / slots as u128) as u64
}

/// When it is due next, after `now_ns`: in at most an interval.
pub const fn next(now_ns: u64, interval_ns: u64, rank: u32, slots: u32) -> u64 {
    let offset = slot_time(interval_ns, rank, slots);
    // The remainder of `now − offset`, which may be negative.
    let since = (now_ns % interval_ns + interval_ns - offset) % interval_ns;
    now_ns + interval_ns - since
}

/// The length of its window.
pub const fn window(interval_ns: u64, rank: u32, slots: u32) -> u64 {
    let end = if rank + 1 == slots { interval_ns } else { slot_time(interval_ns, rank + 1, slots) };
    end - slot_time(interval_ns, rank, slots)
}

/// The period of a CPU under the posted formula, for comparison.
pub const fn posted_period(interval_ns: u64, cpu: u32, online: u32) -> u64 {
    interval_ns + slot_time(interval_ns, cpu % online, online)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn due_times_are_one_interval_apart() {
        for slots in [1, 2, 3, 36, 72, 1000] {
            for rank in [0, slots / 2, slots - 1] {
                let mut now = 12_345_678_901;
                let first = next(now, SECOND, rank, slots);
                assert!(first > now && first - now <= SECOND);
                for turn in 1..10 {
                    now = next(now, SECOND, rank, slots);
                    let due = next(now, SECOND, rank, slots);
                    assert_eq!(due, first + turn * SECOND, "rank {rank} of {slots}");
                    // A look at any moment in between gives the same.
                    assert_eq!(next(due - 1, SECOND, rank, slots), due);
                    assert_eq!(next(now + SECOND / 3, SECOND, rank, slots), due);
                }
            }
        }
    }

    #[test]
    fn windows_fill_the_interval_and_share_nothing() {
        for (interval, slots) in [(SECOND, 72), (1_000_003, 7), (1000, 1000), (SECOND, 1)] {
            let mut end = 0;
            for rank in 0..slots {
                assert_eq!(slot_time(interval, rank, slots), end, "rank {rank} of {slots}");
                end += window(interval, rank, slots);
            }
            assert_eq!(end, interval);
        }
    }

    #[test]
    fn posted_formula_has_the_periods_that_reviewers_found() {
        let period = |cpu| posted_period(SECOND, cpu, 72) as f64 / SECOND as f64;
        assert_eq!(format(period(71)), "1.986");
        let rate: f64 = (0..72).map(|cpu| 1.0 / period(cpu)).sum::<f64>() / 72.0;
        assert_eq!(format(rate), "0.697");
        // Odd ids off: 36 CPUs, and ids up to 70 share turns.
        assert_eq!(posted_period(SECOND, 70, 36), posted_period(SECOND, 34, 36));
    }

    fn format(number: f64) -> std::string::String {
        std::format!("{number:.3}")
    }
}
