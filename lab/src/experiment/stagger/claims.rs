//! What was measured, compared with the document and with the goals of the grid.

use super::{
    AHEAD, ALIGNED, COLUMNS, CONTENDED, CPUS, DRAINS, GRID, LONGEST, MAX, POSTED, POSTED_PERIOD, POSTED_RATE, Row,
    SHORTEST, SINGLE_EVENT_MS, SWEPT, Size, TOTAL, Waits, ZERO, of_columns,
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

    /// A claim with what was found. Two threads do not tell what many CPUs do.
    fn claim(&self, claim: String, document: String, found: Option<Found>, is_of_many: bool) -> Claim {
        let figure = found.as_ref().map(|Found(_, figure, _)| *figure);
        let (text, holds) = found.map(|Found(text, _, holds)| (text, holds)).unzip();
        let (measured, simulated) = if self.size.is_simulated {
            (None, text.map(|text| format!("{text}, of {} CPUs", self.size.cpus)))
        } else {
            (text, None)
        };
        let holds = holds.filter(|_| self.size.is_simulated || !is_of_many);
        Claim { claim, document, measured, simulated, figure, holds }
    }

    /// The same for a figure that depends on the number of CPUs: only as many as in the document can agree.
    fn of_document(&self, claim: Claim) -> Claim {
        Claim { holds: claim.holds.filter(|_| self.size.cpus == CPUS), ..claim }
    }

    /// A column's figures, fitted or predicted.
    fn waits(&self, column: usize, arm: &str, (what, waits): (&str, Waits)) -> Vec<Claim> {
        let row = Row::usual(column, false);
        let of = [(CONTENDED, waits.contended), (TOTAL, waits.total_ms), (MAX, waits.max_ms)];
        let claim = |(metric, documented): (Metric, f64)| {
            let found = self.of(&metric, row, arm);
            let found = found.map(|found| Found(against(found, documented), found, is_near(found, documented)));
            let what = if metric == MAX && documented == SINGLE_EVENT_MS { "not fitted" } else { what };
            let claim = format!("{}, {arm}, {what}: {}", row.column().words, metric.title);
            let document = format!("{} (within a factor of {NEAR} agrees)", three(documented));
            self.of_document(self.claim(claim, document, found, true))
        };
        of.map(claim).into()
    }

    fn fewer(&self, column: usize) -> Claim {
        let (row, asked) = (Row::usual(column, true), COLUMNS[column].fewer);
        let found = self.of(&CONTENDED, row, ALIGNED).zip(self.of(&CONTENDED, row, GRID));
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
        let found = self.of(&DRAINS, row, POSTED).zip(self.of(&DRAINS, row, ALIGNED));
        let found = found.map(|(posted, aligned)| posted / aligned);
        let found = found.map(|rate| Found(factor(rate), rate, (rate / POSTED_RATE - 1.0).abs() < 0.02));
        let claim = "posted: run rate over one run per CPU and interval".to_owned();
        let document = format!("{} × (within 2 % agrees)", factor(POSTED_RATE));
        self.of_document(self.claim(claim, document, found, false))
    }

    /// An arm that runs less often also waits less, so the rates must be equal.
    fn equal_rate(&self, column: usize) -> Claim {
        let row = Row::usual(column, true);
        let found = self.of(&DRAINS, row, GRID).zip(self.of(&DRAINS, row, ALIGNED));
        let found = found.map(|(grid, aligned)| grid / aligned);
        let found = found.map(|rate| Found(factor(rate), rate, (rate - 1.0).abs() < SAME_RATE));
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
        let found = self.of(&CONTENDED, one.0, one.1).zip(self.of(&CONTENDED, other.0, other.1));
        let found = found.filter(|(one, other)| *one > 0.0 || *other > 0.0).map(|(one, other)| {
            let times = one / other;
            Found(format!("{} × ({} against {})", three(times), three(one), three(other)), times, one > least * other)
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

    /// One part of which each arm has one value in all metrics of these rows: aligned, skew, posted, grid.
    fn part(values: [f64; 4], rows: &[Row]) -> Part {
        let arms: Vec<_> = forms(ARMS).into_iter().zip(values).collect();
        example(&arms, &METRICS, rows.iter().map(|row| row.parameters()))
    }

    fn found(parts: &[Part], size: &Size, words: &str) -> Claim {
        let is_it = |claim: &Claim| claim.claim.contains(words);
        of(parts, size).into_iter().find(is_it).unwrap_or_else(|| panic!("nothing is claimed of {words:?}"))
    }

    fn holds(parts: &[Part], words: &str) -> Option<bool> {
        found(parts, &SIZE, words).holds
    }

    #[test]
    fn fitted_and_predicted_claims_hold_within_a_factor() {
        let parts = |aligned, posted| [part([aligned, 1.0, posted, 1.0], &[Row::usual(0, false)])];
        for (aligned, is_near) in [(1700.0, true), (440.0, true), (1800.0, false), (430.0, false)] {
            assert_eq!(holds(&parts(aligned, 1.0), "with KASAN, aligned, fitted: drains"), Some(is_near), "{aligned}");
        }
        for (posted, is_near) in [(200.0, true), (60.0, true), (240.0, false), (50.0, false), (0.0, false)] {
            let words = "with KASAN, posted, predicted: drains";
            assert_eq!(holds(&parts(900.0, posted), words), Some(is_near), "{posted}");
        }
        let told = found(&parts(436.0, 1.0), &SIZE, "aligned, fitted: drains");
        assert_eq!(
            (told.document.as_str(), told.simulated.as_deref()),
            ("872 (within a factor of 2 agrees)", Some("436 (0.500 ×), of 72 CPUs"))
        );
        assert_eq!(holds(&parts(900.0, 1.0), "without KASAN, aligned, fitted: drains"), None, "it was not measured");
    }

    #[test]
    fn grid_claim_holds_at_the_factor_that_was_asked_for() {
        for (column, least) in [(0, 7.5), (1, 1.8)] {
            let words = format!("{}, at equal run rate, contentions", COLUMNS[column].words);
            let parts = |aligned: f64| [part([aligned, 9.0, 9.0, 10.0], &[Row::usual(column, true)])];
            assert_eq!(holds(&parts(10.0 * least + 1.0), &words), Some(true));
            assert_eq!(holds(&parts(10.0 * least - 1.0), &words), Some(false));
            let nothing = [part([0.0; 4], &[Row::usual(column, true)])];
            // The example's runs differ by a little, so that the medians of nothing are equal.
            assert_eq!(holds(&nothing, &words), Some(false));
        }
    }

    #[test]
    fn periods_and_rates_are_exact() {
        // All metrics of an arm have one value, and the periods are two.
        assert_eq!(holds(&[part([9.0, 9.0, 9.0, 0.9965], &[Row::usual(0, true)])], "grid: periods"), Some(true));
        assert_eq!(holds(&[part([9.0, 9.0, 9.0, 1.1], &[Row::usual(0, true)])], "grid: periods"), Some(false));
        let even = "grid, odd ids off-line: periods";
        assert_eq!(holds(&[part([9.0, 9.0, 9.0, 0.9965], &[Row::odd_off(0)])], even), Some(true));
        assert_eq!(holds(&[part([9.0, 9.0, 9.0, 0.99], &[Row::odd_off(0)])], even), Some(false));
        let rate = |posted| holds(&[part([100.0, 9.0, posted, 9.0], &[Row::usual(0, false)])], "posted: run rate");
        assert_eq!([rate(69.7), rate(100.0), rate(66.0)], [Some(true), Some(false), Some(false)]);
        let equal = |grid| {
            holds(
                &[part([100.0, 9.0, 9.0, grid], &[Row::usual(1, true)])],
                "without KASAN, at equal run rate: run rate",
            )
        };
        assert_eq!([equal(100.0), equal(97.0), equal(20.0)], [Some(true), Some(false), Some(false)]);
    }

    #[test]
    fn claim_on_another_machine_is_left_open() {
        let few = Size { cpus: 8, threads: 8, ..SIZE };
        let parts = [part([872.0, 9.0, 872.0 * POSTED_RATE, 9.0], &[Row::usual(0, false)])];
        for words in ["with KASAN, aligned, fitted: drains", "posted: run rate"] {
            assert_eq!(holds(&parts, words), Some(true), "{words}");
            let of_few = found(&parts, &few, words);
            assert!(of_few.holds.is_none() && of_few.simulated.is_some(), "{words}");
        }
    }

    #[test]
    fn comparison_of_worst_runs_tells_which_way_is_ahead() {
        let ahead = |grid| holds(&[part([9.0, 9.0, 9.0, grid], &[Row::swept(1, 4.0)])], "most holds");
        assert_eq!([ahead(0.99), ahead(0.996), ahead(2.0)], [Some(true), Some(false), Some(false)]);
        let shared =
            |posted| holds(&[part([9.0, 9.0, posted, 10.0], &[Row::odd_off(0)])], "contentions: posted over grid");
        assert_eq!([shared(30.0), shared(11.0)], [Some(true), Some(false)]);
        let herd = |zero| {
            let at = |shepherd, grid| part([9.0, 9.0, 9.0, grid], &[Row::dormant(0, shepherd)]);
            holds(&[at(ZERO, zero), at(GRID, 10.0)], "shepherd at delay 0")
        };
        assert_eq!([herd(30.0), herd(15.0)], [Some(true), Some(false)]);
    }

    /// What two threads do in real time tells when turns come, and nothing of the contention of many.
    #[test]
    fn contention_of_many_is_never_claimed_of_two_threads() {
        let host = Size { is_simulated: false, threads: 2, interval_us: HOST_INTERVAL_US, ..SIZE };
        let parts = [part([900.0, 9.0, 9.0, 0.9965], &[Row::usual(0, true)])];
        let fewer = found(&parts, &host, "at equal run rate, contentions");
        assert!(fewer.holds.is_none() && fewer.simulated.is_none() && fewer.measured.is_some());
        assert_eq!(found(&parts, &host, "grid: periods").holds, Some(true));
        assert!(of(&[], &SIZE).iter().all(|claim| claim.holds.is_none() && claim.simulated.is_none()));
    }
}
