//! How far estimates may be off.
//!
//! A block of `s` bytes is sampled with `p = 1 − e^(−s/mean)`, independently of all others, and stands for `1/p` blocks.
//! So `n` samples of blocks of one size are binomial: of `N` blocks, each is sampled with `p`. The interval has all `N`
//! for which `n` lies within 1.96 standard deviations of its mean, `(n − N·p)² ≤ 1.96² · N·p·(1 − p)`. It is good for
//! few samples, too, and has no width if all blocks are sampled.

use crate::profile::Amount;

/// A normal value lies with 95 % within so many standard deviations.
const Z: f64 = 1.96;

/// An estimate's interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// How many samples there were.
    pub samples: f64,
    /// The least bytes and the most: the true value is within with 95 %.
    pub bytes: [f64; 2],
}

/// The interval of a site, whose blocks are taken to have the size of their mean. None without blocks or gap.
pub fn interval(amount: Amount, mean_gap_bytes: u64) -> Option<Interval> {
    if amount.blocks == 0 || mean_gap_bytes == 0 {
        return None;
    }
    let blocks = amount.blocks as f64;
    let size = amount.bytes as f64 / blocks;
    let p = chance(size, mean_gap_bytes)?;
    let samples = (blocks * p).max(1.0);
    let (z2, missed) = (Z * Z, 1.0 - p);
    let middle = 2.0 * samples + z2 * missed;
    let width = Z * (z2 * missed * missed + 4.0 * samples * missed).sqrt();
    let [least, most] = [middle - width, middle + width].map(|twice| twice / (2.0 * p) * size);
    // What was seen is there. Rounded figures of few blocks may lie outside.
    let estimate = amount.bytes as f64;
    Some(Interval { samples, bytes: [least.max(samples * size).min(estimate), most.max(estimate)] })
}

/// The interval of a sum: the variances of its sites, `n · s² (1 − p)/p²` each, add up.
pub fn interval_of_sum(amounts: &[Amount], mean_gap_bytes: u64) -> Option<Interval> {
    let (mut samples, mut variance, mut sum, mut seen) = (0.0, 0.0, 0.0, 0.0);
    for amount in amounts.iter().filter(|amount| amount.bytes > 0) {
        let size = amount.bytes as f64 / amount.blocks as f64;
        let n = interval(*amount, mean_gap_bytes)?.samples;
        let p = chance(size, mean_gap_bytes)?;
        samples += n;
        variance += n * size * size * (1.0 - p) / (p * p);
        sum += amount.bytes as f64;
        seen += n * size;
    }
    let width = Z * variance.sqrt();
    (samples > 0.0).then(|| Interval { samples, bytes: [(sum - width).max(seen), sum + width] })
}

/// Whether two estimates of a site differ by more than independent samples of equal memory would. None if unknown.
pub fn differ(amounts: [Amount; 2], mean_gaps_bytes: [u64; 2]) -> Option<bool> {
    let [less, more] = if amounts[0].bytes <= amounts[1].bytes { [0, 1] } else { [1, 0] };
    let upper = if amounts[less].bytes > 0 {
        interval(amounts[less], mean_gaps_bytes[less])?.bytes[1]
    } else {
        // No sample at all: the interval of blocks of the size that the other profile saw.
        let size = amounts[more].bytes as f64 / amounts[more].blocks.max(1) as f64;
        let p = chance(size, mean_gaps_bytes[less])?;
        Z * Z * (1.0 - p) / p * size
    };
    let lower = interval(amounts[more], mean_gaps_bytes[more])?.bytes[0];
    let [low, high] = [less, more].map(|of| amounts[of].bytes as f64);
    // Donner and Zou: the distances of the bounds add up as variances do.
    Some(high - low > (upper - low).hypot(high - lower))
}

/// The chance that a block of this size is sampled.
fn chance(size: f64, mean_gap_bytes: u64) -> Option<f64> {
    let p = -(-size / mean_gap_bytes as f64).exp_m1();
    (p > 0.0).then_some(p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_all_sampled_have_an_exact_interval() {
        let of = interval(Amount { bytes: 64 << 20, blocks: 1 }, 512).unwrap();
        assert_eq!((of.samples, of.bytes), (1.0, [(64 << 20) as f64; 2]));
    }

    #[test]
    fn one_sample_may_be_six_times_as_much_or_next_to_nothing() {
        let of = interval(Amount { bytes: 524_800, blocks: 512 }, 512 << 10).unwrap();
        let [least, most] = of.bytes.map(|bytes| bytes / 524_800.0);
        assert!((of.samples - 1.0).abs() < 0.01 && least < 0.2 && (5.0..6.0).contains(&most), "{of:?}");
    }

    #[test]
    fn interval_holds_the_truth_in_95_of_100_runs() {
        let mut random = fastrand::Rng::with_seed(7);
        let (gap, size, blocks) = (4096_u64, 100.0, 2000);
        let p = chance(size, gap).unwrap();
        let holds = |_: &u32| {
            let samples = (0..blocks).filter(|_| random.f64() < p).count() as f64;
            let estimate = Amount { bytes: (samples * size / p) as u64, blocks: (samples / p).round() as u64 };
            let [least, most] = interval(estimate, gap).map_or([0.0; 2], |of| of.bytes);
            (least..=most).contains(&(f64::from(blocks) * size))
        };
        let held = (0..2000).filter(holds).count();
        assert!((1860..=1950).contains(&held), "{held} of 2000");
    }

    #[test]
    fn one_sample_more_may_be_chance_and_thirty_are_not() {
        let of = |samples: u64| Amount { bytes: samples * (512 << 10), blocks: samples * 512 };
        assert_eq!(
            [1, 3, 30].map(|samples| differ([of(0), of(samples)], [512 << 10; 2]).unwrap()),
            [false, false, true]
        );
        assert_eq!([11, 60].map(|samples| differ([of(samples), of(10)], [512 << 10; 2]).unwrap()), [false, true]);
    }

    #[test]
    fn sums_are_relatively_nearer_than_their_parts() {
        let part = Amount { bytes: 10 << 20, blocks: 10 << 10 };
        let relative = |of: Interval, sum: u64| (of.bytes[1] - of.bytes[0]) / sum as f64;
        let one = relative(interval(part, 512 << 10).unwrap(), part.bytes);
        let sum = relative(interval_of_sum(&[part; 16], 512 << 10).unwrap(), 16 * part.bytes);
        assert!((3.5..4.5).contains(&(one / sum)), "{one} {sum}");
    }
}
