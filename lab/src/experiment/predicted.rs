//! Predictions for simulated machines, in lab/predictions.toml: each has a band, a reason, and what the document says. They were
//! written before the simulation. What was simulated is printed beside them.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::{Claim, Experiment, Setting};
use crate::machine::Machine;
use crate::profile::{LEAST, MOST, Profile};
use crate::sheet::{Sheet, Side};
use crate::table::factor;

const FILE: &str = include_str!("../../predictions.toml");

/// What one of an experiment's claims will come to.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// The claim, as its table has it.
    pub claim: String,
    /// From, and to.
    pub band: [f64; 2],
    /// What it is more or less than: one, for ratios.
    #[serde(default = "one")]
    pub than: f64,
    /// What the document says, as a band; none where it has no figure and no direction.
    pub document: Option<[f64; 2]>,
    /// Whether a run with fewer blocks had been seen when it was written: then it is no prediction, and is told as such.
    #[serde(default = "yes")]
    pub seen: bool,
    /// Why.
    pub because: String,
}

fn one() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

/// By their experiments, and by the profiles of the simulated machines.
type Predictions = BTreeMap<String, BTreeMap<String, Vec<Prediction>>>;

/// A prediction, and what was simulated.
pub struct Predicted {
    prediction: Prediction,
    /// The document's words.
    document: String,
    profile: String,
    cpus: usize,
    /// With the costs as they are thought to be; then from the least to the most of all that was found in the corners of their bands.
    found: Option<(f64, [f64; 2])>,
}

impl Prediction {
    /// All of them.
    fn all() -> Result<Predictions> {
        let all: Predictions = toml::from_str(FILE).context("lab/predictions.toml")?;
        for Prediction { claim, band, document, .. } in all.values().flat_map(BTreeMap::values).flatten() {
            let is_band = |[low, high]: &[f64; 2]| low <= high;
            ensure!(is_band(band) && document.as_ref().is_none_or(is_band), "a band of {claim:?} is turned round");
        }
        Ok(all)
    }

    /// For which machines there are some, in the order of their profiles.
    pub fn profiles(experiment: &str) -> Result<Vec<&'static str>> {
        let of = Self::all()?.remove(experiment).unwrap_or_default();
        Ok(Profile::names().filter(|name| of.contains_key(*name)).collect())
    }

    /// In which direction.
    fn direction(&self) -> String {
        let word = match self.band {
            [_, high] if high < self.than => "less than",
            [low, _] if low > self.than => "more than",
            _ => "about",
        };
        format!("{word} {}", self.than)
    }
}

/// Holds an experiment's claims against what was predicted for the machine, with costs in the corners of their bands, too. None on another machine.
pub fn held(experiment: &Experiment, setting: &Setting, claims: &[Claim]) -> Result<Vec<Predicted>> {
    let Some(profile) = &setting.machine.profile else { return Ok(Vec::new()) };
    let cpus = setting.machine.cpus;
    let of = Prediction::all()?.remove(experiment.name).and_then(|mut of| of.remove(profile));
    let Some(all) = of else { return Ok(Vec::new()) };
    if Machine::like(profile)?.cpus != cpus {
        return Ok(Vec::new());
    }
    let corner = |corner| {
        let machine = Machine::simulated(cpus, Some(format!("{profile}+{corner}")));
        Ok((experiment.measure)(&Setting { machine, ..setting.clone() })?.claims)
    };
    let corners = [LEAST, MOST].map(corner).into_iter().collect::<Result<Vec<_>>>()?;
    let one = |prediction: Prediction| {
        let find = |claims: &[Claim]| claims.iter().find(|claim| claim.claim == prediction.claim)?.figure;
        let claim = claims.iter().find(|claim| claim.claim == prediction.claim);
        let claim = claim.with_context(|| format!("predicted of no claim: {:?}", prediction.claim))?;
        let all = corners.iter().filter_map(|claims| find(claims)).chain(claim.figure);
        let widen = |[low, high]: [f64; 2], figure: f64| [low.min(figure), high.max(figure)];
        let band = all.fold([f64::INFINITY, f64::NEG_INFINITY], widen);
        let found = claim.figure.map(|figure| (figure, band));
        let document = claim.says().to_owned();
        Ok(Predicted { prediction, document, profile: profile.clone(), cpus, found })
    };
    all.into_iter().map(one).collect()
}

/// A line for each.
pub fn sheet(all: &[Predicted]) -> Sheet {
    let headings = [
        ("predicted", Side::Left),
        ("document", Side::Right),
        ("from", Side::Right),
        ("to", Side::Right),
        ("direction", Side::Left),
        ("simulated at N", Side::Right),
        ("least and most costs", Side::Right),
        ("as predicted?", Side::Left),
        ("as the document says?", Side::Left),
    ];
    let mut sheet = Sheet::new(headings);
    for Predicted { prediction, document, profile, cpus, found } in all {
        let within = |band: [f64; 2], (figure, [low, high]): (f64, [f64; 2])| match (
            band[0] <= figure && figure <= band[1],
            band[0] <= high && low <= band[1],
        ) {
            (true, _) => "yes",
            (false, true) => "NO, but within its band",
            (false, false) => "NO",
        };
        let seen = if prediction.seen { " (seen before)" } else { "" };
        let [low, high] = prediction.band.map(short);
        sheet.add([
            prediction.claim.clone(),
            document.clone(),
            low,
            high,
            prediction.direction(),
            found.map_or("–".to_owned(), |(figure, _)| {
                format!("{}, simulated, of {cpus} CPUs ({profile})", short(figure))
            }),
            found.map_or("–".to_owned(), |(_, band)| band.map(short).join(" to ")),
            found.map_or("cannot be told".to_owned(), |found| format!("{}{seen}", within(prediction.band, found))),
            found.zip(prediction.document).map_or("–", |(found, document)| within(document, found)).to_owned(),
        ]);
    }
    sheet
}

fn short(value: f64) -> String {
    if value.is_infinite() { "any".to_owned() } else { factor(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::ALL;

    #[test]
    fn predictions_are_of_experiments_and_machines_that_exist() {
        for (experiment, machines) in Prediction::all().unwrap() {
            assert!(ALL.iter().any(|it| it.name == experiment && it.simulates), "{experiment}");
            for (profile, all) in machines {
                assert!(Profile::names().any(|name| name == profile), "{profile}");
                assert!(all.iter().all(|one| !one.because.is_empty()), "{all:?}");
                let is_new = |(at, one): (usize, &Prediction)| all[..at].iter().all(|other| other.claim != one.claim);
                assert!(all.iter().enumerate().all(is_new), "{all:?}");
            }
        }
        for name in ["counters", "cache", "kicks", "grace", "stagger"] {
            assert!(!Prediction::profiles(name).unwrap().is_empty(), "nothing is predicted of {name}");
        }
    }

    #[test]
    fn prediction_that_disagrees_is_printed_as_no() {
        let row = |found| {
            let prediction = Prediction {
                claim: "kicks".into(),
                band: [0.8, 0.95],
                than: 1.0,
                document: Some([1.1, f64::INFINITY]),
                seen: true,
                because: "so".into(),
            };
            let (document, profile) = ("more".into(), "x86-80".into());
            sheet(&[Predicted { prediction, document, profile, cpus: 80, found }]).rows.remove(0)
        };
        for (found, judged) in [
            (Some((0.9, [0.85, 0.9])), ["yes (seen before)", "NO"]),
            (Some((1.0, [0.9, 1.05])), ["NO, but within its band (seen before)", "NO"]),
            (Some((1.2, [1.2, 1.3])), ["NO (seen before)", "yes"]),
            (None, ["cannot be told", "–"]),
        ] {
            assert_eq!(row(found)[7..], judged);
        }
        assert_eq!(row(None)[4], "less than 1");
    }
}
