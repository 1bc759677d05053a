//! Profiles of simulated machines: what takes how long there, with a source for each figure. They are data; the
//! simulated machine has none of its own but for round ones.
#![allow(missing_docs)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::sheet::Sheet;
use crate::sheet::Side::{Left, Right};

/// What a profile has to say, and in what unit: nanoseconds, if nothing else is said.
const COSTS: [&str; 29] = [
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
    like: Option<String>,
    pub cpus: usize,
    pub topology: Topology,
    /// By names, all of `COSTS` in one that was read.
    #[serde(default)]
    pub costs: BTreeMap<String, Cost>,
    /// Published measurements of such a machine.
    #[serde(default, rename = "curve")]
    pub curves: Vec<Curve>,
}

/// In what CPUs are grouped.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Of a core.
    pub threads: usize,
    /// Whether the second threads of all cores are numbered after the first ones.
    pub siblings_last: bool,
    /// Cores that share a cache.
    pub cores_of_cluster: usize,
    pub clusters_of_socket: usize,
    /// Sockets that are one step from each other; others are far.
    pub near_sockets: usize,
}

/// A figure, the band in which it is believed to be, from the least of what sources say or what was measured to the
/// most, and who says so.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    pub source: String,
}

/// Behind a profile's name and a plus: all costs are at the end of their bands where everything takes the least.
pub const LEAST: &str = "least";
/// Where it takes the most.
pub const MOST: &str = "most";

/// Costs of which more is less: a line that stays near for longer, or with whoever got it, who does more before it goes
/// on.
const LESS_IS_MORE: [&str; 2] = ["turn", "grip"];

/// A published measurement: nanoseconds of an atomic addition of each thread, by how many threads add to one word at
/// once.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    pub source: String,
    /// Threads, each on a CPU of its own, and nanoseconds.
    pub points: Vec<(u32, f64)>,
    /// Which cost is fitted to which point, in this order. All other points are held out.
    #[serde(default)]
    pub fitted: Vec<Fitted>,
}

/// A cost that is fitted to the point of so many threads.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    pub cost: String,
    pub threads: u32,
}

impl Curve {
    /// The points that a fit may see.
    pub fn seen(&self) -> impl Iterator<Item = (&Fitted, f64)> {
        self.fitted.iter().filter_map(|fitted| Some((fitted, self.at(fitted.threads)?)))
    }

    fn at(&self, threads: u32) -> Option<f64> {
        self.points.iter().find(|(count, _)| *count == threads).map(|(_, ns)| *ns)
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

    /// One of these by its name, or one of a file. Behind a plus may stand [`LEAST`] or [`MOST`].
    pub fn find(name: &str) -> Result<Self> {
        if let Some((of, corner @ (LEAST | MOST))) = name.rsplit_once('+') {
            return Ok(Self::find(of)?.at(corner));
        }
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
        let one_line = |error: toml::de::Error| error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        let mut profile: Profile = toml::from_str(text).map_err(|error| anyhow::anyhow!("{}", one_line(error)))?;
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
        let numbers = [threads, cores_of_cluster, clusters_of_socket, near_sockets];
        ensure!(!numbers.contains(&0), "a number of the topology is 0; expected at least 1");
        for name in COSTS {
            let cost = self.costs.get(name).with_context(|| format!("it has no cost `{name}`"))?;
            let Cost { value, low, high, source } = cost;
            ensure!(low <= value && value <= high, "the cost `{name}` is {value}; expected {low} to {high}, its band");
            ensure!(!source.trim().is_empty(), "the cost `{name}` has no source");
            let limit = LIMITS.into_iter().find(|(limited, ..)| *limited == name);
            let (_, least, most) = limit.unwrap_or((name, 0.0, 1e9));
            ensure!(
                least <= *low && *high <= most,
                "the cost `{name}` is from {low} to {high}; expected {least} to {most}"
            );
        }
        for name in self.costs.keys().chain(self.curves.iter().flat_map(|curve| &curve.fitted).map(|of| &of.cost)) {
            ensure!(COSTS.contains(&name.as_str()), "unknown cost `{name}`; expected {}", COSTS.join(", "));
        }
        for curve in &self.curves {
            for Fitted { cost, threads } in &curve.fitted {
                ensure!(
                    curve.at(*threads).is_some(),
                    "`{cost}` is fitted to {threads} threads, and the curve has no such point"
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

    /// The same with all costs where everything takes the [`LEAST`], or the [`MOST`].
    pub fn at(&self, corner: &str) -> Self {
        let mut moved = self.clone();
        for (name, cost) in &mut moved.costs {
            let is_high = (corner == MOST) != LESS_IS_MORE.contains(&name.as_str());
            cost.value = if is_high { cost.high } else { cost.low };
        }
        moved
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
        let mut sheet =
            Sheet::new([("cost", Left), ("value", Right), ("low", Right), ("high", Right), ("source", Left)]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_profiles_are_complete_and_survive_a_round_trip() {
        for name in Profile::names() {
            let profile = Profile::find(name).unwrap_or_else(|error| panic!("{error:#}"));
            let again: Profile = Profile::parse(&profile.text().unwrap()).unwrap();
            assert_eq!(again, profile, "as it was written");
            for curve in profile.curves {
                assert_eq!((curve.seen().count(), curve.held_out().count()), (3, curve.points.len() - 3));
            }
        }
    }

    #[test]
    fn corners_are_where_everything_takes_the_least_and_the_most() {
        let [profile, least, most] = ["", "+least", "+most"].map(|of| Profile::find(&format!("x86-256{of}")).unwrap());
        assert_eq!(least.cost("hit").value, profile.cost("hit").low);
        assert_eq!(most.cost("hit").value, profile.cost("hit").high);
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
            ("[costs]", "[costs]\nlunch = { value = 1, low = 1, high = 1, source = \"x\" }", "unknown cost `lunch`"),
            ("near_sockets = 1", "near_sockets = 0", "expected at least 1"),
            ("hit = { value = 0.161, low = 0.161", "hit = { value = 0.161, low = 0.0", "expected 0.001 to"),
            ("hit = { value = 0.161, low = 0.161", "hit = { value = 0.161, low = 1e6", "1000000 to"),
            ("about =", "abouts =", "abouts"),
        ] {
            assert!(text.contains(from), "{from}");
            let said = told(&text.replacen(from, to, 1));
            assert!(said.contains(named) && !said.contains('\n'), "{said}");
        }
        let missing = format!("{:#}", Profile::find("dinner").unwrap_err());
        assert!(missing.contains("unknown profile 'dinner'") && missing.contains("x86-256"), "{missing}");
        assert!(format!("{:#}", Profile::find("none.toml").unwrap_err()).contains("cannot read"));
    }
}
