//! `commensal lab calibrate`, `lab validate` and `lab forecast`: what a simulated machine's costs are, how far it is off, and what it says of machines that are not here.

use std::process::ExitCode;

use lab::answers::{Answers, Shard};
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

use crate::failure::Failure;
use crate::lab::Lab;
use crate::places;

/// Runs of a probe here: when it is to be quick, and else.
const RUNS: (usize, usize) = (5, 20);
/// What is asked of the median error at points that were held out.
const MEDIAN: f64 = 0.2;

/// Whose costs are forecast with, if nobody says.
pub const USUAL: &str = "x86-256";

/// Measures this machine's costs, and writes them.
pub fn calibrated(request: &Lab, interrupt: &Interrupt) -> Result<ExitCode, Failure> {
    let Some(out) = &request.out else {
        return Err(Failure::usage("calibrate writes a profile; say where by --out FILE.toml"));
    };
    if out.extension().is_none_or(|extension| extension != "toml") {
        return Err(Failure::usage(format!(
            "--out {}: a profile's name ends with .toml, by which it is known",
            out.display()
        )));
    }
    let written = |error| Failure::usage(format!("--out {} cannot be written ({error})", out.display()));
    // Before anything is measured that could be lost.
    std::fs::OpenOptions::new().append(true).create(true).open(out).map_err(written)?;
    let scratch = places::scratch("commensal-lab-")?;
    let (command, machine) = (places::own()?, Machine::host());
    if machine.cpus < 2 {
        return Err(Failure::ours("costs of two CPUs cannot be measured with one"));
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
    eprintln!("commensal: the profile is {}", out.display());
    Ok(ExitCode::SUCCESS)
}

fn measured(rounds: &Rounds, machine: &Machine, probes: &Probes) -> Result<Profile, Failure> {
    let are_siblings = lab::machine::are_siblings();
    if are_siblings {
        eprintln!(
            "commensal: the two CPUs are threads of one core: what is measured between them is near, and a core's other half is in all of it"
        );
    }
    if calibrate::never_met(rounds).map_err(Failure::of)? {
        eprintln!(
            "commensal: two threads that add to one word take hardly longer than one: they seldom ran at once, as where others keep the CPUs busy; so what a line takes from \
             one CPU to the other is not known, and `cluster.latency` and what is alike are too small: measure again when the machine is idle"
        );
    }
    let which = if are_siblings { "two threads of one core" } else { "two of its CPUs" };
    calibrate(&format!("{machine}, {which}"), rounds, probes).map_err(Failure::of)
}

fn runs(request: &Lab) -> usize {
    if request.quick { RUNS.0 } else { RUNS.1 }
}

/// Holds the model against published curves, and against this machine; status 1 if a point is missed that must not be.
pub fn validated(request: &Lab, interrupt: &Interrupt) -> Result<ExitCode, Failure> {
    let named = request.profile.as_deref().map(|name| Profile::find(name).map_err(usage)).transpose()?;
    places::check(request.json.as_deref(), None)?;
    let scratch = places::scratch("commensal-lab-")?;
    let (command, machine) = (places::own()?, Machine::host());
    let probes = Probes::of(&command, scratch.path(), interrupt);
    let is_alone = machine.cpus < 2;
    if is_alone && named.is_none() {
        let line = "costs of two CPUs cannot be measured with one; name a profile by --profile";
        return Err(Failure::ours(line));
    }
    let name = request.profile.as_deref().unwrap_or("measured just now");
    // What costs are fitted to and what is held against them are asked in the same rounds, so that the machine is as fast in the one as in the other.
    let asked = match &named {
        Some(_) if is_alone => Vec::new(),
        Some(_) => validate::asked().collect(),
        None => calibrate::asked().chain(validate::asked()).collect(),
    };
    let rounds = Rounds::of(asked, runs(request), &probes).map_err(Failure::of)?;
    let profile = match named {
        Some(profile) => profile,
        None => measured(&rounds, &machine, &probes)?,
    };
    let here = if is_alone {
        eprintln!("commensal: this machine has one CPU, so nothing is held against it");
        Vec::new()
    } else {
        validate::here(&profile, &rounds, &probes).map_err(Failure::of)?
    };
    if let Some(factor) = validate::changed(&here) {
        eprintln!(
            "commensal: what the costs of {name} were fitted to takes {factor:.2} times as long here and now; so errors tell of this machine, and not of the model"
        );
    }
    let mut curves = Vec::new();
    let model = |profile: &Profile, operation, threads: &[u32]| probes.increments(profile, operation, threads);
    // Those that are shipped, and another one that comes with curves of its own.
    let own = request.profile.as_deref().filter(|name| !Profile::names().any(|shipped| shipped == *name));
    let mut names: Vec<&str> = Profile::names().collect();
    names.extend(own);
    for name in names {
        let profile = Profile::find(name).map_err(usage)?;
        curves.extend(validate::curves(name, &profile, &model as &Model).map_err(Failure::of)?);
    }
    let text = format!(
        "{}Two CPUs here, and simulated; costs: {name}\n{}\nPublished curves, and the simulated machine at the points that no fit has seen\n{}\n{}",
        table::place(&machine),
        validate::of_here(&here),
        validate::summary(&curves),
        validate::misses(&curves),
    );
    places::show(&text, request.json.as_deref())?;
    if let Some(path) = &request.json {
        let object = Object::of_figures("validate", &machine, validate::told(&here, &curves));
        let object = object.with("profile", &profile).and_then(|it| it.with("here", &here)?.with("curves", &curves));
        object.and_then(|object| object.write(path)).map_err(Failure::of)?;
    }
    Ok(if is_good(&here, &curves) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

const ABOUT: &str = "What an operation would take each of so many CPUs that do the same at once, simulated: nobody measured it. The band is what comes out with the least, and with \
the most, of all costs of the profile; how far the model is off where it can be told, `commensal lab validate` says.";

/// Says what a machine would say that is not here, from these answers and those that are missing.
pub fn forecast(request: &Lab, answers: &Answers, interrupt: &Interrupt) -> Result<ExitCode, Failure> {
    let name = request.profile.as_deref().unwrap_or(USUAL);
    let profile = Profile::find(name).map_err(usage)?;
    places::check(request.json.as_deref(), request.report.as_deref())?;
    let machine = Machine::simulated(profile.cpus, Some(name.to_owned()));
    wanted(name, answers)?;
    answers.make(Shard::WHOLE, &places::own()?, interrupt).map_err(Failure::of)?;
    let prediction = predict(name, answers).map_err(Failure::of)?;
    let text = format!(
        "{}{}\n{ABOUT}\n\n{}\nBy which factor it changes if a cost is halved, or doubled\n{}",
        table::place(&machine),
        profile.about,
        prediction.sheet(),
        prediction.sensitivity(),
    );
    places::show(&text, request.json.as_deref())?;
    let object = prediction.object(&machine);
    if let Some(path) = &request.json {
        object.write(path).map_err(Failure::of)?;
    }
    if let Some(directory) = &request.report {
        let chapter = Chapter {
            title: format!("Forecast: {name}, simulated"),
            about: vec![profile.about.clone(), ABOUT.to_owned()],
            sheets: vec![prediction.sheet(), prediction.sensitivity(), profile.sheet()],
            pictures: &prediction.pictures(),
            sections: Vec::new(),
            object,
        };
        report::write(directory, &[chapter]).map_err(Failure::of)?;
        eprintln!("commensal: the report is {}", directory.join("index.html").display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists what has to be simulated for a profile.
pub fn wanted(name: &str, answers: &Answers) -> Result<(), Failure> {
    answers.list(|| predict(name, answers)).map_err(Failure::of)
}

/// What was fitted nowhere is off by anything: that is printed, and no fault.
fn is_good(here: &[Here], curves: &[Held]) -> bool {
    here.iter().all(|here| !here.is_missed()) && curves.iter().all(|held| !held.is_missed(MEDIAN))
}

fn usage(error: anyhow::Error) -> Failure {
    Failure::usage(format!("--profile: {error:#}"))
}
