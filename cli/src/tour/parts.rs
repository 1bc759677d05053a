//! The parts of the tour: what each measures, why one should care, and how long it may take.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use lab::analysis::Analysis;
use lab::arm::Arm;
use lab::blocks::{Budget, Length, Measured, Plan, Row, Subject};
use lab::experiment::{EMPTY, EMPTY_LIBRARY};
use lab::finding::Finding;
use lab::machine;
use lab::metric::{self, Metric};
use lab::parameters::Parameters;
use lab::process::{End, Program, Run, Starter};
use lab::suite;

use super::Tour;
use crate::failure::Failure;
use crate::places;

/// One part, which has a table.
pub struct Part {
    pub title: &'static str,
    /// What is measured, and why one should care.
    pub about: &'static str,
    pub measure: fn(&Tour) -> Result<Analysis, Failure>,
}

/// All parts, in their order: less than a minute together, unless the machine is busy. With fewer blocks than the least
/// ones, no difference could be shown.
pub const PARTS: [Part; 6] = [
    Part {
        title: "Idle threads",
        about: "\
64 threads, one after the other, each allocate and free 2 MB, then sleep, as the workers of a pool do. An allocator
that caches for each thread keeps memory for all of them. This is the most memory that the process had.",
        measure: idle_threads,
    },
    Part {
        title: "After a peak",
        about: "\
Two threads allocate 16 MiB together, free all but one block in 64, and sleep. This is the memory that the process
still has 5 s later, and that other processes cannot have.",
        measure: after_peak,
    },
    Part {
        title: "Hand-over and growth",
        about: "\
One thread allocates blocks and another frees them, as in a pipeline. In the other program, buffers grow by realloc to
1 MiB, as when a file of unknown length is read.",
        measure: handover_and_growth,
    },
    Part {
        title: "malloc and free",
        about: "\
One malloc and one free of 64 bytes, with 64 such blocks alive: first one thread, then two at once. Programs that
allocate much spend their time here.",
        measure: pair,
    },
    Part {
        title: "Start-up",
        about: "\
/bin/true does nothing, on one CPU: scripts start thousands of programs as short as this one. The empty library shows
what any preloaded library costs.",
        measure: startup,
    },
    Part {
        title: "Real programs",
        about: "\
sh, git and python3 do the same work with and without the library. They must print the same.",
        measure: programs,
    },
];

const TIME: Metric = Metric { title: "time", ..metric::WALL };
const PEAK: Metric = Metric { title: "peak memory", ..metric::PEAK };

/// A program of this command, and what is read off it.
fn bundled(name: &str, words: &[&str]) -> Result<Subject, Failure> {
    let words = ["commensal", "workload"].iter().chain(words);
    Ok(time_and_peak(Subject::of_program(name, Program::new(places::own()?, words))))
}

fn time_and_peak(subject: Subject) -> Subject {
    let read = |run: &Run, _: &str| Some(vec![run.cost.wall_s, run.cost.peak_kb]);
    Subject { metrics: vec![TIME, PEAK], read, ..subject }
}

fn idle_threads(tour: &Tour) -> Result<Analysis, Failure> {
    let read = |run: &Run, _: &str| Some(vec![run.cost.peak_kb]);
    let threads = Subject { metrics: vec![PEAK], read, ..bundled("64 threads", &["idle-threads", "4"])? };
    tour.measure(vec![threads], &tour.arms, Budget { seconds: &[(4.0, 12)], least: 8 }, None)
}

const PEAK_BLOCKS: usize = 8;
/// For a program that sleeps for 5 s beside some fifty others.
const PEAK_LIMIT: Duration = Duration::from_secs(120);
const AFTER_ANOTHER: Duration = Duration::from_millis(150);

/// One run begins after the other, so that each has a CPU for its peak; then all sleep at the same time.
fn after_peak(tour: &Tour) -> Result<Analysis, Failure> {
    let (start, subject) = (Instant::now(), bundled("5 s later", &["peak", "16", "5"])?);
    let (baseline, others) = tour.arms.split_first().ok_or_else(|| Failure::ours("there is nothing to measure"))?;
    let arms: Vec<Arm> = [baseline.clone(), baseline.again()].into_iter().chain(others.iter().cloned()).collect();
    let run = |at: usize, arm: &Arm| -> Result<Option<f64>> {
        thread::sleep(AFTER_ANOTHER * at as u32);
        let mut program = subject.program.clone();
        arm.apply(&mut program, None);
        let mut starter = Starter::new(None, tour.interrupt.clone())?;
        let run = starter.run(&program, PEAK_LIMIT)?.filter(|run| run.end == End::Exited(0));
        let printed = starter.text()?;
        Ok(run.and_then(|_| printed.split_whitespace().nth(1)?.parse().ok()))
    };
    // Each block begins with another arm.
    let count = arms.len();
    let order = (0..PEAK_BLOCKS).flat_map(move |block| (0..count).map(move |at| (block + at) % count));
    let ran: Result<Vec<(usize, Option<f64>)>> = thread::scope(|scope| {
        let (run, arms) = (&run, &arms);
        let spawn = |(at, arm): (usize, usize)| (arm, scope.spawn(move || run(at, &arms[arm])));
        let running: Vec<_> = order.enumerate().map(spawn).collect();
        running.into_iter().map(|(arm, run)| Ok((arm, run.join().expect("it does not panic")?))).collect()
    });
    let ran = ran.map_err(Failure::of)?;
    let of = |arm| ran.iter().filter(move |(of, _)| *of == arm).map(|(_, kb)| kb.map(|kb| vec![kb]));
    let samples: Vec<Option<Vec<_>>> = (0..arms.len()).map(|arm| of(arm).collect()).collect();
    let silent = arms.iter().zip(&samples).filter(|(_, samples)| samples.is_none()).map(|(arm, _)| Finding {
        row: subject.name(),
        arm: arm.name.clone(),
        what: "did not print its figures".to_owned(),
        detail: String::new(),
        is_fault: true,
    });
    let findings = silent.collect();
    let resident = Metric { name: "resident_kb", title: "resident memory", ..metric::PEAK };
    let row = Row { parameters: Parameters::of_workload(&subject.name()), metrics: vec![resident], samples, findings };
    let plan = Plan::of(Length::Blocks(PEAK_BLOCKS), tour.seed);
    let (interrupted, elapsed) = (tour.interrupt.seen(), start.elapsed());
    Ok(Analysis::of(Measured { arms, rows: vec![row], blocks: PEAK_BLOCKS, interrupted, elapsed, plan }))
}

fn handover_and_growth(tour: &Tour) -> Result<Analysis, Failure> {
    let subjects =
        vec![bundled("hand-over", &["producer-consumer", "10"])?, bundled("growing realloc", &["realloc", "10"])?];
    tour.measure(subjects, &tour.arms, Budget { seconds: &[(8.0, 20)], least: 8 }, None)
}

/// Blocks alive at a time.
const DEPTH: &str = "64";
/// It is printed with three decimals.
const PAIR: Metric =
    Metric { name: "pair_ns", unit: "ns", title: "malloc + free", words: ["faster", "slower"], resolution: 0.001 };

fn pair(tour: &Tour) -> Result<Analysis, Failure> {
    let subject = |(name, setting): (&str, &str)| {
        let program = bundled(name, &["pair", setting, "1", DEPTH])?;
        Ok(Subject { metrics: vec![PAIR], read: read_pair, prints_the_same: false, ..program })
    };
    let subjects: Result<Vec<_>, Failure> =
        [("one thread", "solo"), ("two threads", "both")].map(subject).into_iter().collect();
    tour.measure(subjects?, &tour.arms, Budget { seconds: &[(5.0, 20)], least: 8 }, None)
}

/// Lines of a depth, the best round and the median one, in nanoseconds.
fn read_pair(_: &Run, printed: &str) -> Option<Vec<f64>> {
    let line = printed.lines().find(|line| line.split(' ').next() == Some(DEPTH))?;
    Some(vec![line.split(' ').nth(1)?.parse().ok()?])
}

fn startup(tour: &Tour) -> Result<Analysis, Failure> {
    let path = tour.scratch.path().join("libempty.so");
    std::fs::write(&path, EMPTY_LIBRARY)
        .map_err(|error| Failure::ours(format!("cannot write {} ({error})", path.display())))?;
    let mut arms = tour.arms.clone();
    arms.insert(1, Arm::preloading(EMPTY, path));
    // One start is shorter than what disturbs it.
    let mut program = Program { times: 20, ..Program::new("/bin/true", ["true"]) };
    program.environment.clear();
    let subject = time_and_peak(Subject::of_program("/bin/true", program));
    tour.measure(vec![subject], &arms, Budget { seconds: &[(4.0, 40)], least: 8 }, machine::quiet_cpu())
}

fn programs(tour: &Tour) -> Result<Analysis, Failure> {
    let found = suite::programs_named(tour.scratch.path(), &["sh", "git", "python3"]).map_err(Failure::of)?;
    tour.check()?;
    found.missing.iter().try_for_each(|missing| places::say(&format!("not measured: {missing}")))?;
    let arms: Vec<Arm> = tour.arms.iter().filter(|arm| !arm.is_peer).cloned().collect();
    let subjects = found.subjects.into_iter().map(time_and_peak).collect();
    tour.measure(subjects, &arms, Budget { seconds: &[(12.0, 14)], least: 6 }, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tour_reads_the_best_round_at_the_depth() {
        let run =
            Run { end: End::Exited(0), cost: lab::process::Cost::default(), counted: Vec::new(), left_running: false };
        assert_eq!(read_pair(&run, "1 6.000 6.500\n64 4.970 5.100\n1000 7.0 8.0\n"), Some(vec![4.97]));
        assert_eq!(read_pair(&run, "nothing"), None);
    }
}
