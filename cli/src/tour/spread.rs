//! The middle of some samples, and how far they spread.

use std::fmt;

/// The median of samples, and the quartiles, between which the middle half of them lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The first quartile.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The third quartile.
    pub high: f64,
}

impl Spread {
    /// Sums up at least one sample.
    pub fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let rank = part * (samples.len() - 1) as f64;
            let (below, above) = (samples[rank.floor() as usize], samples[rank.ceil() as usize]);
            below + (above - below) * rank.fract()
        };
        Self { low: at(0.25), median: at(0.5), high: at(0.75) }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:.2} ({:.2} to {:.2})", self.median, self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_ranks() {
        let spread = Spread::of(vec![4.0, 1.0, 3.0, 2.0, 5.0]);
        assert_eq!(spread, Spread { low: 2.0, median: 3.0, high: 4.0 });
        assert_eq!(Spread::of(vec![1.0, 2.0]).median, 1.5);
        assert_eq!(Spread::of(vec![7.0]).to_string(), "7.00 (7.00 to 7.00)");
    }
}
