//! Finds costs from the points of a curve that may be seen, one cost from one point, in the order that the profile says.
//!
//! What a curve takes grows or falls with a cost, so each is found by halving, in logarithms.

use std::fmt;

use anyhow::Result;

use super::Model;
use crate::profile::{Curve, Profile};

/// How far from the profile's value a cost may be, as a factor.
const FURTHEST: f64 = 64.0;
/// Halvings. The last one changes a cost by less than a part in five hundred, in any range that is used.
const STEPS: usize = 14;
/// A point is met if the model is off by no more than such a part.
const MET: f64 = 0.05;

/// Where, in a range, something takes as long as it should: what grows or falls with a cost, halved in logarithms. Where it never does, the nearer end.
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

/// A cost that does not come to what was measured, whatever it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Unfit {
    cost: String,
    threads: u32,
    reached: f64,
    target: f64,
}

impl fmt::Display for Unfit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unfit { cost, threads, reached, target } = self;
        write!(
            out,
            "`{cost}` cannot be fitted to {threads} threads: {reached:.1} ns was reached, and {target:.1} was measured"
        )
    }
}

/// The profile with the costs that its curve's seen points say. Points that are held out are not looked at.
pub fn fit(profile: &Profile, curve: &Curve, model: &Model) -> Result<Result<Profile, Unfit>> {
    let mut fitted = profile.clone();
    for (what, target) in curve.seen() {
        let start = fitted.cost(&what.cost).value.max(f64::MIN_POSITIVE);
        let taken = |cost: f64| Ok(model(&fitted.with(&what.cost, cost), curve.operation, &[what.threads])?[0]);
        let cost = halved((start / FURTHEST, start * FURTHEST), target, taken)?;
        let reached = taken(cost)?;
        if (reached / target - 1.0).abs() >= MET {
            return Ok(Err(Unfit { cost: what.cost.clone(), threads: what.threads, reached, target }));
        }
        fitted = fitted.with(&what.cost, cost);
    }
    Ok(Ok(fitted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Fitted, Operation};
    use std::cell::RefCell;

    /// Takes a latency for two, and a service for each of more, of which one in a burst is long.
    fn model(profile: &Profile, threads: u32) -> f64 {
        let cost = |name: &str| profile.cost(name).value;
        match threads {
            1 => cost("hit") + cost("locked"),
            2 => cost("cluster.latency"),
            _ => f64::from(threads) * (cost("cluster.service") + 100.0 / cost("turn")),
        }
    }

    fn curve(points: Vec<(u32, f64)>) -> Curve {
        let fitted = [("cluster.latency", 2), ("cluster.service", 8), ("turn", 64)];
        let fitted = fitted.map(|(cost, threads)| Fitted { cost: cost.to_owned(), threads }).to_vec();
        Curve { operation: Operation::AtomicIncrement, source: "made up".to_owned(), points, fitted }
    }

    #[test]
    fn fit_recovers_costs_from_its_own_points_only() {
        let profile = Profile::find("xeon-448").unwrap();
        let truth = profile.with("cluster.latency", 81.0).with("cluster.service", 13.0);
        let points = [2, 8, 64].map(|threads| (threads, model(&truth, threads)));
        let nonsense = [(1, 1e6), (16, 1e-6), (128, 1e6)];
        let asked = RefCell::new(Vec::new());
        let fits = |points: Vec<(u32, f64)>| {
            fit(&profile, &curve(points), &|profile, _, threads| {
                asked.borrow_mut().extend(threads.iter().copied());
                Ok(threads.iter().map(|threads| model(profile, *threads)).collect())
            })
        };
        let fitted = fits(points.iter().chain(&nonsense).copied().collect()).unwrap().unwrap();
        for name in ["cluster.latency", "cluster.service", "turn"] {
            let (found, is) = (fitted.cost(name).value, truth.cost(name).value);
            assert!((found / is - 1.0).abs() < 0.03, "{name}: {found}, and it is {is}");
        }
        assert!(asked.borrow().iter().all(|threads| [2, 8, 64].contains(threads)), "held out points were simulated");
        // Whatever the held out points say.
        assert_eq!(fits(points.to_vec()).unwrap().unwrap(), fitted);
    }

    #[test]
    fn fit_names_the_cost_that_cannot_be_fitted() {
        let profile = Profile::find("xeon-448").unwrap();
        let points = vec![(2, 1e9), (8, 100.0), (64, 1000.0)];
        let model = |profile: &Profile, _, threads: &[u32]| Ok(vec![model(profile, threads[0])]);
        let told = fit(&profile, &curve(points), &model).unwrap().unwrap_err().to_string();
        assert!(told.contains("`cluster.latency` cannot be fitted to 2 threads"), "{told}");
    }
}
