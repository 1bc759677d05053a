//! The same jobs with and without the library: is what they print identical, and how long do they take?
//!
//! A job is a shell script that names one program above all. It runs in a fresh directory of the same name each time, since
//! programs print where they are.

use std::fs;

use commensal_lab::analysis::Analysis;
use commensal_lab::arm::{Arm, COMMENSAL};
use commensal_lab::blocks::{self, Budget, Length, Plan, Subject};
use commensal_lab::process::Program;
use commensal_lab::table;

use super::{Tour, trouble};
use crate::failure::Failure;
use crate::program;

/// What runs with and without the library.
struct Job {
    program: &'static str,
    what: &'static str,
    script: &'static str,
}

const JOBS: [Job; 4] = [
    Job { program: "sh", what: "strings, functions, pipes", script: include_str!("jobs/sh.sh") },
    Job { program: "git", what: "6 commits, log, gc, fsck, clone", script: include_str!("jobs/git.sh") },
    Job { program: "gcc", what: "compile 150 functions, run them", script: include_str!("jobs/gcc.sh") },
    Job { program: "python3", what: "JSON, sorting, 4 threads", script: include_str!("jobs/python3.sh") },
];

/// On a slow machine there may be too few blocks to show a difference, but the tour stays below 90 seconds.
const BUDGET: Budget = Budget { seconds: &[(38.0, 12)], least: 2 };

/// Runs all jobs and prints the table; says whether every program that ran did the same.
pub fn report(tour: &Tour) -> Result<bool, Failure> {
    say!("Programs of this machine with and without the library");
    for job in &JOBS {
        let absent = if is_there(job) { "" } else { " (not installed)" };
        say!("    {:8} {}{absent}", job.program, job.what);
    }
    let work = tour.scratch.path().join("work");
    let subjects = JOBS.iter().filter(|job| is_there(job)).map(|job| {
        let program = Program::new("/bin/sh", ["sh", "-eu", "-c", job.script]);
        let mut program = Program { directory: Some(work.clone()), ..program };
        program.environment.insert("LC_ALL".into(), "C".into());
        Subject::of_program(job.program, program)
    });
    let arms = [Arm::glibc(), Arm::commensal(COMMENSAL, &tour.library.path, None)];
    fs::create_dir(&work).map_err(|error| trouble("make a directory", &error))?;
    let empty = format!("rm -rf '{0}' && mkdir '{0}'", work.display());
    let plan = Plan { prepare: Some(empty), ..Plan::of(Length::Fitting(BUDGET), tour.seed) };
    let measured = blocks::measure(subjects.collect(), &arms, plan, &tour.interrupt).map_err(Failure::of)?;
    tour.check()?;
    let analysis = Analysis::of(measured);
    let is_same = !analysis.has_fault();
    say!("    all print the same: {}\n", if is_same { "yes" } else { "NO" });
    for sheet in table::of_all(&analysis) {
        say!("{sheet}");
    }
    say!("{}{}", table::LEGEND, table::notes(&analysis));
    Ok(is_same)
}

fn is_there(job: &Job) -> bool {
    program::resolve(job.program.as_ref()).is_ok()
}
