//! Finds hold times under which the aligned arm waits as somebody else's lock did: what the lab's loads were fitted by, so that anybody can do it again.
//!
//! Each column of figures has a time of its own for a batch, and all have one time for the zone's other users. One of the times after the other is made longer or
//! shorter by a factor, as long as that makes the error less, and then by a smaller one.

use lab::forecast::validate::median;

use super::simulated;

const EXPECTED: &str =
    "fit CPUS INTERVALS GAP_US LATENCY_NS, and for each column CONTENDED TOTAL_US MAX_US, 0 for what is not fitted";

/// Seeds whose medians are fitted.
const SEEDS: u64 = 10;
/// Where it begins, in nanoseconds.
const HOLD_NS: f64 = 4000.0;
const OTHERS_HOLD_NS: f64 = 700_000.0;
/// The first factor, and the last.
const FACTOR: f64 = 2.0;
const LAST_FACTOR: f64 = 1.05;

/// Contentions, total and longest wait, as a run prints them first.
type Waits = [f64; 3];

/// Each column's time and that of the other users, in nanoseconds; then what the aligned arm waits in each column with them on a simulated machine:
/// contentions, total and longest wait in milliseconds.
pub fn fitted(words: &[&str]) -> Result<Vec<f64>, String> {
    let [cpus, intervals, gap, latency, ref columns @ ..] = *words else {
        return Err(format!("the arguments are fit and {words:?}; expected {EXPECTED}"));
    };
    let columns: Option<Vec<Waits>> = columns.chunks(3).map(column).collect();
    let columns = columns.filter(|columns| !columns.is_empty());
    let columns = columns.ok_or_else(|| format!("what is to be fitted is {:?}; expected {EXPECTED}", &words[4..]))?;
    let machine = super::cpus_of(cpus)?;
    let found = |hold: f64, others: f64| -> Result<Waits, String> {
        let times = [hold, others].map(|time| time.to_string());
        let run = |seed: u64| {
            let seed = seed.to_string();
            let of_size = ["run", cpus, cpus, "1000000", intervals, gap, &times[0], &times[1], latency];
            let of_arm = ["0", "0", "zero", "all", &seed, "aligned"];
            simulated::measured(machine, "stagger", &[&of_size[..], &of_arm].concat())
        };
        let runs = (1..=SEEDS).map(run).collect::<Result<Vec<Vec<f64>>, String>>()?;
        Ok([0, 1, 2].map(|figure| median(&mut runs.iter().map(|run| run[figure]).collect::<Vec<_>>())))
    };
    let mut times = vec![HOLD_NS; columns.len()];
    times.push(OTHERS_HOLD_NS);
    let all = |times: &[f64]| -> Result<Vec<Waits>, String> {
        let (others, holds) = times.split_last().expect("there are a column's and the others'");
        holds.iter().map(|hold| found(*hold, *others)).collect()
    };
    let times = descend(times, |times| Ok(all(times)?.iter().zip(&columns).map(|(waits, of)| error(waits, of)).sum()))?;
    let waits = all(&times)?.into_iter().flatten();
    Ok(times.iter().copied().chain(waits).collect())
}

/// Contentions, and milliseconds out of microseconds.
fn column(words: &[&str]) -> Option<Waits> {
    let numbers: Option<Vec<f64>> =
        words.iter().map(|word| word.parse().ok().filter(|number| *number >= 0.0)).collect();
    let [contended, total_us, longest_us] = numbers?[..] else { return None };
    Some([contended, total_us / 1e3, longest_us / 1e3])
}

/// The squares of the logarithms by which figures are off.
fn error(found: &Waits, target: &Waits) -> f64 {
    let fitted = found.iter().zip(target).filter(|(_, target)| **target > 0.0);
    fitted.map(|(found, target)| (found.max(1e-6) / target).ln().powi(2)).sum()
}

/// Where the error is less than by a factor to each side.
fn descend(mut best: Vec<f64>, mut error: impl FnMut(&[f64]) -> Result<f64, String>) -> Result<Vec<f64>, String> {
    let (mut least, mut factor) = (error(&best)?, FACTOR);
    while factor > LAST_FACTOR {
        let before = least;
        for at in 0..best.len() {
            for by in [factor, 1.0 / factor] {
                let mut tried = best.clone();
                tried[at] = (tried[at] * by).round();
                let found = error(&tried)?;
                if found < least {
                    (best, least) = (tried, found);
                }
            }
        }
        if least == before {
            factor = factor.sqrt();
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descent_finds_the_times_that_were_sought() {
        let target = [30_000.0, 900.0, 2_000_000.0f64];
        let far = |times: &[f64]| Ok(times.iter().zip(target).map(|(time, of)| (time / of).ln().powi(2)).sum());
        let found = descend(vec![HOLD_NS, HOLD_NS, OTHERS_HOLD_NS], far).unwrap();
        assert!(found.iter().zip(target).all(|(time, of)| (time / of).ln().abs() < LAST_FACTOR.ln()), "{found:?}");
    }

    #[test]
    fn fit_error_ignores_columns_that_are_not_fitted() {
        assert_eq!(column(&["872", "199430", "0"]), Some([872.0, 199.43, 0.0]));
        assert!(column(&["872", "199430"]).is_none() && column(&["872", "-1", "0"]).is_none());
        assert_eq!(error(&[872.0, 199.43, 7.0], &[872.0, 199.43, 0.0]), 0.0);
        assert!(error(&[0.0; 3], &[1.0; 3]).is_finite() && error(&[2.0, 1.0, 1.0], &[1.0; 3]) > 0.4);
    }
}
