//! What a run was too short, or the machine too noisy, to see.
//!
//! The smallest detectable effect is found by trying: the log-ratios, shifted so that their median is 0, are the noise of this
//! machine; runs of the same length are drawn from it, an effect is added, and the test that decides the verdict is asked. The
//! effect that it finds in the wanted share of runs is the answer. So no shape of the noise has to be assumed.

use fastrand::Rng;

use super::median;

const RUNS: usize = 300;
/// Halvings of the range in which the effect is looked for.
const STEPS: usize = 9;

/// The log-ratio that a test finds with probability `power`, if it finds whatever has a sum of signed ranks of `critical`.
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
