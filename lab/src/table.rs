//! Results for a terminal: tables with verdicts in words, findings and warnings.

use std::fmt::Write as _;

use statistics::{Comparison, LEVEL, Verdict};

use crate::analysis::{Analysis, BASELINE, CONTROL, Judged};
use crate::arm::Arm;
use crate::machine::Machine;
use crate::metric::{Metric, PEAK, for_people};
use crate::progress::duration;
use crate::sheet::{Sheet, Side};

/// Signs of a verdict behind a ratio: less, more, and no difference shown.
const SIGNS: [&str; 3] = ["▼", "▲", " "];

/// In place of a missing figure.
pub const NONE: &str = "–";

/// Where and how it was measured.
pub fn conditions(analysis: &Analysis) -> String {
    place(&Machine::host()) + &how(analysis)
}

/// The command and the machine.
pub fn place(machine: &Machine) -> String {
    format!("{}\n{machine}\n", crate::json::command_line())
}

/// Blocks, seed, time, commit, and where each allocator comes from.
pub fn how(analysis: &Analysis) -> String {
    let measured = &analysis.measured;
    let mut text = String::new();
    let (blocks, warm_ups, seed) = (measured.blocks, measured.plan.warm_ups, measured.plan.seed);
    let dropped = if warm_ups == 0 { String::new() } else { format!(" after {}", number(warm_ups, "warm-up")) };
    let _ = writeln!(
        text,
        "{}{dropped}, order from seed {seed}, {}; commit {}",
        number(blocks, "block"),
        duration(measured.elapsed.as_secs_f64()),
        crate::commit(),
    );
    for arm in measured.arms.iter().filter(|arm| arm.has_origin() && arm.name != measured.arms[CONTROL].name) {
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
        let mut sheet = with_ratios(analysis, "other metrics");
        rest.iter().for_each(|judged| add_ratios(&mut sheet, judged.metric.title, judged));
        sheets.push(sheet);
    }
    sheets
}

/// All subjects: their first metric and their memory.
pub fn of_all(analysis: &Analysis) -> Vec<Sheet> {
    analysis.main_metrics().map(|at| of_subjects(analysis, at)).collect()
}

/// One metric, a line for each arm.
pub fn of_metric(analysis: &Analysis, judged: &Judged, baseline: usize) -> Sheet {
    let arms = &analysis.measured.arms;
    let against = format!("× {}", arms[baseline].name);
    let mut sheet = Sheet::new([
        (judged.metric.title, Side::Left),
        ("median", Side::Right),
        (&against, Side::Right),
        ("95 % interval", Side::Right),
        ("p value", Side::Right),
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
    if let Some(judged) = analysis.means.get(metric) {
        sheet.add([analysis.mean_name()].into_iter().chain(judged.comparisons.iter().map(brief)));
    }
    sheet
}

/// All subjects in one metric: a line for each, with each arm's own figure and its ratio, without the control.
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

/// An arm's median.
pub fn own(judged: &Judged, arm: usize) -> String {
    judged.medians[arm].map_or(NONE.to_owned(), |median| for_people(median.value, judged.metric.unit))
}

/// What the ratios and signs in tables of several metrics or subjects mean.
const LEGEND: &str =
    "Ratios are to the first column, and their signs are verdicts: ▼ less, ▲ more, no sign: no difference shown.\n";

/// Explains these tables: the ratios, and the control if they show it.
pub fn legend(analysis: &Analysis, sheets: &[Sheet]) -> String {
    let [baseline, control] = [BASELINE, CONTROL].map(|arm| &analysis.measured.arms[arm].name);
    let mut cells =
        sheets.iter().flat_map(|it| it.rows.iter().flatten().chain(it.headings.iter().map(|(name, _)| name)));
    let text = if sheets.is_empty() { "" } else { LEGEND };
    let is_shown = cells.any(|cell| cell == control);
    let control =
        format!("{control} is a control, a second run of {baseline} in each block: it should show no difference.\n");
    text.to_owned() + if is_shown { &control } else { "" }
}

/// Findings, warnings, and whether the run was too short to show a difference.
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
        let _ = writeln!(text, "Ended early, after {}.", number(measured.blocks, "whole block"));
    }
    if measured.blocks > 0 && !analysis.could_show() {
        let _ = writeln!(
            text,
            "note: {} cannot show a difference between {}, however large; use more blocks",
            number(measured.blocks, "block"),
            number(measured.arms.len() - 1, "arm"),
        );
    }
    text += &warnings(analysis);
    text
}

/// A reason to distrust the run: the control differs.
fn warnings(analysis: &Analysis) -> String {
    let mut text = String::new();
    let arms = &analysis.measured.arms;
    for (row, judged) in analysis.measured.rows.iter().zip(&analysis.rows) {
        let row = Some(row.name()).filter(|name| !name.is_empty()).map_or(String::new(), |name| format!("{name}: "));
        let control = judged.first().and_then(|judged| judged.comparisons[CONTROL]);
        // With several controls, one of them is likely to differ by chance.
        if let Some(control) = control.filter(|control| control.p * analysis.rows.len() as f64 <= LEVEL) {
            let (name, ratio) = (&arms[BASELINE].name, control.ratio);
            let _ = writeln!(
                text,
                "warning: {row}the control shows a difference of {name} to itself ({ratio:.3} ×), as one run in twenty does by chance; run it again"
            );
        }
    }
    text
}

/// The verdict in words. If no difference is shown: how large one had to be.
pub fn verdict(compared: &Comparison, metric: &Metric) -> String {
    match (compared.verdict, compared.detectable) {
        (Verdict::Less, _) => metric.words[0].to_owned(),
        (Verdict::More, _) => metric.words[1].to_owned(),
        (Verdict::NotShown, Some(effect)) => format!("no difference shown (detectable: {})", percent(effect)),
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

/// The sign of a verdict.
pub fn sign(compared: &Comparison) -> &'static str {
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

    #[test]
    fn one_subject() {
        let mut analysis = example::analysis(&[""]);
        analysis.also_against("peer");
        let mut sheets = of_subject(&analysis, 0);
        let (baseline, rows) = &analysis.others[0];
        sheets.push(of_metric(&analysis, &rows[0][0], *baseline));
        analysis.measured.blocks = 3;
        analysis.measured.interrupted = true;
        insta::assert_snapshot!(shown(&analysis, &sheets));
    }

    #[test]
    fn several_subjects() {
        let analysis = example::analysis(&["larson", "store"]);
        let mut sheets = of_all(&analysis);
        sheets.push(figures(&analysis, 0));
        insta::assert_snapshot!(shown(&analysis, &sheets));
    }

    fn shown(analysis: &Analysis, sheets: &[Sheet]) -> String {
        let tables: String = sheets.iter().map(|sheet| format!("{sheet}\n")).collect();
        tables + &legend(analysis, sheets) + &notes(analysis)
    }

    #[test]
    fn small_ratios_keep_two_digits() {
        let read = |ratio, expected: &str| assert_eq!(factor(ratio), expected);
        read(0.9871, "0.987");
        read(12.3456, "12.346");
        read(0.001_443, "0.0014");
        read(0.0, "0.000");
    }
}
