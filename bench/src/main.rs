//! Measures Commensal's malloc and caches side by side with the newest versions of its peers, its counters with plain and atomic words and with
//! those of registries, and how groups make caches, what accounting costs its locks, and what giving memory back costs a server, and judges the musts.
//!
//! How is the lab's matter: blocks of shuffled order, and what may be said of them. Here is what is run (parts.rs), under which arms, and
//! which figures have to be reached (musts.rs).
//!
//! Exit status: 0, 1 if a must is missed or a program failed under some arm, 2 for bad usage.

mod locks;
mod musts;
mod parts;
mod upkeep;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};
use commensal_lab::arm::{Arm, COMMENSAL};
use commensal_lab::json;
use commensal_lab::machine::Machine;
use commensal_lab::process::Interrupt;
use commensal_lab::report::{self, Chapter, Section};
use commensal_lab::table;
use peers::Peer;

use parts::{Bench, Part};

/// Measures Commensal's malloc side by side with mimalloc, jemalloc, snmalloc and glibc.
#[derive(Parser)]
struct Options {
    /// What to measure; `musts` measures everything and prints the verdicts only.
    #[arg(value_enum, default_value = "musts")]
    what: What,
    /// How many blocks; each runs everything once under each allocator. Start-up takes ten times as many.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    blocks: u16,
    /// Measure this program only.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Commensal's library.
    #[arg(long, value_name = "FILE", default_value_os_t = built("libcommensal.so"))]
    commensal: PathBuf,
    /// Write a page with plots, and every run as JSON, into this directory.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    Musts,
    Programs,
    Micro,
    Startup,
    Threads,
    Counters,
    Caches,
    Groups,
    Rcu,
    Recorder,
    Locks,
    Upkeep,
    All,
}

impl What {
    fn includes(self, part: What) -> bool {
        self == part || matches!(self, What::Musts | What::All)
    }
}

fn main() -> ExitCode {
    let outcome = if env::args().nth(1).is_some_and(|word| word == parts::RCU_PROBE) {
        parts::probe(rcu::measure, env::args().skip(2))
    } else if env::args().nth(1).is_some_and(|word| word == parts::RECORDER_PROBE) {
        parts::probe(recorder::measure, env::args().skip(2))
    } else if env::args().nth(1).is_some_and(|word| word == locks::WORD) {
        locks::probe(env::args().nth(2))
    } else {
        let options = Options::parse();
        check(&options);
        run(&options)
    };
    match outcome {
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
    for file in [&options.commensal, &built("commensal")] {
        if !file.is_file() {
            complain(format!("there is no {}: build it with `cargo build --release`", file.display()));
        }
    }
}

/// Measures and prints. Whether all is well.
fn run(options: &Options) -> Result<bool> {
    let interrupt = Interrupt::register()?;
    let bench = Bench {
        arms: arms(&options.commensal),
        floor: build_floor()?,
        command: built("commensal"),
        blocks: options.blocks.into(),
        interrupt: interrupt.clone(),
    };
    let mut done: Vec<Part> = Vec::new();
    let all = [
        What::Startup,
        What::Micro,
        What::Threads,
        What::Counters,
        What::Caches,
        What::Groups,
        What::Rcu,
        What::Recorder,
        What::Locks,
        What::Upkeep,
        What::Programs,
    ];
    for what in all.into_iter().filter(|what| options.what.includes(*what)) {
        if !interrupt.seen() {
            let parts = match what {
                What::Startup => vec![bench.startup()?],
                What::Micro => vec![bench.micro()?],
                What::Threads => vec![bench.threads()?],
                What::Counters => bench.counters()?,
                What::Caches => bench.caches()?,
                What::Groups => bench.groups()?,
                What::Rcu => bench.rcu()?,
                What::Recorder => bench.recorder()?,
                What::Locks => vec![bench.locks()?],
                What::Upkeep => vec![bench.upkeep()?],
                _ => vec![bench.programs(options.only.as_deref())?],
            };
            parts.iter().for_each(|part| print(part, options.what != What::Musts));
            done.extend(parts);
        }
    }
    let musts = musts::judge(&done);
    println!("\n{}", musts::sheet(&musts));
    if let Some(directory) = &options.report {
        report::write(directory, &done.iter().map(chapter).collect::<Vec<_>>())?;
    }
    interrupt.obey();
    Ok(done.iter().all(|part| !part.analysis.has_fault()) && musts.iter().all(|must| must.met))
}

fn print(part: &Part, in_full: bool) {
    if in_full {
        println!("{}\n{}", part.title, table::conditions(&part.analysis));
        part.sheets().iter().for_each(|sheet| println!("{sheet}"));
    }
    part.skipped.iter().for_each(|why| println!("not run: {why}"));
    print!("{}", table::notes(&part.analysis));
}

fn chapter(part: &Part) -> Chapter<'_> {
    let object = json::object(part.name, &Machine::host(), &[(&part.analysis, json::UNDOCUMENTED)]);
    let section = Section { sheets: part.sheets(), ..Section::usual(&part.analysis) };
    Chapter {
        title: part.title.clone(),
        about: part.skipped.clone(),
        sheets: Vec::new(),
        pictures: &[],
        sections: vec![section],
        object,
    }
}

/// glibc is what programs use when nothing is preloaded: the baseline, not a peer.
fn arms(commensal: &Path) -> Vec<Arm> {
    let peer = |name: &str, peer: &Peer| Arm { is_peer: true, ..Arm::preloading(name, peer.library()) };
    vec![
        Arm::glibc(),
        Arm::commensal(COMMENSAL, commensal, None),
        peer("mimalloc", &peers::MIMALLOC),
        peer("jemalloc", &peers::JEMALLOC),
        peer(musts::SNMALLOC, &peers::SNMALLOC),
    ]
}

/// Builds the malloc that hardly works.
fn build_floor() -> Result<PathBuf> {
    let status = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["build", "--quiet", "--release", "-p", "floor", "--manifest-path"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .status()
        .context("cargo didn't start")?;
    ensure!(status.success(), "the floor didn't build");
    let this = env::current_exe()?;
    let target = this.ancestors().nth(2).context("this program isn't in Cargo's target folder")?;
    Ok(target.join("release/libfloor.so"))
}

/// What the root's `cargo build --release` makes.
fn built(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target/release").join(file)
}
