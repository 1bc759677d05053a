//! What experiments have in common whose parts run the command's own probe: one arm of one row in a process of its own, which prints figures. So
//! the order of runs and the statistics are those of whole programs.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Part, Setting};
use crate::analysis::{Analysis, CONTROL, Judged};
use crate::answers::Answers;
use crate::arm::{Arm, COMMENSAL};
use crate::blocks::{self, Length, Plan, Subject};
use crate::json::Documented;
use crate::machine;
use crate::metric::{FASTER, Metric};
use crate::parameters::Parameters;
use crate::process::Program;
use crate::report::plot::{self, Scale};
use crate::report::{Figure, Plots};
use crate::sheet::Sheet;

/// What a part hands back: what it measured, and why not the rest.
#[derive(Default)]
pub struct Measured {
    pub parts: Vec<Part>,
    pub missing: Vec<String>,
}

impl Measured {
    fn add(&mut self, other: Measured) {
        self.parts.extend(other.parts);
        self.missing.extend(other.missing);
    }

    /// With what a document says of its comparisons.
    pub fn documented(mut self, documents: impl IntoIterator<Item = Documented>) -> Self {
        if let Some(part) = self.parts.first_mut() {
            part.documents.extend(documents);
        }
        self
    }
}

impl From<Part> for Measured {
    fn from(part: Part) -> Self {
        Measured { parts: vec![part], missing: Vec::new() }
    }
}

/// All of these, measured one after the other unless Ctrl-C ends it.
pub fn of_parts<T>(
    parts: impl IntoIterator<Item = T>, setting: &Setting, measure: impl Fn(T) -> Result<Measured>,
) -> Result<Measured> {
    let mut all = Measured::default();
    for part in parts {
        if setting.interrupt.seen() {
            all.missing.push("Ended early: some parts were not measured.".to_owned());
            break;
        }
        all.add(measure(part)?);
    }
    Ok(all)
}

/// Arms that the probe has inside.
pub fn forms<const N: usize>(names: [&str; N]) -> Vec<Arm> {
    names.map(|name| Arm::told(name, name.replace(' ', "-"))).into()
}

/// The library, if there is one.
pub fn library(setting: &Setting) -> Option<&Path> {
    setting.arms.iter().find(|arm| arm.name == COMMENSAL)?.library.as_deref()
}

/// The words of a line that names a probe and says what it measures, with the simulated machine behind the probe's name if there is one.
pub fn words(line: &str, machine: Option<String>) -> Vec<String> {
    let mut words = line.split(' ').map(str::to_owned);
    let name = words.next();
    let simulated = machine.into_iter().flat_map(|machine| ["simulated".to_owned(), machine]);
    ["workload".to_owned()].into_iter().chain(name).chain(simulated).chain(words).collect()
}

/// The command's own probe.
fn probe(setting: &Setting, line: &str) -> Program {
    let machine = setting.machine.is_simulated().then(|| setting.machine.word());
    let words = ["commensal".to_owned()].into_iter().chain(words(line, machine));
    let mut program = Program::new(&setting.command, words);
    program.environment.clear();
    program
}

/// What the probe prints for once, outside of what is measured.
pub fn asked(setting: &Setting, line: &str) -> Result<Vec<f64>> {
    ensure!(!setting.answers.are_listed(), "the runs are only being listed");
    let program = probe(setting, line);
    asked_of(&program.path, &program.arguments[1..])
}

/// What the command prints as a probe with these arguments.
pub fn asked_of(command: &Path, arguments: &[impl AsRef<OsStr>]) -> Result<Vec<f64>> {
    let output = Command::new(command).args(arguments).env_clear().output().context("cannot start the probe")?;
    let words: Vec<_> = arguments.iter().map(|argument| argument.as_ref().to_string_lossy()).collect();
    let said =
        || format!("the probe `{}` failed; it said {:?}", words.join(" "), String::from_utf8_lossy(&output.stderr));
    figures(&String::from_utf8_lossy(&output.stdout)).filter(|_| output.status.success()).with_context(said)
}

fn figures(printed: &str) -> Option<Vec<f64>> {
    printed.split_whitespace().map(|word| word.parse().ok()).collect()
}

/// How a part is measured.
#[derive(Clone, Copy)]
pub struct Blocks {
    pub quick: usize,
    pub usual: usize,
    /// On a simulated machine, if that is not the same: when it must be quick, and else.
    pub simulated: Option<(usize, usize)>,
    /// Whether all runs are on one CPU, unless the probe has two threads.
    pub are_on_one_cpu: bool,
    /// Whether each block is a seed, the same for all arms.
    pub are_seeds: bool,
}

impl Blocks {
    /// So many when it must be quick, and else.
    pub const fn of(quick: usize, usual: usize) -> Self {
        Blocks { quick, usual, simulated: None, are_on_one_cpu: false, are_seeds: false }
    }
}

/// How lines begin that have two threads at once.
const OF_TWO: [&str; 4] = ["counters shared", "counters others", "counters upgraded 2", "cache pair 2 "];

/// Measures a table: its rows, with what the probe is told for each. Leaves out what needs more CPUs than there are.
pub fn part(
    setting: &Setting, title: &str, rows: impl IntoIterator<Item = (Parameters, String)>, metrics: &[Metric],
    arms: &[Arm], blocks: Blocks, plots: Plots,
) -> Result<Measured> {
    let mut rows: Vec<_> = rows.into_iter().collect();
    let is_of_two = |line: &str| OF_TWO.iter().any(|start| line.starts_with(start));
    let is_alone = blocks.are_on_one_cpu && !rows.iter().any(|(_, line)| is_of_two(line));
    rows.retain(|(_, line)| setting.machine.cpus > 1 || !is_of_two(line));
    if rows.is_empty() {
        let missing = vec![format!("Not measured, because this machine has one CPU: {title}.")];
        return Ok(Measured { parts: Vec::new(), missing });
    }
    let subject = |(parameters, line): (Parameters, String)| Subject {
        parameters,
        metrics: metrics.to_vec(),
        read: |_, printed| figures(printed),
        prints_the_same: false,
        draws_lots: blocks.are_seeds,
        ..Subject::of_program("", probe(setting, &line))
    };
    let cpu = if is_alone { machine::quiet_cpu() } else { None };
    let analysis = measured(setting, rows.into_iter().map(subject).collect(), arms, blocks, cpu)?;
    Ok(Part::of(title, analysis, plots).into())
}

/// Measures under these arms, on one CPU if one is named.
pub fn measured(
    setting: &Setting, subjects: Vec<Subject>, arms: &[Arm], blocks: Blocks, cpu: Option<usize>,
) -> Result<Analysis> {
    let simulated = blocks.simulated.filter(|_| setting.machine.is_simulated());
    let (quick, usual) = simulated.unwrap_or((blocks.quick, blocks.usual));
    let length = Length::Blocks(setting.blocks.unwrap_or(if setting.quick { quick } else { usual }));
    // A simulated run is the same from the first one on.
    let (warm_ups, answers) =
        if setting.machine.is_simulated() { (0, setting.answers.clone()) } else { (1, Answers::default()) };
    let plan = Plan { cpu, warm_ups, answers, ..Plan::of(length, setting.seed) };
    Ok(Analysis::of(blocks::measure(subjects, arms, plan, &setting.interrupt)?))
}

/// A table for each of these metrics, unless nothing was measured.
pub fn tables(
    analysis: &Analysis, is_shown: impl Fn(&Metric) -> bool, table: fn(&Analysis, usize) -> Sheet,
) -> Vec<Sheet> {
    let metrics = analysis.measured.rows[0].metrics.iter().enumerate();
    let shown = metrics.filter(|(_, metric)| analysis.measured.blocks > 0 && is_shown(metric));
    shown.map(|(at, _)| table(analysis, at)).collect()
}

/// Nanoseconds of something, as the probe prints them.
pub const fn nanoseconds(name: &'static str, title: &'static str) -> Metric {
    Metric::new(name, "ns", title, FASTER, 1e-5)
}

/// No plots.
pub fn no_plots(_: &Analysis) -> Vec<Figure> {
    Vec::new()
}

/// The plot of the first metric.
pub fn dots_of_first(analysis: &Analysis) -> Vec<Figure> {
    dots(analysis, 0)
}

/// A dot for each arm, a row for each row, in one metric.
pub fn dots(analysis: &Analysis, metric: usize) -> Vec<Figure> {
    let arms = || analysis.measured.arms.iter().enumerate().filter(|(arm, _)| *arm != CONTROL);
    let row = |(row, judged): (&blocks::Row, &Vec<Judged>)| {
        let dots = arms().filter_map(|(arm, _)| Some((arm, judged[metric].medians[arm]?.value))).collect();
        (row.name(), dots)
    };
    let rows: Vec<(String, Vec<(usize, f64)>)> = analysis.measured.rows.iter().zip(&analysis.rows).map(row).collect();
    let names: Vec<(usize, &str)> = arms().map(|(arm, described)| (arm, described.name.as_str())).collect();
    let Metric { title, unit, .. } = analysis.measured.rows[0].metrics[metric];
    plot::dots(title, &rows, &names, Scale::Powers(unit)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_as_they_are_printed() {
        assert_eq!(figures("3.17059 0.52000 80.00000\n"), Some(vec![3.17059, 0.52, 80.0]));
        assert_eq!(figures("no figures\n"), None);
    }

    #[test]
    fn simulated_machine_is_named_after_the_probe() {
        assert_eq!(words("cache pair 1", None).join(" "), "workload cache pair 1");
        let simulated = words("cache pair 1", Some("2@x.toml".into())).join(" ");
        assert_eq!(simulated, "workload cache simulated 2@x.toml pair 1");
    }
}
