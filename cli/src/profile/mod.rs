//! `commensal profile`: heap profiles shown, drawn, compared, and given names.
//!
//! The package `profiles` reads them. Here are the command lines and the tables.

mod diff;
mod leaks;
mod running;
mod show;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, Command, Subcommand};
use profiles::profile::{Measure, Profile};
use profiles::read::gzipped;
use profiles::{Opened, flame};
use serde_json::Value;
use watch::units;

use crate::failure::Failure;
use crate::{places, usage};

/// Show, draw and compare heap profiles
///
/// Reads profiles of the library, and those of other profilers in pprof's format. Functions and lines are found in the
/// program's files, which must be the same as when it ran.
#[derive(Args)]
#[command(
    arg_required_else_help = false,
    args_conflicts_with_subcommands = true,
    override_usage = "commensal profile <PID> [OPTIONS]\n       commensal profile show|flame|diff|leaks|symbols [OPTIONS] <FILE>..."
)]
pub struct Request {
    #[command(flatten)]
    running: running::Running,

    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand)]
enum Verb {
    Show(show::Show),
    Flame(Flame),
    Diff(diff::Diff),
    Leaks(leaks::Leaks),
    Symbols(Symbols),
}

/// Draw a flame graph: each function is as wide as what it and its callees allocated
#[derive(Args)]
struct Flame {
    /// The profile
    file: PathBuf,

    /// The SVG to write
    #[arg(short, long, value_name = "OUT.svg")]
    output: PathBuf,

    #[command(flatten)]
    which: Which,
}

/// Write the profile with the names of functions, for programs that do not have its binaries, such as go tool pprof
#[derive(Args)]
struct Symbols {
    /// The profile
    file: PathBuf,

    /// The profile to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
}

/// Which memory.
#[derive(Args)]
#[group(multiple = false)]
struct Which {
    /// Blocks that were live when the profile was taken; the default, unless it was at exit
    #[arg(long)]
    live: bool,

    /// Blocks that were live at the peak
    #[arg(long)]
    peak: bool,

    /// All blocks that were allocated, also those that were freed since
    #[arg(long)]
    allocated: bool,
}

impl Which {
    fn asked(&self) -> Option<Measure> {
        let flags = [(self.live, Measure::Live), (self.peak, Measure::Peak), (self.allocated, Measure::Allocated)];
        flags.into_iter().find_map(|(is_set, measure)| is_set.then_some(measure))
    }

    /// The measure that is asked for. If none is, `usual` or the one that the profiler says, else the
    /// first of which there is something, and a note.
    fn of(&self, file: &Path, profile: &Profile, usual: Option<Measure>) -> Result<(Measure, Option<String>), Failure> {
        if let Some(asked) = self.asked() {
            if profile.measures.contains(&asked) {
                return Ok((asked, None));
            }
            let has: Vec<&str> = profile.measures.iter().map(|of| words::option(*of)).collect();
            let option = words::option(asked);
            return Err(Failure::ours(format!(
                "{}: has no figures for {option}; it has {}",
                file.display(),
                has.join(", ")
            )));
        }
        let usual = usual.or(profile.first).unwrap_or(Measure::Live);
        if profile.measures.contains(&usual) && profile.total(usual).bytes > 0 {
            return Ok((usual, None));
        }
        let Some(found) = profile.fullest() else { return Ok((usual, None)) };
        let note = format!("nothing is {}; these blocks were {}", usual.word(), found.word());
        Ok((found, Some(note)))
    }
}

/// How many rows a table has, and how it is printed.
#[derive(Args)]
struct Cut {
    /// How many rows to show; of a difference, how many that grew, and how many that shrank
    #[arg(long, value_name = "N", default_value_t = 20)]
    rows: usize,

    /// How many functions of each stack to show; stacks that agree in these are one call site
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    depth: u16,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The line for a misspelt command of `profile`, which the parser takes for a PID.
pub fn misspelt(words: impl IntoIterator<Item = String>) -> Option<String> {
    let mut words = words.into_iter().skip_while(|word| word.starts_with("--color"));
    let word = (words.next()? == "profile").then(|| words.next())??;
    if word.starts_with('-') || word.parse::<u32>().is_ok() {
        return None;
    }
    let known = Verb::augment_subcommands(Command::new("profile"));
    let error = known.try_get_matches_from(["profile", &word]).err()?;
    let line = (error.kind() == ErrorKind::InvalidSubcommand).then(|| usage::line(&error))?;
    line.contains("did you mean").then_some(line)
}

/// Does what is asked.
pub fn profile(request: &Request) -> Result<ExitCode, Failure> {
    match &request.verb {
        None => running::running(&request.running),
        Some(Verb::Show(request)) => show::show(request),
        Some(Verb::Flame(request)) => flame(request),
        Some(Verb::Diff(request)) => diff::diff(request),
        Some(Verb::Leaks(request)) => leaks::leaks(request),
        Some(Verb::Symbols(request)) => symbols(request),
    }
}

/// Reads a profile and prints the warnings.
fn open(file: &Path) -> Result<(Opened, Profile), Failure> {
    let (opened, profile) = read(file)?;
    warn(&opened.warnings);
    Ok((opened, profile))
}

fn read(file: &Path) -> Result<(Opened, Profile), Failure> {
    let opened = profiles::open(file).map_err(|error| match file.exists() {
        true => Failure::of(error),
        false => Failure::usage(format!("{error:#}")),
    })?;
    let profile = opened.profile().map_err(|error| Failure::ours(format!("{}: {error:#}", file.display())))?;
    Ok((opened, profile))
}

fn warn<'a>(warnings: impl IntoIterator<Item = &'a String>) {
    warnings.into_iter().for_each(|warning| places::tell(format_args!("warning: {}", units::word(warning))));
}

fn flame(request: &Flame) -> Result<ExitCode, Failure> {
    let (_, profile) = open(&request.file)?;
    let (measure, note) = request.which.of(&request.file, &profile, None)?;
    note.iter().for_each(places::tell);
    let title = format!("Memory of {}: {}", words::program(&profile), measure.word());
    let mut svg = Vec::new();
    flame::write(&profile, measure, &title, &words::total(&profile, measure), &mut svg)
        .map_err(|error| Failure::ours(format!("{}: {error:#}", request.file.display())))?;
    write(&request.output, &svg)
}

fn symbols(request: &Symbols) -> Result<ExitCode, Failure> {
    let (opened, _) = open(&request.file)?;
    write(&request.output, &gzipped(&opened.raw))
}

fn write(path: &Path, bytes: &[u8]) -> Result<ExitCode, Failure> {
    fs::write(path, bytes)
        .map_err(|error| Failure::usage(format!("--output {}: cannot write the file ({error})", path.display())))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints JSON or text.
fn print(as_json: bool, json: impl Fn() -> Value, text: impl Fn() -> String) -> Result<ExitCode, Failure> {
    places::show(&if as_json { format!("{:#}\n", json()) } else { text() }, None)?;
    Ok(ExitCode::SUCCESS)
}
