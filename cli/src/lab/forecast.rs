//! `commensal lab calibrate`, `lab validate` and `lab forecast`: the costs of a simulated machine, its errors, and its
//! forecasts for larger machines.

use std::process::ExitCode;

use lab::answers::Answers;
use lab::forecast::calibrate::{self, calibrate};
use lab::forecast::predict::predict;
use lab::forecast::rounds::Rounds;
use lab::forecast::validate::{self, Held, Here};
use lab::forecast::{Model, Probes};
use lab::json::Object;
use lab::machine::Machine;
use lab::process::Interrupt;
use lab::profile::Profile;
use lab::report::{self, Chapter};
use lab::table;

use super::args::Lab;
use crate::failure::Failure;
use crate::places;

/// Runs of a probe: quick, and usual.
const RUNS: (usize, usize) = (5, 20);
/// The default profile of a forecast.
const USUAL: &str = "x86-256";

/// Measures this machine's costs, and writes them.
pub fn calibrated(request: &Lab, interrupt: &Interrupt) -> Result<ExitCode, Failure> {
    let Some(out) = &request.out else {
        return Err(Failure::usage("lab calibrate writes a profile; add --out FILE.toml"));
    };
    if out.extension().is_none_or(|extension| extension != "toml") {
        return Err(Failure::usage(format!("--out {}: expected a file name that ends with .toml", out.display())));
    }
    let written = |error| Failure::usage(format!("--out {}: cannot write the file ({error})", out.display()));
    // Checked before the measurement, which would be lost.
    std::fs::OpenOptions::new().append(true).create(true).open(out).map_err(written)?;
    let scratch = places::scratch("commensal-lab-")?;
    let (command, machine) = (places::own()?, Machine::host());
    if machine.cpus < 2 {
        return Err(Failure::ours("lab calibrate needs two CPUs, and this machine has one"));
    }
    let probes = Probes::of(&command, scratch.path(), interrupt);
    let rounds = Rounds::of(calibrate::asked(), runs(request), &probes).map_err(Failure::of)?;
    let profile = measured(&rounds, &machine, &probes)?;
    places::show(&format!("{}\n{}", table::place(&machine), profile.sheet()), None)?;
    let text = format!(
        "# Written by `{}` on {}.\n{}",
        lab::json::command_line(),
        machine,
        profile.text().map_err(Failure::of)?
    );
    std::fs::write(out, text).map_err(written)?;
    places::tell(format_args!("wrote the profile to {}", out.display()));
    Ok(ExitCode::SUCCESS)
}

fn measured(rounds: &Rounds, machine: &Machine, probes: &Probes) -> Result<Profile, Failure> {
    let are_siblings = lab::machine::are_siblings();
    if are_siblings {
        places::tell(format_args!(
            "warning: the two CPUs are threads of one core, so times between CPUs are too short, and each slows the other"
        ));
    }
    if calibrate::never_met(rounds).map_err(Failure::of)? {
        places::tell(
            "warning: two threads add to one word hardly slower than one, so they rarely ran at the same time; costs such \
             as cluster.latency are too small; calibrate again when the machine is idle",
        );
    }
    let which = if are_siblings { "two threads of one core" } else { "two of its CPUs" };
    calibrate(&format!("{machine}, {which}"), rounds, probes).map_err(Failure::of)
}

fn runs(request: &Lab) -> usize {
    if request.quick { RUNS.0 } else { RUNS.1 }
}

/// Compares the model with published curves and with this machine. Status 1 if an error is above its limit.
pub fn validated(request: &Lab, interrupt: &Interrupt) -> Result<ExitCode, Failure> {
    let named = request.profile.as_deref().map(|name| Profile::find(name).map_err(usage)).transpose()?;
    places::check(request.json.as_deref(), None)?;
    let scratch = places::scratch("commensal-lab-")?;
    let (command, machine) = (places::own()?, Machine::host());
    let probes = Probes::of(&command, scratch.path(), interrupt);
    if machine.cpus < 2 {
        return Err(Failure::ours("lab validate needs two CPUs, and this machine has one"));
    }
    let name = request.profile.as_deref().unwrap_or("measured just now");
    // The fit and the test use the same rounds, because a machine's speed changes between rounds.
    let of_fit = calibrate::asked().filter(|_| named.is_none());
    let rounds = Rounds::of(of_fit.chain(validate::asked()), runs(request), &probes).map_err(Failure::of)?;
    let profile = named.map_or_else(|| measured(&rounds, &machine, &probes), Ok)?;
    let here = validate::here(&profile, &rounds, &probes).map_err(Failure::of)?;
    let mut curves = Vec::new();
    let model = |profile: &Profile, threads: &[u32]| probes.increments(profile, threads);
    // The shipped profiles, and the named one if it is a file.
    let own = request.profile.as_deref().filter(|name| !Profile::names().any(|shipped| shipped == *name));
    let mut names: Vec<&str> = Profile::names().collect();
    names.extend(own);
    for name in names {
        let profile = Profile::find(name).map_err(usage)?;
        curves.extend(validate::curves(name, &profile, &model as &Model).map_err(Failure::of)?);
    }
    let text = format!(
        "{}Two CPUs here, and simulated; costs: {name}\n{}\nPublished curves, and the simulated machine at points outside of the fit\n{}",
        table::place(&machine),
        validate::of_here(&here),
        validate::summary(&curves),
    );
    places::show(&text, request.json.as_deref())?;
    if let Some(path) = &request.json {
        let object = Object::of_figures("validate", &machine, validate::figures(&here));
        let object = object.with("profile", &profile).and_then(|it| it.with("here", &here)?.with("curves", &curves));
        object.and_then(|object| object.write(path)).map_err(Failure::of)?;
    }
    let is_missed = here.iter().any(Here::is_missed) || curves.iter().any(Held::is_missed);
    Ok(if is_missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

const ABOUT: &str = "Time of one operation on each CPU while all of them do the same. It is simulated, not measured. The band in \
parentheses comes from the lowest and the highest costs of the profile. `commensal lab validate` prints the errors of the model.";

/// Forecasts the times of a machine.
pub fn forecast(request: &Lab, interrupt: &Interrupt) -> Result<ExitCode, Failure> {
    let name = request.profile.as_deref().unwrap_or(USUAL);
    let profile = Profile::find(name).map_err(usage)?;
    places::check(request.json.as_deref(), request.report.as_deref())?;
    let machine = Machine::simulated(profile.cpus, Some(name.to_owned()));
    let answers = Answers::default();
    answers.list(|| predict(name, &answers)).map_err(Failure::of)?;
    answers.make(&places::own()?, interrupt).map_err(Failure::of)?;
    let prediction = predict(name, &answers).map_err(Failure::of)?;
    let text = format!("{}{}\n{ABOUT}\n\n{}", table::place(&machine), profile.about, prediction.sheet());
    places::show(&text, request.json.as_deref())?;
    let object = prediction.object(&machine);
    if let Some(path) = &request.json {
        object.write(path).map_err(Failure::of)?;
    }
    if let Some(directory) = &request.report {
        let chapter = Chapter {
            title: format!("Forecast: {name}, simulated"),
            about: vec![profile.about.clone(), ABOUT.to_owned()],
            sheets: vec![prediction.sheet(), profile.sheet()],
            pictures: &Vec::from_iter(prediction.picture()),
            sections: Vec::new(),
            object,
        };
        report::write(directory, &[chapter]).map_err(Failure::of)?;
        places::tell(format_args!("wrote the report to {}", directory.join("index.html").display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn usage(error: anyhow::Error) -> Failure {
    Failure::usage(format!("--profile: {error:#}"))
}
