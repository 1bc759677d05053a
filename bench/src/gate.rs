//! The verdict: which rows reach their must, and what a person reads of it. Nothing is measured here.

use lab::sheet::{Sheet, Side};
use serde_json::json;

use crate::targets::{Limit, Row};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    pub now: f64,
    /// The smallest difference that would have been seen; none for what is counted, and for too few blocks.
    pub sees: Option<f64>,
    /// What others have, or what a reader has to know besides.
    pub beside: String,
    /// Of each arm: its name, and the median with its 95 % interval. Empty for commands and for several programs.
    pub arms: Vec<(String, [f64; 3])>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Found(Found),
    Unmeasured(String),
    /// Left out of a quick run.
    NotRun,
}

pub struct Judged<'a> {
    pub row: &'a Row,
    pub outcome: Outcome,
}

impl Judged<'_> {
    fn verdict(&self) -> &'static str {
        match &self.outcome {
            Outcome::NotRun => "not run",
            Outcome::Unmeasured(_) => "UNMEASURED",
            Outcome::Found(found) if !self.row.must.is_reached_by(found.now) => "MISSED",
            Outcome::Found(found) if self.row.goal.as_ref().is_some_and(|goal| goal.is_reached_by(found.now)) => "goal",
            Outcome::Found(_) => "met",
        }
    }

    fn fails(&self) -> bool {
        ["UNMEASURED", "MISSED"].contains(&self.verdict())
    }

    fn cells(&self) -> [String; 8] {
        let row = self.row;
        let (now, sees, beside) = match &self.outcome {
            Outcome::Found(Found { now, sees, beside, .. }) => {
                (number(*now), sees.map_or_else(String::new, number), beside.clone())
            }
            Outcome::Unmeasured(why) => ("–".to_owned(), String::new(), why.clone()),
            Outcome::NotRun => ("–".to_owned(), String::new(), "takes minutes; without --quick it is run".to_owned()),
        };
        let limit = |Limit { at_least, value, .. }: &Limit| {
            format!("{} {}", ["≤", "≥"][usize::from(*at_least)], number(*value))
        };
        let what = format!("{}, {}", row.what, row.must.unit);
        let (must, goal) = (limit(&row.must), row.goal.as_ref().map_or_else(String::new, limit));
        [row.name.clone(), what, now, must, goal, sees, self.verdict().to_owned(), beside]
    }
}

/// Whether all musts are met and all peers are there.
pub fn passes(judged: &[Judged], absent: &[String]) -> bool {
    absent.is_empty() && !judged.iter().any(Judged::fails)
}

const HEADINGS: [(&str, Side); 8] = [
    ("row", Side::Left),
    ("what", Side::Left),
    ("now", Side::Right),
    ("must", Side::Right),
    ("goal", Side::Right),
    ("sees", Side::Right),
    ("", Side::Left),
    ("beside", Side::Left),
];

pub fn sheet(judged: &[Judged]) -> Sheet {
    let mut sheet = Sheet::new(HEADINGS);
    judged.iter().for_each(|judged| sheet.add(judged.cells()));
    sheet
}

pub fn markdown(judged: &[Judged]) -> String {
    let line = |cells: &mut dyn Iterator<Item = String>| {
        cells.fold("|".to_owned(), |line, cell| format!("{line} {} |", cell.replace('|', "\\|"))) + "\n"
    };
    let head = line(&mut HEADINGS.iter().map(|(heading, _)| (*heading).to_owned()));
    let rule = line(&mut HEADINGS.iter().map(|(_, side)| if *side == Side::Right { "--:" } else { "---" }.to_owned()));
    judged.iter().fold(head + &rule, |text, judged| text + &line(&mut judged.cells().into_iter()))
}

/// The figures of all arms, by rows, and the machine.
pub fn json(judged: &[Judged], machine: &str) -> String {
    let of_row = |judged: &Judged| match &judged.outcome {
        Outcome::Found(found) => Some((judged.row.name.clone(), json!({"what": judged.row.what, "arms": found.arms}))),
        _ => None,
    };
    let rows: serde_json::Map<_, _> = judged.iter().filter_map(of_row).collect();
    format!("{:#}\n", json!({"machine": machine, "rows": rows}))
}

/// How many rows there are of each verdict.
pub fn sum(judged: &[Judged], absent: &[String]) -> String {
    let count = |verdict: &str| judged.iter().filter(|judged| judged.verdict() == verdict).count();
    let verdicts = ["goal", "met", "MISSED", "UNMEASURED", "not run"].map(|verdict| (count(verdict), verdict));
    let rows: Vec<String> =
        verdicts.iter().filter(|(count, _)| *count > 0).map(|(count, verdict)| format!("{count} {verdict}")).collect();
    let absent: Vec<String> = absent.iter().map(|why| format!("\nabsent peer: {why}")).collect();
    format!("{} rows: {}{}", judged.len(), rows.join(", "), absent.concat())
}

/// Three digits, and no more than a whole number has.
fn number(value: f64) -> String {
    let places = match value.abs() {
        0.0 => 0,
        size if size >= 100.0 || size.fract() == 0.0 => 0,
        10.0.. => 1,
        0.095.. => 2,
        _ => 3,
    };
    format!("{value:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(must: f64, goal: f64, at_least: bool) -> Row {
        let limit = |value| Limit { at_least, value, unit: "ns".to_owned() };
        Row { name: "a".to_owned(), must: limit(must), goal: Some(limit(goal)), ..Row::default() }
    }

    fn found(now: f64) -> Outcome {
        Outcome::Found(Found { now, sees: None, beside: String::new(), arms: Vec::new() })
    }

    fn passes_with(row: &Row, outcome: Outcome, absent: &[String]) -> bool {
        passes(&[Judged { row, outcome: found(1.0) }, Judged { row, outcome }], absent)
    }

    #[test]
    fn rows_that_reach_their_musts_pass() {
        let row = row(5.0, 4.0, false);
        assert!(passes_with(&row, found(5.0), &[]));
        assert!(passes_with(&row, Outcome::NotRun, &[]));
        assert_eq!(Judged { row: &row, outcome: found(4.5) }.verdict(), "met");
        assert_eq!(Judged { row: &row, outcome: found(4.0) }.verdict(), "goal");
    }

    #[test]
    fn missed_must_fails() {
        assert!(!passes_with(&row(5.0, 4.0, false), found(5.01), &[]));
        let throughput = row(0.9, 1.1, true);
        let judged = |now| passes(&[Judged { row: &throughput, outcome: found(now) }], &[]);
        assert!(judged(0.9) && judged(2.0) && !judged(0.89) && !judged(f64::NAN));
    }

    #[test]
    fn row_that_is_not_measured_fails() {
        assert!(!passes_with(&row(5.0, 4.0, false), Outcome::Unmeasured("no probe".to_owned()), &[]));
    }

    #[test]
    fn absent_peer_fails() {
        let absent = ["rpmalloc".to_owned()];
        let row = row(5.0, 4.0, false);
        assert!(!passes_with(&row, found(1.0), &absent));
        let judged = [Judged { row: &row, outcome: found(1.0) }];
        assert_eq!(sum(&judged, &absent), "1 rows: 1 goal\nabsent peer: rpmalloc");
    }

    #[test]
    fn tables_show_now_must_and_goal() {
        let row = row(5.0, 4.0, false);
        let judged = [Judged { row: &row, outcome: found(4.567) }];
        let markdown = markdown(&judged);
        assert_eq!(markdown.lines().nth(2), Some("| a | , ns | 4.57 | ≤ 5 | ≤ 4 |  | met |  |"), "{markdown}");
        assert!(sheet(&judged).rows[0].starts_with(&["a", ", ns", "4.57", "≤ 5", "≤ 4"].map(str::to_owned)));
        assert_eq!([0.0042, 0.5, 17.33, 115_000.0, 21.0].map(number), ["0.004", "0.50", "17.3", "115000", "21"]);
    }
}
