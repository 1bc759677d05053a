//! The musts: what Commensal's malloc has to reach, judged from what was measured.

use commensal_lab::analysis::{Analysis, BASELINE, Judged};
use commensal_lab::arm::COMMENSAL;
use commensal_lab::sheet::{Sheet, Side};

use crate::parts::{DEPTHS, FLOOR, Part};

/// The peer whose memory ours is held against.
pub const SNMALLOC: &str = "snmalloc";

/// How much the memory of an idle process may exceed glibc's.
const IDLE_MEMORY_KB: f64 = 200.0;
/// What may be left of 10,000 threads. A leak of 17 bytes a thread is over it; a cache that filled
/// late is not.
const THREADS_GROWTH_KB: f64 = 160.0;

const WALL: usize = 0;
/// Of a start; threads and programs have other figures in that place.
const STARTUP_PEAK: usize = 4;
const GROWTH: usize = 1;
const PEAK: usize = 1;

/// One figure and its limit.
pub struct Must {
    what: String,
    unit: &'static str,
    /// None if Commensal failed, or what it is held against did.
    measured: Option<f64>,
    limit: Option<f64>,
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
pub fn judge(parts: &[Part]) -> Vec<Must> {
    let of_part = |part: &Part| match part.name {
        "startup" => startup(&part.analysis),
        "micro" => micro(&part.analysis),
        "threads" => threads(&part.analysis),
        // A mean over a choice of rows says nothing about the mean over all.
        _ if part.analysis.rows.len() > 1 => programs(&part.analysis),
        _ => Vec::new(),
    };
    parts.iter().filter(|part| part.analysis.measured.blocks > 0).flat_map(of_part).collect()
}

/// A line for each, with the verdict.
pub fn sheet(musts: &[Must]) -> Sheet {
    let mut sheet =
        Sheet::new([("must", Side::Left), ("measured", Side::Right), ("limit", Side::Right), ("", Side::Left)]);
    for must in musts {
        let figure = |value: Option<f64>| match (value, must.unit) {
            (None, _) => "–".to_owned(),
            (Some(value), "×") => format!("{value:.3} ×"),
            (Some(value), unit) => format!("{value:.0} {unit}"),
        };
        let verdict = if must.met { "ok" } else { "MISS" };
        sheet.add([must.what.clone(), figure(must.measured), figure(must.limit), verdict.to_owned()]);
    }
    sheet
}

fn place(analysis: &Analysis, name: &str) -> Option<usize> {
    analysis.measured.arms.iter().position(|arm| arm.name == name)
}

fn ratio(analysis: &Analysis, judged: &Judged, name: &str) -> Option<f64> {
    Some(judged.comparisons[place(analysis, name)?]?.ratio)
}

fn median(analysis: &Analysis, judged: &Judged, name: &str) -> Option<f64> {
    Some(judged.medians[place(analysis, name)?]?.value)
}

fn startup(analysis: &Analysis) -> Vec<Must> {
    let over_empty = analysis.others.first().and_then(|(_, rows)| ratio(analysis, &rows[0][WALL], COMMENSAL));
    let peak = &analysis.rows[0][STARTUP_PEAK];
    let idle_limit = peak.medians[BASELINE].map(|median| median.value + IDLE_MEMORY_KB);
    vec![
        Must::ratio("start-up over the empty library's", over_empty, 1.05),
        Must::new("peak memory of /bin/true", "kB", median(analysis, peak, COMMENSAL), idle_limit),
    ]
}

fn micro(analysis: &Analysis) -> Vec<Must> {
    let ours = place(analysis, COMMENSAL);
    let must = |row: usize, metric: usize, limit: f64| {
        let (name, depth) = (analysis.measured.rows[row].name(), DEPTHS[metric].0);
        let what = format!("malloc+free(64), {name}, depth {depth}, over the best peer");
        Must::ratio(what, ours.and_then(|ours| analysis.over_best_peer(row, metric, ours)), limit)
    };
    (0..analysis.rows.len()).flat_map(|row| [must(row, 0, 1.0), must(row, 1, 1.25)]).collect()
}

fn threads(analysis: &Analysis) -> Vec<Must> {
    let must = |(judged, row): (&Vec<Judged>, &commensal_lab::blocks::Row)| {
        let floor = ratio(analysis, &judged[WALL], FLOOR).map_or(String::new(), |ratio| format!(" (the floor: {ratio:.2})"));
        let over_glibc = ratio(analysis, &judged[WALL], COMMENSAL);
        let growth = median(analysis, &judged[GROWTH], COMMENSAL);
        [
            Must::ratio(format!("10,000 threads {}, over glibc{floor}", row.name()), over_glibc, 1.0),
            Must::new(format!("memory left of them, {}", row.name()), "kB", growth, Some(THREADS_GROWTH_KB)),
        ]
    };
    analysis.rows.iter().zip(&analysis.measured.rows).flat_map(must).collect()
}

fn programs(analysis: &Analysis) -> Vec<Must> {
    let over_best = |metric: usize| ratio(analysis, &analysis.means_over_best_peer[metric], COMMENSAL);
    let of_all = |name: &str| ratio(analysis, &analysis.means[PEAK], name);
    let over_snmalloc = of_all(COMMENSAL).zip(of_all(SNMALLOC)).map(|(ours, theirs)| ours / theirs);
    vec![
        Must::ratio("programs' time, geometric mean over the best peer of each", over_best(WALL), 1.0),
        Must::ratio("programs' peak memory, geometric mean over the best peer of each", over_best(PEAK), 1.13),
        Must::ratio("programs' peak memory, geometric mean over snmalloc's", over_snmalloc, 1.0),
    ]
}
