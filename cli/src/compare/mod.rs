//! `commensal compare`: the same program under several allocators or settings of ours, or several commands, side by side.
//!
//! Here is the command line only. The lab measures, and decides what the figures show. `commands` are those of
//! `--command`, `gate` holds `--fail-if`, and `output` prints.

mod commands;
mod gate;
mod output;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use lab::analysis::Analysis;
use lab::arm;
use lab::blocks::{self, Budget, LEAST_FOR_WIDTH, Length, Plan, Subject};
use lab::json;
use lab::machine::{self, Machine};
use lab::metric::{Metric, OF_A_RUN};
use lab::process::{Program, counters};
use lab::report::{self, Chapter, Section};
use lab::suite::{self, Missing, Programs};
use serde_json::json;

use commands::Named;
use gate::Limit;
use output::{Format, Shown};

use crate::failure::{Failure, Status};
use crate::library::Library;
use crate::{arms, conf, elf, inspect, places, program};

/// Without --blocks or --until-ci: one minute, but enough blocks to show a difference.
const USUAL: Budget = Budget { seconds: &[(60.0, 40), (5.0, 200)], least: 10 };
const SUITE_BLOCKS: usize = 12;
const QUICK_SUITE_BLOCKS: usize = 8;
/// Of the full work, in percent.
const QUICK_SCALE: u32 = 10;

/// Compare allocators, or settings of Commensal, on a program of yours; or any commands
///
/// Runs the program under glibc's malloc, Commensal, and each other allocator that is installed. Each block runs it once
/// under each of them, in random order. The tables show the ratios with 95 % intervals, and say which differences are shown.
///
/// Exit status: 0; 1 if the program fails, hangs or prints something else under one allocator only; 125 if it fails under
/// the baseline. With --fail-if: 0; 1 if a limit is exceeded; 2 if anything else goes wrong.
#[derive(Args)]
#[command(
    override_usage = "commensal compare [OPTIONS] -- <CMD> [ARGS]...\n       commensal compare [OPTIONS] --command <NAME=CMD> --command <NAME=CMD>...\n       commensal compare [OPTIONS] --suite"
)]
pub struct Compare {
    /// Compare one more allocator: a shared library to preload
    #[arg(long = "with", value_name = "NAME=LIB", value_parser = arms::named)]
    with: Vec<(String, String)>,

    /// Compare Commensal with these settings, such as eager=lazy:off, and no other allocator. A single one is compared with
    /// the default settings; the first of several is the baseline
    #[arg(long = "arm", value_name = "NAME=CONF", value_parser = arms::named_settings)]
    pub arm: Vec<(String, String)>,

    /// Compare commands with each other; the first is the baseline. A command is split into words as by a shell, but no
    /// shell runs it
    #[arg(long = "command", value_name = "NAME=CMD", value_parser = commands::command,
          conflicts_with_all = ["with", "arm", "suite", "command"])]
    commands: Vec<Named>,

    /// Exit with status 1 if an arm is shown to have more than this above the baseline: slower (wall time), cpu, memory,
    /// faults or instructions. Installed peers are not held to it
    #[arg(long = "fail-if", value_name = "WORD:PERCENT%", value_parser = gate::limit)]
    fail_if: Vec<Limit>,

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

    /// What to print to standard output
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Write all runs as JSON to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write an HTML page with plots into this directory
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,

    /// The program and its arguments
    #[arg(required_unless_present_any = ["suite", "commands"], trailing_var_arg = true, value_names = ["CMD", "ARGS"])]
    pub command: Vec<OsString>,
}

/// How a comparison ended.
#[derive(PartialEq)]
enum Outcome {
    Sound,
    /// A limit is exceeded.
    Exceeded,
    /// An arm fails or behaves unlike the baseline, or a required program is missing.
    Fault,
}

/// Compares. In continuous integration, 1 means that a limit is exceeded, and all else that goes wrong is 2.
pub fn compare(request: &Compare) -> Result<ExitCode, Failure> {
    let has_limits = !request.fail_if.is_empty();
    let outcome = compared(request);
    Ok(match outcome.map_err(|failure| if has_limits { failure.with(Status::Usage) } else { failure })? {
        Outcome::Sound => ExitCode::SUCCESS,
        Outcome::Fault if has_limits => (Status::Usage as u8).into(),
        Outcome::Exceeded | Outcome::Fault => ExitCode::FAILURE,
    })
}

fn compared(request: &Compare) -> Result<Outcome, Failure> {
    let interrupt = places::interrupt()?;
    let (arms, told) = match request.commands.is_empty() {
        true => arms::chosen(&request.with, &request.arm)?,
        false => (commands::arms(&request.commands)?, Vec::new()),
    };
    let mut subjects = subjects(request)?;
    check_input(request)?;
    if request.json.as_deref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(Failure::usage("--json -: expected a file; --format json prints JSON"));
    }
    places::check(request.json.as_deref(), request.report.as_deref())?;
    let scratch = places::scratch("commensal-compare-")?;
    let mut programs = match request.suite {
        true => suite::programs(scratch.path()).map_err(Failure::of)?,
        false => Programs::default(),
    };
    let absent = || programs.missing.iter().filter(|missing| missing.is_absent());
    if request.require_programs && absent().next().is_some() {
        places::tell(format_args!("--require-programs: {}", listed(absent())));
        return Ok(Outcome::Fault);
    }
    let (counters, not_counted) = counters::usable();
    let metrics: Vec<Metric> = OF_A_RUN.into_iter().chain(counters.iter().map(|counter| counter.metric)).collect();
    let held = arms.iter().skip(1).filter(|arm| !arm.is_peer).count();
    gate::check(&request.fail_if, &metrics, held, request.blocks.map(|blocks| blocks as usize))?;
    told.iter().chain(&machine::preflight()).for_each(places::tell);
    let others = subjects.len();
    subjects.append(&mut programs.subjects);
    let subjects: Vec<Subject> = subjects.into_iter().map(|subject| subject.counted_by(&counters)).collect();
    let plan = plan(request, subjects.len());
    let mut measured = blocks::measure(subjects, &arms, plan, &interrupt).map_err(Failure::of)?;
    let real = measured.split_off(others);
    let mut groups = vec![Analysis::of(measured)];
    if !real.rows.is_empty() {
        groups[0].group = "kernels";
        groups.push(Analysis { group: "real programs", ..Analysis::of(real) });
    }
    let judged = gate::judge(&request.fail_if, &groups);
    let limits = judged.as_ref().map_or(&[][..], |(_, limits)| limits);
    show(&Shown { request, groups: &groups, programs: &programs, not_counted: not_counted.as_deref() }, limits)?;
    drop(scratch);
    interrupt.obey();
    let (is_exceeded, _) = judged?;
    Ok(match groups.iter().any(Analysis::has_fault) {
        true => Outcome::Fault,
        false if is_exceeded => Outcome::Exceeded,
        false => Outcome::Sound,
    })
}

/// Missing programs and their packages, as one line.
fn listed<'a>(missing: impl Iterator<Item = &'a Missing>) -> String {
    missing.map(Missing::to_string).collect::<Vec<_>>().join("; ")
}

/// The program, or the kernels of the suite.
fn subjects(request: &Compare) -> Result<Vec<Subject>, Failure> {
    let (prints_the_same, must_succeed) = (!request.any_output, !request.allow_failure);
    if let Some(first) = request.commands.first() {
        return Ok(vec![Subject { must_succeed, ..first.subject() }]);
    }
    let Some(name) = request.command.first() else {
        let percent = if request.quick { QUICK_SCALE } else { 100 };
        return Ok(suite::kernels(&places::own()?, percent));
    };
    let path = program::resolve(name)?;
    warnings(&path)?.iter().for_each(places::tell);
    let subject = Subject::of_program("", Program::new(path, &request.command));
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

fn show(shown: &Shown<'_>, limits: &[serde_json::Value]) -> Result<(), Failure> {
    let &Shown { request, groups, programs, not_counted } = shown;
    let experiment = if request.suite { "suite" } else { "compare" };
    let parts: Vec<_> = groups.iter().map(|analysis| (analysis, json::UNDOCUMENTED)).collect();
    let object = json::object(experiment, &Machine::host(), &parts);
    let fields = [
        ("programs", request.suite.then(|| json!(programs.versions))),
        ("missing", request.suite.then(|| json!(programs.missing))),
        ("limits", (!request.fail_if.is_empty()).then(|| json!(limits))),
        ("not_counted", not_counted.map(|line| json!(line))),
    ];
    let mut fields = fields.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let object = fields.try_fold(object, |object, (name, value)| object.with(name, value)).map_err(Failure::of)?;
    match request.format {
        Format::Json => object.write(Path::new("-")).map_err(Failure::of)?,
        format => places::show(&shown.in_format(format)?, None)?,
    }
    if let Some(path) = &request.json {
        object.write(path).map_err(Failure::of)?;
    }
    if let Some(directory) = &request.report {
        let of_group = |analysis| Section { title: output::heading(analysis), ..Section::usual(analysis) };
        let sections = groups.iter().map(of_group).collect();
        let about = output::about(programs);
        let title = output::title(request);
        let chapter = Chapter { title, about, sheets: Vec::new(), pictures: &[], sections, object };
        report::write(directory, &[chapter]).map_err(Failure::of)?;
        places::tell(format_args!("wrote the report to {}", directory.join("index.html").display()));
    }
    Ok(())
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
