//! Is there a difference at all? An exact test by flipping signs.
//!
//! If two arms are the same program, the lot that ordered them within a block also decided the sign of the block's log-ratio:
//! all 2ⁿ ways to sign the same sizes were as likely as the one that was drawn. p is the share of them that is at least as far
//! from balance. How far is told by the sum of signed ranks (F. Wilcoxon, "Individual comparisons by ranking methods",
//! Biometrics Bulletin 1, 1945), which one wild block cannot outvote; and since it is a sum of small integers, all 2ⁿ ways can be
//! counted, n² at a time, instead of drawing some of them. Of very many blocks the sum is as good as normally
//! distributed, and that is used. Blocks without any difference say nothing and are left out.
//!
//! (Flipping signs under the median itself would waste blocks: whatever lies below the median in size can be flipped without
//! moving it, so that ten blocks could not show more than p = 0.03.)

use fastrand::Rng;
use statrs::distribution::{ContinuousCDF, Normal};

use super::{median, ranks};

/// Counting takes the third power of it.
const COUNTED: usize = 200;

/// A test's outcome.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Test {
    /// Twice the sum of the signed ranks: an integer also where ranks are shared.
    pub sum: i64,
    /// The share of all signs that are at least as far from balance, on either side.
    pub p: f64,
}

/// Tests whether values lie as often and as far above 0 as below.
pub fn test(values: &[f64]) -> Test {
    let values: Vec<f64> = values.iter().copied().filter(|value| *value != 0.0).collect();
    let doubled = doubled_ranks(&values);
    let sum =
        values.iter().zip(&doubled).map(|(value, &rank)| if *value < 0.0 { -(rank as i64) } else { rank as i64 }).sum();
    Test { sum, p: Signs::of(&doubled).at_least(sum) }
}

/// The least p that this many blocks can give.
pub fn least_p(blocks: usize) -> f64 {
    0.5f64.powi(blocks as i32 - 1).min(1.0)
}

fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let sizes: Vec<f64> = values.iter().map(|value| value.abs()).collect();
    ranks(&sizes).iter().map(|rank| (2.0 * rank) as usize).collect()
}

/// How likely each sum is when signs are drawn by lot.
pub enum Signs {
    /// By the sum of the ranks whose sign is positive.
    Counted(Vec<f64>),
    /// The sum's standard deviation.
    Normal(f64),
}

impl Signs {
    /// Of these ranks, each twice as large as it is.
    fn of(doubled: &[usize]) -> Self {
        if doubled.len() > COUNTED {
            return Self::Normal(doubled.iter().map(|&rank| (rank as f64).powi(2)).sum::<f64>().sqrt());
        }
        let mut likely = vec![0.0; doubled.iter().sum::<usize>() + 1];
        likely[0] = 1.0;
        let mut largest = 0;
        for &rank in doubled {
            largest += rank;
            // From above, so that no rank is added twice.
            for sum in (0..=largest).rev() {
                let with = if sum >= rank { likely[sum - rank] } else { 0.0 };
                likely[sum] = (likely[sum] + with) / 2.0;
            }
        }
        Self::Counted(likely)
    }

    /// Of so many ranks, all different.
    pub fn of_distinct(count: usize) -> Self {
        Self::of(&(1..=count).map(|rank| 2 * rank).collect::<Vec<_>>())
    }

    /// How likely a sum of signed ranks is to be this far from 0, or farther, on either side.
    pub fn at_least(&self, sum: i64) -> f64 {
        match self {
            Self::Counted(likely) => {
                let total = likely.len() as i64 - 1;
                let far = |(positive, _): &(usize, &f64)| (2 * *positive as i64 - total).abs() >= sum.abs();
                likely.iter().enumerate().filter(far).map(|(_, likely)| likely).sum::<f64>().min(1.0)
            }
            Self::Normal(deviation) => 2.0 * Normal::standard().cdf(-sum.abs() as f64 / deviation),
        }
    }

    /// The least sum that is as unlikely as `level`; none if no sum is.
    pub fn critical(&self, level: f64) -> Option<i64> {
        let likely = match self {
            Self::Counted(likely) => likely,
            Self::Normal(deviation) => {
                return Some((deviation * Normal::standard().inverse_cdf(1.0 - level / 2.0)).ceil() as i64);
            }
        };
        let total = likely.len() as i64 - 1;
        let mut beyond = 0.0;
        let mut least = None;
        for positive in (total / 2 + 1..=total).rev() {
            beyond += likely[positive as usize];
            if 2.0 * beyond > level {
                break;
            }
            least = Some(2 * positive - total);
        }
        least
    }
}

/// Corrects the values of several tests, which are several chances to be wrong; in the order given.
///
/// Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6
/// (1979). The least p is multiplied by the number of tests, the next one by one less, and so on, and none is less than
/// one before it: the chance that any difference is reported where there is none stays below the level.
pub fn holm(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
    let mut corrected = vec![0.0; values.len()];
    let mut least = 0.0f64;
    for (place, at) in order.into_iter().enumerate() {
        least = least.max(values[at] * (values.len() - place) as f64).min(1.0);
        corrected[at] = least;
    }
    corrected
}

/// Runs that are drawn for a smallest detectable effect.
const RUNS: usize = 300;
/// Halvings of the range in which the effect is looked for.
const STEPS: usize = 9;

/// The smallest log-ratio that a test finds with probability `power`, if it finds whatever has a sum of signed ranks of
/// `critical`: what a run was too short, or the machine too noisy, to see.
///
/// It is found by trying: the log-ratios, shifted so that their median is 0, are the noise of this machine; runs of the
/// same length are drawn from it, an effect is added, and the test is asked. So no shape of the noise has to be
/// assumed.
pub fn detectable(ratios: &[f64], critical: i64, power: f64, rng: &mut Rng) -> f64 {
    let noise = noise(ratios);
    let widest = noise.iter().fold(0.0f64, |widest, value| widest.max(value.abs()));
    // The same runs for every effect, so that a larger one is never found less often.
    let runs: Vec<Vec<f64>> =
        (0..RUNS).map(|_| (0..noise.len()).map(|_| noise[rng.usize(..noise.len())]).collect()).collect();
    let mut shifted = vec![0.0; noise.len()];
    let mut found = |effect: f64| {
        let found = runs.iter().filter(|run| {
            shifted.iter_mut().zip(*run).for_each(|(shifted, value)| *shifted = value + effect);
            sum(&mut shifted) >= critical
        });
        found.count() as f64 >= power * RUNS as f64
    };
    // An effect above all noise leaves no sign but its own.
    let (mut missed, mut seen) = (0.0, widest);
    for _ in 0..STEPS {
        let middle = (missed + seen) / 2.0;
        if found(middle) { seen = middle } else { missed = middle }
    }
    seen
}

/// The ratios without their median, and as wide as they are around the true one, from which a few are always nearer to their
/// own median.
fn noise(ratios: &[f64]) -> Vec<f64> {
    let middle = median(&mut ratios.to_vec());
    let count = ratios.len() as f64;
    let widening = (count / (count - 1.0)).sqrt();
    ratios.iter().map(|ratio| (ratio - middle) * widening).collect()
}

/// Twice the sum of the signed ranks, where equal sizes rank in any order. Reorders the values.
fn sum(values: &mut [f64]) -> i64 {
    values.sort_unstable_by(|one, other| one.abs().total_cmp(&other.abs()));
    let signed =
        |(rank, value): (usize, &f64)| if *value < 0.0 { -2 * (rank as i64 + 1) } else { 2 * (rank as i64 + 1) };
    values.iter().enumerate().map(signed).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_without_any_difference_say_nothing() {
        assert_eq!([test(&[]), test(&[0.0, 0.0])], [Test { sum: 0, p: 1.0 }; 2]);
        assert_eq!(test(&[0.0, 5.0]).p, test(&[5.0]).p);
    }

    #[test]
    fn least_p_is_that_of_blocks_that_all_agree() {
        for blocks in 1..12 {
            let all_agree: Vec<f64> = (1..=blocks).map(|at| at as f64).collect();
            assert_eq!(test(&all_agree).p, least_p(blocks));
        }
        assert_eq!(least_p(0), 1.0);
    }

    #[test]
    fn critical_sum_is_the_first_that_is_unlikely_enough() {
        let signs = Signs::of_distinct(10);
        let critical = signs.critical(0.05).unwrap();
        // Sums of an even number of odd terms: the next one below is two away, and doubled ranks double that.
        assert!(signs.at_least(critical) <= 0.05 && signs.at_least(critical - 4) > 0.05, "{critical}");
        assert_eq!(Signs::of_distinct(4).critical(0.05), None, "2/16 is the least");
    }

    /// At the edge both ways say nearly the same, and beyond it there is an answer in time.
    #[test]
    fn counting_and_the_normal_distribution_meet() {
        let counted = Signs::of_distinct(COUNTED);
        let normal = Signs::Normal((1..=COUNTED).map(|rank| (2.0 * rank as f64).powi(2)).sum::<f64>().sqrt());
        for level in [0.05, 0.01, 0.001] {
            let (one, other) = (counted.critical(level).unwrap(), normal.critical(level).unwrap());
            assert!((one - other).abs() as f64 <= 0.01 * one as f64, "{one} {other}");
            assert!((normal.at_least(one) / level - 1.0).abs() < 0.1);
        }
        let many: Vec<f64> = (1..=100_000).map(f64::from).collect();
        assert!(test(&many).p < 1e-100);
    }

    #[test]
    fn wild_block_does_not_outvote_the_rest() {
        let mut values: Vec<f64> = (1..=20).map(|at| 0.01 + 0.0001 * f64::from(at)).collect();
        values[7] = -50.0;
        assert!(test(&values).p < 0.01);
    }

    /// Holm's own steps: 4 · 0.005, 3 · 0.01, then 2 · 0.03, and 0.04, which may not be less than 0.06.
    #[test]
    fn holm_steps_down_and_never_back_nor_above_one() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(corrected.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-15), "{corrected:?}");
        assert_eq!((holm(&[0.3]), holm(&[0.9, 0.8])), (vec![0.3], vec![1.0, 1.0]));
    }
}
