//! `commensal lab`: the experiments, by name.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use commensal_lab::experiment::{ALL, Experiment, Outcome, Part, Setting};
use commensal_lab::machine::Machine;
use commensal_lab::process::Interrupt;
use commensal_lab::sheet::{Sheet, Side};
use commensal_lab::{report, table};

use crate::failure::{Failure, Status};
use crate::{arms, places};

/// Reproduce what documents report about the kernel, here
///
/// Each experiment says what a document claims, what was measured here, and whether that holds.
#[derive(Args)]
pub struct Lab {
    /// An experiment; "list" tells which there are, "all" runs them one after the other
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(names()))]
    name: String,

    /// Less than 45 seconds an experiment, with wider intervals
    #[arg(long)]
    quick: bool,

    /// How many blocks, each of which has one run of every arm
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    blocks: Option<u32>,

    /// Which order is drawn; the same number draws the same [default: by the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// On a simulated machine with so many CPUs, as far as an experiment can be: its times are those of a cost model
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    cpus: Option<u32>,

    /// The cost model of the simulated machine
    #[arg(long, value_name = "NAME", requires = "cpus", default_value = "simple", value_parser = ["simple"])]
    profile: String,

    /// Write the result as JSON, with every run; "-" is standard output, and the tables go to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a page with plots into this directory
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

const LIST: &str = "list";
const EVERY: &str = "all";

fn names() -> impl Iterator<Item = &'static str> {
    [LIST, EVERY].into_iter().chain(ALL.iter().map(|experiment| experiment.name()))
}

/// Runs experiments; status 1 if an arm fails or does something else than the baseline.
pub fn lab(request: &Lab) -> Result<ExitCode, Failure> {
    if request.name == LIST {
        places::show(&list().to_string(), None)?;
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = ALL.iter().filter(|experiment| request.name == EVERY || request.name == experiment.name());
    let chosen: Vec<&dyn Experiment> = chosen.copied().collect();
    if request.json.is_some() && chosen.len() > 1 {
        let line = "--json holds one experiment; name one, or use --report, which has them all";
        return Err(Failure::new(Status::Usage, line));
    }
    if request.cpus.is_some() {
        let without: Vec<&str> = chosen.iter().filter(|it| !it.simulates()).map(|it| it.name()).collect();
        if !without.is_empty() {
            let line = format!("--cpus: {} cannot be simulated; leave --cpus out", without.join(", "));
            return Err(Failure::new(Status::Usage, line));
        }
    }
    places::check(request.json.as_deref(), request.report.as_deref())?;
    let interrupt =
        Interrupt::register().map_err(|error| Failure::ours(format!("cannot watch for Ctrl-C ({error})")))?;
    let seed = request.seed.unwrap_or_else(commensal_lab::any_seed);
    let mut outcomes = Vec::new();
    for experiment in chosen {
        if !interrupt.seen() {
            let outcome = experiment.measure(&setting(request, seed, &interrupt)?).map_err(Failure::of)?;
            show(request, experiment, &outcome)?;
            outcomes.push((experiment, outcome));
        }
    }
    if let Some(directory) = &request.report {
        let chapters: Vec<_> = outcomes.iter().map(|(experiment, outcome)| outcome.chapter(*experiment)).collect();
        report::write(directory, &chapters).map_err(Failure::of)?;
        eprintln!("commensal: the report is {}", directory.join("index.html").display());
    }
    interrupt.obey();
    let has_fault = outcomes.iter().any(|(_, outcome)| outcome.has_fault());
    Ok(if has_fault { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn setting(request: &Lab, seed: u64, interrupt: &Interrupt) -> Result<Setting, Failure> {
    let (arms, told) = arms::installed()?;
    told.iter().for_each(|line| eprintln!("commensal: {line}"));
    Ok(Setting {
        quick: request.quick,
        blocks: request.blocks.map(|blocks| blocks as usize),
        seed,
        machine: request.cpus.map_or_else(Machine::host, |cpus| Machine::simulated(cpus as usize)),
        arms,
        command: places::own()?,
        scratch: places::scratch("commensal-lab-")?,
        interrupt: interrupt.clone(),
    })
}

fn show(request: &Lab, experiment: &dyn Experiment, outcome: &Outcome) -> Result<(), Failure> {
    places::show(&text(experiment, outcome), request.json.as_deref())?;
    request.json.as_ref().map_or(Ok(()), |path| outcome.object(experiment).write(path)).map_err(Failure::of)
}

fn text(experiment: &dyn Experiment, outcome: &Outcome) -> String {
    let lines = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let parts: String = outcome.parts.iter().map(part).collect();
    format!(
        "{}: {}\nDocument: {}\n{}\n{}{}{}{parts}",
        experiment.name(),
        experiment.about(),
        experiment.source(),
        lines(&outcome.about),
        table::place(&outcome.machine),
        outcome.claims().map_or(String::new(), |claims| format!("\n{claims}\n")),
        lines(&outcome.remarks),
    )
}

fn part(part: &Part) -> String {
    let title = if part.title.is_empty() { String::new() } else { format!("{}\n", part.title) };
    let sheets: String = part.sheets.iter().map(|sheet| format!("{sheet}\n")).collect();
    let legend = if part.sheets.is_empty() { "" } else { table::LEGEND };
    format!("\n{title}{}{sheets}{legend}{}", table::how(&part.analysis), table::notes(&part.analysis))
}

fn list() -> Sheet {
    let mut sheet = Sheet::new([("experiment", Side::Left), ("finds out", Side::Left), ("document", Side::Left)]);
    ALL.iter().for_each(|experiment| sheet.add([experiment.name(), experiment.about(), experiment.source()]));
    sheet
}
