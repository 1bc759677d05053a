//! `--fail-if`: limits for continuous integration. An arm exceeds one if it has more than the baseline by more than a
//! share. The whole interval of the ratio must lie above the limit, and a test of the ratios, corrected for the number of
//! arms, must say that this is no chance.

use lab::analysis::Analysis;
use lab::metric::{CPU, FAULTS, Metric, PEAK, WALL};
use lab::process::counters::INSTRUCTIONS;
use lab::table::factor;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::places;

/// What may be limited, and by which word.
const WORDS: [(&str, Metric); 5] =
    [("slower", WALL), ("cpu", CPU), ("memory", PEAK), ("faults", FAULTS), ("instructions", INSTRUCTIONS)];

/// One limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    text: String,
    metric: Metric,
    /// What the ratio must not exceed.
    factor: f64,
}

/// Reads `slower:2%`; for clap.
pub fn limit(text: &str) -> Result<Limit, String> {
    let parts = text.split_once(':').and_then(|(word, percent)| Some((word, percent.strip_suffix('%')?)));
    let metric = parts.and_then(|(word, _)| WORDS.iter().find(|(known, _)| *known == word));
    let percent = parts.and_then(|(_, percent)| percent.parse::<f64>().ok()).filter(|it| (0.0..=1000.0).contains(it));
    match (metric, percent) {
        (Some((_, metric)), Some(percent)) => {
            Ok(Limit { text: text.to_owned(), metric: *metric, factor: 1.0 + percent / 100.0 })
        }
        _ => {
            let words = WORDS.map(|(word, _)| word).join(", ");
            Err(format!("expected WORD:PERCENT%, such as slower:2%; the words are {words}"))
        }
    }
}

/// Refuses limits that the measurement cannot hold: of what is not counted, or of too few blocks.
pub fn check(limits: &[Limit], metrics: &[Metric], arms: usize, blocks: Option<usize>) -> Result<(), Failure> {
    if let Some(limit) = limits.iter().find(|limit| !metrics.contains(&limit.metric)) {
        let (text, title) = (&limit.text, limit.metric.title);
        return Err(Failure::usage(format!("--fail-if {text}: this machine does not count {title}")));
    }
    if limits.is_empty() {
        return Ok(());
    }
    if arms == 0 {
        return Err(Failure::usage("--fail-if: no arm is held against the baseline"));
    }
    match blocks {
        Some(blocks) if statistics::least_p(blocks) * arms as f64 > statistics::LEVEL => {
            Err(Failure::usage(format!("--fail-if: {blocks} blocks cannot show a difference; use more")))
        }
        _ => Ok(()),
    }
}

/// Says of each limit and arm whether the arm exceeds it. Returns whether one does, and the same for programs.
pub fn judge(limits: &[Limit], groups: &[Analysis]) -> Result<(bool, Vec<Value>), Failure> {
    let (mut is_exceeded, mut all) = (false, Vec::new());
    for analysis in groups {
        let measured = &analysis.measured;
        let baseline = &measured.arms[0].name;
        let all_metrics = measured.rows.first().map_or(&[][..], |row| &row.metrics);
        for Limit { text, metric, factor: bound } in limits {
            let at = all_metrics.iter().position(|known| known == metric).expect("they were checked before");
            let excesses = if measured.blocks == 0 { Vec::new() } else { analysis.excesses(at, *bound) };
            check(limits, all_metrics, excesses.len().max(1), Some(measured.blocks))?;
            for (arm, excess) in excesses {
                let Some(excess) = excess else {
                    places::tell(format_args!("{text}: {arm} was not measured"));
                    continue;
                };
                is_exceeded |= excess.is_shown;
                let group = if analysis.group.is_empty() { String::new() } else { format!(" of {}", analysis.group) };
                let [ratio, low, high, limit] =
                    [excess.ratio, excess.interval[0], excess.interval[1], *bound].map(factor);
                let (verdict, word) = match excess.is_shown {
                    true => ("EXCEEDED", "above"),
                    false => ("ok", "not shown to be above"),
                };
                places::tell(format_args!(
                    "{text}: {verdict}: {}{group} under {arm} is {ratio} × {baseline} ({low} to {high}), {word} {limit}",
                    metric.title
                ));
                all.push(json!({
                    "limit": text, "metric": metric.name, "candidate": arm, "baseline": baseline,
                    "group": analysis.group, "factor": bound, "ratio": excess.ratio,
                    "ci95": excess.interval, "is_exceeded": excess.is_shown,
                }));
            }
        }
    }
    Ok((is_exceeded, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_a_word_and_a_percentage() {
        assert_eq!(limit("slower:2%").unwrap().factor, 1.02);
        assert_eq!(limit("memory:0.5%").unwrap().metric, PEAK);
        for wrong in ["slower", "slower:", "slower:2", "slower:-1%", "slower:x%", "later:2%", "slower:NaN%"] {
            assert!(limit(wrong).unwrap_err().contains("slower, cpu, memory"), "{wrong}");
        }
    }

    #[test]
    fn limit_that_no_run_could_exceed_is_refused() {
        let limits = [limit("slower:1%").unwrap()];
        let refused = |arms, blocks| check(&limits, &[WALL], arms, blocks).map_err(|failure| failure.to_string());
        assert!(refused(1, Some(5)).unwrap_err().contains("5 blocks cannot show a difference"));
        assert_eq!([refused(1, Some(6)), refused(1, None)], [Ok(()), Ok(())]);
        assert!(refused(2, Some(6)).is_err() && refused(0, None).is_err());
        let counted = check(&[limit("instructions:1%").unwrap()], &[WALL], 1, None);
        assert!(counted.unwrap_err().to_string().contains("does not count instructions"));
        assert!(check(&[], &[], 0, Some(1)).is_ok());
    }
}
