//! What a preloaded malloc costs a program that does nothing: start `/bin/true` on one CPU, wait for its end, and repeat.
//!
//! It is part e of the counters experiment with other arms: nothing preloaded, an empty library (the loader's own work), ours,
//! and each installed peer.

use anyhow::{Context, Result};

use super::probing::Measured;
use super::{Claim, Experiment, LAZY_COUNTERS, Outcome, Part, Setting, holds};
use crate::analysis::{Analysis, Judged};
use crate::arm::{Arm, COMMENSAL};
use crate::blocks::{self, Length, Plan, Subject};
use crate::json::Documented;
use crate::machine;
use crate::metric::{self, Metric};
use crate::parameters::Parameters;
use crate::process::{Program, Run};
use crate::report;
use crate::sheet::Sheet;
use crate::table;

/// The library of that arm.
pub const EMPTY_LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libempty.so"));
/// The arm that any preloaded library is held against.
pub const EMPTY: &str = "empty library";

const PROGRAM: &str = "/bin/true";
/// A run is so many starts: one alone is shorter than what disturbs it.
const STARTS: u32 = 20;
const BLOCKS: usize = 300;
const QUICK_BLOCKS: usize = 60;

const FAULTS: Metric = Metric { resolution: 1.0 / STARTS as f64, ..metric::FAULTS };
const WALL: Metric = Metric { name: "spawn_wall_s", title: "time per start", ..metric::WALL };
pub(super) const CPU: Metric = Metric { name: "spawn_cpu_s", ..metric::CPU };
/// The kernel takes a process that is shorter than a tick for all user or all system time: so the parts of a run are multiples of a
/// start's time over their number.
const SAMPLED_S: f64 = 5e-4 / STARTS as f64;
const USER: Metric = Metric { name: "spawn_user_s", resolution: SAMPLED_S, ..metric::USER };
pub(super) const SYSTEM: Metric = Metric { name: "spawn_system_s", resolution: SAMPLED_S, ..metric::SYSTEM };

/// System time of fork in a loop, with lazy counters over without: what the document gives, by its number of cores.
pub(super) const SYSTEM_TIME: [(u64, f64); 2] = [(80, 0.94), (256, 0.89)];

pub const STARTUP: Experiment = Experiment {
    name: "startup",
    about: "What does a malloc cost a program that does nothing?",
    source: LAZY_COUNTERS,
    simulates: false,
    measure,
};

fn measure(setting: &Setting) -> Result<Outcome> {
    let empty = setting.scratch.path().join("libempty.so");
    std::fs::write(&empty, EMPTY_LIBRARY).with_context(|| format!("cannot write {}", empty.display()))?;
    let (baseline, others) = setting.arms.split_first().context("startup needs an arm")?;
    let arms: Vec<Arm> =
        [baseline.clone(), Arm::preloading(EMPTY, empty)].into_iter().chain(others.iter().cloned()).collect();

    let usual = if setting.quick { QUICK_BLOCKS } else { BLOCKS };
    let length = Length::Blocks(setting.blocks.unwrap_or(usual));
    let plan = Plan { cpu: machine::quiet_cpu(), ..Plan::of(length, setting.seed) };
    let mut analysis = Analysis::of(blocks::measure(vec![subject()], &arms, plan, &setting.interrupt)?);
    analysis.also_against(EMPTY);
    let peers: Vec<&str> = arms.iter().filter(|arm| arm.is_peer).map(|arm| arm.name.as_str()).collect();
    peers.iter().for_each(|peer| analysis.also_against(peer));
    let claims = if analysis.measured.blocks > 0 { claims(&analysis) } else { Vec::new() };
    let part = Part { sheets: sheets(&analysis), ..Part::of("", analysis, report::usual_plots) };
    // Where ours is held against a peer in the same metric.
    let documents = peers.iter().map(|peer| {
        let (cores, value) = SYSTEM_TIME[1];
        let figure =
            format!("system time of fork, {cores} cores; a kernel with lazy counters over one with eager ones");
        Documented::of([peer, COMMENSAL], &CPU, Parameters::default(), (LAZY_COUNTERS, figure, value))
    });
    let Measured { parts, .. } = Measured::from(part).documented(documents);
    Ok(Outcome::of(setting, EXPLANATION, claims, Vec::new(), parts))
}

/// What any library costs comes first.
fn sheets(analysis: &Analysis) -> Vec<Sheet> {
    if analysis.measured.blocks == 0 {
        return Vec::new();
    }
    let over_empty = analysis.others.first().map(|(empty, rows)| table::of_metric(analysis, &rows[0][0], *empty));
    over_empty.into_iter().chain(table::usual(analysis)).collect()
}

const EXPLANATION: &str = "\
Each run starts /bin/true 20 times on one CPU, with an empty environment. The arm \"empty library\" shows the cost of preloading \
any library.
The document compares two kernels: one sets up per-CPU counters for each new process, the other waits for a second thread. An \
allocator that sets up arenas for all CPUs at start corresponds to the first, Commensal to the second.
The document reports system time. Here it is processor time, because the kernel separates user and system time by sampling, and \
such a short process is rarely sampled.";

/// Starts of the program, and what is read off them.
pub(super) fn subject() -> Subject {
    let mut program = Program { times: STARTS, ..Program::new(PROGRAM, [PROGRAM]) };
    program.environment.clear();
    let metrics = vec![WALL, CPU, USER, SYSTEM, metric::PEAK, FAULTS];
    let read = |run: &Run, _: &str| {
        let cost = run.cost;
        let cpu_s = cost.user_s + cost.system_s;
        Some(vec![cost.wall_s, cpu_s, cost.user_s, cost.system_s, cost.peak_kb, cost.page_faults])
    };
    Subject { metrics, read, ..Subject::of_program("", program) }
}

fn claims(analysis: &Analysis) -> Vec<Claim> {
    let arms = &analysis.measured.arms;
    let ours = arms.iter().position(|arm| arm.name == COMMENSAL);
    let figures = SYSTEM_TIME.map(|(cores, value)| format!("{value} × on {cores} CPUs")).join(", ");
    let figures = format!("{figures} (shown below 1 agrees)");
    let against = analysis.others.iter().filter(|(baseline, _)| arms[*baseline].is_peer);
    let claim = |(baseline, rows): &(usize, Vec<Vec<Judged>>)| {
        let judged = rows[0].iter().find(|judged| judged.metric == CPU)?;
        let compared = judged.comparisons[ours?]?;
        let claim = format!("processor time, {COMMENSAL} over {}", arms[*baseline].name);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let found = (format!("{:.2} × on {cpus} CPUs", compared.ratio), compared.ratio);
        Some(Claim::of(claim, figures.clone(), Some(found), holds(&compared, SYSTEM_TIME[1].1)))
    };
    against.filter_map(claim).collect()
}
