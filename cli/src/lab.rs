//! `commensal lab`: the experiments, by name, and the tests of the simulated machine.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use lab::answers::Answers;
use lab::experiment::{self, ALL, Experiment, Outcome, Part, Setting};
use lab::machine::Machine;
use lab::process::Interrupt;
use lab::profile::Profile;
use lab::sheet::{Sheet, Side};
use lab::{report, table};

use crate::failure::Failure;
use crate::{arms, forecast, pack, places, servers};

/// Repeat on this machine what documents report about the Linux kernel
///
/// Each experiment prints what a document says, what was measured here, and whether the two agree.
///
/// Exit status: 0; 1 if a program failed or behaved unlike the baseline.
#[derive(Args)]
pub struct Lab {
    /// An experiment, or one of: "list" lists the experiments; "all" runs them in turn; "calibrate" measures the costs of this
    /// machine's operations; "validate" tests the simulated machine; "forecast" simulates larger machines; "pack" measures all in
    /// ten minutes, and writes one file to send to the project; "servers" compares allocators on real servers
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(names()))]
    pub name: String,

    /// Servers that "servers" measures [default: all that are installed]
    #[arg(value_name = "SERVER", value_parser = PossibleValuesParser::new(lab::servers::names()))]
    pub servers: Vec<String>,

    /// Take less than 45 seconds for each experiment, with wider intervals; with "servers", a few minutes for each server
    #[arg(long)]
    pub quick: bool,

    /// Number of blocks; each has one run of every arm [default: depends on the experiment]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub blocks: Option<u32>,

    /// Seed of the random order [default: from the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// With "servers", compare one more allocator: a shared library to preload
    #[arg(long = "with", value_name = "NAME=LIB", value_parser = arms::named)]
    pub with: Vec<(String, String)>,

    /// With "servers", compare Commensal with these settings, and no other allocator, as "compare" does
    #[arg(long = "arm", value_name = "NAME=CONF", value_parser = arms::named_settings)]
    pub arm: Vec<(String, String)>,

    /// Simulate a machine with this many CPUs; times come from a cost model
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub cpus: Option<u32>,

    /// Costs of the simulated machine: a profile of the command, or a file of "calibrate". Append +least or +most for the
    /// bounds of all costs [default: x86-N for N CPUs if there is one, else "simple"]
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,

    /// File that "calibrate" writes the profile to, or "pack" the results [default of "pack": commensal-pack-DATE.json]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Write all runs as JSON. With "-", JSON goes to standard output, and the tables to standard error
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write an HTML page with plots into this directory
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
}

/// Width of the list.
const COLUMNS: u16 = 110;

const LIST: &str = "list";
const EVERY: &str = "all";
const CALIBRATE: &str = "calibrate";
const VALIDATE: &str = "validate";
const FORECAST: &str = "forecast";
const PACK: &str = "pack";
const SERVERS: &str = "servers";

fn names() -> impl Iterator<Item = &'static str> {
    [LIST, EVERY, CALIBRATE, VALIDATE, FORECAST, PACK, SERVERS]
        .into_iter()
        .chain(ALL.iter().map(|experiment| experiment.name))
}

/// Runs experiments. Status 1 if an arm fails or behaves unlike the baseline.
pub fn lab(request: &Lab) -> Result<ExitCode, Failure> {
    if request.name == LIST {
        places::show(&list().within(COLUMNS), None)?;
        return Ok(ExitCode::SUCCESS);
    }
    if request.name == PACK {
        has_only(request, &["--quick", "--out"])?;
        return pack::pack(request.out.as_deref(), request.quick);
    }
    if request.name == SERVERS {
        has_only(request, &["SERVER", "--quick", "--blocks", "--seed", "--with", "--arm", "--json", "--report"])?;
        return servers::servers(request);
    }
    if [CALIBRATE, VALIDATE, FORECAST].contains(&request.name.as_str()) {
        return of_model(request);
    }
    experiments(request)
}

/// Runs the chosen experiments.
fn experiments(request: &Lab) -> Result<ExitCode, Failure> {
    has_only(request, &["--quick", "--blocks", "--seed", "--cpus", "--profile", "--json", "--report"])?;
    let chosen = ALL.iter().filter(|experiment| request.name == EVERY || request.name == experiment.name);
    let mut chosen: Vec<&Experiment> = chosen.collect();
    if request.json.is_some() && chosen.len() > 1 {
        return Err(Failure::usage("--json takes one experiment; name one, or use --report"));
    }
    if request.cpus.is_some() {
        let without: Vec<&str> = chosen.iter().filter(|it| !it.simulates).map(|it| it.name).collect();
        if without.len() == chosen.len() {
            let line = format!("{} cannot be simulated; leave out --cpus", without.join(", "));
            return Err(Failure::usage(line));
        }
        without.iter().for_each(|name| places::tell(format_args!("skipping {name}, which cannot be simulated")));
        chosen.retain(|it| it.simulates);
    }
    let machine = machine(request)?;
    places::check(request.json.as_deref(), request.report.as_deref())?;
    if !machine.is_simulated() {
        lab::machine::preflight().iter().for_each(places::tell);
    }
    let interrupt = interrupt()?;
    let seed = request.seed.unwrap_or_else(lab::any_seed);
    let mut outcomes = Vec::new();
    for experiment in chosen {
        if !interrupt.seen() {
            let setting = setting(request, seed, &machine, &interrupt)?;
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
        let chapters: Vec<_> = outcomes.iter().map(|(experiment, outcome)| outcome.chapter(experiment)).collect();
        report::write(directory, &chapters).map_err(Failure::of)?;
        places::tell(format_args!("wrote the report to {}", directory.join("index.html").display()));
    }
    interrupt.obey();
    let has_fault = outcomes.iter().any(|(_, outcome)| outcome.has_fault());
    Ok(if has_fault { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

pub fn interrupt() -> Result<Interrupt, Failure> {
    Interrupt::register().map_err(|error| Failure::ours(format!("cannot watch for Ctrl-C ({error})")))
}

/// Refuses an option that is none of these.
fn has_only(request: &Lab, options: &[&str]) -> Result<(), Failure> {
    let given = [
        ("--cpus", request.cpus.is_some()),
        ("--blocks", request.blocks.is_some()),
        ("--seed", request.seed.is_some()),
        ("--report", request.report.is_some()),
        ("--out", request.out.is_some()),
        ("--json", request.json.is_some()),
        ("--quick", request.quick),
        ("--profile", request.profile.is_some()),
        ("--with", !request.with.is_empty()),
        ("--arm", !request.arm.is_empty()),
        ("SERVER", !request.servers.is_empty()),
    ];
    let wrong = given.into_iter().find(|(option, is_given)| *is_given && !options.contains(option));
    wrong.map_or(Ok(()), |(option, _)| {
        Err(Failure::usage(format!("lab {} has no option {option}; leave it out", request.name)))
    })
}

/// Calibrates, validates, or forecasts.
fn of_model(request: &Lab) -> Result<ExitCode, Failure> {
    let options: &[&str] = match request.name.as_str() {
        CALIBRATE => &["--quick", "--out"],
        VALIDATE => &["--quick", "--profile", "--json"],
        _ => &["--profile", "--json", "--report"],
    };
    has_only(request, options)?;
    let interrupt = interrupt()?;
    let done = match request.name.as_str() {
        CALIBRATE => forecast::calibrated(request, &interrupt),
        VALIDATE => forecast::validated(request, &interrupt),
        _ => forecast::forecast(request, &interrupt),
    };
    interrupt.obey();
    done
}

/// This machine, or a simulated one with the costs of a profile.
fn machine(request: &Lab) -> Result<Machine, Failure> {
    let Some(cpus) = request.cpus else {
        return match request.profile {
            Some(_) => Err(Failure::usage("--profile needs --cpus N: it has the costs of a simulated machine")),
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

/// The name of round costs.
const SIMPLE: &str = "simple";

fn setting(request: &Lab, seed: u64, machine: &Machine, interrupt: &Interrupt) -> Result<Setting, Failure> {
    let (arms, told) = arms::installed()?;
    told.iter().for_each(places::tell);
    Ok(Setting {
        quick: request.quick,
        blocks: request.blocks.map(|blocks| blocks as usize),
        seed,
        machine: machine.clone(),
        arms,
        command: places::own()?,
        scratch: places::scratch("commensal-lab-")?.into(),
        interrupt: interrupt.clone(),
        answers: Answers::default(),
    })
}

fn show(request: &Lab, experiment: &Experiment, outcome: &Outcome) -> Result<(), Failure> {
    places::show(&text(experiment, outcome), request.json.as_deref())?;
    request.json.as_ref().map_or(Ok(()), |path| outcome.object(experiment).write(path)).map_err(Failure::of)
}

fn text(experiment: &Experiment, outcome: &Outcome) -> String {
    let lines = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let parts: String = outcome.parts.iter().map(part).collect();
    let Experiment { name, about, source, .. } = experiment;
    format!(
        "{name}: {about}\nDocument: {source}\n{}\n{}{}{}{parts}",
        lines(&outcome.about),
        table::place(&outcome.machine),
        outcome.verdicts() + &outcome.predictions().map_or(String::new(), |sheet| format!("\n{sheet}")),
        if outcome.remarks.is_empty() { String::new() } else { format!("\n{}", lines(&outcome.remarks)) },
    )
}

fn part(part: &Part) -> String {
    let title = if part.title.is_empty() { String::new() } else { format!("{}\n", part.title) };
    let sheets: String = part.sheets.iter().map(|sheet| format!("{sheet}\n")).collect();
    let (how, legend) = (table::how(&part.analysis), table::legend(&part.analysis, &part.sheets));
    format!("\n{title}{how}{sheets}{legend}{}", table::notes(&part.analysis))
}

fn list() -> Sheet {
    let mut sheet = Sheet::new([("experiment", Side::Left), ("question", Side::Left), ("document", Side::Left)]);
    ALL.iter().for_each(|it| sheet.add([it.name, it.about, it.source]));
    sheet
}
