//! What experiments have in common whose parts run the command's own probe: one arm of one row in a process of its own, which prints figures. So
//! the order of runs and the statistics are those of whole programs.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Part, Setting};
use crate::analysis::{Analysis, CONTROL, Judged};
use crate::answers::Answers;
use crate::arm::{Arm, COMMENSAL};
use crate::blocks::{self, Length, Plan, Subject};
use crate::metric::Metric;
use crate::parameters::Parameters;
use crate::process::{Program, Run};
use crate::report::Figure;
use crate::report::plot::{self, Scale};
use crate::sheet::Sheet;
use crate::table;

pub const FASTER: [&str; 2] = ["faster", "slower"];
pub const LESS: [&str; 2] = ["less", "more"];

/// What a part hands back: what it measured, and why not the rest.
#[derive(Default)]
pub struct Measured {
    pub parts: Vec<Part>,
    pub missing: Vec<String>,
}

impl From<Part> for Measured {
    fn from(part: Part) -> Self {
        Measured { parts: vec![part], missing: Vec::new() }
    }
}

/// Measures a part.
pub type Measure = fn(&Setting) -> Result<Measured>;

/// All of these, unless Ctrl-C ends it.
pub fn of_parts(parts: &[Measure], setting: &Setting) -> Result<Measured> {
    let mut all = Measured::default();
    for part in parts {
        if setting.interrupt.seen() {
            all.missing.push("Ended early: some parts were not measured.".to_owned());
            break;
        }
        let measured = part(setting)?;
        all.parts.extend(measured.parts);
        all.missing.extend(measured.missing);
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

/// A run of the command's own probe, which prints as many figures as there are metrics.
pub fn probe(setting: &Setting, line: &str, parameters: Parameters, metrics: &[Metric]) -> Subject {
    let machine = setting.machine.is_simulated().then(|| setting.machine.word());
    let words = ["commensal".to_owned()].into_iter().chain(words(line, machine));
    let mut program = Program::new(&setting.command, words);
    program.environment.clear();
    let metrics = metrics.to_vec();
    Subject { parameters, metrics, read: printed, prints_the_same: false, ..Subject::of_program("", program) }
}

/// What the probe prints for once, outside of what is measured.
pub fn asked(setting: &Setting, line: &str) -> Result<Vec<f64>> {
    anyhow::ensure!(!setting.answers.are_listed(), "the runs are only being listed");
    let program = probe(setting, line, Parameters::default(), &[]).program;
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

fn printed(_: &Run, printed: &str) -> Option<Vec<f64>> {
    figures(printed)
}

fn figures(printed: &str) -> Option<Vec<f64>> {
    printed.split_whitespace().map(|word| word.parse().ok()).collect()
}

/// How many blocks a part has: when it must be quick, and else; and on a simulated machine, if that is not the same.
#[derive(Clone, Copy)]
pub struct Blocks {
    quick: usize,
    usual: usize,
    simulated: Option<(usize, usize)>,
}

impl Blocks {
    pub const fn of(quick: usize, usual: usize) -> Self {
        Blocks { quick, usual, simulated: None }
    }

    pub const fn simulated(self, quick: usize, usual: usize) -> Self {
        Blocks { simulated: Some((quick, usual)), ..self }
    }
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

/// A table with every arm's own figures for each of the metrics.
pub fn tables(analysis: &Analysis) -> Vec<Sheet> {
    some_tables(analysis, &analysis.measured.rows[0].metrics)
}

/// The same for some of them.
pub fn some_tables(analysis: &Analysis, shown: &[Metric]) -> Vec<Sheet> {
    if analysis.measured.blocks == 0 {
        return Vec::new();
    }
    let metrics = analysis.measured.rows[0].metrics.iter().enumerate();
    metrics.filter(|(_, metric)| shown.contains(metric)).map(|(at, _)| table::figures(analysis, at)).collect()
}

/// Nanoseconds of something, as the probe prints them.
pub const fn nanoseconds(name: &'static str, title: &'static str) -> Metric {
    Metric { name, unit: "ns", title, words: FASTER, resolution: 1e-5 }
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
    use crate::process::{Cost, End};

    #[test]
    fn figures_are_read_as_they_are_printed() {
        let run = Run { end: End::Exited(0), cost: Cost::default(), left_running: false };
        assert_eq!(printed(&run, "3.17059 0.52000 80.00000\n"), Some(vec![3.17059, 0.52, 80.0]));
        assert_eq!(printed(&run, "no figures\n"), None);
    }

    #[test]
    fn simulated_machine_is_named_after_the_probe() {
        assert_eq!(words("cache pair 1", None).join(" "), "workload cache pair 1");
        assert_eq!(
            words("cache pair 1", Some("2@x.toml".into())).join(" "),
            "workload cache simulated 2@x.toml pair 1"
        );
    }
}
