//! The `commensal` command.
//!
//! `commensal run -- CMD` starts a program under the library. The files, in the order in which `run` needs them: `usage`
//! explains errors of the command line, `program` finds the program, `inspect` tells whether the library can be preloaded
//! into it, `library` finds the library, `conf` merges settings and writes the environment, `sigpipe` restores what Rust's
//! start-up changed, and `run` executes. `failure` has the exit statuses. `tour` shows what the library does on this
//! machine, `doctor` in which mode.

mod arms;
#[cfg(test)]
mod command_lines;
mod compare;
mod conf;
mod control;
mod doctor;
mod elf;
mod failure;
mod forecast;
mod hackbench;
mod inspect;
mod lab;
mod library;
mod places;
mod probe;
mod profile;
mod program;
mod run;
mod settings;
mod sigpipe;
mod stat;
mod tour;
mod tune;
mod usage;

use std::iter::Peekable;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

use failure::Failure;

/// A malloc for Linux programs that costs next to nothing until a second thread shares it
#[derive(Parser)]
#[command(name = "commensal", version, after_help = EXIT_STATUS)]
struct Cli {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Show in a minute what the library does on this machine, beside glibc and the allocators that are installed
    Tour,
    Run(run::Run),
    Compare(compare::Compare),
    Conf(settings::Conf),
    /// Check how the library works on this machine: its mode, the reason, and what it costs
    ///
    /// Runs a small process under the library. Each finding says what it means for programs, and what you can do.
    ///
    /// Exit status: 0 if programs can run under the library, otherwise 1.
    Doctor,
    Tune(tune::Tune),
    Top(stat::Top),
    Stat(stat::Stat),
    Slabinfo(stat::Slabinfo),
    Profile(profile::Request),
    Lab(lab::Lab),
    Workload(Workload),
}

/// For measurements: run one of the bundled programs that allocate
#[derive(Args)]
#[command(override_usage = "commensal workload <NAME> [ARGUMENTS]...", after_help = programs::help() + ROWS_OF_THE_LAB)]
struct Workload {
    /// The program and its arguments, as below
    #[arg(value_name = "NAME", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

const ROWS_OF_THE_LAB: &str = "
Single rows of the lab's experiments: counters, cache, kicks, grace, primitives, sections, stagger, increments
  `commensal lab` starts them and says what their figures mean. Without arguments, each says what it expects.";

const EXIT_STATUS: &str = "\
Exit status of run: that of the program; 127 if there is no such program, 126 if it cannot be executed, 125 if the
library cannot be found. Of the tour: 1 if a program behaves differently under the library. Of all commands: 2 for a
usage error.";

/// Runs a bundled program in this process; `compare` starts it so.
const WORKLOAD: &str = "workload";

/// If this says `tour`, `commensal` alone starts the tour instead of printing the help. The workspace's
/// `.cargo/config.toml` sets it for `cargo run`. Cargo's own `default-run` would build the command without the library.
const ALONE: &str = "COMMENSAL_ALONE";
const TOUR: &str = "tour";

fn main() -> ExitCode {
    // The bundled programs are measured: nothing of this command may be in their figures.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == WORKLOAD) {
        let words = words.map(|word| word.to_string_lossy().into_owned()).peekable();
        if let Some(status) = workload(words) {
            return status;
        }
    }
    let outcome = if is_hackbench() {
        hackbench::main(std::env::args_os().skip(3).map(|word| word.to_string_lossy().into_owned()))
    } else {
        match Cli::try_parse() {
            Ok(cli) => act(cli),
            Err(error) if !error.use_stderr() => error.exit(),
            Err(error) => Err(Failure::usage(usage::line(&error))),
        }
    };
    outcome.unwrap_or_else(|failure| {
        eprintln!("commensal: {failure}");
        failure.into()
    })
}

/// Runs the bundled program that the words name; none if they ask for help.
fn workload(mut words: Peekable<impl Iterator<Item = String>>) -> Option<ExitCode> {
    let first = words.peek();
    if first.is_some_and(|word| word == "--help" || word == "-h") {
        return None;
    }
    Some(match first.and_then(|word| probe::find(word)) {
        Some(probe) => probe::main(probe, words.skip(1)),
        None => programs::main(&[WORKLOAD], words),
    })
}

fn is_hackbench() -> bool {
    std::env::args_os().skip(1).take(2).eq(hackbench::WORDS)
}

fn act(cli: Cli) -> Result<ExitCode, Failure> {
    match cli.action {
        None if std::env::var_os(ALONE).is_some_and(|word| word == TOUR) => tour::tour(),
        None => help(),
        Some(Action::Tour) => tour::tour(),
        Some(Action::Run(request)) => Err(run::run(&request)),
        Some(Action::Compare(request)) => compare::compare(&request),
        Some(Action::Conf(request)) => Ok(settings::conf(&request)),
        Some(Action::Lab(request)) => lab::lab(&request),
        Some(Action::Doctor) => doctor::doctor(),
        Some(Action::Tune(request)) => tune::tune(&request),
        Some(Action::Top(request)) => stat::top(&request),
        Some(Action::Stat(request)) => stat::stat(&request),
        Some(Action::Slabinfo(request)) => stat::slabinfo(&request),
        Some(Action::Profile(request)) => profile::profile(&request),
        Some(Action::Workload(Workload { words })) => Ok(workload(words.into_iter().peekable()).unwrap_or_default()),
    }
}

fn help() -> Result<ExitCode, Failure> {
    places::show(&Cli::command().render_help().to_string(), None)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
