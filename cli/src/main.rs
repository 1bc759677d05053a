//! The `commensal` command.
//!
//! `commensal run -- CMD` starts a program under the library. The files, in the order in which `run` needs them: `usage`
//! explains errors of the command line, `program` finds the program, `inspect` tells whether the library can be preloaded
//! into it, `library` finds the library, `conf` merges settings and writes the environment, `sigpipe` restores what Rust's
//! start-up changed, and `run` executes. `failure` has the exit statuses. `tour` shows what the library does on this
//! machine, `doctor` in which mode.
// These macros panic if nothing reads: `places` has what does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod arms;
#[cfg(test)]
mod command_lines;
mod compare;
mod conf;
mod control;
mod doctor;
mod elf;
mod exporter;
mod failure;
mod hackbench;
mod inspect;
mod lab;
mod library;
mod manual;
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
use std::sync::LazyLock;

use anstream::ColorChoice;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use failure::Failure;

/// A malloc for Linux programs that costs next to nothing until a second thread shares it
#[derive(Parser)]
#[command(name = "commensal", version = VERSION.as_str(), after_help = EXIT_STATUS)]
struct Cli {
    /// When to use colours: auto, always or never; auto obeys NO_COLOR and CLICOLOR_FORCE
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        hide_default_value = true,
        display_order = 990
    )]
    color: Colors,

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
    Exporter(exporter::Exporter),
    Profile(profile::Request),
    Lab(lab::Lab),
    Workload(Workload),
    Completions(manual::Completions),
    Man(manual::Man),
}

/// When there are colours.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Colors {
    #[default]
    Auto,
    Always,
    Never,
}

impl Colors {
    /// Decides for this process, as clap and anstream ask. The help is printed before the words are understood: so it is
    /// decided by a look at them first.
    fn decide(self) {
        let choice = match self {
            Colors::Auto => ColorChoice::Auto,
            Colors::Always => ColorChoice::Always,
            Colors::Never => ColorChoice::Never,
        };
        choice.write_global();
    }

    fn among(words: impl Iterator<Item = String>) -> Self {
        let words: Vec<String> = words.take_while(|word| word != "--").collect();
        let mut given = words.iter().enumerate().filter_map(|(at, word)| match word.strip_prefix("--color") {
            Some("") => words.get(at + 1).map(String::as_str),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        });
        given.next_back().and_then(|word| Colors::from_str(word, false).ok()).unwrap_or_default()
    }
}

/// With the commit that it was built from, where that is known.
static VERSION: LazyLock<String> = LazyLock::new(|| match ::lab::BUILT_FROM {
    "" => library::OWN_VERSION.to_owned(),
    commit => format!("{} ({commit})", library::OWN_VERSION),
});

/// For measurements: run one of the bundled programs that allocate
#[derive(Args)]
#[command(override_usage = "commensal workload <NAME> [ARGUMENTS]...", after_help = programs::help() + ROWS_OF_THE_LAB)]
struct Workload {
    /// The program and its arguments, as below
    #[arg(value_name = "NAME", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

const ROWS_OF_THE_LAB: &str = "
Single rows of the lab's experiments: counters, cache, kicks, grace, primitives, sections, stagger, increments, server
  `commensal lab` starts them and says what their figures mean. Without arguments, each says what it expects.";

const EXIT_STATUS: &str = "\
Exit status of run: that of the program; 127 if there is no such program, 126 if it cannot be executed, 125 if the
library cannot be found. Of the tour: 1 if a program behaves differently under the library. Of all commands: 2 for a
usage error. Of compare and stat: see their help.";

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
    let words = || std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    Colors::among(words()).decide();
    let outcome = if is_hackbench() {
        hackbench::main(words().skip(2))
    } else {
        match Cli::try_parse() {
            Ok(cli) => act(cli),
            Err(error) if !error.use_stderr() => error.exit(),
            Err(error) => Err(Failure::usage(profile::misspelt(words()).unwrap_or_else(|| usage::line(&error)))),
        }
    };
    outcome.unwrap_or_else(|failure| {
        places::tell(&failure);
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
    cli.color.decide();
    match cli.action {
        None if std::env::var_os(ALONE).is_some_and(|word| word == TOUR) => tour::tour(),
        None => help(),
        Some(Action::Tour) => tour::tour(),
        Some(Action::Run(request)) => Err(run::run(&request)),
        Some(Action::Compare(request)) => compare::compare(&request),
        Some(Action::Conf(request)) => settings::conf(&request),
        Some(Action::Lab(request)) => lab::lab(&request),
        Some(Action::Doctor) => doctor::doctor(),
        Some(Action::Tune(request)) => tune::tune(&request),
        Some(Action::Top(request)) => stat::top(&request),
        Some(Action::Stat(request)) => stat::stat(&request),
        Some(Action::Slabinfo(request)) => stat::slabinfo(&request),
        Some(Action::Exporter(request)) => exporter::exporter(&request),
        Some(Action::Profile(request)) => profile::profile(&request),
        Some(Action::Workload(Workload { words })) => Ok(workload(words.into_iter().peekable()).unwrap_or_default()),
        Some(Action::Completions(request)) => manual::completions(&request),
        Some(Action::Man(request)) => manual::man(&request),
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
    fn color_is_found_before_the_words_are_understood() {
        let among = |words: &str| Colors::among(words.split(' ').map(str::to_owned));
        for (words, expected) in [
            ("--color never run --help", "Never"),
            ("run --color=always --help", "Always"),
            ("--color never --color=always", "Always"),
            ("run -- ls --color=always", "Auto"),
            ("top --color", "Auto"),
            ("top --colors never", "Auto"),
        ] {
            assert_eq!(format!("{:?}", among(words)), expected, "{words}");
        }
    }

    #[test]
    fn command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
