//! How much of a workload's full work is done: a percentage.
//!
//! A workload multiplies the counts that its time depends on, and leaves alone what makes its memory look as it does:
//! sizes, the lengths of lists, the number of threads that run at a time.

/// How much of the full work is done, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale(u32);

impl Scale {
    /// All of the work, as the tables of results have it.
    pub const FULL: Scale = Scale(100);

    /// What may be asked for, in percent.
    pub const RANGE: std::ops::RangeInclusive<u32> = 1..=1000;

    /// The scale of `percent`, if that is in [`Scale::RANGE`].
    pub fn from_percent(percent: u32) -> Option<Scale> {
        Self::RANGE.contains(&percent).then_some(Scale(percent))
    }

    /// This share of `full`, rounded to the nearest, halves up; at least 1, so that something is always done.
    ///
    /// `full` is a count of work, far below the 2^54 where the product would overflow.
    pub fn of(self, full: u64) -> u64 {
        ((full * u64::from(self.0) + 50) / 100).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(percent: u32) -> Scale {
        Scale::from_percent(percent).expect("the percentage is in range")
    }

    #[test]
    fn full_scale_is_all_of_it() {
        assert_eq!(Scale::FULL, percent(100));
        assert_eq!(Scale::FULL.of(12_345), 12_345);
    }

    #[test]
    fn shares_are_rounded_to_the_nearest() {
        assert_eq!(percent(10).of(104), 10);
        assert_eq!(percent(10).of(105), 11);
        assert_eq!(percent(1).of(250), 3);
        assert_eq!(percent(1000).of(7), 70);
    }

    #[test]
    fn something_is_always_done() {
        assert_eq!(percent(1).of(3), 1);
        assert_eq!(percent(1).of(0), 1);
    }

    #[test]
    fn the_range_has_its_ends() {
        for outside in [0, 1001, u32::MAX] {
            assert_eq!(Scale::from_percent(outside), None);
        }
        for inside in [1, 1000] {
            assert!(Scale::from_percent(inside).is_some());
        }
    }
}
