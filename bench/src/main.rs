//! Measures Commensal's malloc side by side with its peers, prints tables, and judges the musts.
//!
//! Everything that is compared is compared within one run: rounds in which each program runs on
//! each allocator, in a shuffled order, never two at once (rounds.rs). An arm (arm.rs) is an
//! allocator with the library to preload; process.rs runs one program; startup.rs, micro.rs,
//! threads.rs and programs.rs say what is run; musts.rs judges; report.rs prints.
//!
//! Exit status: 0, 1 if a must is missed or something failed to run, 2 for bad usage.

mod arm;
mod micro;
mod musts;
mod process;
mod programs;
mod progress;
mod report;
mod rounds;
mod startup;
mod threads;

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};

use arm::{Allocator, Arm};
use programs::Suite;
use progress::Progress;
use report::Report;

/// Measures Commensal's malloc side by side with mimalloc, jemalloc, snmalloc and glibc.
#[derive(Parser)]
struct Options {
    /// What to measure; `musts` measures everything and prints the verdicts only.
    #[arg(value_enum, default_value = "musts")]
    what: What,
    /// How often each program runs on each allocator. Start-up takes four times as many.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Measure this program only.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(programs::names()))]
    only: Option<String>,
    /// The allocators to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Allocator::ALL)]
    libs: Vec<Allocator>,
    /// Commensal's library.
    #[arg(long, value_name = "FILE", default_value_os_t = default_library())]
    commensal: PathBuf,
    /// Write all that was measured to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    Musts,
    Programs,
    Micro,
    Startup,
    Threads,
    All,
}

impl What {
    fn includes(self, part: What) -> bool {
        self == part || matches!(self, What::Musts | What::All)
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    check(&options);
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Usage that the parser can't judge.
fn check(options: &Options) {
    let complain = |message: String| -> ! { Options::command().error(ErrorKind::ValueValidation, message).exit() };
    if options.only.is_some() && options.what != What::Programs {
        complain("--only chooses among the programs: use it with `programs`".to_owned());
    }
    if options.libs.contains(&Allocator::Commensal) && !options.commensal.is_file() {
        let library = options.commensal.display();
        complain(format!(
            "no library at {library}: build it with `cargo build --release`, name it with \
             --commensal, or leave it out with --libs"
        ));
    }
}

/// Measures and prints. Whether all is well.
fn run(options: &Options) -> Result<bool> {
    let binaries = build()?;
    let report = measure(options, &binaries)?;
    if options.what != What::Musts {
        report.print_details();
    }
    report.print_gaps();
    if report.musts.is_empty() {
        println!("\nno verdict: the musts need all allocators, and all rows of what they judge");
    } else {
        report.print_musts();
    }
    if let Some(path) = &options.json {
        let file = File::create(path).with_context(|| format!("can't write {}", path.display()))?;
        serde_json::to_writer_pretty(file, &report)?;
    }
    Ok(report.failures().is_empty() && report.musts.iter().all(|must| must.met))
}

fn measure(options: &Options, binaries: &Path) -> Result<Report> {
    let what = options.what;
    let rounds = usize::from(options.rounds);
    let startup_rounds = 4 * rounds;
    // In the order of the tables, and each once, however --libs was given.
    let libraries = Allocator::ALL.iter().filter(|allocator| options.libs.contains(allocator));
    let arms: Vec<Arm> = libraries.map(|&allocator| Arm::new(allocator, &options.commensal)).collect();
    let mut startup_arms = arms.clone();
    startup_arms.push(Arm::preloading(startup::EMPTY, &binaries.join("libempty.so")));
    let mut threads_arms = arms.clone();
    threads_arms.push(Arm::preloading(threads::FLOOR, &binaries.join("libfloor.so")));
    let scratch = tempfile::tempdir()?;
    let suite =
        what.includes(What::Programs).then(|| Suite::prepare(options.only.as_deref(), binaries, scratch.path()));

    let progress = Progress::new(
        part(what, What::Startup, || startup::expected_ms(startup_arms.len(), startup_rounds))
            + part(what, What::Micro, || micro::expected_ms(arms.len(), rounds))
            + part(what, What::Threads, || threads::expected_ms(threads_arms.len(), rounds))
            + suite.as_ref().map_or(0, |suite| suite.expected_ms(arms.len(), rounds)),
    );
    let mut report = Report { rounds, all_programs: options.only.is_none(), ..Report::default() };
    if what.includes(What::Startup) {
        report.startup = Some(startup::measure(&startup_arms, startup_rounds, &progress)?);
    }
    if what.includes(What::Micro) {
        report.micro = Some(micro::measure(&arms, rounds, binaries, &progress));
    }
    if what.includes(What::Threads) {
        report.threads = Some(threads::measure(&threads_arms, rounds, binaries, &progress));
    }
    report.programs = suite.map(|suite| suite.measure(&arms, rounds, &progress));
    progress.finish();
    report.arms = arms;
    // A must is a comparison: with an arm left out, some would be easier to meet.
    if report.arms.len() == Allocator::ALL.len() {
        report.musts = musts::judge(&report);
    }
    Ok(report)
}

/// Milliseconds of a part, if it is asked for.
fn part(what: What, part: What, expected_ms: impl Fn() -> u64) -> u64 {
    if what.includes(part) { expected_ms() } else { 0 }
}

/// Builds what is run: the programs, the empty library and the floor. Returns the folder they are in.
fn build() -> Result<PathBuf> {
    let status = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["build", "--quiet", "--release", "-p", "programs", "-p", "empty", "-p", "floor", "--manifest-path"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .status()
        .context("cargo didn't start")?;
    ensure!(status.success(), "the programs didn't build");
    let this = env::current_exe()?;
    let target = this.ancestors().nth(2).context("this program isn't in Cargo's target folder")?;
    Ok(target.join("release"))
}

fn default_library() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target/release/libcommensal.so")
}
