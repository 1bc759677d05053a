//! `commensal lab hackbench`: messages between tasks, with hackbench's usual options and its output.
//!
//! It is a bundled program that is measured, so it runs before the rest of the command line is parsed.

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use programs::hackbench::{Contexts, Hackbench, MOST_BYTES};

use crate::failure::Failure;

/// The words that start it.
pub const WORDS: [&str; 2] = ["lab", "hackbench"];

/// Measure messages between groups of tasks, with hackbench's options and output
///
/// In each group, every sender writes to every receiver. The time is measured from the moment when all tasks are ready
/// until all have ended. Under Commensal, contexts come from an object cache named "context", otherwise from malloc.
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

    /// The same as GROUPS
    #[arg(short, long = "groups", value_name = "N", conflicts_with = "groups", value_parser = number())]
    group_option: Option<u32>,

    /// The same as LOOPS
    #[arg(short, long = "loops", value_name = "N", conflicts_with = "loops", value_parser = number())]
    loop_option: Option<u32>,

    /// Number of senders in a group, and of receivers
    #[arg(short, long, value_name = "N", default_value_t = 20, value_parser = number())]
    fds: u32,

    /// Size of a message in bytes
    #[arg(short = 's', long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=MOST_BYTES as i64))]
    datasize: u32,

    /// The same as "thread"
    #[arg(short = 'T', long, conflicts_with_all = ["mode", "process"])]
    threads: bool,

    /// The same as "process"
    #[arg(short = 'P', long, conflicts_with = "mode")]
    process: bool,

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

fn number() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=1_000_000)
}

/// Runs it with these arguments, and prints what hackbench prints.
pub fn main(words: impl Iterator<Item = String>) -> Result<ExitCode, Failure> {
    let options = match parse(words) {
        Ok(options) => options,
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => return Err(Failure::usage(crate::usage::line(&error))),
    };
    let bench = bench(&options);
    // Flushed before tasks are created, because they would inherit what is in the buffer.
    println!("Running with {}*{} (== {}) tasks.", bench.groups, 2 * bench.pairs, bench.tasks());
    let time = bench.run().map_err(|why| Failure::ours(format!("hackbench: {why}")))?;
    println!("Time: {:.3}", time.as_secs_f64());
    Ok(ExitCode::SUCCESS)
}

fn parse(words: impl Iterator<Item = String>) -> Result<Options, clap::Error> {
    // hackbench takes its first option with one dash.
    let words = words.map(|word| if word == "-pipe" { "--pipe".to_owned() } else { word });
    Options::try_parse_from([WORDS[1].to_owned()].into_iter().chain(words))
}

/// Whether it understands these words.
#[cfg(test)]
pub fn check(words: impl Iterator<Item = String>) -> Result<(), clap::Error> {
    parse(words).map(|_| ())
}

fn bench(options: &Options) -> Hackbench {
    Hackbench {
        pipes: options.pipe,
        threads: options.threads || options.mode == Mode::Thread,
        groups: options.group_option.unwrap_or(options.groups) as usize,
        pairs: options.fds as usize,
        loops: options.loop_option.unwrap_or(options.loops) as usize,
        bytes: options.datasize as usize,
        contexts: if options.context == Context::Task { Contexts::Tasks } else { Contexts::Messages },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parsed(words: &str) -> Hackbench {
        bench(&Options::try_parse_from(["hackbench"].into_iter().chain(words.split_whitespace())).unwrap())
    }

    #[test]
    fn both_styles_of_options_say_the_same() {
        Options::command().debug_assert();
        let old = parsed("--pipe 20 process 40");
        assert_eq!((old.groups, old.loops, old.tasks(), old.bytes), (20, 40, 800, 100));
        assert!(old.pipes && !old.threads && old.contexts == Contexts::Tasks);
        let new = parsed("-p -g 20 -l 40 -P");
        assert_eq!(format!("{old:?}"), format!("{new:?}"));
        let threads = [parsed("5 thread"), parsed("-T -g 5")];
        assert!(threads.iter().all(|bench| bench.threads && !bench.pipes && bench.groups == 5 && bench.loops == 100));
        assert!(Options::try_parse_from(["hackbench", "0"]).is_err());
        assert!(Options::try_parse_from(["hackbench", "-T", "-P"]).is_err());
    }
}
