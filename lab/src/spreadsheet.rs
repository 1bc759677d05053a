//! A result as CSV: a line for each arm in each metric of each subject, the fields without units or roundings.

use anyhow::{Context, Result};
use serde::Serialize;

use crate::analysis::{Analysis, BASELINE, Judged};
use crate::json::word;

/// A line. Fields are empty if they do not exist: a mean has no median, and the baseline no ratio.
#[derive(Serialize)]
struct Line<'a> {
    workload: &'a str,
    metric: &'static str,
    unit: &'static str,
    arm: &'a str,
    median: Option<f64>,
    median_low: Option<f64>,
    median_high: Option<f64>,
    baseline: &'a str,
    ratio: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
    p: Option<f64>,
    detectable: Option<f64>,
    verdict: &'a str,
}

/// All measurements, one after the other.
pub fn text<'a>(groups: impl IntoIterator<Item = &'a Analysis>) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for analysis in groups {
        for (row, judged) in analysis.measured.rows.iter().zip(&analysis.rows) {
            add(&mut writer, analysis, &row.name(), judged)?;
        }
        add(&mut writer, analysis, &analysis.mean_name(), &analysis.means)?;
    }
    Ok(String::from_utf8(writer.into_inner().context("cannot write CSV")?)?)
}

fn add(writer: &mut csv::Writer<Vec<u8>>, analysis: &Analysis, workload: &str, judged: &[Judged]) -> Result<()> {
    let arms = &analysis.measured.arms;
    for Judged { metric, medians, comparisons } in judged {
        for (at, (arm, compared)) in arms.iter().zip(comparisons).enumerate() {
            let median = medians.get(at).copied().flatten();
            writer.serialize(Line {
                workload,
                metric: metric.name,
                unit: metric.unit,
                arm: &arm.name,
                median: median.map(|median| median.value),
                median_low: median.map(|median| median.interval[0]),
                median_high: median.map(|median| median.interval[1]),
                baseline: &arms[BASELINE].name,
                ratio: compared.map(|compared| compared.ratio),
                ratio_low: compared.map(|compared| compared.interval[0]),
                ratio_high: compared.map(|compared| compared.interval[1]),
                p: compared.map(|compared| compared.p),
                detectable: compared.and_then(|compared| compared.detectable),
                verdict: compared.map_or("", |compared| word(compared.verdict)),
            })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn csv_has_a_line_for_each_arm_and_metric() {
        let analysis = example::analysis(&["larson, quoted", "store"]);
        let text = text([&analysis]).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let headings = reader.headers().unwrap().clone();
        let lines: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        // Two subjects and their mean, three metrics, five arms.
        assert_eq!(lines.len(), 3 * 3 * 5, "{text}");
        let field = |line: &csv::StringRecord, name: &str| {
            line[headings.iter().position(|heading| heading == name).unwrap()].to_owned()
        };
        let of = |workload: &str, arm: &str| {
            let is_it = |line: &&csv::StringRecord| {
                field(line, "workload") == workload && field(line, "arm") == arm && field(line, "metric") == "wall_s"
            };
            lines.iter().find(is_it).unwrap()
        };
        let ours = of("larson, quoted", "ours");
        assert_eq!((field(ours, "verdict"), field(ours, "baseline")), ("faster".to_owned(), "glibc".to_owned()));
        assert!(field(ours, "ratio").parse::<f64>().unwrap() < 0.92);
        assert_eq!(field(of("store", "glibc"), "ratio"), "");
        assert_eq!(field(of("store", "broken"), "median"), "");
        assert_eq!(field(of("geometric mean", "ours"), "median"), "");
    }
}
