//! What the document says, compared with what was measured; and further remarks.

use super::object::{TWO_THREADS, by_two};
use super::work::{GIT, GITSOURCE, KERNBENCH, MAKE, of_work};
use super::{CACHED, EAGER, FORMS, LAZY, MAIN_CPUS, MERGED, UPDATES, at_cpus, with_updates};
use crate::experiment::figures::Figures;
use crate::experiment::startup::SYSTEM_TIME;
use crate::experiment::{Claim, Part, holds};
use crate::machine::Machine;
use crate::metric::for_people;
use crate::parameters::Parameters;
use crate::table::factor;

/// The share of `mm_init` in the document's samples, before and after.
const SHARE: f64 = 0.135;
const SHARE_AFTER: f64 = 0.0333;

/// The document's claims, in its order; then the objection.
pub fn claims(parts: &[Part]) -> Vec<Claim> {
    let figures = Figures(parts);
    let mut claims: Vec<Claim> = SYSTEM_TIME.into_iter().map(|(cpus, value)| spawn(figures, cpus, value)).collect();
    claims.push(share(figures));
    claims.push(work(figures, "make -j2 (document: kernbench)", MAKE, KERNBENCH));
    claims.push(work(figures, "git (document: gitsource)", GIT, GITSOURCE));
    claims.push(two_threads(figures));
    for (metric, how) in [("create_destroy_ns", "one after the other"), ("create_destroy_alive_ns", "256 alive")] {
        claims.extend(
            [(MERGED, "merging"), (CACHED, "merging and caching")].map(|arm| objection(figures, metric, how, arm)),
        );
    }
    claims
}

/// Ratios of system time, and of all processor time, because the kernel separates the parts by sampling.
fn of_system_time(figures: Figures, names: [&str; 2], parameters: &Parameters, claim: String, value: f64) -> Claim {
    let [system, all] = names.map(|metric| figures.compared(metric, parameters, [EAGER, LAZY]));
    let words = |all: f64, system: f64| format!("{} × ({} × with user time)", factor(system), factor(all));
    let found = system.zip(all).map(|(system, all)| (words(all.ratio, system.ratio), system.ratio));
    Claim::of(
        claim,
        format!("{} × (shown below 1 agrees)", factor(value)),
        found,
        system.and_then(|system| holds(&system, value)),
    )
}

fn spawn(figures: Figures, cpus: u64, value: f64) -> Claim {
    let claim = format!("system time of fork and exec, lazy over eager, {cpus} CPUs");
    of_system_time(figures, ["spawn_system_s", "spawn_cpu_s"], &at_cpus(cpus), claim, value)
}

fn work(figures: Figures, words: &str, name: &str, value: f64) -> Claim {
    let claim = format!("system time of {words}, lazy over eager, {MAIN_CPUS} CPUs");
    of_system_time(figures, ["system_s", "cpu_s"], &of_work(name), claim, value)
}

/// Where the eager form's set-up has the document's share of a task, how large is the lazy one's?
fn share(figures: Figures) -> Claim {
    let updates = updates_for(SHARE, &shares(figures, EAGER));
    let lazy = updates.and_then(|updates| {
        // The share falls with the updates, so that of fewer ones is no smaller.
        let shares = shares(figures, LAZY);
        shares.into_iter().rev().find(|(at, _)| *at <= updates.number).map(|(_, share)| share)
    });
    let claim = format!("share of set-up and tear-down, from eager to lazy, {MAIN_CPUS} CPUs");
    let document = format!("{} to less than {}", percent(SHARE), percent(SHARE_AFTER));
    let found = lazy.map(|share| (format!("{} to {}", percent(SHARE), percent(share)), share));
    Claim::of(claim, document, found, lazy.map(|share| share < SHARE_AFTER))
}

fn two_threads(figures: Figures) -> Claim {
    let compared = figures.compared("shared_total_ns", &by_two(MAIN_CPUS), [EAGER, LAZY]);
    let claim = format!("time of two threads, lazy over eager, {MAIN_CPUS} CPUs (here: of the object alone)");
    let found = compared.map(|compared| (format!("{} ×", factor(compared.ratio)), compared.ratio));
    Claim::of(
        claim,
        "0.96 to 0.98 × (shown below 1 agrees)",
        found,
        compared.and_then(|compared| holds(&compared, TWO_THREADS)),
    )
}

/// The reviewers' objection: how much of what lazy saves does another arm save?
fn objection(figures: Figures, metric: &str, how: &str, (arm, words): (&str, &str)) -> Claim {
    let median = |arm| figures.median(metric, &at_cpus(MAIN_CPUS), arm);
    let saved = |arm| Some(median(EAGER)? - median(arm)?);
    let part = saved(arm).zip(saved(LAZY)).filter(|(_, lazy)| *lazy > 0.0).map(|(arm, lazy)| arm / lazy);
    let claim = format!("objection: the gain of {words} over that of lazy ({how})");
    let found = part.map(|part| (percent(part), part));
    Claim::of(claim, "it may be most of it (above 50 % agrees)", found, part.map(|part| part > 0.5))
}

/// Further remarks, a line each.
pub fn remarks(parts: &[Part], machine: &Machine) -> Vec<String> {
    let figures = Figures(parts);
    let mut remarks = Vec::new();
    let at = FORMS.map(|arm| Some(format!("{arm} {}", updates_for(SHARE, &shares(figures, arm))?)));
    let at: Vec<String> = at.into_iter().flatten().collect();
    if !at.is_empty() {
        let share = percent(SHARE);
        remarks.push(format!(
            "Set-up takes {share} of a task, as in the document, if the task has this many updates at {MAIN_CPUS} CPUs: {}.",
            at.join(", ")
        ));
    }
    if !machine.is_simulated() {
        remarks.push(format!(
            "How slow a shared word is for {MAIN_CPUS} CPUs cannot be told on {} CPUs: --cpus {MAIN_CPUS} simulates it.",
            machine.cpus
        ));
    }
    remarks
}

/// An arm's share of set-up by the number of updates.
fn shares(figures: Figures, arm: &str) -> Vec<(f64, f64)> {
    let share =
        |updates: u64| Some((updates as f64, figures.median("setup_share", &with_updates(MAIN_CPUS, updates), arm)?));
    UPDATES.into_iter().filter_map(share).collect()
}

/// A number of updates.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Updates {
    number: f64,
    is_measured: bool,
}

impl std::fmt::Display for Updates {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // More than two digits would be a promise.
        let unit = 10f64.powf((self.number.log10().floor() - 1.0).max(0.0));
        let beyond = if self.is_measured { "" } else { " (extrapolated)" };
        write!(out, "{:.0}{beyond}", (self.number / unit).round() * unit)
    }
}

/// How many updates make a share, where shares fall with the updates. Set-up of s in a task with K updates of u each is s / (s + K·u) of it,
/// so that the share's odds fall as K rises: between two points it is read on the straight line of their logarithms, beyond them on that
/// law.
fn updates_for(share: f64, points: &[(f64, f64)]) -> Option<Updates> {
    const LEAST: f64 = 1e-6;
    let odds = |share: f64| {
        let share = share.clamp(LEAST, 1.0 - LEAST);
        (share / (1.0 - share)).ln()
    };
    let wanted = odds(share);
    let points: Vec<(f64, f64)> = points.iter().map(|(updates, share)| (updates.ln(), odds(*share))).collect();
    let (first, last) = (*points.first()?, *points.last()?);
    let beyond = |(at, odds): (f64, f64)| Updates { number: (at + odds - wanted).exp(), is_measured: false };
    if first.1 < wanted {
        return Some(beyond(first));
    }
    let between = points.windows(2).find(|pair| pair[0].1 >= wanted && wanted >= pair[1].1);
    Some(between.map_or(beyond(last), |pair| {
        let ((from, high), (to, low)) = (pair[0], pair[1]);
        let part = if high > low { (high - wanted) / (high - low) } else { 0.0 };
        Updates { number: (from + part * (to - from)).exp(), is_measured: true }
    }))
}

fn percent(part: f64) -> String {
    format!("{} %", for_people(part * 100.0, "1"))
}

#[cfg(test)]
mod tests {
    use super::super::{CPUS, example, object};
    use super::*;

    /// The example's arms take 1000, 500, 50, 5 and 5 in all metrics.
    fn parts() -> Vec<Part> {
        let rows =
            CPUS.into_iter().map(at_cpus).chain(UPDATES[1..].iter().map(|updates| with_updates(MAIN_CPUS, *updates)));
        vec![example(&object::LIFE, rows), example(&[object::TOTAL], [by_two(MAIN_CPUS)].into_iter())]
    }

    #[test]
    fn shares_are_read_on_their_law() {
        // Set-up as long as 1000 updates.
        let share = |updates: f64| (updates, 1000.0 / (1000.0 + updates));
        let points = [8.0, 64.0, 512.0, 4096.0].map(share);
        let near = |found: Option<Updates>, number: f64, is_measured| {
            let found = found.unwrap();
            assert!((found.number / number - 1.0).abs() < 1e-6 && found.is_measured == is_measured, "{found:?}");
        };
        near(updates_for(0.5, &points), 1000.0, true);
        near(updates_for(SHARE, &points), 1000.0 * (1.0 - SHARE) / SHARE, false);
        near(updates_for(0.999, &points), 1000.0 * 0.001 / 0.999, false);
        near(updates_for(points[1].1, &points), 64.0, true);
        assert_eq!(updates_for(0.5, &[]), None);
        assert!(updates_for(0.1, &[(8.0, 0.2), (64.0, 0.0)]).is_some_and(|of| of.number < 64.0), "no share at all");
    }

    #[test]
    fn numbers_of_updates_promise_two_digits() {
        let of = |number, is_measured| Updates { number, is_measured }.to_string();
        assert_eq!(of(8.4, true), "8");
        assert_eq!(of(1234.0, true), "1200");
        assert_eq!(of(10_345.0, false), "10000 (extrapolated)");
    }

    #[test]
    fn claims_are_held_against_what_was_measured_or_left_open() {
        let claims = claims(&parts());
        let told: Vec<_> = claims.iter().filter(|claim| claim.claim.starts_with("objection")).collect();
        assert_eq!(told.len(), 4);
        // 500 of 995, and 950 of 995.
        assert_eq!((told[0].measured.as_deref(), told[0].holds), (Some("50.3 %"), Some(true)));
        assert_eq!((told[1].measured.as_deref(), told[1].holds), (Some("95.5 %"), Some(true)));
        let spawn = &claims[1];
        assert!(spawn.claim.contains("256") && spawn.document.starts_with("0.890 × ("), "{}", spawn.document);
        assert_eq!((&spawn.measured, spawn.holds), (&None, None));
        let two = claims.iter().find(|claim| claim.claim.contains("two threads")).unwrap();
        assert_eq!((two.measured.as_deref(), two.holds), (Some("0.0050 ×"), Some(true)));
        assert!(super::claims(&[]).iter().all(|claim| claim.measured.is_none() && claim.holds.is_none()));
    }

    #[test]
    fn remarks_on_two_cpus_say_what_cannot_be_told() {
        let remarks = remarks(&parts(), &Machine::host());
        assert!(remarks.iter().any(|line| line.contains("cannot be told")));
        assert!(remarks.iter().any(|line| line.contains("eager") && line.contains("updates")), "{remarks:?}");
        assert!(super::remarks(&[], &Machine::simulated(256, None)).is_empty(), "there it can be told");
    }
}
