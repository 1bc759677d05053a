//! What was measured, compared with the document and with the goals of the grid.

use super::{
    AHEAD, ALIGNED, COLUMNS, CONTENDED, CPUS, DRAINS, GRID, LONGEST, MAX, POSTED, POSTED_PERIOD, POSTED_RATE, Row,
    SHORTEST, SINGLE_EVENT_MS, SWEPT, Size, WAITS, ZERO, of_columns,
};
use crate::experiment::figures::Figures;
use crate::experiment::{Claim, GOAL, Part};
use crate::metric::Metric;
use crate::table::factor;

/// A figure agrees within this factor.
const NEAR: f64 = 2.0;
/// Periods agree to the last digit that is printed.
const EXACT: f64 = 5e-4;
/// Rates that differ by less are equal.
const SAME_RATE: f64 = 0.01;

/// Whether two figures agree within a factor.
fn is_near(one: f64, other: f64) -> bool {
    one > 0.0 && (1.0 / NEAR..=NEAR).contains(&(one / other))
}

/// Two figures, and by what factor they differ.
fn against(found: f64, documented: f64) -> String {
    format!("{} ({} ×)", three(found), factor(found / documented))
}

fn three(value: f64) -> String {
    let places = if value >= 100.0 { 0 } else { 2 };
    format!("{value:.places$}").trim_end_matches(".00").to_owned()
}

/// What was found: in words, as a number, and whether it agrees.
struct Found(String, f64, bool);

/// Compares figures with the document.
struct Judge<'a> {
    figures: Figures<'a>,
    size: &'a Size,
}

impl Judge<'_> {
    fn of(&self, metric: &Metric, row: Row, arm: &str) -> Option<f64> {
        self.figures.median(metric.name, &row.parameters(), arm)
    }

    /// A metric of one arm, and of another.
    fn both(&self, metric: &Metric, one: (Row, &str), other: (Row, &str)) -> Option<(f64, f64)> {
        self.of(metric, one.0, one.1).zip(self.of(metric, other.0, other.1))
    }

    /// A claim with what was found. Two threads do not tell what many CPUs do.
    fn claim(&self, claim: String, document: String, found: Option<Found>, is_of_many: bool) -> Claim {
        let (found, holds) = found.map(|Found(text, figure, holds)| ((text, figure), holds)).unzip();
        let holds = holds.filter(|_| self.size.is_simulated || !is_of_many);
        let claim = Claim::of(claim, document, found, holds);
        if self.size.is_simulated { Claim { holds, ..claim.simulated_at(self.size.cpus as usize) } } else { claim }
    }

    /// The same for a figure that depends on the number of CPUs: only as many as in the document can agree.
    fn of_document(&self, claim: Claim) -> Claim {
        Claim { holds: claim.holds.filter(|_| self.size.cpus == CPUS), ..claim }
    }

    /// A column's figures, fitted or predicted.
    fn waits(&self, column: usize, arm: &str, (what, waits): (&str, [f64; 3])) -> Vec<Claim> {
        let row = Row::usual(column, false);
        let claim = |(metric, documented): (Metric, f64)| {
            let found = self.of(&metric, row, arm);
            let found = found.map(|found| Found(against(found, documented), found, is_near(found, documented)));
            let what = if metric == MAX && documented == SINGLE_EVENT_MS { "not fitted" } else { what };
            let claim = format!("{}, {arm}, {what}: {}", row.column().words, metric.title);
            let document = format!("{} (within a factor of {NEAR} agrees)", three(documented));
            self.of_document(self.claim(claim, document, found, true))
        };
        WAITS.into_iter().zip(waits).map(claim).collect()
    }

    fn fewer(&self, column: usize) -> Claim {
        let (row, asked) = (Row::usual(column, true), COLUMNS[column].fewer);
        let found = self.both(&CONTENDED, (row, ALIGNED), (row, GRID));
        let found = found.filter(|(aligned, grid)| *aligned > 0.0 || *grid > 0.0).map(|(aligned, grid)| {
            let times = aligned / grid;
            Found(format!("{} × ({} → {})", three(times), three(aligned), three(grid)), times, aligned >= asked * grid)
        });
        let claim = format!("{}, at equal run rate, contentions: aligned over grid", COLUMNS[column].words);
        self.claim(claim, format!("{GOAL}{asked} × or more, as posted"), found, true)
    }

    fn period(&self, claim: &str, row: Row, arm: &str, [least, most]: [f64; 2]) -> Claim {
        let found = self.of(&SHORTEST, row, arm).zip(self.of(&LONGEST, row, arm)).map(|(shortest, longest)| {
            let is_it = (shortest - least).abs() < EXACT && (longest - most).abs() < EXACT;
            Found(format!("{shortest:.3} to {longest:.3}"), longest, is_it)
        });
        let whose = if arm == GRID { GOAL } else { "" };
        self.claim(claim.to_owned(), format!("{whose}{least:.3} to {most:.3}"), found, false)
    }

    fn rate(&self) -> Claim {
        let row = Row::usual(0, false);
        let rate = self.both(&DRAINS, (row, POSTED), (row, ALIGNED)).map(|(posted, aligned)| posted / aligned);
        let found = rate.map(|rate| Found(factor(rate), rate, (rate / POSTED_RATE - 1.0).abs() < 0.02));
        let claim = "posted: run rate over one run per CPU and interval".to_owned();
        let document = format!("{} × (within 2 % agrees)", factor(POSTED_RATE));
        self.of_document(self.claim(claim, document, found, false))
    }

    /// An arm that runs less often also waits less, so the rates must be equal.
    fn equal_rate(&self, column: usize) -> Claim {
        let row = Row::usual(column, true);
        let rate = self.both(&DRAINS, (row, GRID), (row, ALIGNED)).map(|(grid, aligned)| grid / aligned);
        let found = rate.map(|rate| Found(factor(rate), rate, (rate - 1.0).abs() < SAME_RATE));
        let claim = format!("{}, at equal run rate: run rate, grid over aligned", COLUMNS[column].words);
        self.claim(claim, format!("{GOAL}1 × (within 1 % agrees)"), found, false)
    }

    /// The most holds of upkeep that any CPU waited for, where all CPUs are on the grid.
    fn ahead(&self) -> Claim {
        let rows = of_columns(|column| {
            let swept = SWEPT.map(|part| Row::swept(column, part));
            [Row::usual(column, true), Row::odd_off(column), Row::dormant(column, GRID)]
                .into_iter()
                .chain(swept)
                .collect()
        });
        let most = |row: Row| self.figures.most(AHEAD.name, &row.parameters(), GRID);
        let found = rows.into_iter().filter_map(most).reduce(f64::max);
        let found = found.map(|ahead| Found(three(ahead), ahead, ahead <= 1.0));
        self.claim("grid: most holds of upkeep ahead of a CPU".to_owned(), format!("{GOAL}1 or fewer"), found, true)
    }

    /// Contentions of one over those of another, which agree above a ratio.
    fn more(&self, [claim, document]: [&str; 2], one: (Row, &str), other: (Row, &str), least: f64) -> Claim {
        let found =
            self.both(&CONTENDED, one, other).filter(|(one, other)| *one > 0.0 || *other > 0.0).map(|(one, other)| {
                let times = one / other;
                Found(
                    format!("{} × ({} against {})", three(times), three(one), three(other)),
                    times,
                    one > least * other,
                )
            });
        self.claim(claim.to_owned(), format!("{document} (above {least} × agrees)"), found, true)
    }
}

/// A ratio of contentions that shows a herd.
const HERD: f64 = 2.0;

/// All of them.
pub fn of(parts: &[Part], size: &Size) -> Vec<Claim> {
    let judge = Judge { figures: Figures(parts), size };
    let mut claims = Vec::new();
    for (at, column) in COLUMNS.iter().enumerate() {
        claims.extend(judge.waits(at, ALIGNED, ("fitted", column.before)));
        claims.extend(judge.waits(at, POSTED, ("predicted", column.after)));
        claims.push(judge.fewer(at));
        claims.push(judge.equal_rate(at));
    }
    let dormant = |shepherd| (Row::dormant(0, shepherd), GRID);
    let odd_off = Row::odd_off(0);
    let posted = judge.period("posted: periods, in intervals", Row::usual(0, false), POSTED, [1.0, POSTED_PERIOD]);
    claims.push(judge.of_document(posted));
    claims.push(judge.rate());
    claims.push(judge.period("grid: periods, in intervals", Row::usual(0, true), GRID, [1.0; 2]));
    claims.push(judge.period("grid, odd ids off-line: periods, in intervals", odd_off, GRID, [1.0; 2]));
    claims.push(judge.ahead());
    let shared = ["odd ids off-line, contentions: posted over grid", "ids share slots"];
    claims.push(judge.more(shared, (odd_off, POSTED), (odd_off, GRID), HERD));
    let herd = ["contentions, shepherd at delay 0 over shepherd on the grid", "the same contention again"];
    claims.push(judge.more(herd, dormant(ZERO), dormant(GRID), HERD));
    claims
}

#[cfg(test)]
mod tests {
    use super::super::{ARMS, HOST_INTERVAL_US, METRICS, SECOND_US};
    use super::*;
    use crate::experiment::figures::example;
    use crate::experiment::probing::forms;

    const SIZE: Size = Size { is_simulated: true, cpus: 72, threads: 72, interval_us: SECOND_US };

    /// One part of which each arm has one value in all metrics of a row: aligned, skew, posted, grid.
    fn part(row: Row, values: [f64; 4]) -> Part {
        let arms: Vec<_> = forms(ARMS).into_iter().zip(values).collect();
        example(&arms, &METRICS, [row.parameters()].into_iter())
    }

    fn found(parts: &[Part], size: &Size, words: &str) -> Claim {
        let is_it = |claim: &Claim| claim.claim.contains(words);
        of(parts, size).into_iter().find(is_it).unwrap_or_else(|| panic!("nothing is claimed of {words:?}"))
    }

    #[test]
    fn claim_holds_where_its_figures_agree() {
        let (usual, equal, odd_off) = (Row::usual(0, false), Row::usual(0, true), Row::odd_off(0));
        let fitted = "with KASAN, aligned, fitted: drains";
        let predicted = "with KASAN, posted, predicted: drains";
        let fewer = "with KASAN, at equal run rate, contentions";
        let fewer_without = "without KASAN, at equal run rate, contentions";
        let equal_rate = "without KASAN, at equal run rate: run rate";
        let even = "grid, odd ids off-line: periods";
        for (words, row, values, holds) in [
            (fitted, usual, [1700.0, 1.0, 1.0, 1.0], true),
            (fitted, usual, [440.0, 1.0, 1.0, 1.0], true),
            (fitted, usual, [1800.0, 1.0, 1.0, 1.0], false),
            (predicted, usual, [900.0, 1.0, 60.0, 1.0], true),
            (predicted, usual, [900.0, 1.0, 240.0, 1.0], false),
            (predicted, usual, [900.0, 1.0, 0.0, 1.0], false),
            // As many times fewer as were asked for.
            (fewer, equal, [76.0, 9.0, 9.0, 10.0], true),
            (fewer, equal, [74.0, 9.0, 9.0, 10.0], false),
            (fewer_without, Row::usual(1, true), [19.0, 9.0, 9.0, 10.0], true),
            (fewer_without, Row::usual(1, true), [17.0, 9.0, 9.0, 10.0], false),
            // All metrics of an arm have one value, and the periods are two.
            ("grid: periods", equal, [9.0, 9.0, 9.0, 0.9965], true),
            ("grid: periods", equal, [9.0, 9.0, 9.0, 1.1], false),
            (even, odd_off, [9.0, 9.0, 9.0, 0.9965], true),
            (even, odd_off, [9.0, 9.0, 9.0, 0.99], false),
            ("posted: run rate", usual, [100.0, 9.0, 69.7, 9.0], true),
            ("posted: run rate", usual, [100.0, 9.0, 66.0, 9.0], false),
            (equal_rate, Row::usual(1, true), [100.0, 9.0, 9.0, 100.0], true),
            (equal_rate, Row::usual(1, true), [100.0, 9.0, 9.0, 97.0], false),
            ("most holds", Row::swept(1, 4.0), [9.0, 9.0, 9.0, 0.99], true),
            ("most holds", Row::swept(1, 4.0), [9.0, 9.0, 9.0, 0.996], false),
            ("contentions: posted over grid", odd_off, [9.0, 9.0, 30.0, 10.0], true),
            ("contentions: posted over grid", odd_off, [9.0, 9.0, 11.0, 10.0], false),
        ] {
            assert_eq!(found(&[part(row, values)], &SIZE, words).holds, Some(holds), "{words}: {values:?}");
        }
        let at = |shepherd, grid| part(Row::dormant(0, shepherd), [9.0, 9.0, 9.0, grid]);
        let herd = |zero| found(&[at(ZERO, zero), at(GRID, 10.0)], &SIZE, "shepherd at delay 0").holds;
        assert_eq!([herd(30.0), herd(15.0)], [Some(true), Some(false)]);
        let told = found(&[part(usual, [436.0, 1.0, 1.0, 1.0])], &SIZE, fitted);
        assert_eq!(told.document, "872 (within a factor of 2 agrees)");
        assert_eq!(told.simulated.as_deref(), Some("436 (0.500 ×), of 72 CPUs"));
    }

    #[test]
    fn claim_on_another_machine_is_left_open() {
        let few = Size { cpus: 8, threads: 8, ..SIZE };
        let parts = [part(Row::usual(0, false), [872.0, 9.0, 872.0 * POSTED_RATE, 9.0])];
        for words in ["with KASAN, aligned, fitted: drains", "posted: run rate"] {
            let of_few = found(&parts, &few, words);
            assert!(of_few.holds.is_none() && of_few.simulated.is_some(), "{words}");
        }
    }

    /// What two threads do in real time tells when turns come, and nothing of the contention of many.
    #[test]
    fn contention_of_many_is_never_claimed_of_two_threads() {
        let host = Size { is_simulated: false, threads: 2, interval_us: HOST_INTERVAL_US, ..SIZE };
        let parts = [part(Row::usual(0, true), [900.0, 9.0, 9.0, 0.9965])];
        let fewer = found(&parts, &host, "at equal run rate, contentions");
        assert!(fewer.holds.is_none() && fewer.simulated.is_none() && fewer.measured.is_some());
        assert_eq!(found(&parts, &host, "grid: periods").holds, Some(true));
        assert!(of(&[], &SIZE).iter().all(|claim| claim.holds.is_none() && claim.simulated.is_none()));
    }
}
