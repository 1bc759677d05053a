//! `commensal lab hackbench`: messages between tasks, started as in the document, with hackbench's output.
//!
//! It is a bundled program that is measured, so it runs before the rest of the command line is parsed.

use std::process::ExitCode;

use clap::builder::RangedI64ValueParser;
use clap::{Parser, ValueEnum};
use programs::hackbench::{Contexts, Hackbench};

use crate::failure::Failure;
use crate::places;

/// The words that start it.
pub const WORDS: [&str; 2] = ["lab", "hackbench"];

/// As hackbench has them if it is not told otherwise.
const PAIRS: usize = 20;
const MESSAGE_BYTES: usize = 100;

/// Measure messages between groups of tasks, with hackbench's output
///
/// In each group, 20 senders write 100 bytes at a time to each of 20 receivers. The time is measured from the moment when
/// all tasks are ready until all have ended. Under Commensal, contexts come from an object cache named "context", otherwise
/// from malloc.
#[derive(Parser)]
#[command(
    name = "commensal lab hackbench",
    override_usage = "commensal lab hackbench [-pipe] [GROUPS] [process|thread] [LOOPS] [OPTIONS]"
)]
struct Options {
    /// Number of groups of 40 tasks
    #[arg(value_name = "GROUPS", default_value_t = 10, value_parser = number())]
    groups: u32,

    /// Whether a task is a process or a thread
    #[arg(value_name = "MODE", default_value = "process")]
    mode: Mode,

    /// Messages from each sender to each receiver
    #[arg(value_name = "LOOPS", default_value_t = 100, value_parser = number())]
    loops: u32,

    /// Use pipes instead of sockets; also -pipe
    #[arg(short, long)]
    pipe: bool,

    /// Allocate a context for each task, as the kernel does, or for each message
    #[arg(long, value_name = "OF", default_value = "task")]
    context: Context,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    Process,
    Thread,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Context {
    Task,
    Message,
}

fn number() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=1_000_000)
}

/// Runs it with these arguments, and prints what hackbench prints.
pub fn main(words: impl Iterator<Item = String>) -> Result<ExitCode, Failure> {
    // hackbench takes its first option with one dash.
    let words = words.map(|word| if word == "-pipe" { "--pipe".to_owned() } else { word });
    let options = match Options::try_parse_from([WORDS[1].to_owned()].into_iter().chain(words)) {
        Ok(options) => options,
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => return Err(Failure::usage(crate::usage::line(&error))),
    };
    let bench = Hackbench {
        pipes: options.pipe,
        threads: options.mode == Mode::Thread,
        groups: options.groups as usize,
        pairs: PAIRS,
        loops: options.loops as usize,
        bytes: MESSAGE_BYTES,
        contexts: if options.context == Context::Task { Contexts::Tasks } else { Contexts::Messages },
    };
    // Flushed before tasks are created, because they would inherit what is in the buffer.
    places::say(&format!("Running with {}*{} (== {}) tasks.", bench.groups, 2 * bench.pairs, bench.tasks()))?;
    let time = bench.run().map_err(|why| Failure::ours(format!("hackbench: {why}")))?;
    places::say(&format!("Time: {:.3}", time.as_secs_f64()))?;
    Ok(ExitCode::SUCCESS)
}
