//! `commensal lab`: the experiments, by name; and what the simulated machine is worth.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use lab::answers::{Answers, Shard};
use lab::experiment::{self, ALL, Experiment, Outcome, Part, Setting, Title};
use lab::machine::Machine;
use lab::process::Interrupt;
use lab::profile::Profile;
use lab::sheet::{Sheet, Side};
use lab::{report, table};

use crate::failure::Failure;
use crate::{arms, forecast, merge, places};

/// Reproduce what documents report about the kernel, here
///
/// Each experiment says what a document claims, what was measured here, and whether that holds.
#[derive(Args)]
pub struct Lab {
    /// An experiment; "list" tells which there are, "all" runs them one after the other. "calibrate" measures what this machine's operations cost,
    /// "validate" how far the simulated machine is off, and "forecast" simulates machines that are not here. "merge" joins what --shard made
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(names()))]
    pub name: String,

    /// Less than 45 seconds an experiment, with wider intervals
    #[arg(long)]
    pub quick: bool,

    /// How many blocks, each of which has one run of every arm
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub blocks: Option<u32>,

    /// Which order is drawn; the same number draws the same [default: by the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// On a simulated machine with so many CPUs, as far as an experiment can be: its times are those of a cost model
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub cpus: Option<u32>,

    /// What the simulated machine's operations cost: a profile that comes with the command, or a file that "calibrate" wrote; behind a plus, "least" or "most" of all costs, or
    /// COST*FACTOR [default: x86-N, if there is one for so many CPUs; else "simple", round figures]
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,

    /// Where "calibrate" writes the profile
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Write the result as JSON, with every run; "-" is standard output, and the tables go to standard error
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write a page with plots into this directory
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,

    /// Make only one of N parts of what is simulated, from 1/N to N/N, and write it where --json says; "merge" joins all of them
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,

    /// The files that "merge" joins
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

const LIST: &str = "list";
const EVERY: &str = "all";
const CALIBRATE: &str = "calibrate";
const VALIDATE: &str = "validate";
pub const FORECAST: &str = "forecast";
const MERGE: &str = "merge";

fn names() -> impl Iterator<Item = &'static str> {
    [LIST, EVERY, CALIBRATE, VALIDATE, FORECAST, MERGE]
        .into_iter()
        .chain(ALL.iter().map(|experiment| experiment.name()))
}

/// Runs experiments; status 1 if an arm fails or does something else than the baseline.
pub fn lab(request: &Lab) -> Result<ExitCode, Failure> {
    if request.name == LIST {
        places::show(&list().to_string(), None)?;
        return Ok(ExitCode::SUCCESS);
    }
    if request.name == MERGE {
        return merge::merged(request);
    }
    if let Some(file) = request.files.first() {
        let line = format!("found '{}'; expected no more than one name: only `lab merge` takes files", file.display());
        return Err(Failure::usage(line));
    }
    if [CALIBRATE, VALIDATE, FORECAST].contains(&request.name.as_str()) {
        return of_model(request);
    }
    experiments(request, &Answers::default())
}

/// Those that are chosen, from these answers and what is missing.
pub fn experiments(request: &Lab, answers: &Answers) -> Result<ExitCode, Failure> {
    if request.out.is_some() {
        return Err(Failure::usage("--out is where `lab calibrate` writes a profile; leave it out"));
    }
    let chosen = ALL.iter().filter(|experiment| request.name == EVERY || request.name == experiment.name());
    let mut chosen: Vec<&dyn Experiment> = chosen.copied().collect();
    if request.json.is_some() && chosen.len() > 1 {
        return Err(Failure::usage("--json holds one experiment; name one, or use --report, which has them all"));
    }
    if request.cpus.is_some() {
        let without: Vec<&str> = chosen.iter().filter(|it| !it.title().simulates).map(|it| it.name()).collect();
        if without.len() == chosen.len() {
            let line = format!("--cpus: {} cannot be simulated; leave --cpus out", without.join(", "));
            return Err(Failure::usage(line));
        }
        without.iter().for_each(|name| eprintln!("commensal: {name} cannot be simulated, and is left out"));
        chosen.retain(|it| it.title().simulates);
    }
    let machine = machine(request)?;
    places::check(request.json.as_deref(), request.report.as_deref())?;
    if !machine.is_simulated() {
        lab::machine::preflight().iter().for_each(|line| eprintln!("commensal: {line}"));
    }
    let interrupt = interrupt()?;
    if let Some(shard) = request.shard {
        return merge::make(request, chosen[0], &setting(request, &machine, &interrupt, answers)?, shard);
    }
    let seed = request.seed.unwrap_or_else(lab::any_seed);
    let mut outcomes = Vec::new();
    for experiment in chosen {
        if !interrupt.seen() {
            let setting = Setting { seed, ..setting(request, &machine, &interrupt, answers)? };
            let measured = experiment::measure(experiment, &setting).inspect_err(|_| interrupt.obey());
            let mut outcome = measured.map_err(Failure::of)?;
            if !request.quick && request.cpus.is_none() {
                experiment::with_third_column(experiment, &setting, &mut outcome);
            }
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

pub fn interrupt() -> Result<Interrupt, Failure> {
    Interrupt::register().map_err(|error| Failure::ours(format!("cannot watch for Ctrl-C ({error})")))
}

/// What the simulated machine's costs are, and how far it is off.
fn of_model(request: &Lab) -> Result<ExitCode, Failure> {
    let without = [
        ("--cpus", request.cpus.is_some()),
        ("--blocks", request.blocks.is_some()),
        ("--seed", request.seed.is_some()),
        ("--report", request.report.is_some() && request.name != FORECAST),
        ("--out", request.out.is_some() && request.name != CALIBRATE),
        ("--json", request.json.is_some() && request.name == CALIBRATE),
        ("--quick", request.quick && request.name == FORECAST),
        ("--profile", request.profile.is_some() && request.name == CALIBRATE),
        ("--shard", request.shard.is_some() && request.name != FORECAST),
    ];
    if let Some((option, _)) = without.into_iter().find(|(_, is_there)| *is_there) {
        return Err(Failure::usage(format!("{option} means nothing to `lab {}`; leave it out", request.name)));
    }
    let interrupt = interrupt()?;
    let done = match (request.name.as_str(), request.shard) {
        (CALIBRATE, _) => forecast::calibrated(request, &interrupt),
        (VALIDATE, _) => forecast::validated(request, &interrupt),
        (_, Some(shard)) => merge::forecast(request, &interrupt, shard),
        _ => forecast::forecast(request, &Answers::default(), &interrupt),
    };
    interrupt.obey();
    done
}

/// The simulated machine, if one is asked for, with a profile's costs, if one is named or there is one for so many CPUs.
fn machine(request: &Lab) -> Result<Machine, Failure> {
    let Some(cpus) = request.cpus else {
        return match request.profile {
            Some(_) => Err(Failure::usage("--profile is of a simulated machine; say --cpus N, too")),
            None => Ok(Machine::host()),
        };
    };
    let usual = format!("x86-{cpus}");
    let profile = match request.profile.as_deref() {
        Some(SIMPLE) => None,
        Some(name) => {
            let wrong = |error| Failure::usage(format!("--profile: {error:#}"));
            Profile::find(name).map_err(wrong)?;
            Some(name)
        }
        None => Profile::names().find(|name| *name == usual),
    };
    Ok(Machine::simulated(cpus as usize, profile.map(str::to_owned)))
}

/// Round costs, by their name.
pub const SIMPLE: &str = "simple";

fn setting(request: &Lab, machine: &Machine, interrupt: &Interrupt, answers: &Answers) -> Result<Setting, Failure> {
    let (arms, told) = arms::installed()?;
    told.iter().for_each(|line| eprintln!("commensal: {line}"));
    Ok(Setting {
        quick: request.quick,
        blocks: request.blocks.map(|blocks| blocks as usize),
        seed: request.seed.unwrap_or(0),
        machine: machine.clone(),
        arms,
        command: places::own()?,
        scratch: places::scratch("commensal-lab-")?.into(),
        interrupt: interrupt.clone(),
        answers: answers.clone(),
    })
}

fn show(request: &Lab, experiment: &dyn Experiment, outcome: &Outcome) -> Result<(), Failure> {
    places::show(&text(experiment, outcome), request.json.as_deref())?;
    request.json.as_ref().map_or(Ok(()), |path| outcome.object(experiment).write(path)).map_err(Failure::of)
}

fn text(experiment: &dyn Experiment, outcome: &Outcome) -> String {
    let lines = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let parts: String = outcome.parts.iter().map(part).collect();
    let Title { name, about, source, .. } = experiment.title();
    format!(
        "{name}: {about}\nDocument: {source}\n{}\n{}{}{}{parts}",
        lines(&outcome.about),
        table::place(&outcome.machine),
        [outcome.claims(), outcome.predictions()]
            .into_iter()
            .flatten()
            .map(|sheet| format!("\n{sheet}\n"))
            .collect::<String>(),
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
    ALL.iter().map(|it| it.title()).for_each(|title| sheet.add([title.name, title.about, title.source]));
    sheet
}
