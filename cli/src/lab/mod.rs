//! `commensal lab`: the experiments, by name, and the tests of the simulated machine.

mod args;
mod forecast;
mod pack;
mod servers;

use std::process::ExitCode;

use lab::answers::Answers;
use lab::experiment::{self, ALL, Experiment, Outcome, Part, Setting};
use lab::machine::Machine;
use lab::process::Interrupt;
use lab::profile::Profile;
use lab::sheet::{Sheet, Side};
use lab::{report, table};

use crate::failure::Failure;
use crate::{arms, places};
pub use args::Lab;
use args::{CALIBRATE, EVERY, FORECAST, LIST, PACK, SERVERS, VALIDATE};

/// Width of the list.
const COLUMNS: u16 = 110;

/// Runs experiments. Status 1 if an arm fails or behaves unlike the baseline.
pub fn lab(request: &Lab) -> Result<ExitCode, Failure> {
    if request.name == LIST {
        places::show(&list().within(COLUMNS), None)?;
        return Ok(ExitCode::SUCCESS);
    }
    if request.name == PACK {
        request.has_only(&["--quick", "--out"])?;
        return pack::pack(request.out.as_deref(), request.quick);
    }
    if request.name == SERVERS {
        request.has_only(&["SERVER", "--quick", "--blocks", "--seed", "--with", "--arm", "--json", "--report"])?;
        return servers::servers(request);
    }
    if [CALIBRATE, VALIDATE, FORECAST].contains(&request.name.as_str()) {
        return of_model(request);
    }
    experiments(request)
}

/// Runs the chosen experiments.
fn experiments(request: &Lab) -> Result<ExitCode, Failure> {
    request.has_only(&["--quick", "--blocks", "--seed", "--cpus", "--profile", "--json", "--report"])?;
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
    let interrupt = places::interrupt()?;
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

/// Calibrates, validates, or forecasts.
fn of_model(request: &Lab) -> Result<ExitCode, Failure> {
    let options: &[&str] = match request.name.as_str() {
        CALIBRATE => &["--quick", "--out"],
        VALIDATE => &["--quick", "--profile", "--json"],
        _ => &["--profile", "--json", "--report"],
    };
    request.has_only(options)?;
    let interrupt = places::interrupt()?;
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
