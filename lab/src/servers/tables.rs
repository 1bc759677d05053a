//! What came out, for a terminal or a page: a table for each server, and one for all together.

use statistics::{Comparison, Verdict};

use super::About;
use crate::analysis::{Analysis, BASELINE, CONTROL, Judged};
use crate::metric::for_people;
use crate::sheet::{Sheet, Side};
use crate::table::{NONE, factor, own, sign};

/// Explains the tables.
pub const LEGEND: &str = "The first arm has its median. The others have their ratio to it, and the ratio's 95 % interval \
below. Less is better in all\nlines. Signs are verdicts: ▼ less, ▲ more, no sign: no difference shown.\n";

/// A server's table: a line for each metric, a column for each arm.
pub fn of_server(analysis: &Analysis, row: usize) -> Sheet {
    of(analysis, &analysis.measured.rows[row].name(), &analysis.rows[row])
}

/// The geometric means over all servers; none if there is but one.
pub fn of_all(analysis: &Analysis) -> Option<Sheet> {
    (!analysis.means.is_empty()).then(|| of(analysis, &analysis.mean_name(), &analysis.means))
}

fn of(analysis: &Analysis, heading: &str, judged: &[Judged]) -> Sheet {
    let arms = || (0..analysis.measured.arms.len()).filter(|arm| *arm != CONTROL);
    let names = arms().map(|arm| (analysis.measured.arms[arm].name.as_str(), Side::Right));
    let mut sheet = Sheet::new([(heading, Side::Left)].into_iter().chain(names));
    for judged in judged {
        let cell = |arm| match &judged.comparisons[arm] {
            Some(compared) => ratio(compared),
            None if arm == BASELINE && !judged.medians.is_empty() => own(judged, BASELINE),
            None => NONE.to_owned(),
        };
        sheet.add([judged.metric.title.to_owned()].into_iter().chain(arms().map(cell)));
    }
    sheet
}

fn ratio(compared: &Comparison) -> String {
    let [low, high] = compared.interval.map(factor);
    format!("{} {}\n{low} to {high}", factor(compared.ratio), sign(compared))
}

/// In which metrics a server's arms are shown to differ from the baseline, a line for each arm.
pub fn shown(analysis: &Analysis, row: usize) -> Vec<String> {
    let arms = analysis.measured.arms.iter().enumerate().skip(CONTROL + 1);
    let line = |(arm, name): (usize, &str)| {
        let differs = |judged: &Judged| {
            let compared = judged.comparisons[arm].filter(|compared| compared.verdict != Verdict::NotShown)?;
            let word = judged.metric.words[usize::from(compared.verdict == Verdict::More)];
            Some(format!("{} {} × ({word})", judged.metric.title, factor(compared.ratio)))
        };
        let all: Vec<String> = analysis.rows[row].iter().filter_map(differs).collect();
        let is_measured = analysis.rows[row].iter().any(|judged| judged.comparisons[arm].is_some());
        let all = match &all[..] {
            [] if is_measured => "no difference".to_owned(),
            [] => "it failed".to_owned(),
            all => all.join(", "),
        };
        format!("Shown of {name} on {}: {all}.", analysis.measured.rows[row].name())
    };
    arms.map(|(at, arm)| line((at, &arm.name))).collect()
}

/// How a server was asked, in a line.
pub fn about(of: &About) -> String {
    let About { name, version, connections, requests, rate_per_s, lengths } = of;
    let (open, idle) = (for_people(lengths.open_s, "s"), for_people(lengths.idle_s, "s"));
    format!(
        "{name}: {version}; {connections} connections; {requests} requests, then {rate_per_s} per second for {open}, \
         then idle for {idle}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn servers_have_a_table_each_and_one_together() {
        let analysis = example::analysis(&["redis", "nginx"]);
        let sheets = [of_server(&analysis, 0), of_all(&analysis).unwrap()].map(|sheet| format!("{sheet}\n"));
        insta::assert_snapshot!(sheets.concat() + LEGEND + &shown(&analysis, 1).join("\n"));
        assert!(of_all(&example::analysis(&["redis"])).is_none());
    }
}
