//! The interval of a median, by the bootstrap: bias-corrected and accelerated.
//!
//! Source: B. Efron, "Better bootstrap confidence intervals", Journal of the American Statistical Association 82 (1987). The
//! median of values drawn with replacement is distributed around the median much as the median is around the truth; the
//! correction shifts the percentiles that are read off, by how lopsided that distribution is.

use fastrand::Rng;
use statrs::distribution::{ContinuousCDF, Normal};

use super::median;

/// Medians of `count` samples of the values, drawn with replacement, in ascending order.
pub fn resample(values: &[f64], count: usize, rng: &mut Rng) -> Vec<f64> {
    let mut sample = values.to_vec();
    let mut draw = || {
        sample.fill_with(|| values[rng.usize(..values.len())]);
        median(&mut sample)
    };
    let mut medians: Vec<f64> = (0..count).map(|_| draw()).collect();
    medians.sort_by(f64::total_cmp);
    medians
}

/// In which the median lies with a confidence of 1 − `level`, from the sorted medians of resamples.
pub fn bias_corrected(values: &[f64], resampled: &[f64], level: f64) -> [f64; 2] {
    let normal = Normal::standard();
    let middle = median(&mut values.to_vec());
    // Resamples that hit the median itself count half for either side.
    let below = resampled.partition_point(|resample| resample < &middle);
    let not_above = resampled.partition_point(|resample| resample <= &middle);
    let bias = normal.inverse_cdf((below + not_above) as f64 / (2 * resampled.len()) as f64);
    let acceleration = acceleration(values);
    let end = |part: f64| {
        let shifted = bias + normal.inverse_cdf(part);
        let part = normal.cdf(bias + shifted / (1.0 - acceleration * shifted));
        // All resamples on one side: the correction has no value, and neither has the spread.
        if part.is_nan() { middle } else { percentile(resampled, part) }
    };
    [end(level / 2.0), end(1.0 - level / 2.0)]
}

/// A sixth of the skewness of the medians that leave out one value each.
fn acceleration(values: &[f64]) -> f64 {
    let without = |at: usize| {
        let mut others: Vec<f64> =
            values.iter().enumerate().filter(|&(other, _)| other != at).map(|(_, &v)| v).collect();
        median(&mut others)
    };
    if values.len() < 2 {
        return 0.0;
    }
    let medians: Vec<f64> = (0..values.len()).map(without).collect();
    let mean = medians.iter().sum::<f64>() / medians.len() as f64;
    let sum = |power: i32| medians.iter().map(|median| (mean - median).powi(power)).sum::<f64>();
    let squares = sum(2);
    if squares == 0.0 { 0.0 } else { sum(3) / (6.0 * squares.powf(1.5)) }
}

/// The value below which a part of sorted values lies, between two of them in proportion.
fn percentile(sorted: &[f64], part: f64) -> f64 {
    let rank = part * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
    below + (above - below) * rank.fract()
}
