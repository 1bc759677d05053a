//! Finds costs from the points of a curve that may be seen, one cost from one point, in the order that the profile
//! says.
//!
//! What a curve takes grows or falls with a cost, so each is found by halving, in logarithms.

use anyhow::Result;

use super::Model;
use crate::profile::{Curve, Fitted, Profile};

/// How far from the profile's value a cost may be, as a factor.
const FURTHEST: f64 = 64.0;
/// Halvings. The last one changes a cost by less than a part in five hundred, in any range that is used.
const STEPS: usize = 14;
/// A point is met if the model is off by no more than such a part.
const MET: f64 = 0.05;

/// Where, in a range, something takes as long as it should: what grows or falls with a cost, halved in logarithms.
/// Where it never does, the nearer end.
pub fn halved((low, high): (f64, f64), target: f64, mut taken: impl FnMut(f64) -> Result<f64>) -> Result<f64> {
    let (mut low, mut high) = (low, high);
    let grows = taken(low)? < taken(high)?;
    for _ in 0..STEPS {
        let middle = (low * high).sqrt();
        let is_too_much = taken(middle)? > target;
        if is_too_much == grows { high = middle } else { low = middle }
    }
    Ok((low * high).sqrt())
}

/// The profile with the costs that its curve's seen points say; or which of them cannot be fitted. Points that are held
/// out are not looked at.
pub fn fit(profile: &Profile, curve: &Curve, model: &Model) -> Result<Result<Profile, String>> {
    let mut fitted = profile.clone();
    for (Fitted { cost: name, threads }, target) in curve.seen() {
        let start = fitted.cost(name).value.max(f64::MIN_POSITIVE);
        let taken = |cost: f64| Ok(model(&fitted.with(name, cost), &[*threads])?[0]);
        let cost = halved((start / FURTHEST, start * FURTHEST), target, taken)?;
        let reached = taken(cost)?;
        if (reached / target - 1.0).abs() >= MET {
            return Ok(Err(format!(
                "`{name}` cannot be fitted to {threads} threads: {reached:.1} ns was reached, and {target:.1} was measured"
            )));
        }
        fitted = fitted.with(name, cost);
    }
    Ok(Ok(fitted))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a latency for two, and a service for each of more, of which one in a burst is long.
    fn model(profile: &Profile, threads: &[u32]) -> Result<Vec<f64>> {
        let cost = |name: &str| profile.cost(name).value;
        let of = |threads: u32| match threads {
            2 => cost("cluster.latency"),
            8 | 64 => f64::from(threads) * (cost("cluster.service") + 100.0 / cost("turn")),
            _ => panic!("a held out point was simulated"),
        };
        Ok(threads.iter().map(|threads| of(*threads)).collect())
    }

    fn curve(points: Vec<(u32, f64)>) -> Curve {
        let fitted = [("cluster.latency", 2), ("cluster.service", 8), ("turn", 64)];
        let fitted = fitted.map(|(cost, threads)| Fitted { cost: cost.to_owned(), threads }).to_vec();
        Curve { source: "made up".to_owned(), points, fitted }
    }

    #[test]
    fn fit_recovers_costs_from_its_own_points_only() {
        let profile = Profile::find("xeon-448").unwrap();
        let truth = profile.with("cluster.latency", 81.0).with("cluster.service", 13.0);
        let points = [2, 8, 64].into_iter().zip(model(&truth, &[2, 8, 64]).unwrap());
        let nonsense = [(1, 1e6), (16, 1e-6), (128, 1e6)];
        let fitted = fit(&profile, &curve(points.chain(nonsense).collect()), &model).unwrap().unwrap();
        for name in ["cluster.latency", "cluster.service", "turn"] {
            let (found, is) = (fitted.cost(name).value, truth.cost(name).value);
            assert!((found / is - 1.0).abs() < 0.03, "{name}: {found}, and it is {is}");
        }
        let told = fit(&profile, &curve(vec![(2, 1e9), (8, 100.0), (64, 1000.0)]), &model).unwrap().unwrap_err();
        assert!(told.contains("`cluster.latency` cannot be fitted to 2 threads"), "{told}");
    }
}
