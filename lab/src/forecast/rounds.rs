//! What probes say of this machine: each of them once in a round, and many rounds.
//!
//! A guest's CPUs are slow for a second, or for a minute, and then fast again, by a factor of up to two. Whoever runs one probe fifteen times and then another one compares
//! such times, and not what the probes do. In rounds each of them meets all of these times.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::profile::Profile;

/// Whoever can be asked: this machine, and a simulated one.
pub trait Probed {
    /// All figures that a probe prints here.
    fn here(&self, line: &str) -> Result<Vec<f64>>;
    /// One of those that it prints on a simulated machine.
    fn simulated(&self, profile: &Profile, line: &str, place: usize) -> Result<f64>;
    /// So much of what is being done is done.
    fn done(&self, part: f64, what: &str);
}

/// Probes in which CPUs want the same lines. Their shortest run is one in which these did not meet.
const CONTENDED: [&str; 2] = ["counters upgraded 2 atomic", "sections 2"];

/// What several runs of a probe said, the shortest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    runs: Vec<f64>,
    is_contended: bool,
}

impl Said {
    /// What it takes: the shortest run, as what else a machine does only adds to that, or the median of those in which CPUs want the same lines.
    pub fn usual(&self) -> f64 {
        if self.is_contended { self.median() } else { self.least() }
    }

    pub fn least(&self) -> f64 {
        self.runs[0]
    }

    pub fn median(&self) -> f64 {
        statistics::median(&mut self.runs.clone())
    }

    pub fn most(&self) -> f64 {
        self.runs[self.runs.len() - 1]
    }

    /// All of them, the shortest first.
    pub fn runs(&self) -> &[f64] {
        &self.runs
    }
}

/// What all of them said.
pub struct Rounds<'a>(BTreeMap<&'a str, Vec<Vec<f64>>>);

impl<'a> Rounds<'a> {
    /// Asks each of these so often. A probe that is named twice is asked once a round.
    pub fn of(lines: impl IntoIterator<Item = &'a str>, rounds: usize, probed: &impl Probed) -> Result<Self> {
        let mut all: BTreeMap<&str, Vec<Vec<f64>>> = lines.into_iter().map(|line| (line, Vec::new())).collect();
        for round in 0..rounds {
            for (line, runs) in &mut all {
                runs.push(probed.here(line)?);
            }
            probed.done((round + 1) as f64 / rounds as f64, "this machine");
        }
        Ok(Rounds(all))
    }

    /// What one of a probe's figures was.
    pub fn told(&self, line: &str, place: usize) -> Result<Said> {
        let runs = self.0.get(line).with_context(|| format!("{line} was not asked"))?;
        let figure = |run: &Vec<f64>| run.get(place).copied();
        let figures = runs.iter().map(figure).collect::<Option<Vec<f64>>>();
        let mut runs = figures.with_context(|| format!("{line} printed too few figures"))?;
        runs.sort_by(f64::total_cmp);
        Ok(Said { runs, is_contended: CONTENDED.contains(&line) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A machine that takes longer each time, and that notes what it was asked.
    struct Asked(RefCell<Vec<String>>);

    impl Probed for Asked {
        fn here(&self, line: &str) -> Result<Vec<f64>> {
            self.0.borrow_mut().push(line.to_owned());
            Ok(vec![self.0.borrow().len() as f64, 7.0])
        }

        fn simulated(&self, _: &Profile, _: &str, _: usize) -> Result<f64> {
            panic!("nobody asks for it")
        }

        fn done(&self, part: f64, _: &str) {
            assert!((0.0..=1.0).contains(&part));
        }
    }

    #[test]
    fn probe_is_asked_once_in_a_round() {
        let asked = Asked(RefCell::default());
        let rounds = Rounds::of(["a", "b", "a", "sections 2"], 3, &asked).unwrap();
        assert_eq!(asked.0.borrow().join(" "), ["a b sections 2"; 3].join(" "));
        assert_eq!(rounds.told("b", 0).unwrap().runs(), [2.0, 5.0, 8.0]);
        assert_eq!(rounds.told("b", 1).unwrap().runs(), [7.0; 3]);
        let refused = |line, place| rounds.told(line, place).unwrap_err().to_string();
        assert_eq!(refused("c", 0), "c was not asked");
        assert_eq!(refused("b", 2), "b printed too few figures");
        assert_eq!((rounds.told("b", 0).unwrap().usual(), rounds.told("sections 2", 0).unwrap().usual()), (2.0, 6.0));
    }
}
