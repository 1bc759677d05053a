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
//! same period with different offsets. The posted formula, I + I·c/n between runs, gives CPU c a period of its own.

/// Nanoseconds from the beginning of an interval until the slot of a rank is due; for `rank == slots`, its length.
pub const fn slot_time(interval_ns: u64, rank: u32, slots: u32) -> u64 {
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
    slot_time(interval_ns, rank + 1, slots) - slot_time(interval_ns, rank, slots)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

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
}
