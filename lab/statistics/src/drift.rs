//! Did the figures change while the run went on?
//!
//! Blocks take care of a machine that becomes slower for all. They cannot repair arms that drift apart, say since one leaves
//! something behind that accumulates: then there is no one ratio to be measured. Told by the rank correlation of the figures with
//! the order of the blocks (C. Spearman, "The proof and measurement of association between two things", American Journal of
//! Psychology 15, 1904), and Student's distribution as the approximation of its chance.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{LEVEL, ranks};

/// With fewer, Student's distribution is far off, and chance often makes an order.
const LEAST_BLOCKS: usize = 8;

/// How figures go with the order of the blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// From −1, always falling, to 1, always rising.
    pub correlation: f64,
    /// How likely chance alone shows at least such a correlation.
    pub p: f64,
}

impl Drift {
    /// Whether it is worth a warning, if so many are looked for.
    pub fn is_shown(&self, among: usize) -> bool {
        self.p * among as f64 <= LEVEL
    }
}

/// Looks for a drift in figures that are in the order of the blocks.
pub fn of(values: &[f64]) -> Drift {
    let none = Drift { correlation: 0.0, p: 1.0 };
    if values.len() < LEAST_BLOCKS {
        return none;
    }
    let (count, ranks) = (values.len() as f64, ranks(values));
    let mean = (count + 1.0) / 2.0;
    let products = ranks.iter().zip(1..).map(|(rank, at)| (rank - mean) * (f64::from(at) - mean)).sum::<f64>();
    let squares = ranks.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>();
    let squares_of_order = count * (count * count - 1.0) / 12.0;
    if squares == 0.0 {
        return none;
    }
    let correlation = (products / (squares * squares_of_order).sqrt()).clamp(-1.0, 1.0);
    let freedom = count - 2.0;
    let t = correlation * (freedom / (1.0 - correlation * correlation)).sqrt();
    let student = StudentsT::new(0.0, 1.0, freedom).expect("there is at least one degree of freedom");
    // Two of all orders are perfect.
    let least = 2.0 / (1..=values.len()).map(|factor| factor as f64).product::<f64>();
    let p = if t.is_finite() { (2.0 * student.cdf(-t.abs())).max(least) } else { least };
    Drift { correlation, p }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_shown_for_a_trend_and_not_for_a_swing() {
        let rising: Vec<f64> = (0..20).map(f64::from).collect();
        assert!(of(&rising).correlation == 1.0 && of(&rising).p < 1e-15);
        assert!(of(&rising[..8]).p > 1e-5 && of(&rising[..4]).p == 1.0);
        let swinging: Vec<f64> = (0..20).map(|at| f64::from(at % 2)).collect();
        assert!(!of(&swinging).is_shown(1));
        assert_eq!(of(&[5.0; 20]).p, 1.0);
        assert_eq!(of(&[1.0, 2.0]).p, 1.0);
    }
}
