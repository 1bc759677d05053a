//! Finds out a row's figure: a command runs once, a probe under all arms in blocks of shuffled order. Rows that run the same share one measurement.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::mem;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use lab::arm::{Arm, COMMENSAL, GLIBC};
use lab::blocks::{self, Budget, Length, Measured, Plan, Subject};
use lab::finding::Finding;
use lab::machine;
use lab::metric::{Metric, WALL};
use lab::process::{Interrupt, Program, Run};
use lab::suite;

use crate::gate::Found;
use crate::probe::tail;
use crate::targets::{BEST_PEER, Figure, MOST_WORDS, Row};

/// What a measurement may take, its dropped block not counted.
const USUAL: Budget = Budget { seconds: &[(20.0, 40), (4.0, 100)], least: 10 };
const QUICK: Budget = Budget { seconds: &[(4.0, 12)], least: 6 };
/// Wall time, page faults and peak memory come before the words.
const BEFORE_WORDS: usize = 3;
const RESAMPLES: usize = 1999;

/// What all rows need.
pub struct Bench {
    pub root: PathBuf,
    /// The command that has bundled programs, and this program, which has probes.
    pub command: PathBuf,
    pub own: PathBuf,
    /// Allocators, the baseline first.
    pub allocators: Vec<Arm>,
    pub quick: bool,
    pub blocks: Option<u16>,
    pub interrupt: Interrupt,
    /// For what programs read.
    pub scratch: tempfile::TempDir,
    /// What was measured, by what was run.
    pub done: BTreeMap<String, Rc<Result<Done, String>>>,
}

pub enum Done {
    /// A command's output, and the minutes that it took.
    Once(String, f64),
    Blocks(Measured),
}

impl Bench {
    /// A row's figure, or why there is none.
    pub fn figure(&mut self, row: &Row) -> Result<Found, String> {
        if let Some(why) = &row.unmeasured {
            return Err(why.clone());
        }
        let arms = (&row.arms, &row.words, &row.settings, row.over_settings(), &row.environment);
        let key = format!("{:?}", (&row.command, &row.probe, row.times, row.one_cpu, arms));
        let done = match self.done.get(&key) {
            Some(done) => Rc::clone(done),
            None => {
                let done = Rc::new(self.run(row).map_err(|error| format!("{error:#}")));
                self.done.insert(key, Rc::clone(&done));
                done
            }
        };
        let found = match done.as_ref().as_ref()? {
            Done::Once(text, minutes) => {
                of_text(&row.figure, text, *minutes).map(|now| Found { now, ..Found::default() })
            }
            Done::Blocks(measured) => of_blocks(row, measured),
        };
        found.map_err(|error| format!("{error:#}"))
    }

    fn run(&self, row: &Row) -> Result<Done> {
        match (&row.command, &row.probe) {
            (Some(command), _) => self.run_once(row.prepare.as_deref(), command),
            (None, Some(probe)) => self.run_blocks(row, probe),
            _ => bail!("there is nothing to be run"),
        }
    }

    fn run_once(&self, prepare: Option<&str>, command: &str) -> Result<Done> {
        let shell = |script: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-ec", script]).current_dir(&self.root).env("BENCH", &self.own).env("COMMENSAL", &self.command);
            let output = shell.stdin(Stdio::null()).stderr(Stdio::piped()).output().context("sh cannot be started")?;
            let said = String::from_utf8_lossy(&output.stderr);
            let last: Vec<&str> = said.lines().rev().take(3).collect();
            ensure!(output.status.success(), "`{script}` ended with {}: {}", output.status, last.join("; "));
            anyhow::Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        prepare.map(shell).transpose()?;
        let start = Instant::now();
        let text = shell(command)?;
        Ok(Done::Once(text, start.elapsed().as_secs_f64() / 60.0))
    }

    fn run_blocks(&self, row: &Row, probe: &str) -> Result<Done> {
        let budget = if self.quick { QUICK } else { USUAL };
        let length = self.blocks.map_or(Length::Fitting(budget), |blocks| Length::Blocks(blocks.into()));
        let cpu = if row.one_cpu { machine::quiet_cpu() } else { None };
        let plan = Plan { cpu, ..Plan::of(length, lab::any_seed()) };
        let measured = blocks::measure(self.subjects(row, probe)?, &self.arms(row), plan, &self.interrupt)?;
        ensure!(!measured.interrupted, "it ended early");
        Ok(Done::Blocks(measured))
    }

    /// One program, or all of the suite.
    fn subjects(&self, row: &Row, probe: &str) -> Result<Vec<Subject>> {
        let words: Vec<&str> = probe.split_whitespace().collect();
        if let ["suite", which, ref probe @ ..] = words[..] {
            return self.suite(which, probe);
        }
        let mut program = match words[..] {
            ["bench", ref words @ ..] => Program::new(&self.own, ["bench", "probe"].iter().chain(words)),
            [name @ "commensal", ..] => Program::new(&self.command, [name].iter().chain(&words[1..])),
            [name, ..] => {
                let file = suite::find(name).with_context(|| format!("{name} is not installed"))?;
                Program::new(file, &words)
            }
            [] => bail!("the probe has no words"),
        };
        program.environment.extend(row.environment.iter().map(|(name, value)| (name.into(), value.into())));
        program.times = row.times.unwrap_or(1);
        program.directory = Some(self.root.clone());
        let subject = Subject::of_program("", program);
        Ok(vec![Subject { metrics: metrics(), read, prints_the_same: false, ..subject }])
    }

    /// The programs, run by a probe of ours if there is one.
    fn suite(&self, which: &str, probe: &[&str]) -> Result<Vec<Subject>> {
        let percent = if self.quick { 10 } else { 100 };
        let subjects = match which {
            "kernels" => suite::kernels(&self.command, percent),
            "programs" => self.real_programs()?,
            "all" => [suite::kernels(&self.command, percent), self.real_programs()?].into_iter().flatten().collect(),
            _ => bail!("the suite has kernels, programs and all; found {which}"),
        };
        let subjects = subjects.into_iter().map(|subject| Subject { metrics: metrics(), read, ..subject });
        if probe.is_empty() {
            return Ok(subjects.collect());
        }
        let library = self.scratch.path().join("libtail.so");
        tail::compile(&library)?;
        let run_by_probe = |mut subject: Subject| {
            let program = &mut subject.program;
            let words = ["bench", "probe"].iter().chain(probe).map(OsString::from);
            let own = [mem::replace(&mut program.path, self.own.clone()).into()];
            program.arguments = words.chain(own).chain(program.arguments.drain(..).skip(1)).collect();
            program.environment.insert(tail::LIBRARY.into(), library.clone().into());
            // The probe prints times.
            Subject { prints_the_same: false, ..subject }
        };
        Ok(subjects.map(run_by_probe).collect())
    }

    fn real_programs(&self) -> Result<Vec<Subject>> {
        let folder = tempfile::tempdir_in(self.scratch.path())?.keep();
        let programs = suite::programs(&folder)?;
        let missing: Vec<String> = programs.missing.iter().map(ToString::to_string).collect();
        ensure!(missing.is_empty(), "{}", missing.join("; "));
        Ok(programs.subjects)
    }

    /// Allocators, or what is told by a word; at least something that runs.
    fn arms(&self, row: &Row) -> Vec<Arm> {
        if let (Some(other), Some(settings)) = (row.other_arm(), row.over_settings()) {
            let ours = self.allocators.iter().filter(|arm| arm.name == COMMENSAL);
            let pair = |ours: &Arm| {
                let other = Arm { name: other.to_owned(), settings: settings.map(str::to_owned), ..ours.clone() };
                [other, Arm { settings: row.settings.clone(), ..ours.clone() }]
            };
            return ours.flat_map(pair).collect();
        }
        let Some(names) = &row.arms else {
            let arm = |arm: &Arm| {
                let is_ours = arm.name == COMMENSAL;
                let words =
                    row.words.as_ref().map(|[ours, others]| if is_ours { ours.clone() } else { others.clone() });
                let settings = row.settings.clone().filter(|_| is_ours);
                Arm { words: words.into_iter().collect(), settings, ..arm.clone() }
            };
            return self.allocators.iter().map(arm).collect();
        };
        match &names[..] {
            // What has the runtime inside and nothing to be held against.
            [] => vec![Arm { name: COMMENSAL.to_owned(), ..Arm::glibc() }],
            names => names.iter().map(|name| Arm::told(name, name.replace(' ', "-"))).collect(),
        }
    }
}

/// Names of what is read do not matter: figures are found by their places.
fn metrics() -> Vec<Metric> {
    vec![WALL; BEFORE_WORDS + MOST_WORDS]
}

/// What the run cost, and the numbers among the words that it printed, in their places.
fn read(run: &Run, printed: &str) -> Option<Vec<f64>> {
    let words = printed.split_whitespace().map(|word| word.parse().unwrap_or(f64::NAN));
    let cost = [run.cost.wall_s, run.cost.page_faults, run.cost.peak_kb];
    Some(cost.into_iter().chain(words).chain([f64::NAN; MOST_WORDS]).take(BEFORE_WORDS + MOST_WORDS).collect())
}

/// A figure of one run.
fn of_sample(figure: &Figure, sample: &[f64]) -> f64 {
    let word = |number: usize| sample[BEFORE_WORDS + number - 1];
    match *figure {
        Figure::Wall => sample[0],
        Figure::Faults => sample[1],
        Figure::Peak => sample[2],
        Figure::Word(one) => word(one),
        Figure::Difference(one, other) => word(one) - word(other),
        Figure::Quotient(one, other) => word(one) / word(other),
        Figure::Minutes | Figure::After(_) => f64::NAN,
    }
}

fn of_text(figure: &Figure, text: &str, minutes: f64) -> Result<f64> {
    let now = match figure {
        Figure::Minutes => minutes,
        Figure::After(words) => {
            let behind = text.split_once(words.as_str()).map_or("", |(_, behind)| behind);
            behind.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
        }
        _ => {
            let words = text.split_whitespace().map(|word| word.parse().unwrap_or(f64::NAN));
            let sample: Vec<f64> =
                [f64::NAN; BEFORE_WORDS].into_iter().chain(words).chain([f64::NAN; MOST_WORDS]).collect();
            of_sample(figure, &sample)
        }
    };
    ensure!(!now.is_nan(), "found no {figure:?} in what it printed: {:?}", text.trim());
    Ok(now)
}

/// What a figure is rounded to.
fn resolution(figure: &Figure) -> f64 {
    match figure {
        Figure::Wall => 1e-9,
        Figure::Faults => 1.0,
        Figure::Peak => 4.0,
        _ => 1e-5,
    }
}

/// A row's figure out of all that was measured of its probe.
fn of_blocks(row: &Row, measured: &Measured) -> Result<Found> {
    let view = View { row, measured };
    let mut rng = Rng::with_seed(measured.plan.seed);
    if let Some(over) = &row.over {
        let arms = if measured.rows.len() == 1 { view.arms(&mut rng) } else { Vec::new() };
        return Ok(Found { arms, ..view.ratio(over, &mut rng)? });
    }
    ensure!(measured.rows.len() == 1, "several programs have ratios only");
    let arms = view.arms(&mut rng);
    let mut values = view.values(0, view.arm(&row.arm)?)?;
    let mut beside = view.others(0);
    if let Some(minus) = &row.minus {
        let others = view.values(0, view.arm(minus)?)?;
        beside = format!("{minus} {:.0}", statistics::median(&mut others.clone()));
        values.iter_mut().zip(others).for_each(|(value, other)| *value -= other);
    }
    let [low, high] = statistics::interval(&values, RESAMPLES, &mut rng);
    Ok(Found { now: statistics::median(&mut values), sees: Some((high - low) / 2.0), beside, arms })
}

struct View<'a> {
    row: &'a Row,
    measured: &'a Measured,
}

impl View<'_> {
    fn arm(&self, name: &str) -> Result<usize> {
        let found = self.measured.arms.iter().position(|arm| arm.name == name);
        found.with_context(|| format!("there is no arm {name}"))
    }

    /// The figure of each block.
    fn values(&self, program: usize, arm: usize) -> Result<Vec<f64>> {
        let (of, name) = (&self.measured.rows[program], &self.measured.arms[arm].name);
        let Some(samples) = of.samples[arm].as_ref().filter(|samples| !samples.is_empty()) else {
            let finding = of.findings.iter().find(|finding| finding.arm == *name || finding.is_fault);
            let told = |finding: &Finding| format!("{} {} {}", finding.arm, finding.what, finding.detail);
            bail!("{name} has no figures: {}", finding.map_or("the baseline failed".to_owned(), told));
        };
        let values: Vec<f64> = samples.iter().map(|sample| of_sample(&self.row.figure, sample)).collect();
        ensure!(!values.iter().any(|value| value.is_nan()), "{name} printed no {:?}", self.row.figure);
        Ok(values)
    }

    fn median(&self, program: usize, arm: usize) -> Result<f64> {
        Ok(statistics::median(&mut self.values(program, arm)?))
    }

    /// The arms that have figures: the median of each, and its interval.
    fn arms(&self, rng: &mut Rng) -> Vec<(String, [f64; 3])> {
        let arms = self.measured.arms.iter().enumerate();
        let figures = arms.filter_map(|(at, arm)| Some((arm.name.clone(), self.values(0, at).ok()?)));
        let mut found = Vec::new();
        for (name, mut values) in figures {
            let [low, high] = statistics::interval(&values, RESAMPLES, rng);
            found.push((name, [statistics::median(&mut values), low, high]));
        }
        found
    }

    /// The peer that does best, of those that ran.
    fn best_peer(&self, program: usize) -> Result<usize> {
        let arms = self.measured.arms.iter().enumerate().filter(|(_, arm)| arm.is_peer);
        let medians = arms.filter_map(|(arm, _)| Some((arm, self.median(program, arm).ok()?)));
        let best = medians.min_by(|one, other| one.1.total_cmp(&other.1));
        best.map(|(arm, _)| arm).context("no peer has figures")
    }

    /// The programs together: their mean block by block, or the worst of them.
    fn ratio(&self, over: &str, rng: &mut Rng) -> Result<Found> {
        let ours = self.arm(&self.row.arm)?;
        let mut all = Vec::new();
        for program in 0..self.measured.rows.len() {
            let other = if over == BEST_PEER { self.best_peer(program)? } else { self.arm(over)? };
            let (figures, others) = (self.values(program, ours)?, self.values(program, other)?);
            let beside = format!("{} {}", self.measured.arms[other].name, short(self.median(program, other)?));
            let mut ratios = statistics::log_ratios(&others, &figures, resolution(&self.row.figure));
            if self.row.must.at_least {
                ratios.iter_mut().for_each(|ratio| *ratio = -*ratio);
            }
            all.push((ratios, self.measured.rows[program].name(), beside));
        }
        let (ratios, beside) = match &all[..] {
            [(ratios, _, beside)] => (ratios.clone(), format!("ours {}, {beside}", short(self.median(0, ours)?))),
            _ => {
                let worse = |(ratios, ..): &&(Vec<f64>, String, String)| statistics::median(&mut ratios.clone());
                let worst =
                    all.iter().max_by(|one, other| worse(one).total_cmp(&worse(other))).expect("there are some");
                let told = format!("worst: {} {}", worst.1, short(worse(&worst).exp()));
                let mean = |block| all.iter().map(|(ratios, ..)| ratios[block]).sum::<f64>() / all.len() as f64;
                (if self.row.worst { worst.0.clone() } else { (0..self.measured.blocks).map(mean).collect() }, told)
            }
        };
        let compared = statistics::compare(&[ratios], rng).pop().expect("one candidate");
        let other = self.row.beside.as_ref().map(|figure| {
            let row = Row { figure: figure.clone(), beside: None, ..self.row.clone() };
            View { row: &row, ..*self }.ratio(over, rng)
        });
        let other = other.transpose()?.map(|other| format!("; figure beside: {}, {}", short(other.now), other.beside));
        Ok(Found {
            now: compared.ratio,
            sees: compared.detectable.map(|effect| effect * compared.ratio),
            beside: beside + &other.unwrap_or_default(),
            ..Found::default()
        })
    }

    /// What allocators have that the row is not held against.
    fn others(&self, program: usize) -> String {
        let peer = self.best_peer(program).ok();
        let glibc = self.arm(GLIBC).ok();
        let told =
            |arm: usize| Some(format!("{} {}", self.measured.arms[arm].name, short(self.median(program, arm).ok()?)));
        [glibc, peer].into_iter().flatten().filter_map(told).collect::<Vec<_>>().join(", ")
    }
}

fn short(value: f64) -> String {
    if value.abs() < 100.0 && value.fract() != 0.0 { format!("{value:.3}") } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::Limit;
    use lab::blocks;
    use lab::parameters::Parameters;

    /// Arms glibc, its control, ours and two peers, whose runs took so long.
    fn measured(programs: &[[f64; 4]]) -> Measured {
        let peer = |name: &str| Arm { is_peer: true, ..Arm::preloading(name, "/peer.so") };
        let glibc = Arm::glibc();
        let arms =
            vec![glibc.clone(), glibc.again(), Arm::commensal(COMMENSAL, "/ours.so", None), peer("one"), peer("two")];
        let row = |(at, [glibc, ours, one, two]): (usize, &[f64; 4])| {
            let samples = [glibc, glibc, ours, one, two].map(|wall| {
                let sample = |block: usize| {
                    let wall = wall * (1.0 + block as f64 / 1000.0);
                    read_of(wall, &format!("x {wall} {}", 2.0 * wall))
                };
                Some((0..8).map(sample).collect::<Vec<_>>())
            });
            let parameters = Parameters::of_workload(&format!("program{at}"));
            blocks::Row { parameters, metrics: metrics(), samples: samples.into(), findings: Vec::new() }
        };
        let rows = programs.iter().enumerate().map(row).collect();
        let (plan, elapsed) = (Plan::of(Length::Blocks(8), 1), std::time::Duration::from_secs(1));
        Measured { arms, rows, blocks: 8, interrupted: false, elapsed, plan }
    }

    fn read_of(wall_s: f64, printed: &str) -> Vec<f64> {
        let cost = lab::process::Cost { wall_s, ..Default::default() };
        let end = lab::process::End::Exited(0);
        read(&Run { end, cost, counted: Vec::new(), left_running: false }, printed).expect("it always reads")
    }

    fn row(figure: Figure, over: Option<&str>) -> Row {
        Row { arm: COMMENSAL.to_owned(), figure, over: over.map(str::to_owned), ..Row::default() }
    }

    fn near(found: Result<Found>, expected: f64) {
        let now = found.expect("there is a figure").now;
        assert!((now / expected - 1.0).abs() < 1e-3, "{now} instead of {expected}");
    }

    #[test]
    fn ratio_is_over_the_peer_that_did_best() {
        let measured = measured(&[[8.0, 2.0, 5.0, 4.0]]);
        near(of_blocks(&row(Figure::Wall, Some(BEST_PEER)), &measured), 0.5);
        near(of_blocks(&row(Figure::Wall, Some(GLIBC)), &measured), 0.25);
        let at_least = Limit { at_least: true, ..Limit::default() };
        near(of_blocks(&Row { must: at_least, ..row(Figure::Wall, Some(BEST_PEER)) }, &measured), 2.0);
        assert!(of_blocks(&row(Figure::Wall, Some("three")), &measured).is_err());
    }

    #[test]
    fn several_programs_have_a_mean_and_a_worst() {
        let measured = measured(&[[8.0, 2.0, 4.0, 5.0], [8.0, 2.0, 9.0, 1.0]]);
        near(of_blocks(&row(Figure::Wall, Some(BEST_PEER)), &measured), 1.0);
        let worst = of_blocks(&Row { worst: true, ..row(Figure::Wall, Some(BEST_PEER)) }, &measured);
        assert!(worst.as_ref().is_ok_and(|worst| worst.beside.contains("program1")));
        near(worst, 2.0);
        let beside = Row { beside: Some(Figure::Quotient(3, 2)), ..row(Figure::Wall, Some(BEST_PEER)) };
        let told = of_blocks(&beside, &measured).expect("there is a figure").beside;
        assert!(told.contains("figure beside: 1, worst"), "{told}");
    }

    #[test]
    fn figure_alone_and_difference_are_read_from_their_words() {
        let measured = measured(&[[8.0, 2.0, 5.0, 4.0]]);
        near(of_blocks(&row(Figure::Word(2), None), &measured), 2.0 * 1.0035);
        near(of_blocks(&row(Figure::Difference(3, 2), None), &measured), 2.0 * 1.0035);
        near(of_blocks(&row(Figure::Quotient(3, 2), None), &measured), 2.0);
        near(of_blocks(&Row { minus: Some(GLIBC.to_owned()), ..row(Figure::Wall, None) }, &measured), -6.0 * 1.0035);
        assert!(of_blocks(&row(Figure::Word(1), None), &measured).is_err(), "it is no number");
        assert!(of_blocks(&row(Figure::Word(4), None), &measured).is_err(), "it is not there");
    }

    #[test]
    fn arm_that_failed_has_no_figure() {
        let mut measured = measured(&[[8.0, 2.0, 5.0, 4.0]]);
        measured.rows[0].samples[2] = None;
        assert!(of_blocks(&row(Figure::Wall, None), &measured).is_err());
        measured.rows[0].samples[4] = None;
        let glibc = Row { arm: GLIBC.to_owned(), ..row(Figure::Wall, Some(BEST_PEER)) };
        near(of_blocks(&glibc, &measured), 1.6);
    }

    #[test]
    fn commands_print_their_figures() {
        let of = |figure: &str, text| of_text(&Figure::try_from(figure.to_owned()).expect("a figure"), text, 3.5);
        assert_eq!(of("minutes", "").ok(), Some(3.5));
        assert_eq!(of("2", "one 2 three").ok(), Some(2.0));
        assert_eq!(of("after malloc takes", "golden: malloc takes 21 instructions").ok(), Some(21.0));
        assert!(of("after free takes", "golden: malloc takes 21 instructions").is_err());
        assert!(of("1", "").is_err());
    }
}
