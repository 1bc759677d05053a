//! What the document says, held against what was measured; and what follows besides.

use statistics::{Comparison, Verdict};

use super::hackbench::{HACKBENCH, context, documented};
use super::pair::{BYTES, CONSTRUCTED, CONSTRUCTOR, POP_PUSH, of_all, rust, with_threads};
use super::{DEDICATED, GENERAL, WITH_CONSTRUCTOR};
use crate::experiment::figures::Figures;
use crate::experiment::{Claim, Part};
use crate::machine::Machine;
use crate::metric::for_people;
use crate::parameters::Parameters;
use crate::table::{factor, verdict};

/// The smallest effect that the document's runs could have seen.
const DOCUMENT_WOULD_SEE: f64 = 0.065;

pub fn claims(parts: &[Part]) -> Vec<Claim> {
    let find = |of| Figures(parts).compared(HACKBENCH.name, &context(of), [GENERAL, DEDICATED]);
    let told = |compared: &Comparison| {
        let [low, high] = compared.interval;
        format!("{} ({} to {}), {}", factor(compared.ratio), factor(low), factor(high), verdict(compared, &HACKBENCH))
    };
    let claim = |claim: &str, document: String, compared: Option<Comparison>| {
        let found = compared.as_ref().map(|compared| (told(compared), compared.ratio));
        Claim::of(claim, document, found, compared.as_ref().and_then(shows_none))
    };
    let document = format!("{} (0.973 to 1.067), no difference shown", factor(documented()));
    vec![
        claim("hackbench, a context for each task, dedicated over general", document, find("task")),
        Claim { holds: None, ..claim("the same, a context for each message", "–".to_owned(), find("message")) },
    ]
}

/// The allocation alone: what can be simulated of it.
pub fn pairs(parts: &[Part], machine: &Machine) -> Vec<Claim> {
    let claim = |words: &str, threads: u64| {
        let row = rust(with_threads(threads));
        let ratio = Figures(parts).compared(POP_PUSH.name, &row, [GENERAL, DEDICATED]).map(|compared| compared.ratio);
        let claim = format!("an allocation and a release, {words}, dedicated over general");
        let document = format!("{}, no difference shown, of hackbench", factor(documented()));
        Claim::of(claim, document, ratio.map(|ratio| (factor(ratio), ratio)), None)
    };
    vec![claim("one thread", 1), claim("a thread on each CPU", of_all(machine))]
}

/// The document shows no difference of the size that it could have seen. That holds if this run shows none and could have seen as much.
fn shows_none(compared: &Comparison) -> Option<bool> {
    match (compared.verdict, compared.detectable) {
        (Verdict::NotShown, Some(effect)) if effect <= DOCUMENT_WOULD_SEE => Some(true),
        (Verdict::NotShown, _) => None,
        // One that the document's runs could not have seen contradicts nothing.
        _ => Some(compared.ratio.ln().abs() < DOCUMENT_WOULD_SEE.ln_1p()),
    }
}

pub fn remarks(parts: &[Part], machine: &Machine) -> Vec<String> {
    let figures = Figures(parts);
    let is_virtual = if machine.is_virtual { "a virtual one" } else { "no virtual one" };
    let real = (!machine.is_simulated())
        .then(|| format!("The document's author wanted to see it on real hardware: this machine is {is_virtual}."));
    [real, of_one_thread(figures), constructor(figures), bytes(figures)].into_iter().flatten().collect()
}

fn of_one_thread(figures: Figures) -> Option<String> {
    let of = |arm| Some(for_people(figures.median(POP_PUSH.name, &with_threads(1), arm)?, "ns"));
    Some(format!("An allocation and a release of 64 bytes: general {}, dedicated {}.", of(GENERAL)?, of(DEDICATED)?))
}

/// How much of a constructor is saved by objects that stay constructed.
fn constructor(figures: Figures) -> Option<String> {
    let none = Parameters::default();
    let of = |metric: &str, arm| figures.median(metric, &none, arm);
    let (alone, saved) = saved(
        of(CONSTRUCTOR.name, DEDICATED)?,
        [of(CONSTRUCTED.name, DEDICATED)?, of(CONSTRUCTED.name, WITH_CONSTRUCTOR)?],
    );
    Some(format!(
        "A constructor of {} is worth keeping: each use is {} shorter ({:.0} % of it) where objects stay constructed.",
        for_people(alone, "ns"),
        for_people(saved, "ns"),
        saved / alone * 100.0
    ))
}

/// The constructor alone, and what is saved of it.
fn saved(alone: f64, [each_time, once]: [f64; 2]) -> (f64, f64) {
    (alone, each_time - once)
}

fn bytes(figures: Figures) -> Option<String> {
    let of = |arm| figures.median(BYTES.name, &Parameters::default().with("bytes", 904), arm);
    Some(format!(
        "An object of 904 bytes takes {:.0} bytes from the general classes, {:.0} from its own cache.",
        of(GENERAL)?,
        of(DEDICATED)?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::Arm;
    use crate::experiment::figures::example;

    fn arms(figures: &[(&str, f64)]) -> Vec<(Arm, f64)> {
        figures.iter().map(|(name, value)| (Arm::told(*name, *name), *value)).collect()
    }

    #[test]
    fn claim_of_no_difference_needs_power_to_see_one() {
        let some = |verdict, detectable, ratio| {
            let analysis = crate::example::analysis(&[""]);
            shows_none(&Comparison { verdict, detectable, ratio, ..analysis.rows[0][0].comparisons[2].unwrap() })
        };
        assert_eq!(some(Verdict::NotShown, Some(0.03), 1.01), Some(true));
        assert_eq!(some(Verdict::NotShown, Some(0.2), 1.1), None);
        assert_eq!(some(Verdict::NotShown, None, 1.1), None);
        assert_eq!(some(Verdict::Less, Some(0.01), 0.98), Some(true), "too small for the document");
        assert_eq!(some(Verdict::More, Some(0.01), 1.2), Some(false));
    }

    #[test]
    fn claims_and_remarks_have_their_figures() {
        let hackbench = example(
            &arms(&[(GENERAL, 0.15), (DEDICATED, 0.10)]),
            &[HACKBENCH],
            ["task", "message"].map(context).into_iter(),
        );
        let told = claims(&[hackbench]);
        assert!(
            told[0].measured.as_deref().is_some_and(|figure| figure.starts_with("0.6") && figure.ends_with("faster")),
            "{:?}",
            told[0].measured
        );
        assert_eq!((told[0].holds, told[1].holds), (Some(false), None));
        assert!(told[0].document.starts_with("1.020"));
        assert!(claims(&[]).iter().all(|claim| claim.measured.is_none()));

        let all = arms(&[(GENERAL, 150.0), (DEDICATED, 120.0), (WITH_CONSTRUCTOR, 20.0)]);
        let constructed = example(&all, &[CONSTRUCTED, CONSTRUCTOR], [Parameters::default()].into_iter());
        let remarks = remarks(&[constructed], &Machine::host());
        assert!(remarks[0].contains("virtual one"));
        assert!(
            remarks[1].contains("A constructor of 120 ns") && remarks[1].contains("100 ns shorter (83 %"),
            "{}",
            remarks[1]
        );
    }
}
