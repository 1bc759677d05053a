//! `commensal completions` and `commensal man`: what shells, `man` and the book read, made of the command line itself.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::{Cli, places};

/// Print completions for a shell
///
/// For bash: commensal completions bash > ~/.local/share/bash-completion/completions/commensal
#[derive(Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

/// Write man pages, one for each command, such as commensal-run.1
#[derive(Args)]
pub struct Man {
    /// The folder
    #[arg(default_value = "target/man")]
    folder: PathBuf,

    /// The page of the book
    #[arg(long, hide = true, exclusive = true)]
    markdown: bool,
}

const OPENING: &str = "\
# Commands

<!-- Made of the command line in cli/src by `cargo xtask reference --bless`, which overwrites changes. -->

`commensal COMMAND --help` prints these texts, and `commensal man` writes them as man pages.
";

/// Prints them.
pub fn completions(request: &Completions) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(request.shell, &mut Cli::command(), "commensal", &mut script);
    places::show(&String::from_utf8_lossy(&script), None)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes them.
pub fn man(request: &Man) -> Result<ExitCode, Failure> {
    if request.markdown {
        places::show(&page(), None)?;
        return Ok(ExitCode::SUCCESS);
    }
    let folder = &request.folder;
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
        .map_err(|error| Failure::usage(format!("{}: cannot write the pages ({error})", folder.display())))?;
    Ok(ExitCode::SUCCESS)
}

/// Each command with its help.
fn page() -> String {
    fn add(command: &mut Command, page: &mut String) {
        let help = command.render_long_help().to_string();
        let name = command.get_bin_name().unwrap_or(command.get_name());
        *page += &format!("\n## {name}\n\n```text\n");
        help.trim_end().lines().for_each(|line| *page += &(line.trim_end().to_owned() + "\n"));
        *page += "```\n";
        let shown = command.get_subcommands_mut().filter(|one| !one.is_hide_set() && one.get_name() != "help");
        shown.for_each(|one| add(one, page));
    }
    let (mut command, mut page) = (Cli::command(), OPENING.to_owned());
    command.build();
    add(&mut command, &mut page);
    page
}
