//! `commensal compare`: the same program under several allocators, or several settings of ours, side by side.
//!
//! Here is the command line only: what is run, and where the result goes. How it is measured and what may be said of it is the
//! lab's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use commensal_lab::analysis::Analysis;
use commensal_lab::arm;
use commensal_lab::blocks::{self, Budget, LEAST_FOR_WIDTH, Length, Plan, Subject};
use commensal_lab::finding::PRINTED;
use commensal_lab::machine::{self, Machine};
use commensal_lab::process::{Interrupt, Program};
use commensal_lab::report::{self, Chapter, Section};
use commensal_lab::{json, table};
use commensal_programs::{ALL, Workload};

use crate::failure::{Failure, Status};
use crate::library::Library;
use crate::{arms, conf, elf, inspect, places, preload, program};

/// Of a program whose blocks nobody has counted: a minute of them, but neither too few to show anything nor more than it takes.
const USUAL: Budget = Budget { seconds: &[(60.0, 40), (5.0, 200)], least: 10 };
const SUITE_BLOCKS: usize = 12;
const QUICK_SUITE_BLOCKS: usize = 8;
/// Of the full work, in percent.
const QUICK_SCALE: u32 = 10;

/// Compare allocators, or settings of this one, on a program: honestly
///
/// Runs the program under glibc's malloc, under this one and under every other that is installed, in blocks of shuffled order,
/// and says what differs and what does not. Without a program, some bundled ones are run.
#[derive(Args)]
pub struct Compare {
    /// One more arm: a library to preload
    #[arg(long = "with", value_name = "NAME=LIB", value_parser = arms::named)]
    with: Vec<(String, String)>,

    /// Settings of this library as an arm, "eager=lazy:off"; nothing but such arms is compared then
    #[arg(long = "arm", value_name = "NAME=CONF", value_parser = arms::named_settings)]
    arm: Vec<(String, String)>,

    /// How many blocks; each has one run of every arm [default: what fits into a minute, 10 to 40; more if they are short]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), conflicts_with = "until_ci")]
    blocks: Option<u32>,

    /// Go on until each interval of the ratio is this narrow, say 0.02 or 2%
    #[arg(long, value_name = "W", value_parser = width)]
    until_ci: Option<f64>,

    /// Blocks that come first and are dropped
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    warm_ups: u32,

    /// What a shell does before each run; it is not measured
    #[arg(long, value_name = "CMD")]
    prepare: Option<String>,

    /// What each run reads from standard input
    #[arg(long, value_name = "FILE", conflicts_with = "suite")]
    input: Option<PathBuf>,

    /// Do not compare what the program prints
    #[arg(long)]
    any_output: bool,

    /// When a run counts as hanging [default: ten times the baseline, and 20 s]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time_limit: Option<Duration>,

    /// Which order is drawn; the same number draws the same [default: by the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Run all bundled programs
    #[arg(long, conflicts_with = "command")]
    suite: bool,

    /// A tenth of the work in the bundled programs, and few blocks
    #[arg(long, conflicts_with = "command")]
    quick: bool,

    /// Write the result as JSON, with every run; "-" is standard output, and the tables go to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a page with plots into this directory
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,

    /// The program and its arguments
    #[arg(trailing_var_arg = true, value_names = ["CMD", "ARGS"])]
    command: Vec<OsString>,
}

/// Compares; status 1 if an arm fails or does something else than the baseline.
pub fn compare(request: &Compare) -> Result<ExitCode, Failure> {
    let interrupt =
        Interrupt::register().map_err(|error| Failure::ours(format!("cannot watch for Ctrl-C ({error})")))?;
    let (arms, told) = arms::chosen(&request.with, &request.arm)?;
    let subjects = subjects(request)?;
    check_input(request)?;
    places::check(request.json.as_deref(), request.report.as_deref())?;
    told.iter().chain(&machine::preflight()).for_each(|line| eprintln!("commensal: {line}"));
    let plan = plan(request, subjects.len());
    let measured = blocks::measure(subjects, &arms, plan, &interrupt).map_err(Failure::of)?;
    let analysis = Analysis::of(measured);
    show(request, &analysis)?;
    interrupt.obey();
    Ok(if analysis.has_fault() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What is run: the program, or bundled ones.
fn subjects(request: &Compare) -> Result<Vec<Subject>, Failure> {
    let Some(name) = request.command.first() else {
        return bundled(request);
    };
    let path = program::resolve(name)?;
    warnings(&path)?.iter().for_each(|line| eprintln!("commensal: {line}"));
    let subject = Subject::of_program("", Program::new(path, &request.command));
    Ok(vec![Subject { prints_the_same: !request.any_output, ..subject }])
}

/// Why arms may not be what they are called.
fn warnings(program: &Path) -> Result<Vec<String>, Failure> {
    let mut told = Vec::new();
    for variable in [preload::VARIABLE, conf::VARIABLE] {
        if std::env::var_os(variable).is_some() {
            told.push(format!("{variable} of the environment is not passed on: arms must differ in nothing else"));
        }
    }
    let unreached = inspect::warnings(program, Library::find()?.elf);
    let executed = inspect::executed_file(program);
    if unreached.is_empty() && elf::read(&executed).is_ok_and(|elf| elf.is_some_and(|elf| elf.names_loader)) {
        let linked = arm::linked(&executed).map_err(Failure::of)?;
        told.extend(linked.map(|peer| {
            let (program, peer) = (executed.display(), peer.name);
            format!("{program} is linked with {peer}: where nothing is preloaded, that is what it uses")
        }));
    }
    told.extend(unreached.into_iter().map(|why| format!("{why}, so that all arms are the same")));
    Ok(told)
}

/// This command itself runs the bundled programs, so that they are found wherever it is installed.
fn bundled(request: &Compare) -> Result<Vec<Subject>, Failure> {
    let own = places::own()?;
    let percent = if request.quick { QUICK_SCALE } else { 100 };
    let chosen = ALL.iter().filter(|workload| request.suite || FEW.contains(&workload.name));
    let subject = |workload: &Workload| {
        let arguments = ["commensal", "workload", workload.name, &percent.to_string()].map(OsString::from);
        Subject::of_program(workload.name, Program::new(&own, arguments))
    };
    Ok(chosen.map(subject).collect())
}

/// What is run without a program and without `--suite`: short-lived processes, threads that share, a producer and a consumer, and a
/// tree interpreter.
const FEW: [&str; 4] = ["short-lived", "stress", "producer-consumer", "interpreter"];

fn plan(request: &Compare, subjects: usize) -> Plan {
    let length = match (request.blocks, request.until_ci) {
        (Some(blocks), _) => Length::Blocks(blocks as usize),
        (None, Some(width)) => Length::Width { least: LEAST_FOR_WIDTH, width },
        (None, None) if request.quick => Length::Blocks(QUICK_SUITE_BLOCKS),
        (None, None) if subjects > 1 => Length::Blocks(SUITE_BLOCKS),
        (None, None) => Length::Fitting(USUAL),
    };
    Plan {
        warm_ups: request.warm_ups as usize,
        limit: request.time_limit,
        prepare: request.prepare.clone(),
        input: request.input.clone(),
        ..Plan::of(length, request.seed.unwrap_or_else(commensal_lab::any_seed))
    }
}

/// Whether the input can be read again and again.
fn check_input(request: &Compare) -> Result<(), Failure> {
    let Some(path) = &request.input else { return Ok(()) };
    let usage = |why: String| Failure::new(Status::Usage, format!("--input {} {why}", path.display()));
    let metadata = std::fs::metadata(path).map_err(|error| usage(format!("cannot be read ({error})")))?;
    if !metadata.is_file() {
        return Err(usage(
            "is no regular file, and each run reads it from its beginning; write it to a file first".to_owned(),
        ));
    }
    Ok(())
}

fn show(request: &Compare, analysis: &Analysis) -> Result<(), Failure> {
    places::show(&text(request, analysis), request.json.as_deref())?;
    let experiment = if request.command.is_empty() { "suite" } else { "compare" };
    let object = json::object(experiment, &Machine::host(), &[(analysis, json::UNDOCUMENTED)]);
    if let Some(path) = &request.json {
        object.write(path).map_err(Failure::of)?;
    }
    if let Some(directory) = &request.report {
        let sections = vec![Section::usual(analysis)];
        let chapter =
            Chapter { title: title(request), about: Vec::new(), sheets: Vec::new(), pictures: &[], sections, object };
        report::write(directory, &[chapter]).map_err(Failure::of)?;
        eprintln!("commensal: the report is {}", directory.join("index.html").display());
    }
    Ok(())
}

fn text(request: &Compare, analysis: &Analysis) -> String {
    let sheets = table::usual(analysis);
    let legend = if sheets.is_empty() { "" } else { table::LEGEND };
    let differs = analysis.findings().any(|finding| finding.what.starts_with(PRINTED));
    let advice = if differs { "note: if that is as it should be, say --any-output\n" } else { "" };
    let sheets: String = sheets.iter().map(|sheet| format!("{sheet}\n")).collect();
    format!("{}\n{}\n{sheets}{legend}{}{advice}", title(request), table::conditions(analysis), table::notes(analysis))
}

fn title(request: &Compare) -> String {
    if request.command.is_empty() {
        return if request.suite { "the bundled programs" } else { "some of the bundled programs" }.to_owned();
    }
    let words: Vec<String> = request.command.iter().map(|word| word.display().to_string()).collect();
    words.join(" ")
}

fn width(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim_end(), 0.01));
    match number.parse::<f64>().map(|number| number * scale) {
        Ok(width) if width > 0.0 && width < 1.0 => Ok(width),
        _ => Err("expected a part of the ratio such as 0.02 or 2%".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    // A year; clocks overflow some time after.
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0 && *seconds <= 31_536_000.0);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or("expected seconds, more than 0 and at most a year".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_parts_or_percents() {
        assert_eq!(width("0.02"), Ok(0.02));
        assert_eq!(width("2%"), Ok(0.02));
        for wrong in ["", "2", "0", "-1%", "x", "nan"] {
            assert!(width(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn time_limits_are_seconds() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        for wrong in ["0", "-1", "nan", "1e300", "soon"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
