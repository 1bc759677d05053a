//! Several candidates are several chances to be wrong.
//!
//! Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979). The
//! least p is multiplied by the number of tests, the next one by one less, and so on, and none is less than one before it: the
//! chance that any difference is reported where there is none stays below the level.

/// Corrected values, in the order given.
pub fn correct(values: &[f64]) -> Vec<f64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Holm's own steps: 4 · 0.005, 3 · 0.01, then 2 · 0.03, and 0.04, which may not be less than 0.06.
    #[test]
    fn steps_down_and_never_back() {
        let corrected = correct(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(corrected.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-15), "{corrected:?}");
    }

    #[test]
    fn one_alone_stays_and_none_is_above_one() {
        assert_eq!(correct(&[0.3]), [0.3]);
        assert_eq!(correct(&[0.9, 0.8]), [1.0, 1.0]);
        assert_eq!(correct(&[]), [0.0; 0]);
    }
}
