//! Measures what a machine can tell of its costs, and writes a profile of its own.
//!
//! Some costs are measured as they are. Others are what a simulated machine must take, so that the same code takes as long there as here: a step of the runtime,
//! an addition, a section. These are found one after the other, by the sources that are shipped; and from the shortest run, as what else a machine does only adds to
//! what a probe says.

use anyhow::Result;

use super::Probes;
use super::fit::halved;
use crate::profile::{Cost, Profile, Topology};

/// A cost that is measured as it is, by which probe, and what is taken off what that says.
const MEASURED: [(&str, &str); 10] = [
    ("pause", "primitives pause"),
    ("clock", "primitives clock"),
    ("system_call", "primitives system-call"),
    ("fault", "primitives fault"),
    ("zero", "primitives zero"),
    ("row", "primitives row"),
    ("memory", "primitives memory"),
    ("kick", "primitives kick"),
    ("kicked", "primitives kicked"),
    ("wake_up", "primitives wake-ups"),
];

/// A cost that is fitted to what a probe says here. In this order, twice, as each depends on those before.
pub const FITTED: [(&str, &str); 5] = [
    ("section", "counters own one per-cpu"),
    ("hit", "cache pair 1 64 dedicated"),
    ("add", "counters own one lazy"),
    ("locked", "counters own one atomic"),
    ("cluster.latency", "counters upgraded 2 atomic"),
];
const ROUNDS: usize = 2;
/// Costs that a machine with two CPUs cannot tell apart from another one.
const ALIKE: [(&str, &str); 11] = [
    ("core.latency", "cluster.latency"),
    ("core.service", "cluster.latency"),
    ("cluster.service", "cluster.latency"),
    ("socket.latency", "cluster.latency"),
    ("socket.service", "cluster.latency"),
    ("other.latency", "cluster.latency"),
    ("other.service", "cluster.latency"),
    ("far.latency", "cluster.latency"),
    ("far.service", "cluster.latency"),
    ("shared", "cluster.latency"),
    ("further_kick", "kick"),
];
/// As small as a cost can be that is fitted, in nanoseconds, and as large.
const RANGE: (f64, f64) = (0.01, 1000.0);
/// A probe's time is met if the simulated machine is off by no more than such a part.
const MET: f64 = 0.05;
/// Costs that nobody asks for here.
const LEFT: [&str; 3] = ["grip", "turn", "sibling_percent"];

/// What several runs of a probe said.
#[derive(Clone, Copy, Debug)]
struct Told {
    median: f64,
    least: f64,
    most: f64,
}

impl Told {
    fn by(runs: usize, mut probe: impl FnMut() -> Result<f64>) -> Result<Self> {
        let mut all = (0..runs).map(|_| probe()).collect::<Result<Vec<f64>>>()?;
        all.sort_by(f64::total_cmp);
        Ok(Told { median: super::validate::median(all.clone()), least: all[0], most: all[runs - 1] })
    }
}

/// Whoever can be asked: this machine, and a simulated one.
pub trait Probed {
    /// What a probe says here.
    fn here(&self, line: &str) -> Result<f64>;
    /// And on a simulated machine.
    fn simulated(&self, profile: &Profile, line: &str) -> Result<f64>;
    /// So much of the whole is done.
    fn done(&self, part: f64);
}

impl Probed for Probes<'_> {
    fn here(&self, line: &str) -> Result<f64> {
        Probes::here(self, line)
    }

    fn simulated(&self, profile: &Profile, line: &str) -> Result<f64> {
        Probes::simulated(self, profile, line)
    }

    fn done(&self, part: f64) {
        Probes::done(self, part, "costs");
    }
}

/// Measures this machine, called so, each probe in so many runs.
pub fn calibrate(about: &str, runs: usize, probed: &impl Probed) -> Result<Profile> {
    let mut profile = Profile::find("here-2")?;
    profile.about = about.to_owned();
    profile.curves = Vec::new();
    profile.topology =
        Topology { threads: 1, siblings_last: false, cores_of_cluster: 2, clusters_of_socket: 1, near_sockets: 1 };
    for name in LEFT {
        let cost = profile.costs.get_mut(name).expect("each profile has all costs");
        cost.source = "not measured: as the profile here-2 has it".to_owned();
    }
    let steps = (MEASURED.len() + FITTED.len() * (ROUNDS + 1)) as f64;
    let mut step = 0.0;
    let mut next = || {
        step += 1.0;
        probed.done(step / steps);
    };
    for (name, line) in MEASURED {
        let told = Told::by(runs, || probed.here(line))?;
        let [value, low, high] = [told.median, told.least, told.most].map(|ns| less(name, ns, &profile));
        profile.costs.insert(name.to_owned(), Cost { value, low, high, source: source(line, told, runs) });
        next();
    }
    let mut told_by = Vec::new();
    for (_, line) in FITTED {
        told_by.push(Told::by(runs, || probed.here(line))?);
        next();
    }
    for _ in 0..ROUNDS {
        for ((name, line), told) in FITTED.into_iter().zip(&told_by) {
            let at = |cost: f64| probed.simulated(&alike(profile.with(name, cost)), line);
            let value = halved(RANGE, told.least, at)?;
            let high = halved(RANGE, told.most, at)?.max(value);
            let reached = at(value)?;
            let is_met = (reached / told.least - 1.0).abs() < MET;
            let besides = if is_met {
                String::new()
            } else {
                format!("; the simulated machine takes {reached:.2} ns at the least")
            };
            let source = format!("{}{besides}", source(line, *told, runs));
            profile.costs.insert(name.to_owned(), Cost { value, low: value, high, source });
            profile = alike(profile);
            next();
        }
    }
    Ok(profile)
}

/// What is taken off what a probe says, as it does that besides.
fn less(name: &str, told: f64, profile: &Profile) -> f64 {
    let system_call = profile.cost("system_call").value;
    let value = match name {
        "row" => told - profile.cost("zero").value,
        "kick" => told - system_call,
        // There and back, each time a sleep and a wake-up.
        "wake_up" => told / 2.0 - 2.0 * system_call,
        _ => told,
    };
    value.max(0.0)
}

fn alike(mut profile: Profile) -> Profile {
    for (name, as_what) in ALIKE {
        let Cost { value, low, high, .. } = *profile.cost(as_what);
        let source = format!("as {as_what}: two CPUs cannot tell them apart");
        profile.costs.insert(name.to_owned(), Cost { value, low, high, source });
    }
    profile
}

fn source(line: &str, told: Told, runs: usize) -> String {
    format!("measured here: {line}, {:.2} ns ({:.2} to {:.2}, {runs} runs)", told.median, told.least, told.most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A machine whose costs are known, and which takes them.
    struct Known {
        truth: Profile,
        parts: Cell<u32>,
    }

    fn taken(profile: &Profile, line: &str) -> f64 {
        let cost = |name: &str| profile.cost(name).value;
        match line {
            "counters own one per-cpu" => 3.0 * cost("hit") + cost("section"),
            "cache pair 1 64 dedicated" => 12.0 * cost("hit") + 2.0 * cost("section"),
            "counters own one lazy" => 2.0 * cost("hit") + cost("add"),
            "counters own one atomic" => cost("hit") + cost("locked"),
            "counters upgraded 2 atomic" => (cost("hit") + cost("locked") + cost("cluster.latency")) / 2.0,
            "primitives row" => cost("row") + cost("zero"),
            "primitives kick" => cost("kick") + cost("system_call"),
            "primitives wake-ups" => 2.0 * cost("wake_up") + 4.0 * cost("system_call"),
            _ => cost(&line["primitives ".len()..].replace('-', "_")),
        }
    }

    impl Probed for Known {
        fn here(&self, line: &str) -> Result<f64> {
            Ok(taken(&self.truth, line))
        }

        fn simulated(&self, profile: &Profile, line: &str) -> Result<f64> {
            Ok(taken(profile, line))
        }

        fn done(&self, part: f64) {
            assert!((0.0..=1.0).contains(&part));
            self.parts.set(self.parts.get() + 1);
        }
    }

    #[test]
    fn costs_that_are_known_are_found() {
        let truth = [("hit", 0.3), ("section", 0.9), ("add", 1.5), ("locked", 4.0), ("cluster.latency", 80.0)];
        let truth =
            truth.into_iter().fold(Profile::find("here-2").unwrap(), |profile, (name, cost)| profile.with(name, cost));
        let known = Known { truth, parts: Cell::new(0) };
        let found = calibrate("a machine", 3, &known).unwrap();
        for name in ["clock", "system_call", "fault", "zero", "row", "kick", "wake_up", "locked", "cluster.latency"] {
            let (found, is) = (found.cost(name).value, known.truth.cost(name).value);
            assert!((found / is - 1.0).abs() < 0.02, "{name}: {found}, and it is {is}");
        }
        // Each of these is found with the others as they were before: in the end they take together what was measured.
        for (_, line) in FITTED {
            let (found, is) = (taken(&found, line), taken(&known.truth, line));
            assert!((found / is - 1.0).abs() < 0.1, "{line}: {found}, and it is {is}");
        }
        assert_eq!(found.cost("far.service").value, found.cost("cluster.latency").value);
        assert!(found.cost("hit").source.contains("cache pair 1 64 dedicated"));
        assert_eq!(known.parts.get() as usize, MEASURED.len() + FITTED.len() * (ROUNDS + 1));
    }

    /// Each run takes longer than the one before.
    struct Slower(Known, Cell<u32>);

    impl Probed for Slower {
        fn here(&self, line: &str) -> Result<f64> {
            self.1.set(self.1.get() + 1);
            Ok(self.0.here(line)? * [1.0, 1.5, 2.0][self.1.get() as usize % 3])
        }

        fn simulated(&self, profile: &Profile, line: &str) -> Result<f64> {
            self.0.simulated(profile, line)
        }

        fn done(&self, _: f64) {}
    }

    #[test]
    fn bands_are_as_wide_as_what_was_measured() {
        let known = Known { truth: Profile::find("here-2").unwrap().with("wake_up", 8000.0), parts: Cell::new(0) };
        let found = calibrate("a machine", 3, &Slower(known, Cell::new(0))).unwrap();
        let band = |name: &str| (found.cost(name).low, found.cost(name).value, found.cost(name).high);
        let (low, value, high) = band("clock");
        assert!((value / low - 1.5).abs() < 0.01 && (high / low - 2.0).abs() < 0.01, "{low} {value} {high}");
        // What is taken off is taken off all of them.
        let (low, _, high) = band("wake_up");
        let taken = |cost: f64| 2.0 * cost + 4.0 * found.cost("system_call").value;
        assert!((taken(high) / taken(low) - 2.0).abs() < 0.01, "{low} {high}");
        let (low, value, high) = band("locked");
        assert!(low == value && high > 1.9 * value, "{low} {value} {high}");
        assert!(found.cost("turn").source.contains("not measured"));
    }

    #[test]
    fn runs_are_put_in_order() {
        let runs = [5.0, 1.0, 3.0];
        let mut run = 0;
        let told = Told::by(3, || {
            run += 1;
            Ok(runs[run - 1])
        });
        let told = told.unwrap();
        assert_eq!((told.median, told.least, told.most), (3.0, 1.0, 5.0));
    }
}
