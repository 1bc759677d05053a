//! Tables of the book: a document's claims, the arms of a metric, and a table as a page has it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::page::{Page, Table};
use super::parameter_names::WORDS;
use super::result::{Arm, Comparison, Figure, Outcome, Wanted};

const NONE: &str = "–";
/// Between a figure and its unit, so that no line ends there.
const GLUE: char = '\u{a0}';

/// Where both were measured, and what the document claims beside what was found.
pub fn summary(outcomes: &[Outcome; 2], pages: &[Page; 2]) -> Result<String, String> {
    let places: Vec<String> = outcomes.iter().map(|outcome| format!("- {}.\n", outcome.place)).collect();
    Ok(format!("{}\n{}", places.concat(), claims(pages)?))
}

/// What was claimed, and what came out here and in the model. What was simulated is judged as the page of that does, or else as far as something was predicted of it.
fn claims([here, simulated]: &[Page; 2]) -> Result<String, String> {
    let mut lines =
        vec![["claim", "document", "measured here", "holds here", "simulated at N", "holds there"].map(str::to_owned)];
    let table = here.table("claim")?;
    let [claim, document, measured, holds] =
        ["claim", "document", "measured here", "holds here"].map(|name| table.column(name));
    let (claim, document, measured, holds) = (claim?, document?, measured?, holds?);
    let cell = |row: &[String], at: usize| row.get(at).cloned().unwrap_or_default();
    for row in &table.rows {
        let (found, verdict) = found_there(simulated, &cell(row, claim))?;
        let here = if cell(row, measured) == NONE { NONE.to_owned() } else { verdict_of(&cell(row, holds)) };
        lines.push([cell(row, claim), cell(row, document), cell(row, measured), here, found, verdict]);
    }
    Ok(markdown(&lines))
}

/// What was simulated of a claim, with the band of all costs if that is known; and whether it holds.
fn found_there(page: &Page, claim: &str) -> Result<(String, String), String> {
    let cell = |table: &Table, column: &str| -> Result<String, String> {
        let at = table.column(column)?;
        let row = table.rows.iter().find(|row| row.first().is_some_and(|first| first == claim));
        Ok(row.and_then(|row| row.get(at)).cloned().unwrap_or_else(|| NONE.to_owned()))
    };
    let claims = page.table("claim")?;
    let found = cell(claims, "simulated at N")?;
    if found == NONE {
        return Ok((found, NONE.to_owned()));
    }
    let judged = verdict_of(&cell(claims, "holds here")?);
    let Ok(predicted) = page.table("predicted") else { return Ok((found, judged)) };
    let (band, as_document) = (cell(predicted, "least and most costs")?, cell(predicted, "as the document")?);
    let ends: Vec<&str> = band.split(" to ").collect();
    let number = cell(predicted, "simulated at N")?;
    let number = number.split(',').next().unwrap_or_default();
    // A claim's words may count something else than its number, such as all interrupts and those for each group.
    let is = if found.starts_with(number) { String::new() } else { format!("that is {number}, ") };
    let found = if band == NONE || ends.first() == ends.last() { found } else { format!("{found}; {is}band {band}") };
    let is_told = judged != CANNOT || as_document == NONE;
    Ok((found, if is_told { judged } else { verdict_of(&as_document) }))
}

const CANNOT: &str = "cannot be told";

/// A page's word for a verdict, as the book has it.
fn verdict_of(word: &str) -> String {
    match word {
        "yes" => "holds".to_owned(),
        "NO" => "**does not hold**".to_owned(),
        other if other.starts_with("NO, ") => format!("**does not hold**{}", &other["NO".len()..]),
        other => other.to_owned(),
    }
}

/// One metric: a line for each arm in each row that has the parameters; what was measured here first.
pub fn of_metric(outcomes: &[Outcome; 2], metric: &str, parameters: &[&str]) -> Result<String, String> {
    let wanted: Vec<Wanted> = parameters.iter().map(|word| Wanted::of(word)).collect::<Result<_, _>>()?;
    let [here, there] = outcomes;
    let found = [here.of_metric(metric, &wanted)?, there.of_metric(metric, &wanted)?];
    if found.iter().all(Vec::is_empty) {
        let known: Vec<&str> = here.metrics();
        return Err(if known.contains(&metric) {
            format!("{} has no `{metric}` with {}", here.file(), parameters.join(", "))
        } else {
            format!("{} has no metric `{metric}`; there are: {}", here.file(), known.join(", "))
        });
    }
    let (mut lines, mut documents): (Vec<Line>, Vec<String>) = (Vec::new(), Vec::new());
    for (side, arms) in found.iter().enumerate() {
        for (arm, figure) in arms.iter().filter(|(arm, _)| !arm.is_control()) {
            let row = row_name(&arm.parameters, &wanted);
            let at = lines.iter().position(|line| line.arm == arm.name && line.row == row).unwrap_or_else(|| {
                lines.push(Line { row, arm: arm.name.clone(), cells: [const { None }; 2] });
                lines.len() - 1
            });
            let compared = outcomes[side].comparison(metric, arm);
            lines[at].cells[side] = Some(cell(figure, compared));
            if let Some((figure, value)) = compared.and_then(|compared| compared.document.as_ref()) {
                let told = format!("\nThe document has {} × for {}: {figure}.\n", short(*value), arm.name);
                documents.extend((!documents.contains(&told)).then_some(told));
            }
        }
    }
    // What is of one row stands together, also where a part of the experiment had other arms.
    let order: Vec<String> = lines.iter().map(|line| line.row.clone()).collect();
    lines.sort_by_key(|line| order.iter().position(|row| *row == line.row));
    Ok(format!("{}{}{}", of_lines(&lines), documents.concat(), unfit(outcomes, metric, &found)))
}

/// What the table says of an arm in a row.
struct Line {
    row: String,
    arm: String,
    cells: [Option<String>; 2],
}

fn of_lines(lines: &[Line]) -> String {
    let has_rows = lines.iter().any(|line| !line.row.is_empty());
    let has = |of: fn(&Line) -> bool| lines.iter().any(of);
    let (is_here, is_there) = (has(|line| line.cells[0].is_some()), has(|line| line.cells[1].is_some()));
    let columns = |row: &str, arm: &str, [here, there]: [&str; 2]| -> Vec<String> {
        let all = [(has_rows, row), (true, arm), (is_here, here), (is_there, there)];
        all.into_iter().filter(|(shown, _)| *shown).map(|(_, text)| text.to_owned()).collect()
    };
    let mut table = vec![columns("row", "arm", ["measured here", "simulated"])];
    let or_none = |cell: &Option<String>| cell.clone().unwrap_or_else(|| NONE.to_owned());
    let mut last = "";
    for line in lines {
        let [here, there] = line.cells.each_ref().map(or_none);
        // A row is named where it begins.
        let row = if line.row == last { "" } else { line.row.as_str() };
        table.push(columns(row, &line.arm, [&here, &there]));
        last = &line.row;
    }
    markdown(&table)
}

/// An arm's median, and how it compares.
fn cell(figure: &Figure, compared: Option<&Comparison>) -> String {
    let own = for_people(figure.median, &figure.unit);
    let Some(compared) = compared else { return own };
    let (ratio, [low, high]) = (short(compared.ratio), compared.interval.map(short));
    let interval = if low == high { String::new() } else { format!(" ({low} to {high})") };
    format!("{own} · {ratio} × {}{interval}, {}", compared.baseline, verdict(compared, &figure.unit))
}

/// The verdict in words that fit the metric: less of a time is faster.
fn verdict(compared: &Comparison, unit: &str) -> String {
    let is_time = ["ns", "us", "ms", "s"].contains(&unit);
    match (compared.verdict.as_str(), is_time, compared.detectable) {
        ("faster", false, _) => "less".to_owned(),
        ("slower", false, _) => "more".to_owned(),
        ("no difference shown", _, Some(effect)) => {
            format!("no difference shown; {} % would have been", short(effect * 100.0))
        }
        ("no difference shown", _, None) => "too few blocks for a verdict".to_owned(),
        (word, ..) => word.to_owned(),
    }
}

/// A control that differs from what it repeats says that the machine was not fit.
fn unfit(outcomes: &[Outcome; 2], metric: &str, found: &[Vec<(&Arm, Figure)>; 2]) -> String {
    let controls = found.iter().zip(outcomes).flat_map(|(arms, outcome)| {
        arms.iter().filter(|(arm, _)| arm.is_control()).filter_map(|(arm, _)| outcome.comparison(metric, arm))
    });
    let differs = controls.filter(|compared| compared.verdict != "no difference shown");
    let lines = differs.map(|compared| {
        format!(
            "\nThe control, {} run twice, differs from itself by {} ×: the machine was not at rest.\n",
            compared.baseline,
            short(compared.ratio)
        )
    });
    lines.collect()
}

/// A row's parameters, but for those that were asked for.
fn row_name(parameters: &Map<String, Value>, wanted: &[Wanted]) -> String {
    let others = parameters.iter().filter(|(name, _)| wanted.iter().all(|wanted| wanted.name != name.as_str()));
    // In the order of the names, whatever order a map keeps.
    let words = others.collect::<BTreeMap<_, _>>().into_iter().map(|(name, value)| {
        let name = WORDS.iter().find(|(known, _)| known == name).map_or(name.as_str(), |(_, words)| words);
        match value {
            Value::String(text) => format!("{name} {text}"),
            Value::Bool(true) => name.to_owned(),
            Value::Bool(false) => format!("not {name}"),
            value if *value == 1 && (name.ends_with("CPUs") || !name.contains(' ')) => {
                format!("1 {}", name.strip_suffix('s').unwrap_or(name))
            }
            value => format!("{value} {name}"),
        }
    });
    words.collect::<Vec<_>>().join(", ")
}

/// A table as a page has it.
pub fn of_page(table: &Table) -> String {
    let lines: Vec<Vec<String>> = std::iter::once(table.headings.clone()).chain(table.rows.iter().cloned()).collect();
    markdown(&lines)
}

/// Lines of cells, the headings first. What they say is text, in which nothing is a tag.
pub fn markdown<Row: AsRef<[String]>>(lines: &[Row]) -> String {
    let Some((heads, rows)) = lines.split_first() else { return String::new() };
    let text = |cell: &String| cell.replace('<', "&lt;");
    let heads: Vec<String> = heads.as_ref().iter().map(text).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    crate::markdown::table(&heads, rows.iter().map(|row| row.as_ref().iter().map(text).collect()))
}

/// Three digits, and no more.
pub fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { "∞".to_owned() };
    }
    let digits = value.abs().log10().floor() as i32;
    let places = (2 - digits).clamp(0, 9) as usize;
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { with_commas(&text) }
}

fn with_commas(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let mut groups: Vec<String> = Vec::new();
    let mut rest = digits;
    while rest.len() > 3 {
        groups.push(rest[rest.len() - 3..].to_owned());
        rest = &rest[..rest.len() - 3];
    }
    groups.push(rest.to_owned());
    groups.reverse();
    format!("{sign}{}", groups.join(","))
}

/// A figure with a unit that makes it short; counts are told in full up to a million.
pub fn for_people(value: f64, unit: &str) -> String {
    let in_ns = match unit {
        "ns" => Some(1.0),
        "us" => Some(1e3),
        "ms" => Some(1e6),
        "s" => Some(1e9),
        _ => None,
    };
    if let Some(ns) = in_ns.map(|scale| value * scale) {
        let scales = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
        let (scale, unit) = scales.into_iter().find(|(scale, _)| ns >= *scale).unwrap_or((1.0, "ns"));
        return format!("{}{GLUE}{unit}", short(ns / scale));
    }
    let unit = if ["1", ""].contains(&unit) { String::new() } else { format!("{GLUE}{unit}") };
    match value {
        1e6.. => format!("{}{GLUE}million{unit}", short(value / 1e6)),
        1e3.. => format!("{}{unit}", with_commas(&format!("{value:.0}"))),
        _ => format!("{}{unit}", short(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let read = |value, unit, expected: &str| assert_eq!(for_people(value, unit).replace(GLUE, " "), expected);
        read(2180.0, "ns", "2.18 µs");
        read(0.965, "ms", "965 µs");
        read(1.0, "s", "1 s");
        read(0.0, "ns", "0 ns");
        read(0.14, "ns", "0.14 ns");
        read(47_741.0, "1", "47,741");
        read(1_234_567.0, "1", "1.23 million");
        read(49_752.0, "B", "49,752 B");
        read(0.001_53, "1", "0.00153");
        assert_eq!([0.0, 0.5, 12.345, 1234.5, 0.999].map(short), ["0", "0.5", "12.3", "1,234", "0.999"]);
        assert_eq!([f64::INFINITY, -1234.0].map(short), ["∞", "-1,234"]);
    }

    #[test]
    fn cells_cannot_break_a_table() {
        let lines = [vec!["a".to_owned(), "<c".to_owned()], vec!["1|1".to_owned(), "2".to_owned()]];
        assert_eq!(markdown(&lines), "| a | &lt;c |\n|---|---|\n| 1\\|1 | 2 |\n");
    }

    #[test]
    fn rows_are_read_as_the_labs_tables_are() {
        let of = |value: Value, wanted: &[&str]| {
            let wanted: Vec<Wanted> = wanted.iter().map(|word| Wanted::of(word).unwrap()).collect();
            row_name(value.as_object().unwrap(), &wanted)
        };
        let row = serde_json::json!({ "threads": 1, "till_qs_ms": 1, "freed": "as now", "equal_run_rate": false });
        assert_eq!(of(row.clone(), &["freed=as now"]), "not at equal run rate, 1 thread, 1 ms till told");
        assert_eq!(of(serde_json::json!({ "busy_cpus": 1 }), &[]), "1 busy CPU");
        assert_eq!(of(row, &["no shepherd", "threads=1", "equal_run_rate=false"]), "freed as now, 1 ms till told");
    }

    #[test]
    fn verdicts_are_words_and_a_claim_that_fails_is_seen() {
        assert_eq!(
            ["yes", "NO", "cannot be told", "–"].map(verdict_of),
            ["holds", "**does not hold**", "cannot be told", "–"]
        );
        assert_eq!(verdict_of("NO, but within its band"), "**does not hold**, but within its band");
    }
}
