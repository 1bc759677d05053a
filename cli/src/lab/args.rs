//! What `commensal lab` is asked for.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use lab::experiment::ALL;

use crate::arms;
use crate::failure::Failure;

/// Repeat on this machine what documents report about the Linux kernel
///
/// Each experiment prints what a document says, what was measured here, and whether the two agree.
///
/// Exit status: 0; 1 if a program failed or behaved unlike the baseline.
#[derive(Args)]
pub struct Lab {
    /// An experiment, or a word for something else
    ///
    /// "list" lists the experiments, and "all" runs them in turn. "calibrate" measures the costs of this machine's operations,
    /// "validate" tests the simulated machine, and "forecast" simulates larger machines. "pack" measures all in ten minutes,
    /// and writes one file to send to the project. "servers" compares allocators on real servers.
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(names()))]
    pub name: String,

    /// Servers that "servers" measures [default: all that are installed]
    #[arg(value_name = "SERVER", value_parser = PossibleValuesParser::new(lab::servers::names()))]
    pub servers: Vec<String>,

    /// Take less than 45 seconds for each experiment, with wider intervals; with "servers", a few minutes for each server
    #[arg(long)]
    pub quick: bool,

    /// Number of blocks; each has one run of every arm [default: depends on the experiment]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub blocks: Option<u32>,

    /// Seed of the random order [default: from the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// With "servers", compare one more allocator: a shared library to preload
    #[arg(long = "with", value_name = "NAME=LIB", value_parser = arms::named)]
    pub with: Vec<(String, String)>,

    /// With "servers", compare Commensal with these settings, and no other allocator, as "compare" does
    #[arg(long = "arm", value_name = "NAME=CONF", value_parser = arms::named_settings)]
    pub arm: Vec<(String, String)>,

    /// Simulate a machine with this many CPUs; times come from a cost model
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub cpus: Option<u32>,

    /// Costs of the simulated machine: a profile of the command, or a file of "calibrate". Append +least or +most for the
    /// bounds of all costs [default: x86-N for N CPUs if there is one, else "simple"]
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,

    /// File that "calibrate" writes the profile to, or "pack" the results [default of "pack": commensal-pack-DATE.json]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Write all runs as JSON. With "-", JSON goes to standard output, and the tables to standard error
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write an HTML page with plots into this directory
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
}

pub const LIST: &str = "list";
pub const EVERY: &str = "all";
pub const CALIBRATE: &str = "calibrate";
pub const VALIDATE: &str = "validate";
pub const FORECAST: &str = "forecast";
pub const PACK: &str = "pack";
pub const SERVERS: &str = "servers";

fn names() -> impl Iterator<Item = &'static str> {
    [LIST, EVERY, CALIBRATE, VALIDATE, FORECAST, PACK, SERVERS]
        .into_iter()
        .chain(ALL.iter().map(|experiment| experiment.name))
}

impl Lab {
    /// Refuses an option that is none of these.
    pub fn has_only(&self, options: &[&str]) -> Result<(), Failure> {
        let given = [
            ("--cpus", self.cpus.is_some()),
            ("--blocks", self.blocks.is_some()),
            ("--seed", self.seed.is_some()),
            ("--report", self.report.is_some()),
            ("--out", self.out.is_some()),
            ("--json", self.json.is_some()),
            ("--quick", self.quick),
            ("--profile", self.profile.is_some()),
            ("--with", !self.with.is_empty()),
            ("--arm", !self.arm.is_empty()),
            ("SERVER", !self.servers.is_empty()),
        ];
        let wrong = given.into_iter().find(|(option, is_given)| *is_given && !options.contains(option));
        wrong.map_or(Ok(()), |(option, _)| {
            Err(Failure::usage(format!("lab {} has no option {option}; leave it out", self.name)))
        })
    }
}
