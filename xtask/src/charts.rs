//! The README's charts: bars that are drawn from `docs/charts/results.json`, for light and for dark pages.
//!
//! `cargo xtask charts --measure` measures the rows of `targets.toml` behind them beside the peers, and writes that file.

use std::path::Path;
use std::process::Command;
use std::{fmt::Write, fs};

use serde_json::{Value, json};

use crate::{reference, tree};

const RESULTS: &str = "docs/charts/results.json";
const OURS: &str = "commensal";
/// An arm that no program uses. It shows the cost of preloading.
const EMPTY: &str = "empty library";

struct Chart {
    /// The row of `targets.toml`, and the file's name.
    row: &'static str,
    title: &'static str,
    /// The unit of the bars, and the row's units in it.
    unit: (&'static str, f64),
}

const CHARTS: [Chart; 3] = [
    Chart { row: "idle-threads", title: "Resident memory of 64 idle threads", unit: ("MB", 1000.0) },
    Chart { row: "handover-two", title: "A block that another thread frees", unit: ("ns", 1.0) },
    Chart { row: "startup-time", title: "Start and end of a short process", unit: ("ms", 0.001) },
];

/// A page's colours: background, text, bars of others, bar of ours.
pub const SCHEMES: [(&str, [&str; 4]); 2] =
    [("light", ["#ffffff", "#1f2328", "#a8b3bf", "#0969da"]), ("dark", ["#0d1117", "#e6edf3", "#57606a", "#58a6ff"])];

/// Draws the charts, and compares them with the committed ones or writes them.
pub fn run(root: &Path, measure: bool, bless: bool) -> Result<(), String> {
    if measure {
        measure_rows(root)?;
    }
    let path = root.join(RESULTS);
    let text = fs::read_to_string(&path).map_err(|error| format!("{RESULTS} cannot be read: {error}"))?;
    let results: Value = serde_json::from_str(&text).map_err(|error| format!("{RESULTS}: {error}"))?;
    for chart in &CHARTS {
        let bars = bars(&results, chart).ok_or_else(|| {
            format!("{RESULTS} has no figures of {}; to measure them: cargo xtask charts --measure", chart.row)
        })?;
        for (scheme, colours) in SCHEMES {
            let file = format!("docs/charts/{}-{scheme}.svg", chart.row);
            reference::settle(
                root,
                &file,
                &draw(chart, &bars, &footer(&results), colours),
                bless || measure,
                "charts",
            )?;
        }
    }
    println!("charts: {} pictures show {RESULTS}", CHARTS.len() * SCHEMES.len());
    Ok(())
}

/// The idle machine, the library and all peers are needed for some five minutes.
fn measure_rows(root: &Path) -> Result<(), String> {
    let path = root.join(RESULTS);
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--release", "--package", "bench", "--", "targets", "--json"]).arg(&path);
    command.args(CHARTS.iter().flat_map(|chart| ["--only", chart.row])).current_dir(root);
    let text = match (fs::create_dir_all(root.join("docs/charts")), command.status()) {
        // A missed must is no reason to draw nothing.
        (Ok(()), Ok(_)) => fs::read_to_string(&path).map_err(|error| format!("{command:?} wrote nothing: {error}"))?,
        (made, ran) => return Err(format!("{command:?} cannot be run: {made:?}, {ran:?}")),
    };
    let mut results: Value = serde_json::from_str(&text).map_err(|error| format!("{RESULTS}: {error}"))?;
    results["commit"] = json!(tree::state(root));
    fs::write(&path, lines(&results)).map_err(|error| format!("{RESULTS} cannot be written: {error}"))
}

/// The results with a line for each row.
fn lines(results: &Value) -> String {
    let rows = results["rows"].as_object().into_iter().flatten();
    let rows: Vec<String> = rows.map(|(name, row)| format!("    \"{name}\": {row}")).collect();
    let (commit, machine) = (&results["commit"], &results["machine"]);
    format!("{{\n  \"commit\": {commit},\n  \"machine\": {machine},\n  \"rows\": {{\n{}\n  }}\n}}\n", rows.join(",\n"))
}

/// Each allocator with its figure, the smallest first.
fn bars<'a>(results: &'a Value, chart: &Chart) -> Option<Vec<(&'a str, f64)>> {
    let arms = results["rows"][chart.row]["arms"].as_array()?.iter();
    let figures = arms.filter_map(|arm| Some((arm[0].as_str()?, arm[1][0].as_f64()? / chart.unit.1)));
    let mut bars: Vec<_> = figures.filter(|(name, _)| *name != EMPTY && !name.ends_with(" again")).collect();
    bars.sort_by(|one, other| one.1.total_cmp(&other.1));
    bars.iter().any(|(name, _)| *name == OURS).then_some(bars)
}

fn footer(results: &Value) -> String {
    let of = |key: &str| results[key].as_str().unwrap_or("unknown").to_owned();
    format!("{}; commit {}", of("machine").split(", Linux").next().unwrap_or_default(), of("commit"))
}

const WIDTH: f64 = 440.0;
const LEFT: f64 = 96.0;
const MOST: f64 = 270.0;
const TOP: f64 = 56.0;
const STEP: f64 = 24.0;

fn draw(chart: &Chart, bars: &[(&str, f64)], footer: &str, [back, text, others, ours]: [&str; 4]) -> String {
    let most = bars.iter().map(|(_, figure)| *figure).fold(f64::MIN_POSITIVE, f64::max);
    let (height, unit) = (TOP + STEP * bars.len() as f64 + 22.0, chart.unit.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\" fill=\"{text}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"{back}\"/>\n\
         <text x=\"8\" y=\"22\" font-size=\"16\" font-weight=\"bold\">{}</text>\n\
         <text x=\"8\" y=\"42\" opacity=\"0.75\">{unit}; a shorter bar is better</text>\n",
        chart.title
    );
    for (at, (name, figure)) in bars.iter().enumerate() {
        let (y, width) = (TOP + STEP * at as f64, (MOST * figure / most).max(1.0));
        let (colour, weight) = if *name == OURS { (ours, "bold") } else { (others, "normal") };
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" font-weight=\"{weight}\">{name}</text>\
             <rect x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"16\" rx=\"2\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{}\" font-weight=\"{weight}\">{}</text>",
            LEFT - 8.0,
            y + 13.0,
            LEFT + width + 6.0,
            y + 13.0,
            short(*figure)
        );
    }
    let _ =
        writeln!(svg, "<text x=\"8\" y=\"{}\" font-size=\"10\" opacity=\"0.75\">{footer}</text>\n</svg>", height - 8.0);
    svg
}

/// Three digits.
pub fn short(figure: f64) -> String {
    let places = if figure >= 100.0 {
        0
    } else if figure >= 10.0 {
        1
    } else {
        2
    };
    format!("{figure:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_figures() {
        let arms = json!([["commensal", [6000, 0, 0]], ["glibc", [60000, 0, 0]], ["empty library", [1, 0, 0]]]);
        let results =
            json!({"machine": "CPU, 2 CPUs, Linux 6", "commit": "abc", "rows": {"idle-threads": {"arms": arms}}});
        assert_eq!(serde_json::from_str::<Value>(&lines(&results)).unwrap(), results);
        let bars = bars(&results, &CHARTS[0]).unwrap();
        assert_eq!(bars, [("commensal", 6.0), ("glibc", 60.0)]);
        let svg = draw(&CHARTS[0], &bars, &footer(&results), SCHEMES[0].1);
        assert!(
            svg.contains("width=\"27.0\" height=\"16\" rx=\"2\" fill=\"#0969da\"") && svg.contains(">6.00<"),
            "{svg}"
        );
        assert!(
            svg.contains("width=\"270.0\"") && svg.contains(">60.0<") && svg.contains("CPU, 2 CPUs; commit abc"),
            "{svg}"
        );
        assert!(!svg.contains("empty"), "{svg}");
    }

    #[test]
    fn chart_without_our_figure_is_not_drawn() {
        let results = json!({"rows": {"idle-threads": {"arms": [["glibc", [1, 0, 0]]]}}});
        assert!(bars(&results, &CHARTS[0]).is_none() && bars(&results, &CHARTS[1]).is_none());
    }
}
