//! Profiles of simulated machines: what takes how long there, with a source for each figure. They are data; the simulated machine has none of its own but for
//! round ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::sheet::{Sheet, Side};

/// What a profile has to say, and in what unit: nanoseconds, if nothing else is said.
pub const COSTS: [&str; 29] = [
    "hit", "add", "section", "locked", "memory", "core.latency", "core.service", "cluster.latency", "cluster.service",
    "socket.latency", "socket.service", "other.latency", "other.service", "far.latency", "far.service", "grip",
    "shared", "turn", "sibling_percent", "zero", "row", "fault", "system_call", "kick", "further_kick", "kicked",
    "wake_up", "pause", "clock",
];

/// Costs without which time would stand still, or which are no time.
const LIMITS: [(&str, f64, f64); 4] =
    [("hit", 0.001, 1e6), ("pause", 0.001, 1e6), ("clock", 0.001, 1e6), ("sibling_percent", 100.0, 1000.0)];

/// The profiles that come with the command.
const SHIPPED: [(&str, &str); 6] = [
    ("here-2", include_str!("../profiles/here-2.toml")),
    ("aarch64-72", include_str!("../profiles/aarch64-72.toml")),
    ("x86-80", include_str!("../profiles/x86-80.toml")),
    ("x86-256", include_str!("../profiles/x86-256.toml")),
    ("milan-160", include_str!("../profiles/milan-160.toml")),
    ("xeon-448", include_str!("../profiles/xeon-448.toml")),
];

/// A simulated machine's costs.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What it is the profile of.
    pub about: String,
    /// In a file: the shipped profile whose costs it has where it says nothing else. None in one that was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// How many CPUs such a machine has.
    pub cpus: usize,
    /// How these lie.
    pub topology: Topology,
    /// By names, all of [`COSTS`] in one that was read.
    pub costs: BTreeMap<String, Cost>,
    /// Published measurements of such a machine.
    #[serde(default, rename = "curve")]
    pub curves: Vec<Curve>,
}

/// In what CPUs are grouped.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Threads of a core.
    pub threads: usize,
    /// Whether the second threads of all cores are numbered after the first ones.
    pub siblings_last: bool,
    /// Cores that share a cache.
    pub cores_of_cluster: usize,
    /// Such clusters in a socket.
    pub clusters_of_socket: usize,
    /// Sockets that are one step from each other; others are far.
    pub near_sockets: usize,
}

/// A figure, the band in which it is believed to be, and why.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// What is simulated with.
    pub value: f64,
    /// The least of what sources say, or what was measured.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// Who says so.
    pub source: String,
}

/// Where in their bands all costs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corner {
    /// Where everything takes the least.
    Least,
    /// Where it takes the most.
    Most,
}

/// Their names, behind a profile's and a plus.
pub const LEAST: &str = "least";
/// Likewise.
pub const MOST: &str = "most";

/// Costs of which more is less: a line that stays near for longer, or with whoever got it, who does more before it goes on.
const LESS_IS_MORE: [&str; 2] = ["turn", "grip"];

/// What is done by all threads of a curve.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// All add to one word, atomically.
    AtomicIncrement,
    /// Each adds to a word of its own.
    PerCpuIncrement,
}

/// A published measurement: nanoseconds of an operation of each thread, by how many threads do it at once.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// What was done.
    pub operation: Operation,
    /// Where it was published.
    pub source: String,
    /// Threads, each on a CPU of its own, and nanoseconds.
    pub points: Vec<(u32, f64)>,
    /// Which cost is fitted to which point, in this order. All other points are held out.
    #[serde(default)]
    pub fitted: Vec<Fitted>,
}

/// A cost that is fitted to one point.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// Its name.
    pub cost: String,
    /// The point's threads.
    pub threads: u32,
}

impl Curve {
    /// The points that a fit may see.
    pub fn seen(&self) -> Vec<(&Fitted, f64)> {
        let at =
            |fitted: &Fitted| self.points.iter().find(|(threads, _)| *threads == fitted.threads).map(|(_, ns)| *ns);
        self.fitted.iter().filter_map(|fitted| Some((fitted, at(fitted)?))).collect()
    }

    /// Those that it must not see.
    pub fn held_out(&self) -> impl Iterator<Item = (u32, f64)> {
        self.points.iter().copied().filter(|(threads, _)| self.fitted.iter().all(|fitted| fitted.threads != *threads))
    }
}

impl Profile {
    /// Names of those that come with the command.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// One of these by its name, or one of a file. Behind a plus may stand what is different: `+least` and `+most`, of all costs, or `+COST*FACTOR`.
    pub fn find(name: &str) -> Result<Self> {
        match name.rsplit_once('+').and_then(|(of, word)| Some((of, Change::parse(word)?))) {
            Some((of, change)) => Ok(Self::find(of)?.changed(&change)),
            None => Self::find_unchanged(name),
        }
    }

    fn find_unchanged(name: &str) -> Result<Self> {
        if let Some(profile) = Self::shipped(name) {
            return profile;
        }
        let names: Vec<&str> = Self::names().collect();
        ensure!(
            Path::new(name).extension().is_some_and(|extension| extension == "toml"),
            "unknown profile '{name}'; expected one of {}, or a file whose name ends with .toml",
            names.join(", ")
        );
        let text = fs::read_to_string(name).with_context(|| format!("cannot read the profile {name}"))?;
        Self::parse(&text).with_context(|| format!("the profile {name}"))
    }

    /// None: there is none of this name.
    fn shipped(name: &str) -> Option<Result<Self>> {
        let (_, text) = SHIPPED.iter().find(|(shipped, _)| *shipped == name)?;
        Some(Self::parse(text).with_context(|| format!("the profile {name}")))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut profile: Profile =
            toml::from_str(text).map_err(|error| anyhow::anyhow!("{}", one_line(&error.to_string())))?;
        if let Some(other) = profile.like.take() {
            let known = Self::shipped(&other)
                .with_context(|| format!("it is like `{other}`, which the command does not have"))??;
            for (name, cost) in known.costs {
                profile.costs.entry(name).or_insert(cost);
            }
        }
        profile.check()?;
        Ok(profile)
    }

    fn check(&self) -> Result<()> {
        ensure!((1..=1024).contains(&self.cpus), "it has {} CPUs; expected 1 to 1024", self.cpus);
        let Topology { threads, cores_of_cluster, clusters_of_socket, near_sockets, .. } = self.topology;
        let is_possible =
            [threads, cores_of_cluster, clusters_of_socket, near_sockets].iter().all(|&number| number > 0);
        ensure!(is_possible, "a number of the topology is 0; expected at least 1");
        for name in COSTS {
            let cost = self.costs.get(name).with_context(|| format!("it has no cost `{name}`"))?;
            let Cost { value, low, high, source } = cost;
            ensure!(
                0.0 <= *low && low <= value && value <= high && *high <= 1e9,
                "the cost `{name}` is {value}, from {low} to {high}; expected 0 ≤ low ≤ value ≤ high"
            );
            ensure!(!source.trim().is_empty(), "the cost `{name}` has no source");
            if let Some((_, least, most)) = LIMITS.iter().find(|(limited, ..)| *limited == name) {
                ensure!(
                    *least <= *low && *high <= *most,
                    "the cost `{name}` is from {low} to {high}; expected {least} to {most}"
                );
            }
        }
        if let Some(name) = self.costs.keys().find(|name| !COSTS.contains(&name.as_str())) {
            anyhow::bail!("unknown cost `{name}`; expected {}", COSTS.join(", "));
        }
        for curve in &self.curves {
            for fitted in &curve.fitted {
                let has_point = curve.points.iter().any(|(threads, _)| *threads == fitted.threads);
                ensure!(
                    COSTS.contains(&fitted.cost.as_str()),
                    "a curve is fitted by the unknown cost `{}`",
                    fitted.cost
                );
                ensure!(
                    has_point,
                    "`{}` is fitted to {} threads, and the curve has no such point",
                    fitted.cost,
                    fitted.threads
                );
            }
            let is_possible = |&(threads, ns): &(u32, f64)| (1..=1024).contains(&threads) && ns > 0.0;
            ensure!(curve.points.iter().all(is_possible), "a curve has a point without threads or time");
        }
        Ok(())
    }

    /// A cost that was checked to be there.
    pub fn cost(&self, name: &str) -> &Cost {
        &self.costs[name]
    }

    /// The same with all costs in a corner of their bands.
    pub fn at(&self, corner: Corner) -> Self {
        let mut moved = self.clone();
        for (name, cost) in &mut moved.costs {
            cost.value = match (corner, LESS_IS_MORE.contains(&name.as_str())) {
                (Corner::Least, false) | (Corner::Most, true) => cost.low,
                (Corner::Most, false) | (Corner::Least, true) => cost.high,
            };
        }
        moved
    }

    fn changed(&self, change: &Change) -> Self {
        match *change {
            Change::To(corner) => self.at(corner),
            Change::Of(name, factor) => self.scaled(name, factor),
        }
    }

    /// The same with so many times of a cost: of one in percent, of what is beyond 100.
    pub fn scaled(&self, name: &str, factor: f64) -> Self {
        let value = self.cost(name).value;
        let floor = if name == "sibling_percent" { 100.0 } else { 0.0 };
        self.with(name, floor + (value - floor) * factor)
    }

    /// The same with another value for a cost, which its band then includes.
    pub fn with(&self, name: &str, value: f64) -> Self {
        let mut changed = self.clone();
        if let Some(cost) = changed.costs.get_mut(name) {
            (cost.value, cost.low, cost.high) = (value, cost.low.min(value), cost.high.max(value));
        }
        changed
    }

    /// All costs, for people.
    pub fn sheet(&self) -> Sheet {
        let headings = [
            ("cost", Side::Left),
            ("value", Side::Right),
            ("low", Side::Right),
            ("high", Side::Right),
            ("source", Side::Left),
        ];
        let mut sheet = Sheet::new(headings);
        for name in COSTS {
            let Cost { value, low, high, source } = self.cost(name);
            let figures = [value, low, high].map(|figure| format!("{figure:.2}"));
            sheet.add([name.to_owned()].into_iter().chain(figures).chain([source.clone()]));
        }
        sheet
    }

    /// As a file.
    pub fn text(&self) -> Result<String> {
        Ok(toml::to_string_pretty(self)?)
    }
}

/// How a profile differs from another.
enum Change {
    To(Corner),
    Of(&'static str, f64),
}

impl Change {
    fn parse(word: &str) -> Option<Self> {
        match word {
            LEAST => Some(Change::To(Corner::Least)),
            MOST => Some(Change::To(Corner::Most)),
            _ => {
                let (name, factor) = word.split_once('*')?;
                let name = COSTS.into_iter().find(|cost| *cost == name)?;
                let factor = factor.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor > 0.0)?;
                Some(Change::Of(name, factor))
            }
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_profiles_are_complete_and_survive_a_round_trip() {
        for name in Profile::names() {
            let profile = Profile::find(name).unwrap_or_else(|error| panic!("{error:#}"));
            assert!(!profile.about.is_empty(), "{name}");
            let again: Profile = Profile::parse(&profile.text().unwrap()).unwrap();
            assert_eq!(again, profile, "as it was written");
        }
    }

    #[test]
    fn fits_see_three_points_and_never_those_that_are_held_out() {
        let curves: Vec<Curve> = Profile::names().flat_map(|name| Profile::find(name).unwrap().curves).collect();
        assert!(curves.len() >= 4);
        for curve in curves {
            let (seen, held_out) = (curve.seen(), curve.held_out().collect::<Vec<_>>());
            assert_eq!(seen.len() + held_out.len(), curve.points.len());
            assert!(held_out.iter().all(|(threads, _)| seen.iter().all(|(fitted, _)| fitted.threads != *threads)));
            assert_eq!(seen.len(), if curve.operation == Operation::AtomicIncrement { 3 } else { 0 });
        }
    }

    #[test]
    fn corners_are_where_everything_takes_the_least_and_the_most() {
        let profile = Profile::find("x86-256").unwrap();
        let [least, most] = [Corner::Least, Corner::Most].map(|corner| profile.at(corner));
        assert!(
            (least.cost("hit").value, most.cost("hit").value) == (profile.cost("hit").low, profile.cost("hit").high)
        );
        assert!(least.cost("turn").value > most.cost("turn").value);
    }

    #[test]
    fn profile_error_names_what_is_wrong() {
        let text = SHIPPED[0].1;
        let told = |text: &str| format!("{:#}", Profile::parse(text).expect_err("it is wrong"));
        for (from, to, named) in [
            ("cpus = 2", "cpus = 0", "0 CPUs; expected 1 to 1024"),
            ("cpus = 2", "cpus = 2\nlike = \"mine.toml\"", "like `mine.toml`, which the command does not have"),
            ("hit = {", "hits = {", "no cost `hit`"),
            (
                "[costs]",
                "[costs]\nlunch = { value = 1.0, low = 1.0, high = 1.0, source = \"x\" }",
                "unknown cost `lunch`",
            ),
            ("near_sockets = 1", "near_sockets = 0", "expected at least 1"),
            (
                "sibling_percent = { value = 100.0, low = 100.0",
                "sibling_percent = { value = 100.0, low = 1.0",
                "expected 100 to 1000",
            ),
            ("hit = { value = 0.161, low = 0.161", "hit = { value = 0.161, low = 0.0", "expected 0.001 to"),
            ("[topology]", "[topology", "expected"),
            ("about =", "abouts =", "abouts"),
        ] {
            assert!(text.contains(from), "{from}");
            let said = told(&text.replacen(from, to, 1));
            assert!(said.contains(named) && !said.contains('\n'), "{said}");
        }
        let above = Profile::find("here-2").unwrap();
        let mut costs = above.costs.clone();
        costs.get_mut("hit").unwrap().low = 1e6;
        let text = Profile { costs, ..above }.text().unwrap();
        assert!(told(&text).contains("expected 0 ≤ low ≤ value ≤ high"));
        let missing = format!("{:#}", Profile::find("dinner").unwrap_err());
        assert!(missing.contains("unknown profile 'dinner'") && missing.contains("x86-256"), "{missing}");
        assert!(format!("{:#}", Profile::find("none.toml").unwrap_err()).contains("cannot read"));
    }
}
