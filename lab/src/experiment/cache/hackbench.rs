//! Part a: hackbench, as in the document, and with a context for each message.

use anyhow::Result;

use super::{DEDICATED, GENERAL, SOURCE};
use crate::analysis::Analysis;
use crate::arm::Arm;
use crate::blocks::{self, Length, Plan, Subject};
use crate::experiment::probing::{Measured, library, tables};
use crate::experiment::{Part, Setting};
use crate::json::Documented;
use crate::metric::{CPU, FASTER, Metric, SYSTEM, WALL};
use crate::parameters::Parameters;
use crate::process::{Program, Run};
use crate::report;
use crate::sheet::{Sheet, Side};
use crate::table;

/// What hackbench prints has three places.
pub const HACKBENCH: Metric = Metric::new("hackbench_s", "s", "hackbench's time", FASTER, 1e-3);
const METRICS: [Metric; 4] = [HACKBENCH, WALL, CPU, SYSTEM];

const QUICK_BLOCKS: usize = 9;
/// At least as many as in the document, and as many as the interval needs.
const USUAL: Length = Length::Width { least: RUNS, width: 0.04 };

const RUNS: usize = 31;
/// The document's table, in milliseconds: kmalloc, and kmem_cache_alloc.
const KMALLOC: [u16; RUNS] = [
    141, 128, 156, 142, 138, 123, 146, 122, 128, 124, 120, 122, 113, 129, 176, 122, 148, 133, 125, 143, 129, 123, 148,
    120, 126, 141, 133, 134, 136, 135, 126,
];
const KMEM_CACHE: [u16; RUNS] = [
    151, 121, 140, 120, 147, 128, 129, 126, 138, 141, 139, 156, 137, 132, 135, 163, 129, 136, 128, 147, 149, 130, 128,
    133, 122, 124, 125, 141, 162, 128, 127,
];

/// What has a context.
pub fn context(of: &str) -> Parameters {
    Parameters::default().with("context", of)
}

pub fn measure(setting: &Setting) -> Result<Measured> {
    let Some(library) = library(setting) else { return Ok(Measured::default()) };
    let arm = |name: &str, settings: Option<&str>| Arm::commensal(name, library, settings.map(str::to_owned));
    let arms = [arm(GENERAL, Some("cache.context.dedicated:off")), arm(DEDICATED, None)];
    let subject = |of| {
        let words = ["commensal", "lab", "hackbench", "-pipe", "20", "process", "40", "--context", of];
        let mut program = Program::new(&setting.command, words);
        program.environment.clear();
        let (parameters, metrics) = (context(of), METRICS.to_vec());
        Subject { parameters, metrics, read, prints_the_same: false, ..Subject::of_program("", program) }
    };
    let length = if setting.quick { Length::Blocks(QUICK_BLOCKS) } else { USUAL };
    let plan = Plan::of(setting.blocks.map_or(length, Length::Blocks), setting.seed);
    let subjects = ["task", "message"].map(subject).into();
    let analysis = Analysis::of(blocks::measure(subjects, &arms, plan, &setting.interrupt)?);
    let mut sheets = tables(&analysis, |_| true, table::of_subjects);
    sheets.extend((analysis.measured.blocks > 0).then(|| table_of_runs(&analysis)));
    let title = "a. hackbench -pipe 20 process 40, with a context for each task or for each message";
    let part = Part { sheets, ..Part::of(title, analysis, report::usual_plots) };
    let figure = format!("hackbench -pipe 20 process 40, mean of {RUNS} runs: kmem_cache_alloc over kmalloc");
    let said = (SOURCE, figure, documented());
    Ok(Measured::from(part).documented([Documented::of([GENERAL, DEDICATED], &HACKBENCH, context("task"), said)]))
}

/// Its own figure, and what it cost.
fn read(run: &Run, printed: &str) -> Option<Vec<f64>> {
    let time = printed.lines().find_map(|line| line.strip_prefix("Time: ")?.parse().ok())?;
    let cost = run.cost;
    Some(vec![time, cost.wall_s, cost.user_s + cost.system_s, cost.system_s])
}

/// The document's table beside ours: its runs, and as many of our first blocks.
fn table_of_runs(analysis: &Analysis) -> Sheet {
    let mut sheet = Sheet::new([
        ("run", Side::Right),
        ("document: kmalloc, s", Side::Right),
        ("kmem_cache_alloc, s", Side::Right),
        ("here: general, s", Side::Right),
        ("dedicated, s", Side::Right),
    ]);
    let arms = &analysis.measured.arms;
    let of_arm = |name| {
        let arm = arms.iter().position(|arm| arm.name == name)?;
        analysis.measured.rows[0].values(arm, 0)
    };
    let ours = [GENERAL, DEDICATED].map(|name| of_arm(name).unwrap_or_default());
    let columns: Vec<Vec<f64>> = [KMALLOC, KMEM_CACHE].map(seconds).into_iter().chain(ours).collect();
    for run in 0..RUNS {
        let cell = |values: &Vec<f64>| values.get(run).map_or(String::new(), |value| format!("{value:.3}"));
        sheet.add([(run + 1).to_string()].into_iter().chain(columns.iter().map(cell)));
    }
    let mean = |values: &Vec<f64>| {
        let runs = values.len().min(RUNS);
        if runs == 0 { String::new() } else { format!("{:.4}", values[..runs].iter().sum::<f64>() / runs as f64) }
    };
    sheet.add(["mean".to_owned()].into_iter().chain(columns.iter().map(mean)));
    sheet
}

fn seconds(milliseconds: [u16; RUNS]) -> Vec<f64> {
    milliseconds.map(|time| f64::from(time) / 1e3).into()
}

/// The document's means, the second over the first.
pub fn documented() -> f64 {
    let mean = |of| seconds(of).iter().sum::<f64>();
    mean(KMEM_CACHE) / mean(KMALLOC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Cost, End};

    /// The shared notes on the document give the means, the difference and its permutation p.
    #[test]
    fn documented_table_has_the_means_and_p_of_the_notes() {
        let mean = |of| seconds(of).iter().sum::<f64>() / RUNS as f64;
        assert!((mean(KMALLOC) - 0.133_225_806_451_613).abs() < 1e-9, "{}", mean(KMALLOC));
        assert!((mean(KMEM_CACHE) - 0.135_870_967_741_935).abs() < 1e-9, "{}", mean(KMEM_CACHE));
        assert!((documented() - 1.0199).abs() < 1e-4);
        let (all, observed) = ([seconds(KMALLOC), seconds(KMEM_CACHE)].concat(), mean(KMEM_CACHE) - mean(KMALLOC));
        let (mut rng, mut all, rounds) = (fastrand::Rng::with_seed(1), all, 20_000);
        let sums = |values: &[f64]| values.iter().sum::<f64>() / RUNS as f64;
        let as_large = (0..rounds).filter(|_| {
            rng.shuffle(&mut all);
            (sums(&all[RUNS..]) - sums(&all[..RUNS])).abs() >= observed - 1e-12
        });
        let p = as_large.count() as f64 / f64::from(rounds);
        assert!((0.38..0.44).contains(&p), "{p}");
    }

    #[test]
    fn hackbench_time_is_read_from_its_usual_line() {
        let run = Run {
            end: End::Exited(0),
            cost: Cost { wall_s: 0.5, ..Cost::default() },
            counted: Vec::new(),
            left_running: false,
        };
        let said = "Running with 20*40 (== 800) tasks.\nTime: 0.133\n";
        let figures = read(&run, said).unwrap();
        assert_eq!(figures[..2], [0.133, 0.5]);
        assert_eq!(read(&run, "Running with 20*40 (== 800) tasks.\n"), None);
    }
}
