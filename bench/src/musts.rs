//! The musts: what Commensal's malloc has to reach, judged from what was measured.

use serde::Serialize;

use crate::arm::{COMMENSAL, GLIBC, SNMALLOC};
use crate::micro::Setting;
use crate::programs::{Figure, Programs};
use crate::report::Report;
use crate::startup::Startup;
use crate::threads::{FLOOR, Place};

/// How much the memory of an idle process may exceed glibc's.
const IDLE_MEMORY_KB: f64 = 200.0;
/// What may be left of 10,000 threads. A leak of 17 bytes a thread is over it; a cache that filled
/// late is not.
const THREADS_GROWTH_KB: f64 = 160.0;

/// One figure and its limit.
#[derive(Clone, Debug, Serialize)]
pub struct Must {
    pub what: String,
    pub unit: &'static str,
    /// None if Commensal failed, or what it is held against did.
    pub measured: Option<f64>,
    pub limit: Option<f64>,
    pub met: bool,
}

impl Must {
    fn new(what: impl Into<String>, unit: &'static str, measured: Option<f64>, limit: Option<f64>) -> Must {
        let met = measured.zip(limit).is_some_and(|(measured, limit)| measured <= limit);
        Must { what: what.into(), unit, measured, limit, met }
    }

    fn ratio(what: impl Into<String>, measured: Option<f64>, limit: f64) -> Must {
        Must::new(what, "×", measured, Some(limit))
    }
}

/// The musts of every part that was measured.
pub fn judge(report: &Report) -> Vec<Must> {
    let mut musts = Vec::new();
    musts.extend(report.startup.iter().flat_map(startup));
    musts.extend(report.micro.iter().flatten().flat_map(micro));
    musts.extend(report.threads.iter().flat_map(|places| threads(places)));
    // A mean over a choice of rows says nothing about the mean over all.
    musts.extend(report.programs.iter().filter(|_| report.all_programs).flat_map(programs));
    musts
}

fn startup(startup: &Startup) -> Vec<Must> {
    let idle_limit = startup.peak_kb(GLIBC).map(|kb| kb + IDLE_MEMORY_KB);
    vec![
        Must::ratio("start-up over the empty library's", startup.median_ratio(COMMENSAL), 1.05),
        Must::new("peak memory of /bin/true", "kB", startup.peak_kb(COMMENSAL), idle_limit),
    ]
}

fn micro(setting: &Setting) -> Vec<Must> {
    let must = |depth, limit| {
        let ratio = setting.best(COMMENSAL, depth).zip(setting.best_peer(depth)).map(|(ours, peer)| ours / peer);
        let what = format!("malloc+free(64), {}, depth {depth}, over the best peer", setting.name);
        Must::ratio(what, ratio, limit)
    };
    vec![must(64, 1.0), must(1, 1.25)]
}

fn threads(places: &[Place]) -> Vec<Must> {
    let must = |place: &Place| {
        let over_glibc = |label: &str| Some(place.median_seconds(label)? / place.median_seconds(GLIBC)?);
        let floor = over_glibc(FLOOR).map_or(String::new(), |ratio| format!(" (the floor: {ratio:.2})"));
        let growth = place.by_arm.get(COMMENSAL).and_then(|samples| samples.series(|run| run.growth_kb));
        let growth = growth.map(|growth| growth.median());
        [
            Must::ratio(format!("10,000 threads {}, over glibc{floor}", place.name), over_glibc(COMMENSAL), 1.0),
            Must::new(format!("memory left of them, {}", place.name), "kB", growth, Some(THREADS_GROWTH_KB)),
        ]
    };
    places.iter().flat_map(must).collect()
}

fn programs(programs: &Programs) -> Vec<Must> {
    let time = programs.mean_over_best_peer(COMMENSAL, Figure::Time);
    let memory = programs.mean_over(COMMENSAL, SNMALLOC, Figure::Memory);
    vec![
        Must::ratio("programs' time, geometric mean over the best peer of each", time, 1.0),
        Must::ratio("programs' peak memory, geometric mean over snmalloc's", memory, 1.0),
    ]
}
