//! What a run found: as tables for a person, as JSON for a machine.

use comfy_table::{Cell, CellAlignment, Color, LineStyle, Table, TableStyle};
use serde::Serialize;

use crate::arm::{Arm, COMMENSAL};
use crate::micro::Setting;
use crate::musts::Must;
use crate::programs::{Figure, Programs, REDIS_REQUESTS};
use crate::rounds::{ByArm, Samples, Series};
use crate::startup::{EMPTY, Startup};
use crate::threads::{FLOOR, Place, Threads};

/// Lines around the headings and at the end only, so that all tables fit on a few screens.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// Everything that was measured. A part that wasn't asked for is none.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub rounds: usize,
    pub arms: Vec<Arm>,
    pub startup: Option<Startup>,
    pub micro: Option<Vec<Setting>>,
    pub threads: Option<Vec<Place>>,
    pub programs: Option<Programs>,
    /// Whether no row was left out by choice.
    pub all_programs: bool,
    pub musts: Vec<Must>,
}

impl Report {
    fn labels(&self) -> Vec<&'static str> {
        self.arms.iter().map(|arm| arm.label).collect()
    }

    /// Every table.
    pub fn print_details(&self) {
        for arm in &self.arms {
            println!("{:10} {}", arm.label, arm.origin);
        }
        if let Some(startup) = &self.startup {
            print_startup(startup, &self.labels());
        }
        if let Some(settings) = &self.micro {
            print_micro(settings, &self.labels());
        }
        if let Some(threads) = &self.threads {
            threads.iter().for_each(|place| print_threads(place, &self.labels()));
        }
        if let Some(programs) = &self.programs {
            print_programs(programs, &self.labels());
        }
    }

    /// What could not be measured, and what went wrong. A row that is missing must be seen to be.
    pub fn print_gaps(&self) {
        for skipped in self.programs.iter().flat_map(|programs| &programs.skipped) {
            println!("SKIPPED {}: {}", skipped.name, skipped.why);
        }
        for (row, arm, failure) in self.failures() {
            println!("FAILED {row} on {arm}: {failure}");
        }
    }

    /// Every failure, as (row, arm, what happened).
    pub fn failures(&self) -> Vec<(&str, &str, &str)> {
        let mut all: Vec<_> = self
            .programs
            .iter()
            .flat_map(|programs| programs.rows.iter().flat_map(|row| failures_of(row.name, &row.by_arm)))
            .collect();
        all.extend(self.startup.iter().flat_map(|startup| failures_of("start-up", &startup.by_arm)));
        all.extend(self.micro.iter().flatten().flat_map(|setting| failures_of(setting.name, &setting.by_arm)));
        all.extend(self.threads.iter().flatten().flat_map(|place| failures_of("threads", &place.by_arm)));
        all
    }

    pub fn print_musts(&self) {
        let mut table = table("MUSTS", &["measured", "limit", ""]);
        for must in &self.musts {
            let verdict = if must.met { Cell::new("PASS").fg(Color::Green) } else { Cell::new("MISS").fg(Color::Red) };
            let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| with_unit(value, must.unit));
            table.add_row([
                Cell::new(&must.what),
                right(number(must.measured)),
                right(format!("≤ {}", number(must.limit))),
                verdict,
            ]);
        }
        println!("\n{table}");
    }
}

fn failures_of<'a, T>(row: &'a str, by_arm: &'a ByArm<T>) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
    by_arm.iter().filter_map(move |(label, samples)| Some((row, *label, samples.failure.as_deref()?)))
}

fn print_startup(startup: &Startup, labels: &[&'static str]) {
    let headings = ["best ms", "median ms", "best / empty", "median / empty", "peak kB"];
    let mut table = table("start-up of /bin/true", &headings);
    for label in [EMPTY].iter().chain(labels) {
        let times = startup.by_arm.get(label).and_then(|samples| samples.series(|block| block.milliseconds));
        table.add_row([
            Cell::new(label),
            right(decimals(times.as_ref().map(Series::best), 3)),
            right(decimals(times.as_ref().map(Series::median), 3)),
            right(decimals(startup.best_ratio(label), 3)),
            right(decimals(startup.median_ratio(label), 3)),
            right(decimals(startup.peak_kb(label), 0)),
        ]);
    }
    println!("\n{table}");
}

fn print_micro(settings: &[Setting], labels: &[&'static str]) {
    let headings: Vec<&str> = labels.iter().copied().chain(["ours / best peer"]).collect();
    let mut table = table("malloc+free(64), ns: best (median)", &headings);
    for setting in settings {
        for depth in setting.depths() {
            let figure = |label: &&'static str| {
                let (best, median) = (setting.best(label, depth), setting.median(label, depth));
                right(format!("{} ({})", decimals(best, 2), decimals(median, 1)))
            };
            let ratio = setting.best(COMMENSAL, depth).zip(setting.best_peer(depth)).map(|(ours, peer)| ours / peer);
            let mut row = vec![Cell::new(format!("{}, depth {depth}", setting.name))];
            row.extend(labels.iter().map(figure));
            row.push(right(decimals(ratio, 2)));
            table.add_row(row);
        }
    }
    println!("\n{table}");
}

fn print_threads(place: &Place, labels: &[&'static str]) {
    let name = format!("10,000 threads in turn, {}", place.name);
    let mut table = table(&name, &["best s", "median s", "beside %", "peak MB", "growth kB"]);
    for label in labels.iter().chain([&FLOOR]) {
        let series = |figure: fn(&Threads) -> f64| {
            place.by_arm.get(label).and_then(|samples: &Samples<_>| samples.series(figure))
        };
        let seconds = series(|run| run.seconds);
        table.add_row([
            Cell::new(label),
            right(decimals(seconds.as_ref().map(Series::best), 3)),
            right(decimals(seconds.as_ref().map(Series::median), 3)),
            right(decimals(series(|run| run.beside).map(|beside| beside.median()), 0)),
            right(decimals(series(|run| run.peak_kb as f64 / 1024.0).map(|peak| peak.best()), 1)),
            right(decimals(series(|run| run.growth_kb).map(|growth| growth.median()), 0)),
        ]);
    }
    println!("\n{table}");
}

fn print_programs(programs: &Programs, labels: &[&'static str]) {
    print_ratios("time over the best peer's (median s)", programs, labels, Figure::Time);
    print_ratios("peak memory over the best peer's (MB)", programs, labels, Figure::Memory);
    if let Some(redis) = programs.rows.iter().find(|row| row.name == "redis") {
        let rate = |label: &&str| {
            let seconds = redis.best(label, Figure::Time)?;
            Some(format!("{label} {:.0}", f64::from(REDIS_REQUESTS) / seconds / 1000.0))
        };
        let rates: Vec<String> = labels.iter().filter_map(rate).collect();
        println!("redis, thousand requests/s: {}", rates.join(", "));
    }
}

fn print_ratios(title: &str, programs: &Programs, labels: &[&'static str], figure: Figure) {
    let mut table = table(title, labels);
    for row in &programs.rows {
        let peer = row.best_peer(figure);
        let cell = |label: &&'static str| {
            let Some(best) = row.best(label, figure) else {
                return right("–");
            };
            let (ratio, absolute) = (peer.map(|peer| best / peer), row.typical(label, figure));
            let absolute = match figure {
                Figure::Time => decimals(absolute, 2),
                Figure::Memory => decimals(absolute.map(|kb| kb / 1024.0), 1),
            };
            highlighted(format!("{} ({absolute})", decimals(ratio, 2)), label, ratio)
        };
        table.add_row([Cell::new(row.name)].into_iter().chain(labels.iter().map(cell)));
    }
    let mean = |label: &&'static str| right(decimals(programs.mean_over_best_peer(label, figure), 3));
    table.add_row([Cell::new("geometric mean")].into_iter().chain(labels.iter().map(mean)));
    println!("\n{table}");
}

/// Our own column in green where it beats every peer, in red where it is well behind.
fn highlighted(text: String, label: &str, ratio: Option<f64>) -> Cell {
    match ratio {
        Some(ratio) if label == COMMENSAL && ratio <= 1.0 => right(text).fg(Color::Green),
        Some(ratio) if label == COMMENSAL && ratio > 1.1 => right(text).fg(Color::Red),
        _ => right(text),
    }
}

fn table(title: &str, headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header([Cell::new(title)].into_iter().chain(headings.iter().map(right)));
    table
}

fn right(text: impl ToString) -> Cell {
    Cell::new(text.to_string()).set_alignment(CellAlignment::Right)
}

fn decimals(value: Option<f64>, places: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.places$}"))
}

fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "×" => format!("{value:.3} ×"),
        unit => format!("{value:.0} {unit}"),
    }
}
