//! Measures what a machine can tell of its costs, and writes a profile of its own.
//!
//! Some costs are measured as they are. Others are what a simulated machine must take, so that the same code takes as
//! long there as here: a step of the runtime, an addition, a section. These are found one after the other, by the
//! sources that are shipped.

use anyhow::Result;

use super::fit::halved;
use super::rounds::{Probed, Rounds, Said};
use crate::profile::{Cost, Profile, Topology};

/// Probes that measure a cost as it is: the one that they name.
const MEASURED: [&str; 10] = [
    "primitives pause", "primitives clock", "primitives system-call", "primitives fault", "primitives zero",
    "primitives row", "primitives memory", "primitives kick", "primitives kicked", "primitives wake-up",
];

/// A cost that is fitted to what a probe says here, by threads where threads are what is asked for later. In this
/// order, twice, as each depends on those before.
pub const FITTED: [(&str, &str); 5] = [
    ("section", "counters upgraded 1 per-cpu"),
    ("hit", "cache pair 1 64 dedicated"),
    ("add", "counters own one lazy"),
    ("locked", "counters upgraded 1 atomic"),
    ("cluster.latency", "counters upgraded 2 atomic"),
];
const TIMES: usize = 2;
/// Costs that a machine with two CPUs cannot tell apart from `cluster.latency`.
const LIKE_LATENCY: [&str; 10] = [
    "core.latency", "core.service", "cluster.service", "socket.latency", "socket.service", "other.latency",
    "other.service", "far.latency", "far.service", "shared",
];
/// As small as a cost can be that is fitted, in nanoseconds, and as large.
const RANGE: (f64, f64) = (0.01, 1000.0);
/// A probe's time is met if the simulated machine is off by no more than such a part.
const MET: f64 = 0.05;
/// Costs that nobody asks for here.
const LEFT: [&str; 3] = ["grip", "turn", "sibling_percent"];

/// What has to be asked before.
pub fn asked() -> impl Iterator<Item = &'static str> {
    MEASURED.into_iter().chain(FITTED.map(|(_, line)| line))
}

/// The profile of this machine, called so, from what all that is to be [`asked`] said.
pub fn calibrate(about: &str, rounds: &Rounds, probed: &impl Probed) -> Result<Profile> {
    let mut profile = Profile::find("here-2")?;
    profile.about = about.to_owned();
    profile.curves = Vec::new();
    profile.topology =
        Topology { threads: 1, siblings_last: false, cores_of_cluster: 2, clusters_of_socket: 1, near_sockets: 1 };
    for name in LEFT {
        let cost = profile.costs.get_mut(name).expect("each profile has all costs");
        cost.source = "not measured: as the profile here-2 has it".to_owned();
    }
    for line in MEASURED {
        let (name, told) = (measured(line), rounds.told(line, 0)?);
        let [value, low, high] = [told.median(), told.least(), told.most()].map(|ns| less(&name, ns, &profile));
        profile.costs.insert(name, Cost { value, low, high, source: source(line, &told) });
    }
    let steps = TIMES * FITTED.len();
    for step in 0..steps {
        let (name, line) = FITTED[step % FITTED.len()];
        let told = rounds.told(line, 0)?;
        let at = |cost: f64| probed.simulated(&alike(profile.with(name, cost)), line, 0);
        let value = halved(RANGE, told.usual(), at)?;
        let low = if told.least() < told.usual() { halved(RANGE, told.least(), at)?.min(value) } else { value };
        let high = halved(RANGE, told.most(), at)?.max(value);
        let reached = at(value)?;
        let is_met = (reached / told.usual() - 1.0).abs() < MET;
        let besides =
            if is_met { String::new() } else { format!("; the simulated machine takes {reached:.2} ns at the least") };
        let source = format!("{}{besides}", source(line, &told));
        profile.costs.insert(name.to_owned(), Cost { value, low, high, source });
        profile = alike(profile);
        probed.done((step + 1) as f64 / steps as f64, "costs");
    }
    Ok(profile)
}

/// The cost that a probe is named by.
fn measured(line: &str) -> String {
    line.trim_start_matches("primitives ").replace('-', "_")
}

/// Whether the two CPUs seem not to have wanted one line at once: an addition of two threads takes less than half as
/// long again as one of one thread.
pub fn never_met(rounds: &Rounds) -> Result<bool> {
    let [one, two] = ["counters upgraded 1 atomic", "counters upgraded 2 atomic"].map(|line| rounds.told(line, 0));
    Ok(two?.usual() < 1.5 * one?.usual())
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
    for (as_what, names) in [("cluster.latency", &LIKE_LATENCY[..]), ("kick", &["further_kick"])] {
        for name in names {
            let source = format!("as {as_what}: two CPUs cannot tell them apart");
            profile.costs.insert((*name).to_owned(), Cost { source, ..profile.cost(as_what).clone() });
        }
    }
    profile
}

fn source(line: &str, told: &Said) -> String {
    let (median, least, most, runs) = (told.median(), told.least(), told.most(), told.runs.len());
    format!("measured here: {line}, {median:.2} ns ({least:.2} to {most:.2}, {runs} runs)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::HashMap;

    /// A machine whose costs are known, and which takes them: so many times in each round.
    struct Known {
        truth: Profile,
        times: [f64; 3],
        asked: RefCell<HashMap<String, usize>>,
    }

    fn taken(profile: &Profile, line: &str) -> f64 {
        let cost = |name: &str| profile.cost(name).value;
        match line {
            "counters upgraded 1 per-cpu" => 3.0 * cost("hit") + cost("section"),
            "cache pair 1 64 dedicated" => 12.0 * cost("hit") + 2.0 * cost("section"),
            "counters own one lazy" => 2.0 * cost("hit") + cost("add"),
            "counters upgraded 1 atomic" => cost("hit") + cost("locked"),
            "counters upgraded 2 atomic" => (cost("hit") + cost("locked") + cost("cluster.latency")) / 2.0,
            "primitives row" => cost("row") + cost("zero"),
            "primitives kick" => cost("kick") + cost("system_call"),
            "primitives wake-up" => 2.0 * cost("wake_up") + 4.0 * cost("system_call"),
            _ => cost(&measured(line)),
        }
    }

    impl Probed for Known {
        fn here(&self, line: &str) -> Result<Vec<f64>> {
            let mut asked = self.asked.borrow_mut();
            let round = asked.entry(line.to_owned()).or_insert(0);
            *round += 1;
            Ok(vec![taken(&self.truth, line) * self.times[*round - 1]])
        }

        fn simulated(&self, profile: &Profile, line: &str, _: usize) -> Result<f64> {
            Ok(taken(profile, line))
        }

        fn done(&self, _: f64, _: &str) {}
    }

    /// A machine with these costs, how long it takes in each round, and the profile that is found.
    fn found(costs: &[(&str, f64)], times: [f64; 3]) -> (Profile, Rounds<'static>, Profile) {
        let truth =
            costs.iter().fold(Profile::find("here-2").unwrap(), |profile, (name, cost)| profile.with(name, *cost));
        let known = Known { truth, times, asked: RefCell::default() };
        let rounds = Rounds::of(asked(), 3, &known).unwrap();
        let found = calibrate("a machine", &rounds, &known).unwrap();
        (known.truth, rounds, found)
    }

    #[test]
    fn costs_that_are_known_are_found() {
        let costs = [("hit", 0.3), ("section", 0.9), ("add", 1.5), ("locked", 4.0), ("cluster.latency", 80.0)];
        let (truth, _, profile) = found(&costs, [1.0; 3]);
        for name in ["clock", "system_call", "fault", "zero", "row", "kick", "wake_up", "locked", "cluster.latency"] {
            let (found, is) = (profile.cost(name).value, truth.cost(name).value);
            assert!((found / is - 1.0).abs() < 0.02, "{name}: {found}, and it is {is}");
        }
        // Each of these is found with the others as they were before: in the end they take together what was measured.
        for (_, line) in FITTED {
            let (found, is) = (taken(&profile, line), taken(&truth, line));
            assert!((found / is - 1.0).abs() < 0.1, "{line}: {found}, and it is {is}");
        }
        assert_eq!(profile.cost("far.service").value, profile.cost("cluster.latency").value);
        assert!(profile.cost("hit").source.contains("cache pair 1 64 dedicated"));
        assert!(profile.cost("turn").source.contains("not measured"));
    }

    #[test]
    fn threads_that_never_met_are_told_from_those_that_did() {
        let [near, far] = [2.0, 20.0].map(|latency| found(&[("cluster.latency", latency)], [1.0; 3]).1);
        assert!(never_met(&near).unwrap() && !never_met(&far).unwrap());
    }

    #[test]
    fn bands_are_as_wide_as_what_was_measured() {
        let (_, _, found) = found(&[("wake_up", 8000.0)], [1.0, 1.5, 2.0]);
        let band = |name: &str| (found.cost(name).low, found.cost(name).value, found.cost(name).high);
        let (low, value, high) = band("clock");
        assert!((value / low - 1.5).abs() < 0.01 && (high / low - 2.0).abs() < 0.01, "{low} {value} {high}");
        // What is taken off is taken off all of them.
        let (low, _, high) = band("wake_up");
        let taken = |cost: f64| 2.0 * cost + 4.0 * found.cost("system_call").value;
        assert!((taken(high) / taken(low) - 2.0).abs() < 0.01, "{low} {high}");
        let (low, value, high) = band("locked");
        assert!(low == value && high > 1.9 * value, "{low} {value} {high}");
        // Where two want a line, a run in which they did not meet is none that counts.
        let (low, value, high) = band("cluster.latency");
        assert!(low < 0.9 * value && value < 0.9 * high, "{low} {value} {high}");
    }
}
