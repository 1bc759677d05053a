//! `--shard` and `commensal lab merge`: several machines each simulate or explore a part, and merging makes one result of them.

use std::path::Path;
use std::process::ExitCode;

use ::lab::answers::{Answers, Shard};
use ::lab::experiment::{self, Experiment, Setting};
use ::lab::part::{Merged, Part, Request, Runs, merge};
use ::lab::process::Interrupt;

use crate::failure::Failure;
use crate::lab::{self, FORECAST, Lab};
use crate::{forecast, places};

/// Makes the part of an experiment.
pub fn make(request: &Lab, experiment: &Experiment, setting: &Setting, shard: Shard) -> Result<ExitCode, Failure> {
    if !setting.machine.is_simulated() {
        return Err(usage("only simulations give the same figures on all machines; add --cpus N"));
    }
    if request.name != experiment.name {
        return Err(usage("a part belongs to one experiment; name it"));
    }
    let Some(seed) = request.seed else {
        return Err(usage("all parts need the same seed; add --seed N"));
    };
    let json = place(request)?;
    experiment::list(experiment, setting).map_err(Failure::of)?;
    let asked = Request {
        name: request.name.clone(),
        quick: request.quick,
        blocks: request.blocks,
        seed,
        cpus: request.cpus,
        profile: setting.machine.profile.clone(),
        costs: None,
    };
    write(asked, &setting.answers, shard, &setting.interrupt, json)
}

/// Makes the part of a forecast.
pub fn forecast(request: &Lab, interrupt: &Interrupt, shard: Shard) -> Result<ExitCode, Failure> {
    let json = place(request)?;
    places::check(Some(json), None)?;
    let name = request.profile.clone().unwrap_or_else(|| forecast::USUAL.to_owned());
    let answers = Answers::default();
    forecast::wanted(&name, &answers)?;
    let (profile, name) = (Some(name), FORECAST.to_owned());
    let asked = Request { name, quick: false, blocks: None, seed: 0, cpus: None, profile, costs: None };
    write(asked, &answers, shard, interrupt, json)
}

fn usage(line: &str) -> Failure {
    Failure::usage(format!("--shard: {line}"))
}

/// Where the part goes.
fn place(request: &Lab) -> Result<&Path, Failure> {
    if request.report.is_some() {
        return Err(usage("a part has no report; use --report with lab merge"));
    }
    request.json.as_deref().ok_or_else(|| usage("add --json FILE, to which the part is written for lab merge"))
}

fn write(
    asked: Request, answers: &Answers, shard: Shard, interrupt: &Interrupt, json: &Path,
) -> Result<ExitCode, Failure> {
    let runs = answers.runs();
    let request = asked.with_costs().map_err(Failure::of)?;
    answers.make(shard, &places::own()?, interrupt).map_err(Failure::of)?;
    let known = answers.known();
    eprintln!("commensal: simulated part {shard} of {}: {} of {runs} runs", request.name, known.len());
    Part::Runs(Runs::of(shard, request, runs, known)).write(json).map_err(Failure::of)?;
    Ok(ExitCode::SUCCESS)
}

/// Joins parts, and shows the result that one machine would have given.
pub fn merged(request: &Lab) -> Result<ExitCode, Failure> {
    lab::has_only(request, &["--json", "--report"], ": the parts determine it")?;
    let parts: Result<Vec<_>, _> = request.files.iter().map(|path| Part::read(path)).collect();
    match parts.and_then(merge).map_err(|error| Failure::usage(format!("{error:#}")))? {
        Merged::Runs(asked, figures) => evaluate(request, asked, &Answers::given(figures)),
        Merged::Exploration(explored) => {
            if request.report.is_some() {
                return Err(Failure::usage("an exploration has no report; leave out --report"));
            }
            places::check(request.json.as_deref(), None)?;
            places::show(&explored.text(), request.json.as_deref())?;
            let is_clean = explored.is_clean();
            let part = Part::Exploration(explored);
            request.json.as_deref().map_or(Ok(()), |path| part.write(path)).map_err(Failure::of)?;
            Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

fn evaluate(request: &Lab, asked: Request, answers: &Answers) -> Result<ExitCode, Failure> {
    let as_asked = Lab {
        name: asked.name,
        quick: asked.quick,
        blocks: asked.blocks,
        seed: Some(asked.seed),
        cpus: asked.cpus,
        profile: Some(asked.profile.unwrap_or_else(|| lab::SIMPLE.to_owned())),
        json: request.json.clone(),
        report: request.report.clone(),
        ..Lab::default()
    };
    if as_asked.name == FORECAST {
        return forecast::forecast(&as_asked, answers, &lab::interrupt()?);
    }
    lab::experiments(&as_asked, answers)
}
