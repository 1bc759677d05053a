//! The picture of servers in the README: four figures of each, ours and the best peer's, where glibc's is 1.

use std::fmt::Write;

use super::results::{GLIBC, MEAN, OURS, SERVERS, Suite};

/// The metrics that are drawn, and their titles.
const PANELS: [(&str, &str); 4] = [
    ("request_ns", "Time per request"),
    ("p99_ns", "p99 latency"),
    ("loaded_kb", "Memory under load"),
    ("idle_kb", "Memory when idle"),
];

const LEFT: f64 = 104.0;
const PANEL: f64 = 190.0;
/// The length of a bar for glibc's figure, and the longest bar in such lengths.
const ONE: f64 = 100.0;
const MOST: f64 = 1.45;
const TOP: f64 = 80.0;
const STEP: f64 = 42.0;
const BAR: f64 = 14.0;
/// Where the figures stand, right of the longest bar.
const FIGURES: f64 = ONE * MOST + 4.0;
/// What the row of the mean is called here, where a name has little room.
const ALL: &str = "mean of all";

/// Draws a suite's figures; only the titles if nothing was measured yet.
pub fn draw(suite: Option<&Suite>, [back, text, others, ours]: [&str; 4]) -> String {
    let rows = suite.map_or_else(Vec::new, |suite| [MEAN].into_iter().chain(suite.rows(SERVERS)).collect());
    let end = TOP + STEP * rows.len() as f64;
    let (width, height) = (LEFT + PANEL * PANELS.len() as f64, end + 20.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\" fill=\"{text}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"{back}\"/>\n\
         <text x=\"8\" y=\"22\" font-size=\"16\" font-weight=\"bold\">Servers under load</text>\n\
         <text x=\"8\" y=\"42\"><tspan opacity=\"0.75\">relative to glibc, the line at 1; a shorter bar is better:</tspan> \
         <tspan fill=\"{ours}\">■</tspan> {OURS} <tspan fill=\"{others}\">■</tspan> best peer in each figure</text>\n"
    );
    for (panel, (metric, title)) in PANELS.iter().enumerate() {
        let left = LEFT + PANEL * panel as f64;
        let _ = writeln!(svg, "<text x=\"{left}\" y=\"{}\" font-weight=\"bold\">{title}</text>", TOP - 12.0);
        for (at, row) in rows.iter().enumerate() {
            let top = TOP + STEP * at as f64;
            let figure = |arm: &str| suite.and_then(|suite| suite.figure(SERVERS, row, metric, arm)).map(|of| of.ratio);
            let peers = suite.into_iter().flat_map(Suite::arms).filter(|arm| *arm != OURS).filter_map(figure);
            let bars = [(figure(OURS), ours, "bold"), (peers.reduce(f64::min), others, "normal")];
            for (nth, (ratio, colour, weight)) in bars.into_iter().enumerate() {
                let Some(ratio) = ratio else { continue };
                bar(&mut svg, (left, top + (BAR + 2.0) * nth as f64), ratio, colour, weight);
            }
        }
        let _ = writeln!(
            svg,
            "<line x1=\"{0}\" x2=\"{0}\" y1=\"{1}\" y2=\"{2}\" stroke=\"{text}\" stroke-dasharray=\"3 3\"/>",
            left + ONE,
            TOP - 6.0,
            end - 6.0
        );
    }
    for (at, row) in rows.iter().enumerate() {
        let (row, weight) = if *row == MEAN { (ALL, "bold") } else { (*row, "normal") };
        let (x, y) = (LEFT - 8.0, TOP + STEP * at as f64 + 20.0);
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\" font-weight=\"{weight}\">{row}</text>");
    }
    let footer = suite.map_or_else(String::new, |suite| {
        let (about, word) = (&suite.about, |of: &serde_json::Value| of.as_str().unwrap_or("unknown").to_owned());
        let machine = &about["machine"];
        format!(
            "{}, {} CPUs; Debian {}, {GLIBC} {}; commit {}",
            word(&machine["model"]),
            machine["cpus"],
            word(&about["suite"]),
            word(&machine["libc"]),
            word(&about["commit"])
        )
    });
    let _ =
        writeln!(svg, "<text x=\"8\" y=\"{}\" font-size=\"10\" opacity=\"0.75\">{footer}</text>\n</svg>", height - 6.0);
    svg
}

/// A bar that is cut off at the panel's end, and its figure.
fn bar(svg: &mut String, (left, top): (f64, f64), ratio: f64, colour: &str, weight: &str) {
    let length = ONE * ratio.min(MOST);
    let _ = writeln!(
        svg,
        "<rect x=\"{left}\" y=\"{top}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"2\" fill=\"{colour}\"/>\
         <text x=\"{}\" y=\"{}\" font-size=\"12\" font-weight=\"{weight}\">{ratio:.2}</text>",
        left + FIGURES,
        top + BAR - 3.0
    );
}

#[cfg(test)]
mod tests {
    use super::super::results::{lines, read, tests::example};
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_ratios_up_to_the_end_of_the_panel() {
        let mut results = example();
        results["rows"].as_array_mut().unwrap().iter_mut().for_each(|row| {
            if row["row"] == "nginx" {
                row["ratio"] = serde_json::json!(3.0);
            }
        });
        let svg = draw(Some(&read(&lines(&results)).unwrap()), ["back", "text", "others", "ours"]);
        let has = |bar: &str, figure: &str| {
            assert!(svg.lines().any(|line| line.contains(bar) && line.ends_with(figure)), "{bar}: {svg}");
        };
        has("width=\"80.0\" height=\"14\" rx=\"2\" fill=\"ours\"", ">0.80</text>");
        has("width=\"90.0\" height=\"14\" rx=\"2\" fill=\"others\"", ">0.90</text>");
        has("width=\"60.0\" height=\"14\" rx=\"2\" fill=\"others\"", ">0.60</text>");
        has("width=\"145.0\" height=\"14\" rx=\"2\" fill=\"ours\"", ">3.00</text>");
        assert!(svg.contains("A CPU, 2 CPUs; Debian bookworm, glibc 2.36; commit abc"), "{svg}");
        assert!(draw(None, ["back", "text", "others", "ours"]).contains("Memory when idle"));
    }
}
