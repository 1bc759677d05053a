//! How far the model is off: from curves that were published, at the points that no fit has seen, and from this machine.

use anyhow::Result;
use serde::Serialize;
pub use statistics::median;

use super::rounds::{Probed, Rounds};
use super::{Model, fit};
use crate::json::Figure;
use crate::parameters::Parameters;
use crate::profile::{Corner, Curve, Operation, Profile};
use crate::sheet::{Sheet, Side};

/// An error of more than such a part is a miss.
pub const MISS: f64 = 0.2;

/// On this machine, an error of more than such a part is one too many.
pub const LIMIT: f64 = 0.35;

/// What a row says of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Nothing: a cost was fitted to this probe, or to one that does the same.
    Fitted,
    /// It must not be off by more than [`LIMIT`].
    Held,
    /// How far it is off where nobody has asked for anything.
    Told,
}

use Role::{Fitted, Held as Tested, Told};

/// What is held against this machine: words, a probe, and which of its figures it is; and the probe to which a cost was fitted, if this one does the same again.
const HERE: [(&str, &str, usize, Role, Option<&str>); 16] = [
    ("atomic addition, one thread", "counters upgraded 1 atomic", 0, Fitted, Some("counters upgraded 1 atomic")),
    ("atomic addition, two threads", "counters upgraded 2 atomic", 0, Fitted, Some("counters upgraded 2 atomic")),
    ("per-CPU addition, one thread", "counters upgraded 1 per-cpu", 0, Fitted, Some("counters upgraded 1 per-cpu")),
    ("per-CPU addition, two threads", "counters upgraded 2 per-cpu", 0, Fitted, Some("counters upgraded 1 per-cpu")),
    ("lazy counter's addition, one thread", "counters upgraded 1 lazy", 0, Tested, None),
    ("lazy counter's addition, two threads", "counters upgraded 2 lazy", 0, Tested, None),
    ("malloc and free, alone", "cache pair solo 64 general", 0, Tested, None),
    ("malloc and free, one of two threads", "cache pair 1 64 general", 0, Tested, None),
    ("malloc and free, two threads", "cache pair 2 64 general", 0, Tested, None),
    ("a cache's, alone", "cache pair solo 64 dedicated", 0, Fitted, Some("cache pair 1 64 dedicated")),
    ("a cache's, one of two threads", "cache pair 1 64 dedicated", 0, Fitted, Some("cache pair 1 64 dedicated")),
    ("a cache's, two threads", "cache pair 2 64 dedicated", 0, Fitted, Some("cache pair 1 64 dedicated")),
    ("RCU section, one thread", "sections 1", 0, Told, None),
    ("RCU section, another thread waits for readers", "sections 2", 0, Told, None),
    ("synchronize, one thread", "sections 1", 1, Told, None),
    ("synchronize, another thread reads", "sections 2", 1, Told, None),
];

/// What several runs here said, and what the simulated machine with two CPUs says.
#[derive(Clone, Debug, Serialize)]
pub struct Here {
    /// What was done.
    pub what: &'static str,
    /// By which probe.
    pub probe: &'static str,
    /// Which of its figures.
    pub place: usize,
    /// What it says of the model.
    pub role: Role,
    /// What it took in each run, in nanoseconds, the shortest first.
    pub runs: Vec<f64>,
    /// What it takes: see [`super::rounds::Said::usual`].
    pub usual: f64,
    /// What the simulated machine says.
    pub simulated: f64,
    /// With the least and the most of all costs, as far as the profile knows them.
    pub band: [f64; 2],
}

impl Here {
    fn least(&self) -> f64 {
        self.runs.first().copied().unwrap_or(0.0)
    }

    fn most(&self) -> f64 {
        self.runs.last().copied().unwrap_or(0.0)
    }

    /// By what part the model is off.
    pub fn error(&self) -> f64 {
        self.simulated / self.usual - 1.0
    }

    /// Whether it is off by too much, and must not be.
    pub fn is_missed(&self) -> bool {
        self.role == Tested && self.error().abs() > LIMIT
    }

    /// Whether what was simulated, with all costs that there may be, and what was measured, have something in common.
    fn overlaps(&self) -> bool {
        self.band[0] <= self.most() && self.least() <= self.band[1]
    }
}

/// What has to be asked before.
pub fn asked() -> impl Iterator<Item = &'static str> {
    HERE.into_iter().map(|(_, probe, ..)| probe)
}

/// Holds a profile of this machine against what all that is to be [`asked`] said here.
pub fn here(profile: &Profile, rounds: &Rounds, probed: &impl Probed) -> Result<Vec<Here>> {
    let corners = [profile.clone(), profile.at(Corner::Least), profile.at(Corner::Most)];
    HERE.into_iter()
        .enumerate()
        .map(|(number, (what, probe, place, role, _))| {
            let simulated = corners.iter().map(|corner| probed.simulated(corner, probe, place));
            let simulated = simulated.collect::<Result<Vec<f64>>>()?;
            let band = simulated.iter().fold([f64::INFINITY, 0.0], |[low, high], ns| [ns.min(low), ns.max(high)]);
            let told = rounds.told(probe, place)?;
            probed.done((number + 1) as f64 / HERE.len() as f64, "a simulated machine");
            let (runs, usual) = (told.runs().to_vec(), told.usual());
            Ok(Here { what, probe, place, role, runs, usual, simulated: simulated[0], band })
        })
        .collect()
}

/// How much longer what costs were fitted to takes now than the simulated machine says, in the middle of all of these: another time of this machine, or another machine. None if
/// that is not more than what is allowed.
pub fn changed(all: &[Here]) -> Option<f64> {
    let fitted = all.iter().filter(|here| here.role == Fitted);
    let mut times: Vec<f64> = fitted.map(|here| here.usual / here.simulated).collect();
    let middle = if times.is_empty() { 1.0 } else { median(&mut times) };
    ((1.0 / middle - 1.0).abs() > LIMIT).then_some(middle)
}

/// A line for each.
pub fn of_here(all: &[Here]) -> Sheet {
    let headings = [
        ("two CPUs", Side::Left),
        ("here", Side::Right),
        ("least", Side::Right),
        ("median", Side::Right),
        ("most", Side::Right),
        ("simulated", Side::Right),
        ("with low and high costs", Side::Right),
        ("error", Side::Right),
        ("ranges", Side::Left),
        ("verdict", Side::Left),
    ];
    let mut sheet = Sheet::new(headings);
    for here in all {
        let ns = |value: f64| format!("{value:.2} ns");
        let verdict = match here.role {
            Fitted => "fitted",
            _ if here.error().abs() <= LIMIT => "within 35 %",
            Tested => "MISSED",
            Told => "more than 35 % off, no limit here",
        };
        sheet.add([
            here.what.to_owned(),
            ns(here.usual),
            ns(here.least()),
            ns(median(&mut here.runs.clone())),
            ns(here.most()),
            ns(here.simulated),
            here.band.map(ns).join(" to "),
            percent(here.error()),
            if here.overlaps() { "overlap" } else { "apart" }.to_owned(),
            verdict.to_owned(),
        ]);
    }
    sheet
}

/// A point that was held out.
#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
pub struct Point {
    /// Threads.
    pub threads: u32,
    /// What was published, in nanoseconds.
    pub published: f64,
    /// What the simulated machine says.
    pub simulated: f64,
}

impl Point {
    /// By what part the model is off.
    pub fn error(self) -> f64 {
        self.simulated / self.published - 1.0
    }
}

/// A curve, and what the model makes of it.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// The profile's name.
    pub profile: String,
    /// What was done.
    pub operation: Operation,
    /// Where it was published.
    pub source: String,
    /// Which costs were fitted to which threads, and what they are now.
    pub fitted: Vec<(String, u32, f64)>,
    /// Why no costs were found that do, if there were none: then no point was looked at.
    pub unfit: Option<String>,
    /// All points that were not.
    pub points: Vec<Point>,
    /// The median of the errors' sizes, and the worst.
    pub median: f64,
    /// The largest error, with its sign.
    pub worst: f64,
}

/// Holds a profile against the curves that it has: of each operation by itself, and what is fitted to the first stays for those after it.
pub fn curves(name: &str, profile: &Profile, model: &Model) -> Result<Vec<Held>> {
    let mut fitted = profile.clone();
    let mut all = Vec::new();
    for curve in &profile.curves {
        let one = match fit::fit(&fitted, curve, model)? {
            Ok(profile) => {
                fitted = profile;
                held(name, &fitted, curve, model)?
            }
            Err(unfit) => Held::unfit(name, curve, unfit.to_string()),
        };
        all.push(one);
    }
    Ok(all)
}

fn held(name: &str, profile: &Profile, curve: &Curve, model: &Model) -> Result<Held> {
    let (threads, published): (Vec<u32>, Vec<f64>) = curve.held_out().unzip();
    let simulated = model(profile, curve.operation, &threads)?;
    let points: Vec<Point> = threads
        .into_iter()
        .zip(published)
        .zip(simulated)
        .map(|((threads, published), simulated)| Point { threads, published, simulated })
        .collect();
    let mut errors: Vec<f64> = points.iter().map(|point| point.error().abs()).collect();
    let fitted =
        curve.fitted.iter().map(|fitted| (fitted.cost.clone(), fitted.threads, profile.cost(&fitted.cost).value));
    Ok(Held {
        profile: name.to_owned(),
        operation: curve.operation,
        source: curve.source.clone(),
        fitted: fitted.collect(),
        unfit: None,
        median: if errors.is_empty() { 0.0 } else { median(&mut errors) },
        worst: points
            .iter()
            .map(|point| point.error())
            .fold(0.0, |worst: f64, error| if error.abs() > worst.abs() { error } else { worst }),
        points,
    })
}

/// An error, for people.
pub fn percent(error: f64) -> String {
    format!("{:+.0} %", 100.0 * error)
}

impl Held {
    /// Nothing that the profile may say comes to what was published.
    fn unfit(name: &str, curve: &Curve, why: String) -> Self {
        let (profile, source, operation) = (name.to_owned(), curve.source.clone(), curve.operation);
        let (fitted, points) = (Vec::new(), Vec::new());
        Held { profile, operation, source, fitted, unfit: Some(why), points, median: 0.0, worst: 0.0 }
    }

    /// Whether points that were held out are missed by more than such a part, in the median. What was fitted nowhere may be off by anything.
    pub fn is_missed(&self, by: f64) -> bool {
        self.unfit.is_some() || (!self.fitted.is_empty() && self.median > by)
    }

    /// What was done, for people.
    pub fn words(&self) -> &'static str {
        match self.operation {
            Operation::AtomicIncrement => "atomic increment of one word",
            Operation::PerCpuIncrement => "increment of a word of its own",
        }
    }

    /// Those that are off by too much.
    pub fn misses(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(|point| point.error().abs() > MISS)
    }
}

/// All of it in the form of all results: arms "here", "published" and "simulated", the last with a band where others have intervals.
pub fn told(here: &[Here], curves: &[Held]) -> Vec<Figure> {
    let mut all = Vec::new();
    let simulated = "simulated; the interval is the band of its costs";
    for one in here {
        let parameters = Parameters::default().with("operation", one.what);
        let runs = (one.usual, [one.least(), one.most()], one.runs.clone());
        all.push(Figure::new("here", "measured; the interval is from the least run to the most", &parameters, runs));
        all.push(Figure::new("simulated", simulated, &parameters, (one.simulated, one.band, vec![one.simulated])));
    }
    for held in curves {
        for point in &held.points {
            let parameters =
                Parameters::default().with("operation", held.words()).with("profile", held.profile.clone());
            let parameters = parameters.with("threads", u64::from(point.threads));
            let one = |name, origin: &str, ns| Figure::new(name, origin, &parameters, (ns, [ns, ns], vec![ns]));
            all.push(one("published", &held.source, point.published));
            all.push(one("simulated", "simulated, with what was fitted to other points", point.simulated));
        }
    }
    all
}

/// One line for each curve.
pub fn summary(all: &[Held]) -> Sheet {
    let headings = [
        ("curve", Side::Left),
        ("fitted costs", Side::Left),
        ("held-out points", Side::Right),
        ("median error", Side::Right),
        ("worst error", Side::Right),
    ];
    let mut sheet = Sheet::new(headings);
    for held in all {
        let fitted: Vec<String> =
            held.fitted.iter().map(|(cost, threads, value)| format!("{cost} {value:.1} (at {threads})")).collect();
        let fitted = match &held.unfit {
            Some(why) => format!("IMPOSSIBLE: {why}"),
            None if fitted.is_empty() => "nothing".to_owned(),
            None => fitted.join(", "),
        };
        let [median, worst] = match held.unfit {
            Some(_) => ["–", "–"].map(str::to_owned),
            None => [format!("{:.1} %", 100.0 * held.median), percent(held.worst)],
        };
        sheet.add([
            format!("{}, simulated: {}", held.profile, held.words()),
            fitted,
            held.points.len().to_string(),
            median,
            worst,
        ]);
    }
    sheet
}

/// Each point that is off by more than [`MISS`].
pub fn misses(all: &[Held]) -> Sheet {
    let headings = [
        ("points with errors above 20 %", Side::Left),
        ("threads", Side::Right),
        ("published", Side::Right),
        ("simulated", Side::Right),
        ("error", Side::Right),
    ];
    let mut sheet = Sheet::new(headings);
    for held in all {
        for point in held.misses() {
            sheet.add([
                format!("{}: {}", held.profile, held.words()),
                point.threads.to_string(),
                format!("{:.1} ns", point.published),
                format!("{:.1} ns", point.simulated),
                percent(point.error()),
            ]);
        }
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    /// What repeats a probe that is fitted is none of the tests.
    #[test]
    fn tests_on_this_machine_use_probes_that_no_fit_has_seen() {
        let fitted = |line: &str| super::super::calibrate::FITTED.iter().any(|(_, fitted)| *fitted == line);
        for (what, probe, _, role, of) in HERE {
            assert!(of.is_some() == (role == Fitted) && of.is_none_or(fitted), "{what}");
            assert!(role == Fitted || !fitted(probe), "{what}");
        }
        assert_eq!(HERE.iter().filter(|(.., role, _)| *role == Tested).count(), 5);
        let here = |simulated, role| {
            let (runs, band) = (vec![2.0, 3.0, 9.0], [simulated, simulated + 1.0]);
            Here { what: "x", probe: "x", place: 0, role, runs, usual: 2.0, simulated, band }
        };
        let missed = |simulated, role| here(simulated, role).is_missed();
        assert!(missed(2.8, Tested) && missed(1.2, Tested) && !missed(2.6, Tested));
        assert!(!missed(9.0, Fitted) && !missed(9.0, Told));
        let words = |simulated, role| of_here(&[here(simulated, role)]).rows.remove(0)[8..].to_vec();
        assert_eq!(words(2.8, Tested), ["overlap", "MISSED"]);
        assert_eq!(words(0.5, Tested), ["apart", "MISSED"]);
        assert_eq!(words(9.5, Told), ["apart", "more than 35 % off, no limit here"]);
        assert_eq!(words(2.2, Told), ["overlap", "within 35 %"]);
        assert_eq!(changed(&[]), None, "nothing was held against this machine");
        // What is not fitted does not tell that the machine is another one, nor does one probe of three.
        let changed = |fitted: [f64; 3]| {
            changed(
                &fitted
                    .map(|simulated| here(simulated, Fitted))
                    .into_iter()
                    .chain([here(9.0, Tested)])
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            [changed([2.0, 2.1, 9.0]), changed([1.0, 1.0, 2.0]), changed([4.0, 4.0, 2.0])],
            [None, Some(2.0), Some(0.5)]
        );
    }

    /// Ten for each thread, and nothing depends on costs but those that are fitted.
    fn model(profile: &Profile, operation: Operation, threads: &[u32]) -> Result<Vec<f64>> {
        let cost = |name: &str| profile.cost(name).value;
        let atomic = |threads: u32| match threads {
            2 => cost("cluster.latency"),
            _ => f64::from(threads) * (cost("cluster.service") + 200.0 / cost("turn")),
        };
        Ok(threads
            .iter()
            .map(|&threads| if operation == Operation::AtomicIncrement { atomic(threads) } else { 2.0 })
            .collect())
    }

    #[test]
    fn errors_are_those_of_points_that_were_held_out() {
        let profile = Profile::find("xeon-448").unwrap();
        let all = curves("xeon-448", &profile, &model).unwrap();
        let [atomic, own] = &all[..] else { panic!("two curves") };
        assert!(atomic.points.iter().all(|point| ![2, 28, 256].contains(&point.threads)));
        assert_eq!(atomic.points.len() + 3, profile.curves[0].points.len());
        assert_eq!((own.fitted.len(), own.points.len()), (0, profile.curves[1].points.len()));
        let worst = own.points.last().unwrap();
        assert!((own.worst - (2.0 / worst.published - 1.0)).abs() < 1e-12, "{}", own.worst);
        assert!(own.misses().count() > 3 && own.misses().all(|point| point.error().abs() > MISS));
        assert_eq!(misses(&all).rows.len(), all.iter().map(|held| held.misses().count()).sum::<usize>());
        assert!(summary(&all).rows[1][1] == "nothing" && summary(&all).rows[0][0].contains("simulated"));
    }
}
