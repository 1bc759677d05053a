//! The gate: reads `targets.toml` and measures its rows side by side with the peers. It prints *now, must, goal* of each
//! row, and says whether all musts are met.
//!
//! `targets` is the table, and `peers` finds and builds the allocators. `measure` measures rows by the lab's blocks and
//! statistics, `gate` judges them, and `probe` has programs that run in a process of their own.
//!
//! Exit status: 0, 1 if a must is missed, a row has no figure or a peer is absent, 2 for bad usage.

mod gate;
mod measure;
mod peers;
mod probe;
mod targets;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::{CommandFactory, Parser, error::ErrorKind};
use lab::arm::{Arm, COMMENSAL};
use lab::experiment::{EMPTY, EMPTY_LIBRARY};
use lab::machine::Machine;
use lab::process::Interrupt;

use gate::{Judged, Outcome};
use measure::Bench;
use targets::Targets;

/// Measures the rows of targets.toml and says which musts are met
#[derive(Parser)]
struct Options {
    /// `targets`, or a word as --only has it
    #[arg(default_value = TARGETS)]
    what: String,
    /// Only the rows of this part
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=8))]
    part: Option<u8>,
    /// Only rows with this in their names; may be repeated
    #[arg(long, value_name = "WORD")]
    only: Vec<String>,
    /// Few blocks, and no rows that take minutes
    #[arg(long)]
    quick: bool,
    /// So many blocks, however long they take
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    blocks: Option<u16>,
    /// Print a table in Markdown
    #[arg(long)]
    markdown: bool,
    /// Write the figures of all allocators to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const TARGETS: &str = "targets";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let outcome = if words.first().is_some_and(|word| word == probe::WORD) {
        let words: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        probe::run(&words).map(|()| true)
    } else {
        run(Options::parse())
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

/// Measures and prints. Whether the gate opens.
fn run(options: Options) -> Result<bool> {
    let root = root();
    let complain = |error: anyhow::Error| -> ! {
        Options::command().error(ErrorKind::ValueValidation, format!("{error:#}")).exit()
    };
    let file = root.join("targets.toml");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut targets = Targets::parse(&text, &Machine::host().model).unwrap_or_else(|error| complain(error));
    let mut only = options.only;
    only.extend(Some(options.what).filter(|word| word != TARGETS));
    targets.choose(options.part, &only).unwrap_or_else(|error| complain(error));
    build(&root)?;
    let interrupt = Interrupt::register()?;
    let scratch = tempfile::tempdir()?;
    let (peers, absent) = peers::find(&root, &targets.peers);
    let allocators = allocators(&root, scratch.path(), peers)?;
    let (command, own, done) = (built(&root, "commensal"), env::current_exe()?, BTreeMap::new());
    let (quick, blocks) = (options.quick, options.blocks);
    let mut bench =
        Bench { root, command, own, allocators, quick, blocks, interrupt: interrupt.clone(), scratch, done };
    let mut judged: Vec<Judged> = Vec::new();
    let start = Instant::now();
    for (at, row) in targets.rows.iter().enumerate().take_while(|_| !interrupt.seen()) {
        eprintln!("[{}/{}] {}{}", at + 1, targets.rows.len(), row.name, left(start, at, targets.rows.len()));
        let outcome = match row.long && quick {
            true => Outcome::NotRun,
            false => bench.figure(row).map_or_else(Outcome::Unmeasured, Outcome::Found),
        };
        judged.push(Judged { row, outcome });
    }
    interrupt.obey();
    println!("{}", if options.markdown { gate::markdown(&judged) } else { gate::sheet(&judged).to_string() });
    if let Some(file) = options.json {
        let json = gate::json(&judged, &Machine::host().to_string());
        fs::write(&file, json).with_context(|| format!("cannot write {}", file.display()))?;
    }
    eprintln!("{}", gate::sum(&judged, &absent));
    Ok(gate::passes(&judged, &absent))
}

/// How long the rest takes if it goes on like this.
fn left(start: Instant, done: usize, all: usize) -> String {
    let seconds = start.elapsed().as_secs_f64();
    match done {
        0 => String::new(),
        _ => format!(", about {:.0} min left", (seconds / done as f64 * (all - done) as f64 / 60.0).ceil()),
    }
}

fn build(root: &Path) -> Result<()> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(["build", "--release", "--quiet"]).current_dir(root).status();
    ensure!(status.context("cargo cannot be started")?.success(), "`cargo build --release` failed");
    Ok(())
}

/// glibc is what programs use when nothing is preloaded: the baseline, not a peer. An empty library shows what preloading costs.
fn allocators(root: &Path, scratch: &Path, peers: Vec<Arm>) -> Result<Vec<Arm>> {
    let empty = scratch.join("libempty.so");
    fs::write(&empty, EMPTY_LIBRARY)?;
    let ours = Arm::commensal(COMMENSAL, built(root, "libcommensal.so"), None);
    Ok([Arm::glibc(), ours, Arm::preloading(EMPTY, empty)].into_iter().chain(peers).collect())
}

fn built(root: &Path, file: &str) -> PathBuf {
    root.join("target/release").join(file)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("bench/ lies in the workspace").to_owned()
}
