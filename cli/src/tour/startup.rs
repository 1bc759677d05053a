//! What the library costs a program that does nothing: starting `true` on one CPU, with and without.
//!
//! The arms take turns in short blocks, and a block's ratio is that of its medians: what disturbs the machine for longer than
//! a block disturbs all arms. If a C compiler is there, an empty library is one of the arms, since it is the floor under
//! any preloaded library: the loader's own work.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use super::spread::Spread;
use super::{Tour, trouble};
use crate::failure::Failure;
use crate::{preload, program};

const BLOCKS: u64 = 40;
const STARTS_PER_BLOCK: usize = 15;

/// How far the progress bar advances here.
pub const STEPS: u64 = BLOCKS;

/// Measures and prints the start-up ratios.
pub fn report(tour: &Tour) -> Result<(), Failure> {
    tour.progress.set_message("start-up");
    let Ok(program) = program::resolve(OsStr::new("true")) else {
        tour.progress.suspend(|| println!("Start-up: not measured, there is no program true.\n"));
        return Ok(());
    };
    let mut arms = Vec::new();
    if let Some(library) = empty_library(tour.scratch.path()) {
        arms.push(("an empty library", library));
    }
    arms.push(("this library", tour.library.path.clone()));
    let libraries: Vec<&Path> = arms.iter().map(|(_, library)| library.as_path()).collect();
    let (bare, ratios) = pinned(|| measure(tour, &program, &libraries))?;
    tour.progress.suspend(|| {
        println!(
            "Start-up of {} on one CPU, {BLOCKS} blocks of {STARTS_PER_BLOCK} starts each in turn",
            program.display()
        );
        println!("    {:18} {:.3} ms ({:.3} to {:.3})", "without a library", bare.median, bare.low, bare.high);
        for ((name, _), ratio) in arms.iter().zip(ratios) {
            println!("    {:18} {ratio} times that", format!("with {name}").trim_start_matches("with "));
        }
        println!();
    });
    Ok(())
}

/// The times without a library in milliseconds, and each library's ratio to them.
fn measure(tour: &Tour, program: &Path, libraries: &[&Path]) -> Result<(Spread, Vec<Spread>), Failure> {
    let mut bare = Vec::new();
    let mut ratios = vec![Vec::new(); libraries.len()];
    for _ in 0..BLOCKS {
        let without = block(program, None)?;
        bare.push(without);
        for (library, ratios) in libraries.iter().zip(&mut ratios) {
            ratios.push(block(program, Some(library))? / without);
        }
        tour.progress.inc(1);
        tour.interrupt.check()?;
    }
    Ok((Spread::of(bare), ratios.into_iter().map(Spread::of).collect()))
}

/// The median time in milliseconds from before the fork until the exit was seen.
fn block(program: &Path, library: Option<&Path>) -> Result<f64, Failure> {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    preload::apply_alone(&mut command, library);
    let mut times = Vec::with_capacity(STARTS_PER_BLOCK);
    for _ in 0..STARTS_PER_BLOCK {
        let start = Instant::now();
        command.status().map_err(|error| trouble("start true", &error))?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Spread::of(times).median)
}

/// Runs `work` and the programs that it starts on the CPU where this thread is now.
fn pinned<T>(work: impl FnOnce() -> T) -> T {
    let allowed = sched_getaffinity(None);
    let mut one = CpuSet::new();
    one.set(sched_getcpu());
    // Where pinning is refused the figures spread more, and the printed spread says so.
    let _ = sched_setaffinity(None, &one);
    let result = work();
    if let Ok(allowed) = allowed {
        let _ = sched_setaffinity(None, &allowed);
    }
    result
}

/// A library without contents, if there is a compiler that makes one.
fn empty_library(folder: &Path) -> Option<PathBuf> {
    let library = folder.join("empty.so");
    let status = Command::new("gcc")
        .args(["-shared", "-x", "c", "/dev/null", "-o"])
        .arg(&library)
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success()).then_some(library)
}
