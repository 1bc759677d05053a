//! What the document says, compared with what was measured; and further remarks.

use statistics::{Comparison, Verdict};

use super::hackbench::{HACKBENCH, context, documented};
use super::pair::{CONSTRUCTED, CONSTRUCTOR, POP_PUSH, of_all, rust, with_threads};
use super::{DEDICATED, GENERAL, WITH_CONSTRUCTOR};
use crate::experiment::figures::Figures;
use crate::experiment::{Claim, NOTHING, Part};
use crate::machine::Machine;
use crate::metric::for_people;
use crate::parameters::Parameters;
use crate::table::{factor, verdict};

/// The smallest effect that the document's runs could have detected.
const DETECTABLE: f64 = 0.065;

pub fn claims(parts: &[Part]) -> Vec<Claim> {
    let find = |of| Figures(parts).compared(HACKBENCH.name, &context(of), [GENERAL, DEDICATED]);
    let told = |compared: &Comparison| {
        let [low, high] = compared.interval;
        format!("{} × ({} to {}), {}", factor(compared.ratio), factor(low), factor(high), verdict(compared, &HACKBENCH))
    };
    let claim = |claim: &str, document: String, compared: Option<Comparison>| {
        let found = compared.as_ref().map(|compared| (told(compared), compared.ratio));
        Claim::of(claim, document, found, compared.as_ref().and_then(shows_none))
    };
    let document =
        format!("{} × (0.973 to 1.067), no difference shown (within 6.5 % of 1 agrees)", factor(documented()));
    vec![
        claim("hackbench with a context for each task, dedicated over general", document, find("task")),
        Claim {
            holds: None,
            ..claim(
                "hackbench with a context for each message, dedicated over general",
                NOTHING.to_owned(),
                find("message"),
            )
        },
    ]
}

/// The allocation alone, which can be simulated.
pub fn pairs(parts: &[Part], machine: &Machine) -> Vec<Claim> {
    let claim = |words: &str, threads: u64| {
        let row = rust(with_threads(threads));
        let ratio = Figures(parts).compared(POP_PUSH.name, &row, [GENERAL, DEDICATED]).map(|compared| compared.ratio);
        let claim = format!("allocation and release, {words}, dedicated over general");
        let document = format!("{} ×, no difference shown, for hackbench", factor(documented()));
        Claim::of(claim, document, ratio.map(|ratio| (format!("{} ×", factor(ratio)), ratio)), None)
    };
    vec![claim("one thread", 1), claim("a thread on each CPU", of_all(machine))]
}

/// The document shows no difference. A run agrees if it shows none either and could have detected one of the same size.
fn shows_none(compared: &Comparison) -> Option<bool> {
    match (compared.verdict, compared.detectable) {
        (Verdict::NotShown, Some(effect)) if effect <= DETECTABLE => Some(true),
        (Verdict::NotShown, _) => None,
        // A difference that the document's runs could not have detected agrees, too.
        _ => Some(compared.ratio.ln().abs() < DETECTABLE.ln_1p()),
    }
}

pub fn remarks(parts: &[Part], machine: &Machine) -> Vec<String> {
    let figures = Figures(parts);
    let kind = if machine.is_virtual { "virtual" } else { "real" };
    let real = (!machine.is_simulated())
        .then(|| format!("The document asks for a run on real hardware. This machine is {kind}."));
    [real, constructor(figures)].into_iter().flatten().collect()
}

/// How much of a constructor's time is saved if objects stay constructed.
fn constructor(figures: Figures) -> Option<String> {
    let none = Parameters::default();
    let of = |metric: &str, arm| figures.median(metric, &none, arm);
    let alone = of(CONSTRUCTOR.name, DEDICATED)?;
    let saved = of(CONSTRUCTED.name, DEDICATED)? - of(CONSTRUCTED.name, WITH_CONSTRUCTOR)?;
    Some(format!(
        "A constructor takes {}. If objects stay constructed, each use is {} shorter ({:.0} % of the constructor).",
        for_people(alone, "ns"),
        for_people(saved, "ns"),
        saved / alone * 100.0
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
        let two = arms(&[(GENERAL, 0.15), (DEDICATED, 0.10)]);
        let told = claims(&[example(&two, &[HACKBENCH], ["task", "message"].map(context).into_iter())]);
        let measured = told[0].measured.as_deref().unwrap();
        assert!(measured.starts_with("0.6") && measured.ends_with("faster"), "{measured}");
        assert_eq!((told[0].holds, told[1].holds), (Some(false), None));
        assert!(told[0].document.starts_with("1.020"));
        assert!(claims(&[]).iter().all(|claim| claim.measured.is_none()));

        let all = arms(&[(GENERAL, 150.0), (DEDICATED, 120.0), (WITH_CONSTRUCTOR, 20.0)]);
        let constructed = example(&all, &[CONSTRUCTED, CONSTRUCTOR], [Parameters::default()].into_iter());
        let remarks = remarks(&[constructed], &Machine::host());
        let [document, saved] = &remarks[..] else { panic!("{remarks:?}") };
        assert!(document.contains("real hardware") && saved.contains("A constructor takes 120 ns"), "{remarks:?}");
        assert!(saved.contains("100 ns shorter (83 %"), "{saved}");
    }
}
