//! `commensal-explore`: explores the protocols for as long as one likes, and replays what was found.

use clap::{Parser, Subcommand};
use exploration::schedules::{self, SMALL};
use exploration::{Canary, Protocol, find, protocols, replay_command};
use indicatif::{ProgressBar, ProgressStyle};
use machine::simulation::explore::{Until, Verdict};
use machine::simulation::{Defect, Deviation};
use machine::slot::Mode;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Parser)]
#[command(name = "commensal-explore", about = "Explores Commensal's protocols on the simulated machine")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// The protocols, and what they are about
    List,
    /// Explore protocols in turn, with other seeds each time, and small bodies in every schedule
    Run {
        /// Which; all protocols if none is named
        names: Vec<String>,
        /// For how long, all in all
        #[arg(long, default_value_t = 60.0, conflicts_with = "runs")]
        seconds: f64,
        /// The first seed; otherwise it is drawn
        #[arg(long)]
        seed: Option<u64>,
        /// So many runs of each protocol, however long they take
        #[arg(long)]
        runs: Option<u64>,
    },
    /// Make one run again, and show its trace
    Replay {
        /// The protocol
        name: String,
        /// The plan, p0 to p3
        plan: String,
        /// The seed
        seed: u64,
        /// These choices only, as a finding lists them, parted by commas
        #[arg(long)]
        schedule: Option<String>,
        /// On a machine that is broken, as in RestartIsFence:ConcurrencyId
        #[arg(long)]
        canary: Option<String>,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("commensal-explore: {problem}");
            ExitCode::from(2)
        }
    }
}

fn run(task: Task) -> Result<bool, String> {
    match task {
        Task::List => {
            protocols().for_each(|protocol| println!("{:26} {}", protocol.name, protocol.about));
            SMALL.iter().for_each(|small| println!("{:26} {}, in every schedule", small.name, small.about));
            Ok(true)
        }
        Task::Run { names, seconds, seed, runs } => {
            let (small, names): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| schedules::find(name).is_some());
            for small in small.iter().filter_map(|name| schedules::find(name)) {
                match small.exhaust() {
                    Ok(runs) => println!("{:26} {runs:>9} runs, which are all, nothing found", small.name),
                    Err(what) => {
                        println!("{what}");
                        return Ok(false);
                    }
                }
            }
            if names.is_empty() && !small.is_empty() {
                return Ok(true);
            }
            let chosen = if names.is_empty() {
                protocols().collect()
            } else {
                names.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?
            };
            let seed = seed.unwrap_or_else(lab::any_seed);
            Ok(explore(&chosen, runs, seconds, seed))
        }
        Task::Replay { name, plan, seed, schedule, canary } => {
            let schedule = schedule.map(|text| text.split(',').map(str::parse).collect::<Result<Vec<Deviation>, _>>());
            let canary = canary.map(|text| parse_canary(&text)).transpose()?;
            let replayed = find(&name)?.replay(canary, &plan, seed, schedule.transpose()?.as_deref())?;
            replayed.trace.iter().for_each(|line| println!("{line}"));
            let choices: Vec<String> = replayed.schedule.iter().map(Deviation::to_string).collect();
            println!("choices: {}", choices.join(","));
            println!("{}", replayed.what.as_deref().unwrap_or("nothing was wrong"));
            Ok(replayed.what.is_none())
        }
    }
}

/// One run in so many is made twice, and must be the same twice.
const TWICE_ONE_IN: u64 = 9;

/// Each protocol gets as many runs, or as much of the time.
fn explore(chosen: &[&'static Protocol], runs: Option<u64>, seconds: f64, seed: u64) -> bool {
    let turn = Duration::from_secs_f64(seconds / chosen.len() as f64);
    let until = || runs.map_or(Until::Time(turn), |to| Until::Runs { from: 0, to });
    let total = runs.map_or((seconds * 1000.0) as u64, |runs| runs * chosen.len() as u64);
    let (start, bar) = (Instant::now(), ProgressBar::new(total));
    bar.set_style(ProgressStyle::with_template("{bar:30} {percent:>3} %, {msg}").expect("the template is right"));
    for (before, protocol) in chosen.iter().enumerate() {
        let verdict = protocol.explore(None, TWICE_ONE_IN, seed, until(), |progress| {
            let passed_ms = (start.elapsed().as_secs_f64() * 1000.0) as u64;
            bar.set_position(runs.map_or(passed_ms, |runs| runs * before as u64 + progress.at));
            bar.set_message(format!("{}, run {}", protocol.name, progress.at));
        });
        let said = match &verdict {
            Verdict::Nothing { runs, steps } => {
                format!("{:26} {runs:>9} runs, {:>6} million steps, nothing found", protocol.name, steps / 1_000_000)
            }
            Verdict::Found(finding) => format!("{finding}\nreplay: {}", replay_command(finding, None)),
        };
        bar.suspend(|| println!("{said}"));
        if matches!(verdict, Verdict::Found(_)) {
            bar.finish_and_clear();
            return false;
        }
    }
    bar.finish_and_clear();
    true
}

fn parse_canary(text: &str) -> Result<Canary, String> {
    use Defect::*;
    const DEFECTS: [Defect; 8] =
        [RestartIsFence, KicksGetLost, SectionsGoOn, OneSlot, NoWipe, StoresOvertake, StoresStay, ChangesTear];
    let (defect, mode) = text.split_once(':').ok_or("expected DEFECT:MODE")?;
    let found = DEFECTS.into_iter().find(|it| format!("{it:?}") == defect);
    let defect = found.ok_or_else(|| format!("found '{defect}'; expected one of {DEFECTS:?}"))?;
    let mode = match mode {
        "ConcurrencyId" => Mode::ConcurrencyId,
        "PerThread" => Mode::PerThread,
        _ => return Err(format!("found '{mode}'; expected ConcurrencyId or PerThread")),
    };
    Ok(Canary { defect, mode })
}
