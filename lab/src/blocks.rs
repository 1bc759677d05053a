//! The order of measurement.
//!
//! A machine's speed changes from minute to minute. So in each block every program runs once under every arm, one run at a
//! time, in a new random order. The first blocks are dropped: they fill the page cache and show how long a block takes. The
//! baseline runs twice in each block. The second run is the control, and shows which differences are chance. A simulated run
//! gives the same figures each time: then no block is dropped, and the control has the baseline's figures.
//!
//! The number of blocks is fixed before the first that counts, or the run ends when the interval is narrow enough. It never ends
//! because a difference has shown.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::analysis::{BASELINE, CONTROL};
use crate::answers::Answers;
use crate::arm::{self, Arm};
use crate::finding::{Finding, Witness};
use crate::metric::{self, Metric};
use crate::parameters::Parameters;
use crate::process::{Counter, End, Interrupt, Program, Run, Starter};
use crate::progress::Progress;

/// How long the very first run may take if no limit was given.
const FIRST_LIMIT: Duration = Duration::from_secs(3600);
/// Ten times what the baseline took, and this: longer than any difference that would be worth waiting for.
const LIMIT_FACTOR: u32 = 10;
const LIMIT_AT_LEAST: Duration = Duration::from_secs(20);
/// With fewer blocks an interval is narrow by chance.
pub const LEAST_FOR_WIDTH: usize = 10;
/// The interval is looked at after so many blocks, with fewer resamples than at the end.
const WIDTH_EVERY: usize = 5;
const WIDTH_RESAMPLES: usize = 1999;
const PREPARE_POLL: Duration = Duration::from_millis(1);

/// A program to be run under every arm, and what is read off a run.
pub struct Subject {
    /// What tells it from the others.
    pub parameters: Parameters,
    /// The program; its arguments and its environment are changed to the arm's.
    pub program: Program,
    /// Settings of our library that are added to those of each arm that has some.
    pub settings: Option<String>,
    /// What is read off a run. The first is what the run's length is decided by.
    pub metrics: Vec<Metric>,
    /// Reads the figures off a run and what it printed; none if they are not there.
    pub read: fn(&Run, &str) -> Option<Vec<f64>>,
    /// Whether it has to print the same under every arm.
    pub prints_the_same: bool,
    /// Whether the measurement stops with an error if the first run, which is under the baseline, fails.
    pub must_succeed: bool,
    /// Whether it takes a seed as an argument before the arm's words: the same for all arms of a block, another one for each block.
    pub draws_lots: bool,
    /// Whether the program itself runs under no arm, and hands its arm on to what it starts.
    pub hands_on: bool,
}

impl Subject {
    /// A program of which the time and the memory count.
    pub fn of_program(name: &str, program: Program) -> Self {
        let read = |run: &Run, _: &str| Some([&metric::figures(&run.cost)[..], &run.counted].concat());
        let (parameters, metrics) = (Parameters::of_workload(name), metric::OF_A_RUN.to_vec());
        let (prints_the_same, must_succeed, draws_lots, hands_on) = (true, false, false, false);
        Self { parameters, program, settings: None, metrics, read, prints_the_same, must_succeed, draws_lots, hands_on }
    }

    /// The same, of which these counters count, too.
    pub fn counted_by(mut self, counters: &[Counter]) -> Self {
        self.metrics.extend(counters.iter().map(|counter| counter.metric));
        self.program.counters = counters.to_vec();
        self
    }

    /// What tables call it.
    pub fn name(&self) -> String {
        self.parameters.to_string()
    }
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// After this many blocks.
    Blocks(usize),
    /// After as many as fit, by what a dropped block took.
    Fitting(Budget),
    /// After so many blocks, and when each candidate's interval of the first metric is no wider than this part of its lower end.
    Width {
        /// So many blocks in any case; with few, an interval is narrow by chance.
        least: usize,
        /// The part.
        width: f64,
    },
}

/// How long a run may take, if nobody says how many blocks it has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Seconds, and how many blocks are made of them at most; the one that gives the most blocks counts.
    pub seconds: &'static [(f64, usize)],
    /// However long they take.
    pub least: usize,
}

impl Budget {
    fn blocks(&self, of_one: Duration) -> usize {
        let fit = self.seconds.iter().map(|(seconds, most)| ((seconds / of_one.as_secs_f64()) as usize).min(*most));
        fit.fold(self.least, usize::max)
    }
}

/// How it is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Blocks that do not count; none if what is run is simulated.
    pub warm_ups: usize,
    /// Those that do.
    pub length: Length,
    /// What the order of the arms, and the resampling, are drawn from.
    pub seed: u64,
    /// How long a run may take; none is ten times what the baseline took.
    pub limit: Option<Duration>,
    /// What a shell does before each run, outside of what is measured.
    pub prepare: Option<String>,
    /// What each run reads from standard input.
    pub input: Option<PathBuf>,
    /// The one CPU that everything runs on.
    pub cpu: Option<usize>,
    /// What runs said that need not be made; empty unless they are simulated.
    pub answers: Answers,
}

impl Plan {
    /// One dropped block, then so many.
    pub fn of(length: Length, seed: u64) -> Self {
        let answers = Answers::default();
        Self { warm_ups: 1, length, seed, limit: None, prepare: None, input: None, cpu: None, answers }
    }
}

/// All that was measured.
pub struct Measured {
    /// The baseline, its control, and the candidates.
    pub arms: Vec<Arm>,
    /// In the order given.
    pub rows: Vec<Row>,
    /// Whole blocks that count.
    pub blocks: usize,
    /// Whether Ctrl-C ended it early.
    pub interrupted: bool,
    /// What it took altogether.
    pub elapsed: Duration,
    /// How it was measured.
    pub plan: Plan,
}

/// One subject under every arm.
pub struct Row {
    /// What tells it from the others.
    pub parameters: Parameters,
    /// What was read off each run.
    pub metrics: Vec<Metric>,
    /// By arm, then by block: the figures in the order of the metrics. None for an arm that failed.
    pub samples: Vec<Option<Vec<Vec<f64>>>>,
    /// What the user must know.
    pub findings: Vec<Finding>,
}

impl Row {
    /// What tables call it; empty if there is but one.
    pub fn name(&self) -> String {
        self.parameters.to_string()
    }

    /// One metric's values, block by block; none if the arm failed or no block is whole.
    pub fn values(&self, arm: usize, metric: usize) -> Option<Vec<f64>> {
        let samples = self.samples[arm].as_ref().filter(|samples| !samples.is_empty())?;
        Some(samples.iter().map(|sample| sample[metric]).collect())
    }

    /// Logarithms of an arm's values over another's, block by block.
    pub fn log_ratios(&self, arm: usize, baseline: usize, metric: usize) -> Option<Vec<f64>> {
        let (candidate, baseline) = (self.values(arm, metric)?, self.values(baseline, metric)?);
        Some(statistics::log_ratios(&baseline, &candidate, self.metrics[metric].resolution))
    }
}

/// Runs each subject under each arm, of which the first is the baseline, as the plan says.
pub fn measure(subjects: Vec<Subject>, arms: &[Arm], plan: Plan, interrupt: &Interrupt) -> Result<Measured> {
    ensure!(!arms.is_empty() && !subjects.is_empty(), "nothing to measure");
    let is_new = |(at, one): (usize, &Subject)| subjects[..at].iter().all(|other| other.parameters != one.parameters);
    ensure!(subjects.iter().enumerate().all(is_new), "two rows have the same parameters");
    let start = Instant::now();
    let arms: Vec<Arm> = [arms[0].clone(), arms[0].again()].into_iter().chain(arms[1..].iter().cloned()).collect();
    let mut session = Session::new(subjects, arms, plan, interrupt)?;
    let ended = session.measure();
    session.progress.finish();
    let mut rows: Vec<Row> = session.series.iter().map(Series::row).collect();
    let interrupted = !*ended.as_ref().unwrap_or(&false);
    let blocks = session.blocks();
    match ended {
        Err(error) if blocks == 0 => return Err(error),
        // What was measured before it is not lost.
        Err(error) => {
            let finding = Finding { what: format!("{error:#}"), is_fault: true, ..Finding::default() };
            rows[0].findings.push(finding);
        }
        Ok(_) => {}
    }
    Ok(Measured { arms: session.arms, rows, blocks, interrupted, elapsed: start.elapsed(), plan: session.plan })
}

struct Session {
    arms: Vec<Arm>,
    series: Vec<Series>,
    plan: Plan,
    starter: Starter,
    interrupt: Interrupt,
    rng: Rng,
    progress: Progress,
}

/// A subject while it is measured.
struct Series {
    subject: Subject,
    witness: Witness,
    /// By arm, then by block; none once the arm failed.
    samples: Vec<Option<Vec<Vec<f64>>>>,
    slowest_baseline: Option<f64>,
}

impl Session {
    fn new(subjects: Vec<Subject>, arms: Vec<Arm>, plan: Plan, interrupt: &Interrupt) -> Result<Self> {
        let open = |path: &PathBuf| File::open(path).with_context(|| format!("cannot read {}", path.display()));
        let input = plan.input.as_ref().map(open);
        let mut starter = Starter::new(input.transpose()?, interrupt.clone())?;
        if let Some(cpu) = plan.cpu {
            starter.pin(cpu);
        }
        let names: Vec<String> = arms.iter().map(|arm| arm.name.clone()).collect();
        let witness = |of: &Subject| {
            let witness = Witness::new(&of.name(), names.clone(), of.prints_the_same);
            if of.hands_on { witness.expecting_success() } else { witness }
        };
        let series = subjects.into_iter().map(|subject| Series {
            witness: witness(&subject),
            samples: arms.iter().map(|_| Some(Vec::new())).collect(),
            slowest_baseline: None,
            subject,
        });
        let rng = Rng::with_seed(plan.seed);
        let (interrupt, progress) = (interrupt.clone(), Progress::new());
        Ok(Self { series: series.collect(), arms, plan, starter, interrupt, rng, progress })
    }

    /// Whether it came to its end.
    fn measure(&mut self) -> Result<bool> {
        let start = Instant::now();
        for warm_up in 0..self.plan.warm_ups {
            self.progress.block(format!("warm-up {}", warm_up + 1), 0, 1, self.runs());
            if !self.block(warm_up == 0)? {
                return Ok(false);
            }
        }
        let of_one = start.elapsed().checked_div(self.plan.warm_ups as u32);
        self.series.iter_mut().flat_map(|series| &mut series.samples).flatten().for_each(Vec::clear);
        let mut planned = match self.plan.length {
            Length::Blocks(blocks) => blocks,
            Length::Fitting(budget) => of_one.map_or(budget.least, |of_one| budget.blocks(of_one)),
            Length::Width { least, .. } => least,
        };
        let mut done = 0;
        while done < planned {
            self.progress.block(format!("block {} of {planned}", done + 1), done, planned, self.runs());
            if !self.block(self.is_simulated() && done == 0)? {
                return Ok(false);
            }
            done += 1;
            if let Length::Width { least, width } = self.plan.length {
                let is_looked_at = done >= least && done.is_multiple_of(WIDTH_EVERY);
                planned = if is_looked_at { self.needed(done, width) } else { planned.max(done + 1) };
            }
        }
        Ok(true)
    }

    fn is_simulated(&self) -> bool {
        self.plan.warm_ups == 0
    }

    /// The arms that are run.
    fn order(&self) -> Vec<usize> {
        (0..self.arms.len()).filter(|arm| *arm != CONTROL || !self.is_simulated()).collect()
    }

    /// How many runs a block has.
    fn runs(&self) -> usize {
        self.order().len() * self.series.len()
    }

    /// How many blocks it takes, as far as can be told: an interval shrinks as the root of their number. No more than twice what is
    /// done is told beforehand: what disturbed the first blocks may be over.
    fn needed(&mut self, done: usize, width: f64) -> usize {
        let widest = self.widest();
        if widest <= width {
            return done;
        }
        ((done as f64 * (widest / width).powi(2)) as usize).clamp(done + 1, 2 * done)
    }

    /// The widest interval of the first metric, over all candidates.
    fn widest(&mut self) -> f64 {
        let mut widest = 0.0f64;
        for row in self.series.iter().map(Series::row) {
            let candidates = if self.arms.len() > 2 { 2 } else { 1 };
            for ratios in (candidates..self.arms.len()).filter_map(|arm| row.log_ratios(arm, 0, 0)) {
                let [low, high] = statistics::interval(&ratios, WIDTH_RESAMPLES, &mut self.rng);
                widest = widest.max((high - low).exp_m1());
            }
        }
        widest
    }

    /// Every subject once under every arm. Whether it came to its end; an unfinished block leaves nothing.
    fn block(&mut self, is_first: bool) -> Result<bool> {
        let before: Vec<usize> = self.series.iter().map(Series::len).collect();
        for at in 0..self.series.len() {
            let mut order = self.order();
            // What the baseline does and takes is what the others are held against.
            if !is_first {
                self.rng.shuffle(&mut order);
            }
            for arm in order {
                let ran = self.run(at, arm);
                if !matches!(ran, Ok(true)) {
                    for (series, before) in self.series.iter_mut().zip(before) {
                        series.samples.iter_mut().flatten().for_each(|samples| samples.truncate(before));
                    }
                    return ran;
                }
                self.progress.ran();
            }
            if self.is_simulated() {
                let samples = &mut self.series[at].samples;
                samples[CONTROL] = samples[BASELINE].clone();
            }
        }
        Ok(true)
    }

    /// One subject once under one arm, unless one of them has failed. Whether it came to its end.
    fn run(&mut self, at: usize, arm: usize) -> Result<bool> {
        let series = &self.series[at];
        if series.samples[arm].is_none() || series.witness.baseline_failed() {
            return Ok(true);
        }
        if let Some(script) = &self.plan.prepare
            && !self.prepare(script)?
        {
            return Ok(false);
        }
        let series = &mut self.series[at];
        let mut program = series.subject.program.clone();
        if series.subject.draws_lots {
            let block = series.samples[arm].as_ref().map_or(0, Vec::len);
            program.arguments.push(self.plan.seed.wrapping_add(block as u64).to_string().into());
        }
        self.arms[arm].apply(&mut program, series.subject.settings.as_deref());
        if series.subject.hands_on {
            arm::hand_on(&mut program);
        }
        if let Some(figures) = self.plan.answers.of(&program.words(), series.subject.metrics.len()) {
            series.samples[arm].as_mut().expect("it has not failed").push(figures);
            return Ok(true);
        }
        let limit = self.plan.limit.unwrap_or_else(|| series.limit());
        let Some(run) = self.starter.run(&program, limit)? else {
            return Ok(false);
        };
        if series.subject.must_succeed && series.slowest_baseline.is_none() && run.end != End::Exited(0) {
            let mut said = String::new();
            let _ = self.starter.printed()?[1].read_to_string(&mut said);
            let said = said.lines().next_back().map_or(String::new(), |last| format!("; it said: {last}"));
            let (name, arm) = (program.arguments[0].to_string_lossy(), &self.arms[arm].name);
            bail!("{name}: {} under {arm}{said}; if this program may fail, add --allow-failure", run.end);
        }
        series.note(arm, &run, &mut self.starter)?;
        Ok(true)
    }

    /// Whole blocks so far.
    fn blocks(&self) -> usize {
        self.series.iter().map(Series::len).max().unwrap_or(0)
    }

    /// Lets a shell prepare a run; fails if the script does. Whether it came to its end.
    fn prepare(&self, script: &str) -> Result<bool> {
        let mut said = tempfile::tempfile()?;
        // What the script leaves running is not waited for, as it would be with a pipe to read from.
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .env_remove("LD_PRELOAD")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said.try_clone()?)
            .spawn()
            .context("cannot start sh for --prepare")?;
        let status = loop {
            if let Some(status) = shell.try_wait()? {
                break status;
            }
            if self.interrupt.seen() {
                kill_process_group(Pid::from_child(&shell), Signal::KILL)?;
                shell.wait()?;
                return Ok(false);
            }
            thread::sleep(PREPARE_POLL);
        };
        let mut text = String::new();
        said.rewind()?;
        said.read_to_string(&mut text)?;
        ensure!(status.success(), "--prepare {script:?} ended with {status}: {}", text.trim());
        Ok(true)
    }
}

impl Series {
    fn len(&self) -> usize {
        self.samples.iter().flatten().map(Vec::len).min().unwrap_or(0)
    }

    fn limit(&self) -> Duration {
        let of = |seconds| Duration::from_secs_f64(seconds) * LIMIT_FACTOR + LIMIT_AT_LEAST;
        self.slowest_baseline.map_or(FIRST_LIMIT, of)
    }

    fn note(&mut self, arm: usize, run: &Run, starter: &mut Starter) -> Result<()> {
        let is_sound = self.witness.saw(arm, run, starter.printed()?)?;
        if is_sound && arm == BASELINE {
            let seconds = run.cost.wall_s * f64::from(self.subject.program.times);
            self.slowest_baseline = Some(self.slowest_baseline.unwrap_or(0.0).max(seconds));
        }
        let text = if self.subject.prints_the_same { String::new() } else { starter.text()? };
        let figures = (self.subject.read)(run, &text).filter(|figures| figures.len() == self.subject.metrics.len());
        match figures {
            Some(figures) if is_sound => {
                self.samples[arm].as_mut().expect("it has not failed").push(figures);
                return Ok(());
            }
            None if is_sound => self.witness.saw_no_figures(arm, text),
            _ => {}
        }
        // Without the baseline the others' figures mean nothing.
        if arm == BASELINE {
            self.samples.fill(None)
        } else {
            self.samples[arm] = None
        }
        Ok(())
    }

    fn row(&self) -> Row {
        let findings = self.witness.findings();
        let (parameters, metrics) = (self.subject.parameters.clone(), self.subject.metrics.clone());
        Row { parameters, metrics, samples: self.samples.clone(), findings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each run of a script adds to a file, under arms that differ in the library's settings only.
    fn logged(script: &str, plan: Plan, arms: usize) -> (Measured, Vec<String>) {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("log");
        let script = format!("echo $COMMENSAL_CONF >> {}; {script}", log.display());
        let arms: Vec<Arm> = (0..arms)
            .map(|arm| Arm { settings: Some(format!("arm:{arm}")), name: arm.to_string(), ..Arm::glibc() })
            .collect();
        let subject = Subject::of_program("", Program::new("/bin/sh", ["sh", "-c", &script]));
        let measured = measure(vec![subject], &arms, plan, &Interrupt::never().unwrap()).unwrap();
        let log = std::fs::read_to_string(log).unwrap();
        (measured, log.lines().map(str::to_owned).collect())
    }

    #[test]
    fn block_runs_arms_once_and_baseline_twice_in_its_own_order() {
        let (measured, log) = logged("true", Plan::of(Length::Blocks(12), 5), 3);
        assert_eq!((measured.blocks, log.len()), (12, 13 * 4), "the first one is dropped");
        assert_eq!(measured.rows[0].values(0, 0).unwrap().len(), 12);
        assert_eq!(log[..4], ["arm:0", "arm:0", "arm:1", "arm:2"], "the first block is in order");
        let mut blocks: Vec<Vec<String>> = log.chunks(4).skip(1).map(<[String]>::to_vec).collect();
        assert!(blocks.iter().any(|block| block != &blocks[0]), "{blocks:?}");
        let again = logged("true", Plan::of(Length::Blocks(12), 5), 3).1;
        assert_eq!(log, again, "the seed decides");
        blocks.iter_mut().for_each(|block| block.sort());
        assert!(blocks.iter().all(|block| block == &["arm:0", "arm:0", "arm:1", "arm:2"]));
        let names: Vec<&str> = measured.arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names, ["0", "0 again", "1", "2"]);
    }

    #[test]
    fn block_gives_all_arms_one_seed_and_the_next_block_another() {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("log");
        let script = format!("echo $0 $1 >> {}", log.display());
        let program = Program::new("/bin/sh", ["sh", "-c", &script]);
        let subject = Subject { draws_lots: true, ..Subject::of_program("", program) };
        let plan = Plan { warm_ups: 0, ..Plan::of(Length::Blocks(3), 40) };
        let arms = ["one", "two"].map(|name| Arm::told(name, name));
        measure(vec![subject], &arms, plan, &Interrupt::never().unwrap()).unwrap();
        let log = std::fs::read_to_string(log).unwrap();
        let mut told: Vec<&str> = log.lines().collect();
        told.sort_unstable();
        assert_eq!(told, ["40 one", "40 two", "41 one", "41 two", "42 one", "42 two"]);
    }

    #[test]
    fn failed_arm_is_not_run_again_and_the_others_are() {
        let (measured, log) = logged("[ $COMMENSAL_CONF != arm:1 ]", Plan::of(Length::Blocks(3), 1), 3);
        assert_eq!(log.iter().filter(|arm| *arm == "arm:1").count(), 1);
        let row = &measured.rows[0];
        assert!(row.values(2, 0).is_none() && row.values(3, 0).unwrap().len() == 3);
        assert!(row.findings[0].is_fault && row.findings[0].arm == "1", "{:?}", row.findings);
    }

    #[test]
    fn crashed_baseline_is_not_run_again() {
        let (measured, log) = logged("kill -SEGV $$", Plan::of(Length::Blocks(5), 1), 2);
        assert_eq!((log.len(), measured.blocks), (1, 0));
        assert!(measured.rows[0].findings[0].what.contains("SIGSEGV"));
    }

    #[test]
    fn budget_gives_more_blocks_when_blocks_are_short() {
        let budget = Budget { seconds: &[(60.0, 40), (5.0, 200)], least: 10 };
        let blocks = |seconds| budget.blocks(Duration::from_secs_f64(seconds));
        assert_eq!((blocks(100.0), blocks(3.0), blocks(1.0), blocks(0.05), blocks(0.001)), (10, 20, 40, 100, 200));
    }

    /// What disturbs the first blocks must not decide how long the run takes.
    #[test]
    fn noise_of_the_first_blocks_does_not_keep_a_run_from_ending() {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("log");
        let script = format!(
            "echo x >> {0}; n=$(wc -l < {0}); if [ $n -lt 42 ]; then echo $((n * 7 % 10 + 1)); else echo 20; fi",
            log.display()
        );
        let subject = Subject {
            metrics: vec![metric::WALL],
            prints_the_same: false,
            read: |_, text| Some(vec![text.trim().parse().ok()?]),
            ..Subject::of_program("", Program::new("/bin/sh", ["sh", "-c", &script]))
        };
        let plan = Plan::of(Length::Width { least: 10, width: 0.1 }, 1);
        let arms = ["one", "two"].map(|name| Arm::told(name, name));
        let measured = measure(vec![subject], &arms, plan, &Interrupt::never().unwrap()).unwrap();
        assert!((11..200).contains(&measured.blocks), "{}", measured.blocks);
    }

    #[test]
    fn simulated_subject_runs_once_under_each_arm() {
        let plan = Plan { warm_ups: 0, ..Plan::of(Length::Blocks(2), 1) };
        let (measured, log) = logged("true", plan, 2);
        assert_eq!((measured.blocks, log.len()), (2, 2 * 2));
        assert_eq!(log[..2], ["arm:0", "arm:1"], "the first block is in order");
        assert_eq!(measured.rows[0].values(BASELINE, 0), measured.rows[0].values(CONTROL, 0));
    }

    #[test]
    fn run_has_a_figure_for_each_metric() {
        let script = Program::new("/bin/true", ["true"]);
        let subject = Subject { read: |_, _| Some(vec![1.0, 2.0]), ..Subject::of_program("", script) };
        let plan = Plan::of(Length::Blocks(1), 1);
        let measured = measure(vec![subject], &[Arm::glibc()], plan, &Interrupt::never().unwrap()).unwrap();
        let findings = &measured.rows[0].findings;
        assert!(findings[0].is_fault && findings[0].what == "did not print the expected figures", "{findings:?}");
    }
}
