//! `commensal completions` and `commensal man`: what shells and `man` read, made of the command line itself.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
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
}

/// Prints them.
pub fn completions(request: &Completions) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(request.shell, &mut Cli::command(), "commensal", &mut script);
    places::show(&String::from_utf8_lossy(&script), None)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes them.
pub fn man(request: &Man) -> Result<ExitCode, Failure> {
    let folder = &request.folder;
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
        .map_err(|error| Failure::usage(format!("{}: cannot write the pages ({error})", folder.display())))?;
    Ok(ExitCode::SUCCESS)
}
