//! The same jobs with and without the library: is what they print identical, and how long do they take?
//!
//! A job is a shell script that names one program above all. With and without take turns and change places after each
//! pair, so that a machine that slows down meanwhile slows both.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use comfy_table::{Table, presets};

use super::spread::Spread;
use super::{Tour, trial, trouble};
use crate::failure::Failure;
use crate::{preload, program};

/// What runs with and without the library.
struct Job {
    program: &'static str,
    what: &'static str,
    script: &'static str,
}

const JOBS: [Job; 4] = [
    Job { program: "sh", what: "strings, functions, pipes", script: include_str!("jobs/sh.sh") },
    Job { program: "git", what: "15 commits, log, gc, fsck, clone", script: include_str!("jobs/git.sh") },
    Job { program: "gcc", what: "compile 300 functions, run them", script: include_str!("jobs/gcc.sh") },
    Job { program: "python3", what: "JSON, sorting, 4 threads", script: include_str!("jobs/python3.sh") },
];

const PAIRS: u64 = 5;
/// On a slow machine a job makes fewer pairs, so that the tour stays below 90 seconds.
const TIME_PER_JOB: Duration = Duration::from_secs(10);

/// How far the progress bar advances here.
pub const STEPS: u64 = JOBS.len() as u64 * PAIRS;

enum Outcome {
    Absent,
    /// It fails without the library, too.
    Broken,
    Different {
        pair: usize,
        without: PathBuf,
        with: PathBuf,
    },
    Same {
        ratios: Vec<f64>,
    },
}

/// Runs all jobs and prints the table; says whether every program that ran behaved the same.
pub fn report(tour: &Tour) -> Result<bool, Failure> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["program", "job", "output", "time, with / without"]);
    let mut differences = Vec::new();
    for (index, job) in JOBS.iter().enumerate() {
        tour.progress.set_message(job.program);
        let outcome = compare(tour, job)?;
        tour.progress.set_position((index as u64 + 1) * PAIRS);
        let (output, time) = cells(&outcome);
        table.add_row([job.program, job.what, &output, &time]);
        if let Outcome::Different { without, with, .. } = outcome {
            differences.push(format!("{}: diff {} {}", job.program, without.display(), with.display()));
        }
    }
    tour.progress.suspend(|| print(&table, &differences));
    Ok(differences.is_empty())
}

fn print(table: &Table, differences: &[String]) {
    println!("Programs of this machine with and without the library\n{table}");
    println!("Time: median of the pairs (their middle half); rough, a machine at rest gives better ones.\n");
    for difference in differences {
        println!("DIFFERENT under the library, both outputs kept: {difference}\n");
    }
}

fn cells(outcome: &Outcome) -> (String, String) {
    let none = || "–".to_owned();
    match outcome {
        Outcome::Absent => ("not installed".to_owned(), none()),
        Outcome::Broken => ("fails without it, too".to_owned(), none()),
        Outcome::Different { pair, .. } => (format!("DIFFERENT in pair {pair}"), none()),
        Outcome::Same { ratios } => {
            let time = format!("{}, {} pairs", Spread::of(ratios.clone()), ratios.len());
            ("identical".to_owned(), time)
        }
    }
}

fn compare(tour: &Tour, job: &Job) -> Result<Outcome, Failure> {
    if program::resolve(job.program.as_ref()).is_err() {
        return Ok(Outcome::Absent);
    }
    let place = Place::new(tour, job)?;
    let start = Instant::now();
    let mut ratios = Vec::new();
    for pair in 1..=PAIRS as usize {
        let with_first = pair % 2 == 0;
        let first = place.run(with_first)?;
        let second = place.run(!with_first)?;
        let (without, with) = if with_first { (second, first) } else { (first, second) };
        if !ended_well(&place.record(false)) {
            return Ok(Outcome::Broken);
        }
        if !same_contents(&place.record(false), &place.record(true)) {
            return Ok(Outcome::Different { pair, without: place.record(false), with: place.record(true) });
        }
        ratios.push(with.as_secs_f64() / without.as_secs_f64());
        tour.progress.inc(1);
        if start.elapsed() > TIME_PER_JOB {
            break;
        }
    }
    Ok(Outcome::Same { ratios })
}

/// The last line of a record says how the job ended.
fn ended_well(record: &Path) -> bool {
    fs::read(record).is_ok_and(|record| record.ends_with(b"[exit status: 0]\n"))
}

fn same_contents(one: &Path, other: &Path) -> bool {
    matches!((fs::read(one), fs::read(other)), (Ok(one), Ok(other)) if one == other)
}

/// Where a job runs: both times in a fresh directory of the same name, since programs print where they are.
struct Place<'a> {
    tour: &'a Tour,
    job: &'a Job,
    folder: PathBuf,
}

impl<'a> Place<'a> {
    fn new(tour: &'a Tour, job: &'a Job) -> Result<Self, Failure> {
        let folder = tour.scratch.path().join(job.program);
        fs::create_dir(&folder).map_err(|error| trouble("make a directory", &error))?;
        Ok(Self { tour, job, folder })
    }

    fn record(&self, with: bool) -> PathBuf {
        self.folder.join(if with { "with" } else { "without" })
    }

    fn run(&self, with: bool) -> Result<Duration, Failure> {
        let work = self.folder.join("work");
        let prepared = match fs::remove_dir_all(&work) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => fs::create_dir(&work),
        };
        prepared.map_err(|error| trouble("empty a directory", &error))?;
        let mut command = Command::new("sh");
        command.args(["-eu", "-c", self.job.script]).current_dir(&work).env("LC_ALL", "C");
        let library = with.then_some(self.tour.library.path.as_path());
        preload::apply_alone(&mut command, library);
        let took = trial::run(&mut command, &self.record(with), &self.tour.interrupt)
            .map_err(|error| trouble("run sh", &error))?;
        self.tour.interrupt.check().map(|()| took)
    }
}
