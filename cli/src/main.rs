//! The `commensal` command.
//!
//! `commensal run -- CMD` starts a program under the library; `commensal` alone is a tour that shows what the library
//! does on this machine. The files, in the order in which `run` needs them: `program` finds the program, `inspect` tells
//! whether the library can reach it, `library` finds the library, `conf` merges settings and writes the
//! environment, `sigpipe` undoes what Rust's start-up changed, and `run` executes. `failure` holds the exit statuses. `doctor`
//! says which mode the library is in on this machine.

mod arms;
#[cfg(test)]
mod command_lines;
mod compare;
mod conf;
mod doctor;
mod elf;
mod failure;
mod forecast;
mod hackbench;
mod inspect;
mod lab;
mod library;
mod merge;
mod places;
mod probe;
mod program;
mod run;
mod settings;
mod sigpipe;
mod stat;
mod tour;
mod tune;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

/// A malloc for Linux programs that costs next to nothing until a second thread shares it.
///
/// Without arguments: a tour of what it does on this machine.
#[derive(Parser)]
#[command(name = "commensal", version, after_help = EXIT_STATUS)]
struct Cli {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    Run(run::Run),
    Compare(compare::Compare),
    Conf(settings::Conf),
    Lab(lab::Lab),
    Doctor(doctor::Doctor),
    Tune(tune::Tune),
    Top(stat::Top),
    Stat(stat::Stat),
    Slabinfo(stat::Slabinfo),
}

const EXIT_STATUS: &str = "\
Exit status: that of the program; 127 if it is missing, 126 if it cannot be executed, 125 if the library
cannot be found, 2 for bad usage. The tour: 0, or 1 if a program behaves differently under the library.
The doctor: 0, or 1 if the library would not work here.";

/// Runs a bundled program in this process; `compare` starts it so.
const WORKLOAD: &str = "workload";

fn main() -> ExitCode {
    // The bundled programs are measured: nothing of this command may be in their figures.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == WORKLOAD) {
        let mut words = words.map(|word| word.to_string_lossy().into_owned()).peekable();
        if words.peek().is_some_and(|word| word == doctor::trial::NAME) {
            return match words.nth(1).as_deref() {
                Some(doctor::sandbox::NAME) => doctor::sandbox::main(),
                _ => doctor::trial::main(),
            };
        }
        if let Some(probe) = words.peek().and_then(|word| probe::find(word)) {
            return probe::main(probe, words.skip(1));
        }
        return programs::main(&[WORKLOAD], words);
    }
    let outcome = if is_hackbench() {
        hackbench::main(std::env::args_os().skip(3).map(|word| word.to_string_lossy().into_owned()))
    } else {
        match Cli::try_parse() {
            Ok(cli) => act(cli),
            Err(error) if !error.use_stderr() => error.exit(),
            Err(error) => Err(Failure::usage(one_line(&error.to_string()))),
        }
    };
    outcome.unwrap_or_else(|failure| {
        eprintln!("commensal: {failure}");
        failure.into()
    })
}

fn is_hackbench() -> bool {
    std::env::args_os().skip(1).take(2).eq(hackbench::WORDS)
}

fn act(cli: Cli) -> Result<ExitCode, Failure> {
    match cli.action {
        None => tour::tour(),
        Some(Action::Run(request)) => Err(run::run(&request)),
        Some(Action::Compare(request)) => compare::compare(&request),
        Some(Action::Conf(request)) => Ok(settings::conf(&request)),
        Some(Action::Lab(request)) => lab::lab(&request),
        Some(Action::Doctor(request)) => doctor::doctor(&request),
        Some(Action::Tune(request)) => tune::tune(&request),
        Some(Action::Top(request)) => stat::top(&request),
        Some(Action::Stat(request)) => stat::stat(&request),
        Some(Action::Slabinfo(request)) => stat::slabinfo(&request),
    }
}

/// What clap says in paragraphs, as one line: its own words, its tip if it has one, then where to read on.
fn one_line(message: &str) -> String {
    let words =
        ["Usage:", "For more information"].iter().fold(message, |rest, end| rest.split(end).next().unwrap_or(rest));
    let words: Vec<&str> = words.split_whitespace().collect();
    let words = words.join(" ").replace(" tip: ", "; tip: ");
    let words = words.trim_start_matches("error: ");
    format!("{words}; see commensal --help")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn usage_errors_fit_on_one_line() {
        let error = Cli::try_parse_from(["commensal", "run"]).err().unwrap();
        let line = one_line(&error.to_string());
        assert!(!line.contains('\n'), "{line}");
        assert!(line.contains("not provided: <CMD>"), "{line}");
        assert!(line.ends_with("; see commensal --help"), "{line}");
    }
}
