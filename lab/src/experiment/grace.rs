//! Grace periods, batches and the slab: threads open and close files under each policy of reporting; and a thread that loops
//! for long holds grace periods up.

use anyhow::Result;

use super::figures::Figures;
use super::probing::{Blocks, Measured, dots, dots_of_first, forms, nanoseconds, of_parts, part};
use super::{Claim, Experiment, Outcome, Part, Setting};
use crate::analysis::Analysis;
use crate::metric::{FASTER, LESS, Metric};
use crate::parameters::Parameters;
use crate::report::Figure;
use crate::table::factor;
use Needed::{Above, Below};

const COUNTED: &str = "counted";
const FLAGGED: &str = "flagged";
const KICKED: &str = "kicked";
const NONE: &str = "none";
const ARMS: [&str; 4] = [COUNTED, FLAGGED, KICKED, NONE];

const SOURCE: &str = "an article on RCU and cond_resched() (J. Corbet, LWN, 2014)";

/// A simulated run takes long, and each run gives the same figures.
const BLOCKS: Blocks = Blocks { simulated: Some((1, 1)), ..Blocks::of(5, 20) };
/// A run takes half a second and hardly varies.
const HELD_BLOCKS: Blocks = Blocks { simulated: Some((1, 1)), ..Blocks::of(3, 7) };

/// Checkpoints after which readers report: in the kernel, and in an experiment.
const OFTEN: u64 = 256;
const SELDOM: u64 = 65_536;
/// How deferred objects are freed.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    /// Objects that wait in a slot before it asks for a grace period.
    lazy_limit: u64,
    /// Whether they return to the slot that deferred them.
    hand_back: u64,
}

/// As in the kernel: a slot asks for a grace period at the first object, and the slot that frees an object keeps it.
const AS_THEN: Way = Way { name: "as then", lazy_limit: 1, hand_back: 0 };
/// As in the runtime.
const AS_NOW: Way = Way { name: "as now", lazy_limit: 4096, hand_back: 1 };

/// A ratio above this does not count as slower.
const NOTICED: f64 = 0.97;

const MORE: [&str; 2] = ["fewer", "more"];

const OPERATIONS: Metric = Metric::new("operations_per_s", "1", "operations per second", MORE, 1.0);
const SYNCHRONIZE: Metric = Metric::new("synchronize_ms", "ms", "synchronize", FASTER, 1e-5);
const PERIODS: Metric = Metric::new("grace_periods_per_s", "1", "grace periods per second", MORE, 1e-5);
const CALLBACKS: Metric =
    Metric { name: "callbacks_per_grace_period", title: "objects freed per grace period", ..PERIODS };
const REFILLS: Metric =
    Metric::new("depot_refills_per_operation", "1", "refills from the depot per operation", LESS, 1e-5);
const CONTENDED: Metric =
    Metric { name: "depot_contended_per_operation", title: "contended locks of the depot per operation", ..REFILLS };
const PEAK: Metric = Metric::new("peak_waiting_bytes", "1", "peak of waiting bytes", LESS, 1.0);
const CHECKPOINT: Metric = nanoseconds("checkpoint_ns", "one checkpoint");
const LONGEST: Metric = Metric { name: "longest_grace_period_ms", title: "longest grace period", ..SYNCHRONIZE };

/// In the order in which the probe prints them.
const OF_FILES: [Metric; 7] = [OPERATIONS, SYNCHRONIZE, PERIODS, CALLBACKS, REFILLS, CONTENDED, PEAK];
const OF_HOLDING: [Metric; 2] = [LONGEST, PEAK];

pub const GRACE: Experiment = Experiment {
    name: "grace",
    about: "How do short grace periods change batches and the slab?",
    source: SOURCE,
    simulates: true,
    measure,
};

fn measure(setting: &Setting) -> Result<Outcome> {
    let parts: [fn(&Setting) -> Result<Measured>; 3] = [working, holding, checking];
    let Measured { parts, missing } = of_parts(parts, setting, |part| part(setting))?;
    Ok(Outcome::of(setting, EXPLANATION, claims(&parts, &Size::of(setting)), missing, parts))
}

const EXPLANATION: &str = "\
Each thread allocates an object of 256 bytes, puts it into a table, looks up the object of another thread, takes its own out, \
and defers its free. One more thread calls synchronize in a loop. All are registered readers. The policies:
  counted: each N-th checkpoint reports, and each one after a flag
  flagged: a checkpoint reports after a flag, which a thread gets when it has held a grace period up for a time
  kicked: no checkpoints; a thread that holds a grace period up three times as long is interrupted
  none: no checkpoints, no interrupts
Under each policy a thread reports at the end of a task.
\"freed as then\" is what the kernel did: a slot asks for a grace period at the first deferred object, and objects stay on the CPU \
that frees them. \"freed as now\" is the default of Commensal: it asks after 4096 objects, and returns them to the slot that \
deferred them.
In the second part, one thread loops and another waits for a grace period. The loop has checkpoints (checks), defers frees \
instead (retires), or has checkpoints that always report (always).";

/// Amount of work, and when readers are flagged.
#[derive(Clone, Copy)]
struct Size {
    threads: u64,
    /// Other work in an operation, and operations in a task.
    work_ns: u64,
    task: u64,
    till_qs_ms: u64,
    holds_ms: [u64; 2],
}

/// So late that no reader is flagged.
const LATE_MS: u64 = 100;
/// Machines with more CPUs are simulated with fewer objects.
const FEW_CPUS: usize = 64;

impl Size {
    fn of(setting: &Setting) -> Self {
        let cpus = setting.machine.cpus;
        let threads = cpus as u64 - 1;
        if !setting.machine.is_simulated() {
            return Size { threads, work_ns: 500, task: 40_000, till_qs_ms: 10, holds_ms: [50, 500] };
        }
        let (work_ns, task) = if cpus <= FEW_CPUS { (500, 2500) } else { (5000, 1000) };
        Size { threads, work_ns, task, till_qs_ms: 1, holds_ms: [5, 50] }
    }

    fn row(self, work_ns: u64, (threshold, till_qs_ms): (u64, u64), way: Way) -> Parameters {
        let parameters = Parameters::default().with("threads", self.threads).with("work_ns", work_ns);
        parameters.with("threshold", threshold).with("till_qs_ms", till_qs_ms).with("freed", way.name)
    }

    /// As in the kernel of the document.
    fn usual(self) -> Parameters {
        self.row(self.work_ns, (OFTEN, self.till_qs_ms), AS_THEN)
    }

    fn seldom(self) -> Parameters {
        self.row(self.work_ns, (SELDOM, LATE_MS), AS_THEN)
    }

    fn now(self) -> Parameters {
        self.row(self.work_ns, (OFTEN, self.till_qs_ms), AS_NOW)
    }

    fn held(self, looks: &str, hold_ms: u64) -> Parameters {
        Parameters::of_workload(looks).with("hold_ms", hold_ms).with("till_qs_ms", self.till_qs_ms)
    }
}

fn working(setting: &Setting) -> Result<Measured> {
    let size = Size::of(setting);
    let (usual, late) = ((OFTEN, size.till_qs_ms), (SELDOM, LATE_MS));
    let mut rows = vec![(size.work_ns, usual, AS_THEN), (size.work_ns, late, AS_THEN), (size.work_ns, usual, AS_NOW)];
    if !setting.machine.is_simulated() {
        rows.extend([(0, usual, AS_THEN), (0, usual, AS_NOW)]);
    }
    let row = |(work_ns, (threshold, till_qs_ms), way): (u64, (u64, u64), Way)| {
        let Way { lazy_limit, hand_back, .. } = way;
        let of_arm = format!("{threshold} {till_qs_ms} {lazy_limit} {hand_back}");
        let line = format!("grace files {} {work_ns} {} {of_arm}", size.threads, size.task);
        (size.row(work_ns, (threshold, till_qs_ms), way), line)
    };
    let (title, rows) = ("Threads that open and close files", rows.into_iter().map(row));
    part(setting, title, rows, &OF_FILES, &forms(ARMS), BLOCKS, plots_of_files)
}

fn plots_of_files(analysis: &Analysis) -> Vec<Figure> {
    let drawn = (0..OF_FILES.len()).filter(|at| [OPERATIONS, PERIODS, PEAK].contains(&OF_FILES[*at]));
    drawn.flat_map(|at| dots(analysis, at)).collect()
}

fn holding(setting: &Setting) -> Result<Measured> {
    let size = Size::of(setting);
    let [short, long] = size.holds_ms;
    let rows = [("checks", short), ("checks", long), ("retires", long), ("always", long)];
    let row = |(looks, ms)| (size.held(looks, ms), format!("grace hold {looks} {ms} {OFTEN} {}", size.till_qs_ms));
    let title = "A thread that loops for long, and one that waits for it";
    part(setting, title, rows.map(row), &OF_HOLDING, &forms(ARMS), HELD_BLOCKS, dots_of_first)
}

fn checking(setting: &Setting) -> Result<Measured> {
    let rows = [(Parameters::default().with("threshold", OFTEN), format!("grace checkpoint {OFTEN}"))];
    let title = "A checkpoint of a thread while no grace period waits";
    part(setting, title, rows, &[CHECKPOINT], &forms(ARMS), BLOCKS, dots_of_first)
}

/// None for nothing over nothing.
fn quotient(one: f64, other: f64) -> Option<f64> {
    (one != 0.0 || other != 0.0).then_some(one / other)
}

fn claims(parts: &[Part], size: &Size) -> Vec<Claim> {
    let figures = Figures(parts);
    let of = |metric: &Metric, row: &Parameters, arm: &str| figures.median(metric.name, row, arm);
    let (usual, seldom, now) = (size.usual(), size.seldom(), size.now());
    let over = |metric: &Metric, one: (&Parameters, &str), other: (&Parameters, &str)| {
        quotient(of(metric, one.0, one.1)?, of(metric, other.0, other.1)?)
    };
    let held = |arm: &str, looks: &str| {
        let hold_ms = size.holds_ms[1];
        Some(of(&LONGEST, &size.held(looks, hold_ms), arm)? / hold_ms as f64)
    };
    let over_none = |metric: &Metric, row: &Parameters| over(metric, (row, COUNTED), (row, NONE));
    let [periods, freed, contended] = [PERIODS, CALLBACKS, CONTENDED].map(|metric| over_none(&metric, &usual));
    let [counted, flagged] = [COUNTED, FLAGGED].map(|arm| over(&OPERATIONS, (&usual, arm), (&seldom, arm)));
    let as_now = over_none(&OPERATIONS, &now);
    let [none, flag, kick] = [NONE, FLAGGED, KICKED].map(|arm| held(arm, "checks"));
    let with_a_flag = "10 % slower, and 3 % with a late flag";
    let all = [
        ("freed as then, grace periods per second: counted over none", "more often", periods, Above(1.0)),
        ("freed as then, objects freed per grace period: counted over none", "smaller batches", freed, Below(1.0)),
        (
            "freed as then, contended locks of the depot: counted over none",
            "more contention in the slab",
            contended,
            Above(1.0),
        ),
        ("operations per second, counted: each 256th checkpoint over each 65,536th", "slower", counted, Below(NOTICED)),
        ("operations per second, flagged: an early flag over a late one", with_a_flag, flagged, Below(NOTICED)),
        ("freed as now, operations per second: counted over none", "goal: not slower", as_now, Above(NOTICED)),
        ("longest grace period over the time of a loop: none", "all of it", none, Above(0.9)),
        ("longest grace period over the time of a loop: flagged", "until the flag", flag, Below(0.5)),
        ("longest grace period over the time of a loop: kicked", "until the interrupt", kick, Below(0.5)),
        (
            "longest grace period over the time of a loop: none, checkpoints always report",
            "at once",
            held(NONE, "always"),
            Below(0.1),
        ),
    ];
    let claim = |(claim, document, ratio, needed): (&str, &str, Option<f64>, Needed)| {
        let (agrees, holds) = match needed {
            Above(least) => (format!("above {least} agrees"), ratio.map(|ratio| ratio > least)),
            Below(most) => (format!("below {most} agrees"), ratio.map(|ratio| ratio < most)),
        };
        let found = ratio.map(|ratio| (format!("{} ×", factor(ratio)), ratio));
        Claim::of(claim, format!("{document} ({agrees})"), found, holds)
    };
    all.map(claim).into()
}

/// The ratios that agree with the document.
#[derive(Clone, Copy)]
enum Needed {
    Above(f64),
    Below(f64),
}

#[cfg(test)]
mod tests {
    use super::super::figures::example;
    use super::*;
    use crate::metric::Metric;

    const SIZE: Size = Size { threads: 49, work_ns: 500, task: 2500, till_qs_ms: 1, holds_ms: [5, 50] };

    /// Parts of which each arm has one value in all metrics of all rows.
    fn parts(working: [f64; 4], holding: [f64; 4]) -> Vec<Part> {
        let part = |values: [f64; 4], metrics: &[Metric], rows: Vec<Parameters>| {
            let arms: Vec<_> = forms(ARMS).into_iter().zip(values).collect();
            example(&arms, metrics, rows.into_iter())
        };
        let held = [SIZE.held("checks", 50), SIZE.held("always", 50)];
        vec![
            part(working, &OF_FILES, vec![SIZE.usual(), SIZE.seldom(), SIZE.now()]),
            part(holding, &OF_HOLDING, held.into()),
        ]
    }

    fn judged(working: [f64; 4], holding: [f64; 4]) -> Vec<Option<bool>> {
        claims(&parts(working, holding), &SIZE).iter().map(|claim| claim.holds).collect()
    }

    #[test]
    fn claims_are_held_against_what_was_measured() {
        let held = |claims: Vec<Option<bool>>| claims[6..].to_vec();
        // In rows that are all alike, only the arms can differ.
        let working = judged([200.0, 100.0, 100.0, 100.0], [1.0; 4]);
        assert_eq!(working[..6], [Some(true), Some(false), Some(true), Some(false), Some(false), Some(true)]);
        let working = judged([50.0, 100.0, 100.0, 100.0], [1.0; 4]);
        assert_eq!(working[..6], [Some(false), Some(true), Some(false), Some(false), Some(false), Some(false)]);
        // Counted, flagged, kicked, none: of 50 ms.
        assert_eq!(held(judged([1.0; 4], [1.0, 1.0, 3.0, 50.0])), [Some(true), Some(true), Some(true), Some(false)]);
        assert_eq!(held(judged([1.0; 4], [1.0, 40.0, 40.0, 4.0])), [Some(false), Some(false), Some(false), Some(true)]);
    }

    #[test]
    fn rows_are_told_apart() {
        let analysis = |row: Parameters, value| {
            let arms: Vec<_> = forms(ARMS).into_iter().map(|arm| (arm, value)).collect();
            example(&arms, &OF_FILES, [row].into_iter())
        };
        let parts = [analysis(SIZE.usual(), 50.0), analysis(SIZE.seldom(), 100.0)];
        let claims = claims(&parts, &SIZE);
        assert_eq!([claims[3].holds, claims[4].holds], [Some(true), Some(true)]);
        assert_eq!(claims[3].measured.as_deref(), Some("0.500 ×"));
        assert!(claims[5].holds.is_none(), "nothing was measured as the runtime does it");
    }

    #[test]
    fn nothing_over_nothing_says_nothing() {
        assert_eq!([quotient(0.0, 0.0), quotient(0.0, 2.0), quotient(1.0, 2.0)], [None, Some(0.0), Some(0.5)]);
        assert_eq!(quotient(2.0, 0.0), Some(f64::INFINITY));
        assert!(claims(&[], &SIZE).iter().all(|claim| claim.holds.is_none() && claim.measured.is_none()));
    }
}
