//! `commensal compare`: the same program under several allocators, or several settings of ours, side by side.
//!
//! Here is the command line only. The lab measures, and decides what the figures show.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use lab::analysis::Analysis;
use lab::arm;
use lab::blocks::{self, Budget, LEAST_FOR_WIDTH, Length, Plan, Subject};
use lab::finding::PRINTED;
use lab::machine::{self, Machine};
use lab::process::Program;
use lab::report::{self, Chapter, Section};
use lab::suite::{self, Missing, Programs};
use lab::{json, table};

use crate::failure::Failure;
use crate::library::Library;
use crate::{arms, conf, elf, inspect, places, program};

/// Without --blocks or --until-ci: one minute, but enough blocks to show a difference.
const USUAL: Budget = Budget { seconds: &[(60.0, 40), (5.0, 200)], least: 10 };
const SUITE_BLOCKS: usize = 12;
const QUICK_SUITE_BLOCKS: usize = 8;
/// Of the full work, in percent.
const QUICK_SCALE: u32 = 10;

/// Compare allocators, or settings of Commensal, on a program of yours
///
/// Runs the program under glibc's malloc, Commensal, and each other allocator that is installed. Each block runs it once
/// under each of them, in random order. The tables show the ratios with 95 % intervals, and say which differences are shown.
///
/// Exit status: 0; 1 if the program fails, hangs or prints something else under one allocator only; 125 if it fails under
/// the baseline.
#[derive(Args)]
#[command(
    override_usage = "commensal compare [OPTIONS] -- <CMD> [ARGS]...\n       commensal compare [OPTIONS] --suite"
)]
pub struct Compare {
    /// Compare one more allocator: a shared library to preload
    #[arg(long = "with", value_name = "NAME=LIB", value_parser = arms::named)]
    with: Vec<(String, String)>,

    /// Compare Commensal with these settings, such as eager=lazy:off, and no other allocator. A single one is compared with
    /// the default settings; the first of several is the baseline
    #[arg(long = "arm", value_name = "NAME=CONF", value_parser = arms::named_settings)]
    pub arm: Vec<(String, String)>,

    /// Number of blocks [default: as many as fit into a minute, 10 to 40; up to 200 if they are short]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), conflicts_with = "until_ci")]
    blocks: Option<u32>,

    /// Run blocks until the intervals of all ratios of the first table are this narrow, such as 0.02 or 2%
    #[arg(long, value_name = "W", value_parser = width)]
    until_ci: Option<f64>,

    /// Shell command to run before each run; it is not measured
    #[arg(long, value_name = "CMD")]
    prepare: Option<String>,

    /// File that each run reads from standard input
    #[arg(long, value_name = "FILE", conflicts_with = "suite")]
    input: Option<PathBuf>,

    /// Accept any output: do not compare what the program prints
    #[arg(long)]
    any_output: bool,

    /// Measure a program that fails under the baseline, too
    #[arg(long, conflicts_with = "suite")]
    allow_failure: bool,

    /// Seconds after which a run counts as hanging [default: ten times the baseline's longest run, plus 20]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time_limit: Option<Duration>,

    /// Seed of the random order [default: from the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Compare on small allocation kernels and on the real programs of the suite that are installed
    #[arg(long, conflicts_with = "command")]
    suite: bool,

    /// Exit with status 1 if one of the suite's real programs is not installed
    #[arg(long, conflicts_with = "command")]
    require_programs: bool,

    /// Do a tenth of the kernels' work, in 8 blocks instead of 12
    #[arg(long, conflicts_with = "command")]
    quick: bool,

    /// Write all runs as JSON. With "-", JSON goes to standard output, and the tables to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write an HTML page with plots into this directory
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,

    /// The program and its arguments
    #[arg(required_unless_present = "suite", trailing_var_arg = true, value_names = ["CMD", "ARGS"])]
    pub command: Vec<OsString>,
}

/// Compares. Status 1 if an arm fails or behaves unlike the baseline, or if a required program is missing.
pub fn compare(request: &Compare) -> Result<ExitCode, Failure> {
    let interrupt = crate::lab::interrupt()?;
    let (arms, told) = arms::chosen(&request.with, &request.arm)?;
    let mut subjects = subjects(request)?;
    check_input(request)?;
    places::check(request.json.as_deref(), request.report.as_deref())?;
    let scratch = places::scratch("commensal-compare-")?;
    let mut programs = match request.suite {
        true => suite::programs(scratch.path()).map_err(Failure::of)?,
        false => Programs::default(),
    };
    if request.require_programs && !programs.missing.is_empty() {
        eprintln!("commensal: --require-programs: {}", listed(&programs.missing));
        return Ok(ExitCode::FAILURE);
    }
    told.iter().chain(&machine::preflight()).for_each(|line| eprintln!("commensal: {line}"));
    let others = subjects.len();
    subjects.append(&mut programs.subjects);
    let plan = plan(request, subjects.len());
    let mut measured = blocks::measure(subjects, &arms, plan, &interrupt).map_err(Failure::of)?;
    let real = measured.split_off(others);
    let mut groups = vec![Analysis::of(measured)];
    if !real.rows.is_empty() {
        groups[0].group = "kernels";
        groups.push(Analysis { group: "real programs", ..Analysis::of(real) });
    }
    show(request, &groups, &programs)?;
    drop(scratch);
    interrupt.obey();
    Ok(if groups.iter().any(Analysis::has_fault) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The missing programs and their packages, as one line.
fn listed(missing: &[Missing]) -> String {
    missing.iter().map(Missing::to_string).collect::<Vec<_>>().join("; ")
}

/// The program, or the kernels of the suite.
fn subjects(request: &Compare) -> Result<Vec<Subject>, Failure> {
    let Some(name) = request.command.first() else {
        let percent = if request.quick { QUICK_SCALE } else { 100 };
        return Ok(suite::kernels(&places::own()?, percent));
    };
    let path = program::resolve(name)?;
    warnings(&path)?.iter().for_each(|line| eprintln!("commensal: {line}"));
    let subject = Subject::of_program("", Program::new(path, &request.command));
    let (prints_the_same, must_succeed) = (!request.any_output, !request.allow_failure);
    Ok(vec![Subject { prints_the_same, must_succeed, ..subject }])
}

/// Why a program may not run under the allocator that an arm names.
fn warnings(program: &Path) -> Result<Vec<String>, Failure> {
    let mut told = Vec::new();
    for variable in [conf::PRELOAD, conf::VARIABLE] {
        if std::env::var_os(variable).is_some() {
            told.push(format!("{variable} is set, and is ignored: the runs must differ in nothing but the allocator"));
        }
    }
    let unreached = inspect::warnings(program, Library::find()?.elf);
    let executed = inspect::executed_file(program);
    if unreached.is_empty() && elf::read(&executed).is_ok_and(|elf| elf.is_some_and(|elf| elf.names_loader)) {
        let linked = arm::linked(&executed).map_err(Failure::of)?;
        told.extend(linked.map(|peer| {
            let (program, peer) = (executed.display(), peer.name);
            format!("{program} is linked with {peer}, and uses it instead of glibc's malloc if nothing is preloaded")
        }));
    }
    told.extend(unreached.into_iter().map(|why| format!("{why}, so all runs are alike")));
    Ok(told)
}

fn plan(request: &Compare, subjects: usize) -> Plan {
    let length = match (request.blocks, request.until_ci) {
        (Some(blocks), _) => Length::Blocks(blocks as usize),
        (None, Some(width)) => Length::Width { least: LEAST_FOR_WIDTH, width },
        (None, None) if request.quick => Length::Blocks(QUICK_SUITE_BLOCKS),
        (None, None) if subjects > 1 => Length::Blocks(SUITE_BLOCKS),
        (None, None) => Length::Fitting(USUAL),
    };
    Plan {
        limit: request.time_limit,
        prepare: request.prepare.clone(),
        input: request.input.clone(),
        ..Plan::of(length, request.seed.unwrap_or_else(lab::any_seed))
    }
}

/// Checks that each run can read the input.
fn check_input(request: &Compare) -> Result<(), Failure> {
    let Some(path) = &request.input else { return Ok(()) };
    let usage = |why: String| Failure::usage(format!("--input {} {why}", path.display()));
    let metadata = std::fs::metadata(path).map_err(|error| usage(format!("cannot be read ({error})")))?;
    if !metadata.is_file() {
        return Err(usage("is not a regular file, which each run could read from its start".to_owned()));
    }
    Ok(())
}

fn show(request: &Compare, groups: &[Analysis], programs: &Programs) -> Result<(), Failure> {
    places::show(&text(request, groups, programs), request.json.as_deref())?;
    let experiment = if request.suite { "suite" } else { "compare" };
    let parts: Vec<_> = groups.iter().map(|analysis| (analysis, json::UNDOCUMENTED)).collect();
    let mut object = json::object(experiment, &Machine::host(), &parts);
    if request.suite {
        let with_versions = object.with("programs", &programs.versions).map_err(Failure::of)?;
        object = with_versions.with("missing", &programs.missing).map_err(Failure::of)?;
    }
    if let Some(path) = &request.json {
        object.write(path).map_err(Failure::of)?;
    }
    if let Some(directory) = &request.report {
        let of_group = |analysis| Section { title: heading(analysis), ..Section::usual(analysis) };
        let sections = groups.iter().map(of_group).collect();
        let about = about(programs);
        let chapter = Chapter { title: title(request), about, sheets: Vec::new(), pictures: &[], sections, object };
        report::write(directory, &[chapter]).map_err(Failure::of)?;
        eprintln!("commensal: wrote the report to {}", directory.join("index.html").display());
    }
    Ok(())
}

fn text(request: &Compare, groups: &[Analysis], programs: &Programs) -> String {
    let mut text = format!("{}\n{}\n", title(request), table::conditions(&groups[0]));
    for analysis in groups {
        if !analysis.group.is_empty() {
            text += &format!("{}\n", heading(analysis));
        }
        let sheets = table::usual(analysis);
        sheets.iter().for_each(|sheet| text += &format!("{sheet}\n"));
        text += &table::legend(analysis, &sheets);
        text += &table::notes(analysis);
        text += "\n";
    }
    about(programs).iter().for_each(|line| text += &format!("{line}\n"));
    let differs = groups.iter().flat_map(Analysis::findings).any(|finding| finding.what.starts_with(PRINTED));
    text + if differs { "note: if the output may differ, add --any-output\n" } else { "" }
}

/// The heading of a group's tables; empty if there is one group.
fn heading(analysis: &Analysis) -> String {
    let (first, rest) = analysis.group.split_at(analysis.group.len().min(1));
    first.to_uppercase() + rest
}

/// The real programs with their versions, and the missing ones.
fn about(programs: &Programs) -> Vec<String> {
    let versions = programs.versions.iter().map(|of| format!("    {:12} {}", of.name, of.version));
    let missing = programs.missing.iter().map(|missing| format!("note: not measured: {missing}"));
    versions.chain(missing).collect()
}

fn title(request: &Compare) -> String {
    if request.suite {
        return "allocation kernels and real programs".to_owned();
    }
    let words: Vec<String> = request.command.iter().map(|word| word.display().to_string()).collect();
    words.join(" ")
}

fn width(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim_end(), 0.01));
    match number.parse::<f64>().map(|number| number * scale) {
        Ok(width) if width > 0.0 && width < 1.0 => Ok(width),
        _ => Err("expected a part of the ratio, such as 0.02 or 2%".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    // A year: much longer times overflow the clock.
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0 && *seconds <= 31_536_000.0);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or("expected a number of seconds, more than 0 and at most a year".to_owned())
}
