//! Upkeep without a herd: page lists return pages above their marks to the zone, under its one lock. All CPUs want the lock at
//! the same time, or one after the other. The load is fitted to what a kernel patch measured before it, not after it.

mod claims;

use anyhow::Result;

use super::probing::{self, Blocks, Measured, asked, forms, no_plots, of_parts, tables};
use super::{Experiment, Outcome, Setting};
use crate::json::Documented;
use crate::machine::Machine;
use crate::metric::{LESS, Metric};
use crate::parameters::Parameters;
use crate::report::Figure;
use crate::report::plot::{self, Turn};
use crate::table;

const ALIGNED: &str = "aligned";
const SKEW: &str = "skew";
const POSTED: &str = "posted";
const GRID: &str = "grid";
const ARMS: [&str; 4] = [ALIGNED, SKEW, POSTED, GRID];

const SOURCE: &str = "patch \"mm/vmstat: spread vmstat_update requeue …\" (B. Leitao, 2026), and its review";
/// How many CPUs the document had; the host serves as many.
const CPUS: u64 = 72;
/// Of the CPU with the highest id, in intervals, and of all CPUs together, over one interval for all: what the posted formula gives for 72.
const POSTED_PERIOD: f64 = 1.986;
const POSTED_RATE: f64 = 0.697;

/// A column of the document's table, and what is fitted to its first figures.
struct Column {
    name: &'static str,
    words: &'static str,
    /// What perf said of the lock: [`WAITS`].
    before: [f64; 3],
    after: [f64; 3],
    /// Times fewer contentions that are asked of the grid.
    fewer: f64,
    /// How long a batch holds the lock.
    hold_ns: u64,
}

/// From a timer to what it starts, in the mean, on a simulated machine; the real one brings its own.
const LATENCY_NS: u64 = 300_000;
/// How long the document's run was, which it does not say: 872 waits of 72 CPUs are as many intervals, if each waits once in each.
const INTERVALS: u64 = 12;
/// From one burst of a CPU to the next, in the mean, and from one hold of another user of the zone to the next.
const GAP_US: u64 = 1_000_000;
/// Another user of the zone holds its lock so long, in the mean, in both columns.
///
/// This and each column's time for a batch are fitted to what was before the patch, and to nothing else. The longest wait of the first column is left out: one
/// event, 18 % of all waiting there, which no distribution of holds makes likely. Without a longest wait this time is not determined: from 0.35 to 1.8 ms
/// the other figures can be had.
const OTHERS_HOLD_NS: u64 = 1_400_000;

/// A longest wait that is not fitted.
const SINGLE_EVENT_MS: f64 = 35.76;

/// The maxima of the posting were in each other's column; the author put them right.
const COLUMNS: [Column; 2] = [
    Column {
        name: "kasan",
        words: "with KASAN",
        before: [872.0, 199.43, SINGLE_EVENT_MS],
        after: [117.0, 80.76, 4.19],
        fewer: 7.5,
        hold_ns: 12_338,
    },
    Column {
        name: "without",
        words: "without KASAN",
        before: [240.0, 34.01, 1.35],
        after: [133.0, 24.61, 0.965],
        fewer: 1.8,
        hold_ns: 1_834,
    },
];

/// Of intervals, in hundredths, in which a CPU does nothing, where the shepherd has something to do.
const PAUSED: u64 = 60;
/// Other hold times, in parts of the fitted one.
const SWEPT: [f64; 4] = [0.25, 0.5, 2.0, 4.0];
/// Intervals in the picture.
const SHOWN: f64 = 3.0;

/// A block is a seed, the same for all arms.
const BLOCKS: Blocks = Blocks { simulated: Some((10, 30)), are_seeds: true, ..Blocks::of(3, 15) };
const SWEPT_BLOCKS: Blocks = Blocks { are_seeds: true, ..Blocks::of(3, 10) };

const CONTENDED: Metric = Metric::new("contended", "1", "drains' holds that waited", LESS, 1.0);
const TOTAL: Metric = Metric::new("total_wait_ms", "ms", "total wait, ms", LESS, 1e-5);
const MAX: Metric = Metric { name: "max_wait_ms", title: "longest wait, ms", ..TOTAL };
const AVERAGE: Metric = Metric { name: "avg_wait_us", unit: "us", title: "average wait, µs", ..TOTAL };
const DRAINS: Metric =
    Metric { name: "drains_per_interval", title: "drains per interval", resolution: 0.1, ..CONTENDED };
const PAGES: Metric = Metric { name: "pages_per_interval", title: "pages returned per interval", ..DRAINS };
const SHORTEST: Metric =
    Metric { name: "period_min", title: "shortest period of a CPU, in intervals", resolution: 1e-5, ..CONTENDED };
const LONGEST: Metric = Metric { name: "period_max", title: "longest period of a CPU, in intervals", ..SHORTEST };
const STRANDED: Metric = Metric { name: "stranded_pages", title: "most pages stranded on a resting CPU", ..CONTENDED };
const AHEAD: Metric = Metric { name: "ahead_max", title: "most holds of upkeep ahead of a CPU", ..CONTENDED };
const OF_LOAD: Metric = Metric { name: "load_contended", title: "the load's holds that waited", ..CONTENDED };
const MISSED: Metric = Metric { name: "missed", title: "missed turns", ..CONTENDED };

/// How often the lock was waited for, and how long.
const WAITS: [Metric; 3] = [CONTENDED, TOTAL, MAX];

/// In the order in which the probe prints them.
const METRICS: [Metric; 12] =
    [CONTENDED, TOTAL, MAX, AVERAGE, DRAINS, PAGES, SHORTEST, LONGEST, STRANDED, AHEAD, OF_LOAD, MISSED];

pub const STAGGER: Experiment = Experiment {
    name: "stagger",
    about: "How long do CPUs wait if their upkeep runs at once, or in turn?",
    source: SOURCE,
    simulates: true,
    measure,
};

fn measure(setting: &Setting) -> Result<Outcome> {
    let parts: [fn(&Setting) -> Result<Measured>; 4] = [all_online, odd_off, dormant, swept];
    let Measured { parts, missing } = of_parts(parts, setting, |part| part(setting))?;
    let claims = claims::of(&parts, &Size::of(&setting.machine));
    let mut outcome = Outcome { claims, ..Outcome::of(setting, EXPLANATION, Vec::new(), missing, parts) };
    // What was measured is shown also without.
    match picture(setting) {
        Ok(picture) => outcome.pictures.push(picture),
        Err(why) => outcome.remarks.push(format!("No picture of the drains: {why}.")),
    }
    Ok(outcome)
}

const EXPLANATION: &str = "\
Each CPU has a page list. Bursts of allocations take pages from the zone, and frees leave them in the list. Once per interval \
each CPU drains its list: it returns pages above the mark in batches of 63, and holds the zone's lock for each batch. The arms:
  aligned: all CPUs at the same moment
  skew: three jiffies apart, as in the kernel's __round_jiffies_relative()
  posted: one interval after the last run, plus a share of an interval that grows with the CPU's id
  grid: what Commensal does; one interval after the last time, each CPU in its own window
An interval has 250 jiffies. A timer fires at a jiffy, and its work starts a little later, by chance. \"at equal run rate\" scales \
the posted delays so that all CPUs together run as often as in the other arms.
Waits are those of drains. The figures of perf (-S free_pcppages_bulk) also include the frees of the load. Each block has a \
seed for load and chance, the same for all arms.
Three times were fitted to the figures before the patch: that of a batch in each column of the document's table, and that of \
the zone's other users. The figures after the patch are predicted. On a real machine two threads \
serve 72 CPUs in intervals of 20 ms. This shows that the code works, and not how 72 CPUs contend.
The posting had its two maxima in the wrong columns, and the author put them right; they are right here. The longest wait with \
KASAN before the patch, 35.76 ms, is 18 % of all waiting. It is a single event and was not fitted.
The kernel's round_jiffies_relative() itself skews by CPU, so the kernel's runs were not exactly aligned.";

/// What is served, and by how many.
#[derive(Clone, Copy)]
struct Size {
    is_simulated: bool,
    cpus: u64,
    threads: u64,
    interval_us: u64,
}

/// Threads that serve the CPUs of a real machine, their interval, and of those how many count.
const HOST_THREADS: u64 = 2;
const HOST_INTERVAL_US: u64 = 20_000;
const HOST_INTERVALS: u64 = 8;
const SECOND_US: u64 = 1_000_000;

impl Size {
    fn of(machine: &Machine) -> Self {
        if machine.is_simulated() {
            let cpus = machine.cpus as u64;
            return Size { is_simulated: true, cpus, threads: cpus, interval_us: SECOND_US };
        }
        let threads = HOST_THREADS.min(machine.cpus as u64);
        Size { is_simulated: false, cpus: CPUS, threads, interval_us: HOST_INTERVAL_US }
    }

    /// What the probe is told of a row.
    fn line(self, what: &str, row: Row) -> String {
        let online = if row.online == ALL { self.cpus } else { self.cpus.div_ceil(2) };
        let (intervals, latency) = if self.is_simulated { (INTERVALS, LATENCY_NS) } else { (HOST_INTERVALS, 0) };
        // In shorter intervals as much as in long ones, but for the holds that are measured.
        let [gap_us, others_hold_ns] = [GAP_US, OTHERS_HOLD_NS].map(|time| time * self.interval_us / SECOND_US);
        let of_size = format!("{} {} {} {intervals}", self.cpus, self.threads.min(online), self.interval_us);
        let Row { hold_ns, paused, is_equal, shepherd, online, .. } = row;
        let of_load = format!("{gap_us} {hold_ns} {others_hold_ns} {latency} {paused}");
        format!("stagger {what} {of_size} {of_load} {} {shepherd} {online}", u8::from(is_equal))
    }
}

const ALL: &str = "all";
const EVEN: &str = "even";
const ZERO: &str = "zero";

/// One row: under which load, and what else differs.
#[derive(Clone, Copy)]
struct Row {
    column: usize,
    is_equal: bool,
    online: &'static str,
    shepherd: &'static str,
    paused: u64,
    hold_ns: u64,
}

impl Row {
    /// All CPUs are there, and nobody rests.
    fn usual(column: usize, is_equal: bool) -> Self {
        let hold_ns = COLUMNS[column].hold_ns;
        Row { column, is_equal, online: ALL, shepherd: ZERO, paused: 0, hold_ns }
    }

    fn odd_off(column: usize) -> Self {
        Row { online: EVEN, ..Self::usual(column, true) }
    }

    fn dormant(column: usize, shepherd: &'static str) -> Self {
        Row { shepherd, paused: PAUSED, ..Self::usual(column, true) }
    }

    fn swept(column: usize, part: f64) -> Self {
        let usual = Self::usual(column, true);
        Row { hold_ns: (usual.hold_ns as f64 * part) as u64, ..usual }
    }

    fn column(self) -> &'static Column {
        &COLUMNS[self.column]
    }

    fn parameters(self) -> Parameters {
        let named = Parameters::default().with("load", self.column().name).with("equal_run_rate", self.is_equal);
        let named = named.with("shepherd", self.shepherd).with("online", self.online).with("hold_ns", self.hold_ns);
        if self.paused == 0 { named } else { named.with("paused_percent", self.paused) }
    }
}

fn of_columns(row: impl Fn(usize) -> Vec<Row>) -> Vec<Row> {
    (0..COLUMNS.len()).flat_map(row).collect()
}

/// Measures these rows, and shows these metrics.
fn part(setting: &Setting, title: &str, rows: Vec<Row>, blocks: Blocks, shown: &[Metric]) -> Result<Measured> {
    let size = Size::of(&setting.machine);
    let rows = rows.into_iter().map(|row| (row.parameters(), size.line("run", row)));
    let mut measured = probing::part(setting, title, rows, &METRICS, &forms(ARMS), blocks, no_plots)?;
    for part in &mut measured.parts {
        part.sheets = tables(&part.analysis, |metric| shown.contains(metric), table::figures);
    }
    Ok(measured)
}

fn all_online(setting: &Setting) -> Result<Measured> {
    // On a real machine a run takes as long as it does, and rates are known.
    let rates: &[bool] = if setting.machine.is_simulated() { &[false, true] } else { &[true] };
    let rows = of_columns(|column| rates.iter().map(|is_equal| Row::usual(column, *is_equal)).collect());
    let shown = [CONTENDED, TOTAL, MAX, AVERAGE, DRAINS, PAGES, SHORTEST, LONGEST, AHEAD, OF_LOAD, MISSED];
    let documents = (0..COLUMNS.len()).flat_map(documents);
    Ok(part(setting, "All CPUs, always busy", rows, BLOCKS, &shown)?.documented(documents))
}

fn odd_off(setting: &Setting) -> Result<Measured> {
    let rows = of_columns(|column| vec![Row::odd_off(column)]);
    let rows = if setting.machine.is_simulated() { rows } else { rows[..1].to_vec() };
    let shown = [CONTENDED, TOTAL, SHORTEST, LONGEST, AHEAD, MISSED];
    part(setting, "The odd ids off-line", rows, BLOCKS, &shown)
}

fn dormant(setting: &Setting) -> Result<Measured> {
    let rows = of_columns(|column| [ZERO, GRID].map(|shepherd| Row::dormant(column, shepherd)).to_vec());
    let rows = if setting.machine.is_simulated() { rows } else { rows[..2].to_vec() };
    let shown = [CONTENDED, TOTAL, DRAINS, STRANDED, AHEAD];
    part(setting, "CPUs that rest in most intervals and are queued by a shepherd", rows, BLOCKS, &shown)
}

fn swept(setting: &Setting) -> Result<Measured> {
    if !setting.machine.is_simulated() {
        return Ok(Measured::default());
    }
    let rows = of_columns(|column| SWEPT.iter().map(|part| Row::swept(column, *part)).collect());
    part(setting, "Other hold times", rows, SWEPT_BLOCKS, &[CONTENDED, TOTAL, AHEAD])
}

/// What perf said after the patch, over what it said before.
fn documents(column: usize) -> impl Iterator<Item = Documented> {
    let Column { words, before, after, .. } = &COLUMNS[column];
    WAITS.iter().zip(after.iter().zip(before)).map(move |(metric, (after, before))| {
        let said = (SOURCE, format!("{} {words}, after over before", metric.title), after / before);
        Documented::of([ALIGNED, POSTED], metric, Row::usual(column, false).parameters(), said)
    })
}

/// Each drain of three arms, in the first intervals that count.
fn picture(setting: &Setting) -> Result<Figure> {
    let size = Size::of(&setting.machine);
    let line = size.line("drains", Row::usual(0, false));
    let panel = |arm: &str| -> Result<(String, Vec<Turn>)> {
        let drains = asked(setting, &format!("{line} {} {arm}", setting.seed))?;
        let turn = |drain: &[f64]| Turn { row: drain[0] as u32, at: drain[1], is_marked: drain[2] > 0.0 };
        let shown: Vec<Turn> = drains.chunks_exact(3).map(turn).filter(|turn| turn.at <= SHOWN).collect();
        let waited = shown.iter().filter(|turn| turn.is_marked).count();
        Ok((format!("{arm}: {waited} of {} waited", shown.len()), shown))
    };
    let panels = [panel(ALIGNED)?, panel(POSTED)?, panel(GRID)?];
    let words = ["intervals", "a drain that waited for the zone's lock", "a drain that did not"];
    let drawn = plot::turns(&panels, (size.cpus as u32, SHOWN), words);
    let machine =
        if size.is_simulated { "simulated".to_owned() } else { format!("served by {} threads", size.threads) };
    let caption = format!("Each drain of {} CPUs, {machine}, over {SHOWN} intervals, {}", size.cpus, COLUMNS[0].words);
    Ok(Figure { caption, is_wide: true, ..drawn })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { is_simulated: true, cpus: 72, threads: 72, interval_us: SECOND_US };

    #[test]
    fn lines_are_those_that_the_probe_expects() {
        let line = SIZE.line("run", Row::odd_off(0));
        assert_eq!(line, "stagger run 72 36 1000000 12 1000000 12338 1400000 300000 0 1 zero even");
        let host = Size { is_simulated: false, threads: 2, interval_us: HOST_INTERVAL_US, ..SIZE };
        let line = host.line("drains", Row::dormant(0, GRID));
        assert_eq!(line, "stagger drains 72 2 20000 8 20000 12338 28000 0 60 1 grid all");
    }
}
