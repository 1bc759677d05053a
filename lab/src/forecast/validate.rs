//! How far the model is off: from curves that were published, at the points that no fit has seen, and from this
//! machine.

use anyhow::Result;
use serde::Serialize;
use statistics::median;

use super::rounds::{Probed, Rounds};
use super::{Model, band, fit};
use crate::json::Figure;
use crate::parameters::Parameters;
use crate::profile::{Curve, LEAST, MOST, Profile};
use crate::sheet::Sheet;
use crate::sheet::Side::{Left, Right};

/// On this machine, an error of more than such a part is one too many.
const LIMIT: f64 = 0.35;
/// Likewise the median of the errors at the points of a curve that were held out.
const MEDIAN: f64 = 0.2;
const HELD: bool = true;

/// What is held against this machine: words, a probe to which no cost is fitted, which of its figures it is, and whether
/// it must not be off by more than [`LIMIT`].
const HERE: [(&str, &str, usize, bool); 9] = [
    ("lazy counter's addition, one thread", "counters upgraded 1 lazy", 0, HELD),
    ("lazy counter's addition, two threads", "counters upgraded 2 lazy", 0, HELD),
    ("malloc and free, alone", "cache pair solo 64 general", 0, HELD),
    ("malloc and free, one of two threads", "cache pair 1 64 general", 0, HELD),
    ("malloc and free, two threads", "cache pair 2 64 general", 0, HELD),
    ("RCU section, one thread", "sections 1", 0, !HELD),
    ("RCU section, another thread waits for readers", "sections 2", 0, !HELD),
    ("synchronize, one thread", "sections 1", 1, !HELD),
    ("synchronize, another thread reads", "sections 2", 1, !HELD),
];

/// What several runs here said, and what the simulated machine with two CPUs says.
#[derive(Clone, Debug, Serialize)]
pub struct Here {
    what: &'static str,
    probe: &'static str,
    place: usize,
    is_held: bool,
    /// Nanoseconds of each run, the shortest first.
    runs: Vec<f64>,
    /// See [`super::rounds::Said::usual`].
    usual: f64,
    simulated: f64,
    /// With the least and the most of all costs, as far as the profile knows them.
    band: [f64; 2],
}

impl Here {
    /// By what part the model is off.
    fn error(&self) -> f64 {
        self.simulated / self.usual - 1.0
    }

    /// Whether it is off by too much, and must not be.
    pub fn is_missed(&self) -> bool {
        self.is_held && self.error().abs() > LIMIT
    }
}

/// What has to be asked before.
pub fn asked() -> impl Iterator<Item = &'static str> {
    HERE.into_iter().map(|(_, probe, ..)| probe)
}

/// Holds a profile of this machine against what all that is to be [`asked`] said here.
pub fn here(profile: &Profile, rounds: &Rounds, probed: &impl Probed) -> Result<Vec<Here>> {
    let corners = [profile.clone(), profile.at(LEAST), profile.at(MOST)];
    let one = |(number, (what, probe, place, is_held))| {
        let simulated = corners.iter().map(|corner| probed.simulated(corner, probe, place));
        let simulated = simulated.collect::<Result<Vec<f64>>>()?;
        let told = rounds.told(probe, place)?;
        probed.done((number + 1) as f64 / HERE.len() as f64, "a simulated machine");
        let (runs, usual) = (told.runs.clone(), told.usual());
        Ok(Here { what, probe, place, is_held, runs, usual, simulated: simulated[0], band: band(&simulated) })
    };
    HERE.into_iter().enumerate().map(one).collect()
}

/// A line for each.
pub fn of_here(all: &[Here]) -> Sheet {
    let figures = ["here", "least to most", "simulated", "with low and high costs", "error"];
    let headings = [("two CPUs", Left)].into_iter().chain(figures.map(|heading| (heading, Right)));
    let mut sheet = Sheet::new(headings.chain([("verdict", Left)]));
    for here in all {
        let ns = |value: f64| format!("{value:.2} ns");
        let verdict = match here.error().abs() <= LIMIT {
            true => "within 35 %",
            false if here.is_held => "MISSED",
            false => "more than 35 % off, no limit here",
        };
        let [runs, costs] = [band(&here.runs), here.band].map(|band| band.map(ns).join(" to "));
        let (measured, simulated) = (ns(here.usual), ns(here.simulated));
        sheet.add([here.what, &measured, &runs, &simulated, &costs, &percent(here.error()), verdict]);
    }
    sheet
}

/// In the form of all results. An interval is from the least run to the most, or the band of the costs.
pub fn figures(all: &[Here]) -> Vec<Figure> {
    let of = |here: &Here| {
        let parameters = Parameters::default().with("operation", here.what);
        let runs = (here.usual, band(&here.runs), here.runs.clone());
        let simulated = (here.simulated, here.band, vec![here.simulated]);
        [("here", "measured", runs), ("simulated", "simulated", simulated)]
            .map(|(name, origin, figures)| Figure::new(name, origin, &parameters, figures))
    };
    all.iter().flat_map(of).collect()
}

/// A point that was held out: nanoseconds.
#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
pub struct Point {
    threads: u32,
    published: f64,
    simulated: f64,
}

/// A curve, and what the model makes of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Held {
    profile: String,
    source: String,
    /// Which costs were fitted to which threads, and what they are now.
    fitted: Vec<(String, u32, f64)>,
    /// Why no costs were found that do, if there were none: then no point was looked at.
    unfit: Option<String>,
    /// All points that were held out.
    points: Vec<Point>,
    /// The median of the errors' sizes.
    median: f64,
    /// The largest error, with its sign.
    worst: f64,
}

/// Holds a profile against the curves that it has; what is fitted to the first stays for those after it.
pub fn curves(name: &str, profile: &Profile, model: &Model) -> Result<Vec<Held>> {
    let mut fitted = profile.clone();
    let mut held = |curve: &Curve| {
        let mut held = Held { profile: name.to_owned(), source: curve.source.clone(), ..Held::default() };
        match fit::fit(&fitted, curve, model)? {
            Ok(profile) => fitted = profile,
            Err(unfit) => return Ok(Held { unfit: Some(unfit), ..held }),
        }
        let costs = curve.fitted.iter().map(|of| (of.cost.clone(), of.threads, fitted.cost(&of.cost).value));
        held.fitted = costs.collect();
        let (threads, published): (Vec<u32>, Vec<f64>) = curve.held_out().unzip();
        let simulated = model(&fitted, &threads)?;
        let points = threads.into_iter().zip(published).zip(simulated);
        held.points = points.map(|((threads, published), simulated)| Point { threads, published, simulated }).collect();
        let mut errors: Vec<f64> = held.points.iter().map(|point| point.simulated / point.published - 1.0).collect();
        held.worst = errors.iter().copied().max_by(|one, other| one.abs().total_cmp(&other.abs())).unwrap_or(0.0);
        errors.iter_mut().for_each(|error| *error = error.abs());
        held.median = if errors.is_empty() { 0.0 } else { median(&mut errors) };
        Ok(held)
    };
    profile.curves.iter().map(&mut held).collect()
}

fn percent(error: f64) -> String {
    format!("{:+.0} %", 100.0 * error)
}

impl Held {
    /// Whether points that were held out are missed by too much.
    pub fn is_missed(&self) -> bool {
        self.unfit.is_some() || self.median > MEDIAN
    }
}

/// One line for each curve.
pub fn summary(all: &[Held]) -> Sheet {
    let mut sheet = Sheet::new([
        ("curve", Left),
        ("fitted costs", Left),
        ("held-out points", Right),
        ("median error", Right),
        ("worst error", Right),
    ]);
    for held in all {
        let cost = |(cost, threads, value): &(String, u32, f64)| format!("{cost} {value:.1} (at {threads})");
        let fitted = match &held.unfit {
            Some(why) => format!("IMPOSSIBLE: {why}"),
            None => held.fitted.iter().map(cost).collect::<Vec<_>>().join(", "),
        };
        let [median, worst] = match held.unfit {
            Some(_) => ["–", "–"].map(str::to_owned),
            None => [format!("{:.1} %", 100.0 * held.median), percent(held.worst)],
        };
        let curve = format!("{}, simulated: atomic increment of one word", held.profile);
        sheet.add([curve, fitted, held.points.len().to_string(), median, worst]);
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What repeats a probe that is fitted is none of the tests.
    #[test]
    fn tests_on_this_machine_use_probes_that_no_fit_has_seen() {
        let fitted = |line: &str| super::super::calibrate::FITTED.iter().any(|(_, fitted)| *fitted == line);
        assert!(HERE.iter().all(|(_, probe, ..)| !fitted(probe)));
    }

    #[test]
    fn error_beyond_the_limit_is_a_miss_where_the_model_is_held() {
        for (simulated, is_held, is_missed, verdict) in [
            (2.8, true, true, "MISSED"),
            (0.5, true, true, "MISSED"),
            (2.6, true, false, "within 35 %"),
            (9.5, false, false, "more than 35 % off, no limit here"),
        ] {
            let (runs, band) = (vec![2.0, 3.0, 9.0], [simulated, simulated + 1.0]);
            let here = Here { what: "x", probe: "x", place: 0, is_held, runs, usual: 2.0, simulated, band };
            assert_eq!(here.is_missed(), is_missed, "{simulated}");
            assert_eq!(of_here(&[here]).rows[0][6], verdict);
        }
    }

    /// Nothing depends on costs but those that are fitted.
    fn model(profile: &Profile, threads: &[u32]) -> Result<Vec<f64>> {
        let cost = |name: &str| profile.cost(name).value;
        let one = |&threads: &u32| match threads {
            2 => cost("cluster.latency"),
            _ => f64::from(threads) * (cost("cluster.service") + 200.0 / cost("turn")),
        };
        Ok(threads.iter().map(one).collect())
    }

    #[test]
    fn errors_are_those_of_points_that_were_held_out() {
        let profile = Profile::find("xeon-448").unwrap();
        let all = curves("xeon-448", &profile, &model).unwrap();
        let [held] = &all[..] else { panic!("one curve") };
        assert!(held.points.iter().all(|point| ![2, 28, 256].contains(&point.threads)));
        assert_eq!(held.points.len() + 3, profile.curves[0].points.len());
        let errors: Vec<f64> = held.points.iter().map(|point| point.simulated / point.published - 1.0).collect();
        assert!(errors.contains(&held.worst) && errors.iter().all(|error| error.abs() <= held.worst.abs()));
        assert!(summary(&all).rows[0][0].contains("simulated"));
    }
}
