//! What came out, for a terminal: tables with the verdicts in words, and whatever a reader has to know besides.

use std::fmt::Write as _;

use statistics::{Comparison, LEVEL, Verdict};

use crate::analysis::{Analysis, BASELINE, BEST_PEER, CONTROL, Judged};
use crate::arm::Arm;
use crate::machine::Machine;
use crate::metric::{Metric, PEAK, for_people};
use crate::progress::duration;
use crate::sheet::{Sheet, Side};

/// What stands behind a ratio where a sign has to do for a verdict.
const SIGNS: [&str; 3] = ["▼", "▲", " "];

/// Stands where there is no figure.
const NONE: &str = "–";

/// How and where it was measured.
pub fn conditions(analysis: &Analysis) -> String {
    place(&Machine::host()) + &how(analysis)
}

/// Where it was measured, and by which command.
pub fn place(machine: &Machine) -> String {
    format!("{}\n{machine}\n", crate::json::command_line())
}

/// How it was measured.
pub fn how(analysis: &Analysis) -> String {
    let measured = &analysis.measured;
    let mut text = String::new();
    let (blocks, warm_ups, seed) = (measured.blocks, measured.plan.warm_ups, measured.plan.seed);
    let _ = writeln!(
        text,
        "{} after {warm_ups} that was dropped, order drawn from seed {seed}, {}; commit {}",
        number(blocks, "block"),
        duration(measured.elapsed.as_secs_f64()),
        crate::commit(),
    );
    for arm in measured.arms.iter().filter(|arm| arm.library.is_some() && arm.name != measured.arms[CONTROL].name) {
        let _ = writeln!(text, "    {:12} {}", arm.name, arm.origin());
    }
    text
}

/// The usual tables of a measurement.
pub fn usual(analysis: &Analysis) -> Vec<Sheet> {
    match (analysis.measured.blocks, analysis.rows.len()) {
        (0, _) => Vec::new(),
        (_, 1) => of_subject(analysis, 0),
        _ => of_all(analysis),
    }
}

/// One subject: its first metric and its memory in full, the others in one table.
pub fn of_subject(analysis: &Analysis, row: usize) -> Vec<Sheet> {
    let judged = &analysis.rows[row];
    let (in_full, rest): (Vec<_>, Vec<_>) =
        judged.iter().partition(|of| of.metric == judged[0].metric || of.metric == PEAK);
    let mut sheets: Vec<Sheet> = in_full.into_iter().map(|judged| of_metric(analysis, judged, BASELINE)).collect();
    if !rest.is_empty() {
        let mut sheet = with_ratios(analysis, "besides");
        rest.iter().for_each(|judged| add_ratios(&mut sheet, judged.metric.title, judged));
        sheets.push(sheet);
    }
    sheets
}

/// All subjects: their first metric and their memory.
pub fn of_all(analysis: &Analysis) -> Vec<Sheet> {
    let metrics = &analysis.measured.rows[0].metrics;
    let main = (0..metrics.len()).filter(|&at| at == 0 || metrics[at] == PEAK);
    main.map(|at| of_subjects(analysis, at)).collect()
}

/// One metric, a line for each arm.
pub fn of_metric(analysis: &Analysis, judged: &Judged, baseline: usize) -> Sheet {
    let arms = &analysis.measured.arms;
    let against = format!("over {}", arms[baseline].name);
    let mut sheet = Sheet::new([
        (judged.metric.title, Side::Left),
        ("median", Side::Right),
        (&against, Side::Right),
        ("95 % interval", Side::Right),
        ("p", Side::Right),
        ("verdict", Side::Left),
    ]);
    // The control is one of the first baseline only.
    let shown = arms.iter().enumerate().filter(|(at, _)| *at != CONTROL || baseline == BASELINE);
    for (at, arm) in shown {
        let mut cells = vec![arm.name.clone(), own(judged, at)];
        match &judged.comparisons[at] {
            Some(compared) => {
                let [low, high] = compared.interval;
                let interval = format!("{} to {}", factor(low), factor(high));
                cells.extend([factor(compared.ratio), interval, chance(compared.p), verdict(compared, &judged.metric)]);
            }
            None if at == baseline => {}
            None => cells.extend([NONE, NONE, NONE, "not measured"].map(str::to_owned)),
        }
        sheet.add(cells);
    }
    sheet
}

/// All subjects in one metric, a line for each, and their means.
pub fn of_subjects(analysis: &Analysis, metric: usize) -> Sheet {
    let mut sheet = with_ratios(analysis, analysis.measured.rows[0].metrics[metric].title);
    for (row, judged) in analysis.measured.rows.iter().zip(&analysis.rows) {
        add_ratios(&mut sheet, &row.name(), &judged[metric]);
    }
    let over_best = format!("over {BEST_PEER}");
    let mean = analysis.mean_name();
    for (name, means) in [(mean, &analysis.means), (over_best, &analysis.means_over_best_peer)] {
        // Without any peer there is no best one.
        if let Some(judged) = means.get(metric).filter(|judged| judged.comparisons.iter().any(Option::is_some)) {
            sheet.add([name].into_iter().chain(judged.comparisons.iter().map(brief)));
        }
    }
    sheet
}

/// All subjects in one metric, a line for each with every arm's own figure, and its ratio where it is compared; without the control.
pub fn figures(analysis: &Analysis, metric: usize) -> Sheet {
    let arms = || analysis.measured.arms.iter().enumerate().filter(|(arm, _)| *arm != CONTROL);
    let names = arms().map(|(_, arm)| (arm.name.as_str(), Side::Right));
    let title = analysis.measured.rows[0].metrics[metric].title;
    let mut sheet = Sheet::new([(title, Side::Left)].into_iter().chain(names));
    for (row, judged) in analysis.measured.rows.iter().zip(&analysis.rows) {
        let cell = |(arm, _): (usize, &Arm)| {
            let ratio = judged[metric].comparisons[arm].as_ref();
            let ratio = ratio.map_or(String::new(), |compared| {
                format!("  ({} {})", factor(compared.ratio), sign(compared)).replace("  )", ")")
            });
            own(&judged[metric], arm) + &ratio
        };
        sheet.add([row.name()].into_iter().chain(arms().map(cell)));
    }
    sheet
}

/// A table whose columns are the arms.
fn with_ratios(analysis: &Analysis, heading: &str) -> Sheet {
    let names = analysis.measured.arms.iter().map(|arm| (arm.name.as_str(), Side::Right));
    Sheet::new([(heading, Side::Left)].into_iter().chain(names))
}

/// A line with the baseline's own figure, and every other arm's ratio to it.
fn add_ratios(sheet: &mut Sheet, name: &str, judged: &Judged) {
    let ratios = judged.comparisons.iter().skip(CONTROL).map(brief);
    sheet.add([name.to_owned(), own(judged, BASELINE)].into_iter().chain(ratios));
}

/// An arm's own figure.
fn own(judged: &Judged, arm: usize) -> String {
    judged.medians[arm].map_or(NONE.to_owned(), |median| for_people(median.value, judged.metric.unit))
}

/// What the signs in a table with several metrics or subjects mean.
pub const LEGEND: &str = "Ratios to the first column, block by block; ▼ less or ▲ more where a difference is shown, no sign where none is.\n";

/// Findings, warnings, and what the run could not have seen.
pub fn notes(analysis: &Analysis) -> String {
    let measured = &analysis.measured;
    let mut text = String::new();
    for finding in analysis.findings() {
        let row = if finding.row.is_empty() { String::new() } else { format!("{}, ", finding.row) };
        let kind = if finding.is_fault { "FINDING" } else { "note" };
        let arm = if finding.arm.is_empty() { String::new() } else { format!("under {}: ", finding.arm) };
        let _ = writeln!(text, "{kind}: {row}{arm}{}", finding.what);
        finding.detail.lines().for_each(|line| {
            let _ = writeln!(text, "    {line}");
        });
    }
    if measured.interrupted {
        let _ = writeln!(text, "Ended early, with {} that were whole.", number(measured.blocks, "block"));
    }
    if measured.blocks > 0 && !analysis.could_show() {
        let _ = writeln!(
            text,
            "note: so few blocks can show no difference, however large, with {}; use more",
            number(measured.arms.len() - CONTROL - 1, "candidate"),
        );
    }
    text += &warnings(analysis);
    text
}

/// Where the run should not be trusted: the control differs, or arms drifted apart.
fn warnings(analysis: &Analysis) -> String {
    let mut text = String::new();
    let arms = &analysis.measured.arms;
    let (controls, drifts) = (analysis.rows.len(), analysis.rows.len() * (arms.len() - 1));
    for (row, judged) in analysis.measured.rows.iter().zip(&analysis.rows) {
        let Some(judged) = judged.first() else { continue };
        let row = Some(row.name()).filter(|name| !name.is_empty()).map_or(String::new(), |name| format!("{name}: "));
        for (arm, compared) in arms.iter().zip(&judged.comparisons) {
            let Some(compared) = compared else { continue };
            // Of several controls, one is likely to show something.
            if arm.name == arms[CONTROL].name && compared.p * controls as f64 <= LEVEL {
                let ratio = compared.ratio;
                let _ = writeln!(
                    text,
                    "warning: {row}{} differs from itself ({ratio:.3}), as one run in twenty does by chance; run it again",
                    arms[BASELINE].name
                );
            }
            if compared.drift.is_shown(drifts) {
                let direction = if compared.drift.correlation > 0.0 { "rose" } else { "fell" };
                let _ = writeln!(
                    text,
                    "warning: {row}the {} of {} over {} {direction} from block to block; it has no one value",
                    judged.metric.title, arm.name, arms[BASELINE].name
                );
            }
        }
    }
    text
}

/// The verdict in words; what could have been seen where none was.
pub fn verdict(compared: &Comparison, metric: &Metric) -> String {
    match (compared.verdict, compared.detectable) {
        (Verdict::Less, _) => metric.words[0].to_owned(),
        (Verdict::More, _) => metric.words[1].to_owned(),
        (Verdict::NotShown, Some(effect)) => format!("no difference shown (would see {})", percent(effect)),
        (Verdict::NotShown, None) => "no difference shown (too few blocks)".to_owned(),
    }
}

fn number(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn percent(part: f64) -> String {
    if part >= 0.1 { format!("{:.0} %", part * 100.0) } else { format!("{:.1} %", part * 100.0) }
}

fn brief(compared: &Option<Comparison>) -> String {
    let Some(compared) = compared else { return format!("{NONE}  ") };
    format!("{} {}", factor(compared.ratio), sign(compared))
}

fn sign(compared: &Comparison) -> &'static str {
    match compared.verdict {
        Verdict::Less => SIGNS[0],
        Verdict::More => SIGNS[1],
        Verdict::NotShown => SIGNS[2],
    }
}

/// A ratio: three places, and two digits of one that is very small.
pub fn factor(ratio: f64) -> String {
    let places = if ratio >= 0.1 || ratio <= 0.0 { 3 } else { (1.0 - ratio.log10().floor()) as usize };
    format!("{ratio:.places$}")
}

fn chance(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    fn shown(sheets: &[Sheet]) -> String {
        sheets.iter().map(|sheet| format!("{sheet}\n")).collect()
    }

    #[test]
    fn table_of_one_subject_matches_the_snapshot() {
        let analysis = example::analysis(&[""]);
        insta::assert_snapshot!(shown(&of_subject(&analysis, 0)) + LEGEND + &notes(&analysis));
    }

    #[test]
    fn several_subjects() {
        let analysis = example::analysis(&["larson", "store"]);
        insta::assert_snapshot!(shown(&of_all(&analysis)) + LEGEND + &notes(&analysis));
    }

    #[test]
    fn against_another_baseline() {
        let mut analysis = example::analysis(&[""]);
        analysis.also_against("peer");
        let (baseline, rows) = &analysis.others[0];
        insta::assert_snapshot!(of_metric(&analysis, &rows[0][0], *baseline));
    }

    #[test]
    fn short_run_notes_that_it_is_short() {
        let mut analysis = example::analysis(&[""]);
        analysis.measured.blocks = 3;
        analysis.measured.interrupted = true;
        insta::assert_snapshot!(notes(&analysis));
    }

    #[test]
    fn small_ratios_keep_two_digits() {
        let read = |ratio, expected: &str| assert_eq!(factor(ratio), expected);
        read(0.9871, "0.987");
        read(12.3456, "12.346");
        read(0.001_443, "0.0014");
        read(0.0, "0.000");
    }

    #[test]
    fn figures_have_every_arms_own_but_no_control() {
        let analysis = example::analysis(&["larson", "store"]);
        insta::assert_snapshot!(figures(&analysis, 0));
    }
}
