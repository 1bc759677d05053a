//! What the tour says of the figures: a table of each part, and at its end where Commensal was better, worse, or neither.

use lab::analysis::{Analysis, BASELINE, CONTROL, Judged};
use lab::arm::{COMMENSAL, GLIBC};
use lab::metric::Metric;
use lab::sheet::{Sheet, Side};
use lab::table;
use statistics::Verdict;

/// One metric of one program under every arm: its own figures, in the unit that stands at the line's head.
pub fn table(analysis: &Analysis) -> Sheet {
    let arms = analysis.measured.arms.iter().map(|arm| (arm.name.as_str(), Side::Right));
    let mut sheet = Sheet::new([("smaller is better", Side::Left)].into_iter().chain(arms));
    for (name, judged) in lines(analysis, &analysis.rows) {
        let (unit, one) = unit(&judged.metric);
        let cells = judged.medians.iter().zip(&judged.comparisons).enumerate().map(|(arm, (median, compared))| {
            let sign = match compared.filter(|_| arm != CONTROL).map(|compared| compared.verdict) {
                Some(Verdict::Less) => "▼",
                Some(Verdict::More) => "▲",
                _ => " ",
            };
            median.map_or("–  ".to_owned(), |median| format!("{} {sign}", three_digits(median.value * one)))
        });
        sheet.add([format!("{name}, {unit}")].into_iter().chain(cells));
    }
    sheet
}

/// Every metric of every program, with what it is called.
fn lines<'a>(analysis: &'a Analysis, rows: &'a [Vec<Judged>]) -> impl Iterator<Item = (String, &'a Judged)> {
    let rows = analysis.measured.rows.iter().zip(rows);
    rows.flat_map(|(row, judged)| judged.iter().map(|of| (format!("{}: {}", row.name(), of.metric.title), of)))
}

/// The unit that people read, and how much of it is one of the metric's own.
fn unit(metric: &Metric) -> (&'static str, f64) {
    match metric.unit {
        "s" => ("ms", 1e3),
        "kB" => ("MiB", 1.0 / 1024.0),
        unit => (unit, 1.0),
    }
}

fn three_digits(value: f64) -> String {
    let places = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.places$}")
}

/// Commensal over another arm, in one line of a table.
pub struct Compared {
    line: String,
    with: String,
    ratio: f64,
    verdict: Verdict,
}

/// Commensal over glibc, and over each other arm that stands for itself.
pub fn compared(analysis: &mut Analysis) -> Vec<Compared> {
    let others = |name: &String| ![GLIBC, COMMENSAL].contains(&name.as_str());
    let mut names: Vec<String> = analysis.measured.arms.iter().map(|arm| arm.name.clone()).filter(others).collect();
    names.retain(|name| *name != analysis.measured.arms[CONTROL].name);
    names.iter().for_each(|name| analysis.also_against(name));
    let arms = &analysis.measured.arms;
    let ours = arms.iter().position(|arm| arm.name == COMMENSAL);
    let all = analysis.others.iter().map(|(baseline, rows)| (*baseline, rows));
    [(BASELINE, &analysis.rows)]
        .into_iter()
        .chain(all)
        .flat_map(|(baseline, rows)| lines(analysis, rows).map(move |(line, judged)| (baseline, line, judged)))
        .filter_map(|(baseline, line, judged)| {
            let compared = judged.comparisons[ours?]?;
            let (ratio, verdict) = (compared.ratio, compared.verdict);
            Some(Compared { line, with: arms[baseline].name.clone(), ratio, verdict })
        })
        .collect()
}

/// Whether a program did something else under an arm than it should; what peers do is not held against Commensal.
pub fn has_fault(analysis: &Analysis) -> bool {
    let is_peer = |name: &str| analysis.measured.arms.iter().any(|arm| arm.is_peer && arm.name == name);
    analysis.findings().any(|finding| finding.is_fault && !is_peer(&finding.arm))
}

/// Three lists of what was compared, by the verdicts.
pub fn summary(all: &[Compared]) -> String {
    [
        ("Where Commensal was faster or smaller here (its figure over the other's)", Verdict::Less),
        ("Where it was slower or larger here", Verdict::More),
        ("Where no difference is shown", Verdict::NotShown),
    ]
    .map(|(heading, verdict)| {
        let mut lines: Vec<(&str, String)> = Vec::new();
        for one in all.iter().filter(|one| one.verdict == verdict) {
            let said = if verdict == Verdict::NotShown {
                one.with.clone()
            } else {
                format!("{} × {}", table::factor(one.ratio), one.with)
            };
            match lines.iter_mut().find(|(line, _)| *line == one.line) {
                Some((_, others)) => *others += &format!(", {said}"),
                None => lines.push((&one.line, said)),
            }
        }
        let text: String = lines.iter().map(|(line, others)| format!("    {line:34} {others}\n")).collect();
        format!("{heading}:\n{}", if text.is_empty() { "    nowhere in this run\n" } else { &text })
    })
    .concat()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lab::arm::Arm;
    use lab::blocks::{Length, Measured, Plan, Row};
    use lab::metric::{PEAK, WALL};
    use lab::parameters::Parameters;

    use super::*;

    /// Commensal is twice as fast as glibc and half as fast as a peer; its memory is a matter of chance.
    fn example() -> Analysis {
        let peer = Arm { is_peer: true, ..Arm::preloading("peer", "/peer.so") };
        let ours = Arm::commensal(COMMENSAL, "/ours.so", None);
        let arms = vec![Arm::glibc(), Arm::glibc().again(), ours, peer];
        let by_chance = |block: usize| 4096.0 + 4.0 * (block * 7 % 5) as f64;
        let samples = |time: f64, shift: usize| {
            let block = |block: usize| vec![time * (1.0 + 0.01 * block as f64), by_chance(block + shift)];
            Some((0..20).map(block).collect())
        };
        let row = Row {
            parameters: Parameters::of_workload("hand-over"),
            metrics: vec![WALL, PEAK],
            samples: vec![samples(0.1, 0), samples(0.1, 1), samples(0.05, 2), samples(0.025, 3)],
            findings: Vec::new(),
        };
        let (plan, elapsed) = (Plan::of(Length::Blocks(20), 7), Duration::from_secs(1));
        Analysis::of(Measured { arms, rows: vec![row], blocks: 20, interrupted: false, elapsed, plan })
    }

    #[test]
    fn better_worse_and_noise_are_listed_apart() {
        let text = summary(&compared(&mut example()));
        let expected = "\
Where Commensal was faster or smaller here (its figure over the other's):
    hand-over: wall time               0.500 × glibc
Where it was slower or larger here:
    hand-over: wall time               2.000 × peer
Where no difference is shown:
    hand-over: peak memory             glibc, peer
";
        assert_eq!(text, expected);
        assert_eq!(summary(&[]).matches("nowhere in this run").count(), 3);
    }

    #[test]
    fn table_has_units_at_the_head_of_each_line_and_signs() {
        let text = table(&example()).to_string();
        let line =
            |head: &str| text.lines().find(|line| line.contains(head)).unwrap_or_else(|| panic!("{text}")).to_owned();
        let words: Vec<String> = line("wall time, ms").split_whitespace().skip(4).map(str::to_owned).collect();
        assert_eq!(words, ["110", "110", "54.8", "▼", "27.4", "▼"]);
        assert!(!line("peak memory, MiB").contains(['▼', '▲']));
    }
}
