//! `commensal run`: executes a program under the library, in place of this process.
//!
//! No process stays between the program and its parent, so exit status, signals, terminal and process group need no
//! forwarding.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use commensal_runtime::settings::Values;

use crate::failure::Failure;
use crate::library::Library;
use crate::{conf, control, inspect, places, program, sigpipe};

/// Run a program with Commensal as its malloc
#[derive(Args)]
#[command(override_usage = "commensal run [OPTIONS] -- <CMD> [ARGS]...")]
pub struct Run {
    /// Set what `commensal conf` lists, such as keep:64. May be repeated. The last value of a key wins, and wins over
    /// COMMENSAL_CONF
    #[arg(long, value_name = "KEY:VALUE,…", value_parser = conf::parse)]
    pub conf: Vec<String>,

    /// Print memory statistics to standard error when the program exits
    #[arg(long)]
    stats: bool,

    /// Print a table of all caches to standard error when the program exits, in the columns of the kernel's
    /// /proc/slabinfo
    #[arg(long)]
    slabinfo: bool,

    /// Print which functions waited for the library's locks to standard error when the program exits, in the columns of
    /// `perf lock contention`
    #[arg(long)]
    locks: bool,

    /// Print the same as JSON
    #[arg(long, conflicts_with = "locks")]
    locks_json: bool,

    /// Sample allocations, and write a heap profile to this file when the program exits: see `commensal profile`. %p in
    /// the path stands for the number of the process; other processes that the program starts add theirs to the path
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_names = ["CMD", "ARGS"])]
    pub command: Vec<OsString>,
}

impl Run {
    fn settings(&self) -> Result<Vec<String>, Failure> {
        let printed = [
            self.stats.then_some("stats:exit"),
            self.slabinfo.then_some("slabinfo:exit"),
            self.locks.then_some("locks:exit"),
            self.locks_json.then_some("locks:json"),
        ];
        let profile = self.profile.as_deref().map(profile).transpose()?;
        let printed = printed.into_iter().flatten().map(str::to_owned);
        Ok(self.conf.iter().cloned().chain(printed).chain(profile).collect())
    }
}

/// The settings for a profile of the program that replaces this process.
fn profile(file: &Path) -> Result<String, Failure> {
    let wrong = |why: &str| Failure::usage(format!("--profile {}: {why}", file.display()));
    let path = std::path::absolute(file).map_err(|error| wrong(&error.to_string()))?;
    let folder = path.parent().filter(|folder| folder.is_dir());
    if folder.is_none() || path.is_dir() {
        return Err(wrong("expected a file in a folder that exists"));
    }
    let text = path.to_str().ok_or_else(|| wrong("expected a path in UTF-8"))?;
    let setting = format!("profile.file:{text}");
    match conf::parse(&setting) {
        Ok(setting) if !text.contains(',') => Ok(format!("profile:{},{setting}", std::process::id())),
        _ => Err(wrong(&format!("expected {}", Values::Path))),
    }
}

/// Replaces this process by the program. Returns only if that fails.
pub fn run(request: &Run) -> Failure {
    match prepare(request) {
        Ok(mut command) => {
            let error = command.exec();
            program::cannot_execute(command.get_program().as_ref(), &error)
        }
        Err(failure) => failure,
    }
}

fn prepare(request: &Run) -> Result<Command, Failure> {
    let name = &request.command[0];
    let path = program::resolve(name)?;
    let library = Library::find()?;
    let told = library.version_warning().into_iter().chain(inspect::warnings(&path, library.elf));
    for line in told {
        places::tell(line);
    }
    let mut command = Command::new(path);
    command.arg0(name).args(&request.command[1..]);
    let page = control::page_for_this_process();
    let mut settings = request.settings()?;
    let observe = conf::observe_this_process(std::env::var_os(conf::VARIABLE).as_deref(), &settings);
    settings.extend(page.as_ref().map(control::setting).into_iter().chain(observe));
    conf::preload(&mut command, &library.path, &settings);
    // It stays open in the program.
    std::mem::forget(page);
    sigpipe::pass_on(&mut command);
    Ok(command)
}
