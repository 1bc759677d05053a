//! The musts: what Commensal's malloc and its counters have to reach, judged from what was measured.

use commensal_lab::analysis::{Analysis, BASELINE, Judged};
use commensal_lab::arm::COMMENSAL;
use commensal_lab::experiment::Figures;
use commensal_lab::parameters::Parameters;
use commensal_lab::sheet::{Sheet, Side};

use crate::locks::WITH;
use crate::parts::{CACHES, COUNTERS, DEPTHS, FLOOR, GROUPS, LOCKS, Part, RCU, RECORDER};
use crate::upkeep::{self, UPKEEP};

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

/// Judges all parts of an experiment.
type Judge = fn(&[&Analysis]) -> Vec<Must>;

/// The musts of every part that was measured.
pub fn judge(parts: &[Part]) -> Vec<Must> {
    let of_part = |part: &Part| match part.name {
        "startup" => startup(&part.analysis),
        "micro" => micro(&part.analysis),
        "threads" => threads(&part.analysis),
        LOCKS => locks(&part.analysis),
        UPKEEP => upkeep(&part.analysis),
        // A mean over a choice of rows says nothing about the mean over all.
        _ if part.analysis.rows.len() > 1 => programs(&part.analysis),
        _ => Vec::new(),
    };
    let measured = || parts.iter().filter(|part| part.analysis.measured.blocks > 0);
    // Of the lab's experiments, all parts are judged together.
    let of_lab: [(&str, Judge); 5] = [
        (COUNTERS, |all| counters(Figures(all))),
        (CACHES, caches),
        (GROUPS, |all| groups(Figures(all))),
        (RCU, |all| rcu(Figures(all))),
        (RECORDER, |all| recorder(Figures(all))),
    ];
    let of_lab = of_lab.into_iter().flat_map(|(name, judge)| {
        let all: Vec<&Analysis> = measured().filter(|part| part.name == name).map(|part| &part.analysis).collect();
        if all.is_empty() { Vec::new() } else { judge(&all) }
    });
    let is_of_lab = |part: &&Part| [COUNTERS, CACHES, GROUPS, RCU, RECORDER].contains(&part.name);
    measured().filter(|part| !is_of_lab(part)).flat_map(of_part).chain(of_lab).collect()
}

/// A line for each, with the verdict.
pub fn sheet(musts: &[Must]) -> Sheet {
    let mut sheet =
        Sheet::new([("must", Side::Left), ("measured", Side::Right), ("limit", Side::Right), ("", Side::Left)]);
    for must in musts {
        let figure = |value: Option<f64>| match (value, must.unit) {
            (None, _) => "–".to_owned(),
            (Some(value), "×") => format!("{value:.3} ×"),
            (Some(value), unit @ "ns") => format!("{value:.1} {unit}"),
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

fn parameter(name: &str, value: u64) -> Parameters {
    Parameters::default().with(name, value)
}

/// Numbers of CPUs that the lab lays out for.
const CPUS: [u64; 5] = [2, 8, 80, 256, 512];

fn counters(figures: Figures) -> Vec<Must> {
    let over = |metric: &str, [(row, arm), (other_row, other)]: [(&Parameters, &str); 2]| {
        Some(figures.median(metric, row, arm)? / figures.median(metric, other_row, other)?)
    };
    let same = |metric: &str, row: &Parameters, arm, other| over(metric, [(row, arm), (row, other)]);
    let or_dash = |ratio: Option<f64>| ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));

    let (one, in_turn) = (parameter("counters", 1), parameter("counters", 16));
    let (alone, both) = (parameter("threads", 1), parameter("threads", 2));
    let (at_256, at_2, at_512) =
        (parameter("possible_cpus", 256), parameter("possible_cpus", 2), parameter("possible_cpus", 512));
    let checked = or_dash(same("owner_add_ns", &one, "checked", "plain"));
    let per_cpu = or_dash(same("upgraded_add_ns", &alone, "per-cpu", "atomic"));
    let in_c = Parameters::default().with("interface", "C");
    let (called_alone, called_both) = (in_c.clone().with("threads", 1), in_c.clone().with("threads", 2));
    let called = or_dash(same("called_owner_add_ns", &in_c, "plain", "atomic"));
    let upgraded = |row| over("upgraded_add_ns", [(row, "lazy"), (&alone, "atomic")]);
    let called_upgraded = |row| over("called_upgraded_add_ns", [(row, "lazy"), (&called_alone, "atomic")]);
    let setups = CPUS.map(|cpus| figures.median("setup_ns", &parameter("possible_cpus", cpus), "lazy"));
    let setup = setups.into_iter().try_fold(0.0, |most: f64, setup| Some(most.max(setup?)));
    // An object is a set of four, and two words.
    let bytes = figures.median("bytes_per_object", &at_256, "lazy").map(|bytes| bytes - 16.0);
    let touched = |slots: u64| {
        figures
            .median("sum_ns", &at_256.clone().with("touched_slots", slots), "lazy and cached")
            .map(|sum| sum / slots as f64)
    };
    vec![
        Must::ratio(
            format!("owner's addition over a plain one (a plain one behind a look: {checked})"),
            same("owner_add_ns", &one, "lazy", "plain"),
            1.1,
        ),
        Must::ratio(
            "the same, 16 counters in turn, over words as far apart",
            same("owner_add_ns", &in_turn, "lazy", "plain"),
            1.5,
        ),
        Must::ratio(
            format!("upgraded addition over an atomic one (per-CPU from the beginning: {per_cpu})"),
            upgraded(&alone),
            0.35,
        ),
        Must::ratio("the same with two threads, over one thread's atomic one", upgraded(&both), 0.35),
        Must::ratio(
            format!("upgraded addition through a call over an atomic one (a plain one: {called})"),
            called_upgraded(&called_alone),
            0.45,
        ),
        Must::ratio("the same with two threads, over one thread's atomic one", called_upgraded(&called_both), 0.45),
        Must::new("set-up and tear-down of a lazy object, at 2 to 512 possible CPUs", "ns", setup, Some(4.0)),
        Must::new("a set of four counters", "bytes", bytes, Some(64.0)),
        Must::ratio(
            "a task's lazy object over an eager one, 256 possible CPUs",
            same("create_destroy_ns", &at_256, "lazy", "eager"),
            0.01,
        ),
        Must::ratio(
            "likewise, cached over eager, 256 alive",
            same("create_destroy_alive_ns", &at_256, "cached", "eager"),
            0.3,
        ),
        Must::ratio(
            "sum of two touched slots, 512 possible CPUs over 2",
            over("sum_ns", [(&at_512, "lazy and cached"), (&at_2, "lazy and cached")]),
            1.25,
        ),
        Must::ratio(
            "sum, for each of 256 touched slots over each of 80",
            touched(256).zip(touched(80)).map(|(many, some)| many / some),
            1.25,
        ),
    ]
}

/// Caches against malloc and free of the best peer.
fn caches(all: &[&Analysis]) -> Vec<Must> {
    let figures = Figures(all);
    let (alone, both) = (parameter("threads", 1), parameter("threads", 2));
    let solo = alone.clone().with("process", "solo");
    let of = |row: &Parameters, arm| figures.median("pop_push_ns", row, arm);
    let best_peer = |row: &Parameters| {
        let peers = all.iter().flat_map(|analysis| &analysis.measured.arms).filter(|arm| arm.is_peer);
        peers.filter_map(|peer| of(row, &peer.name)).min_by(f64::total_cmp)
    };
    let rows = [("solo", solo, 0.7), ("one thread", alone, 0.8), ("two threads", both, 0.8)];
    let mut musts = Vec::new();
    for (name, row, limit) in rows {
        let over = |cache: Option<f64>| Some(cache? / best_peer(&row)?);
        let in_rust = over(of(&row.clone().with("interface", "Rust"), "dedicated"));
        musts.push(Must::ratio(
            format!("cache's alloc+free(64) in Rust, {name}, over the best peer's malloc+free"),
            in_rust,
            limit,
        ));
        let in_c = over(of(&row, "dedicated"));
        musts.push(Must::ratio(format!("the same through calls in C, {name}"), in_c, limit));
    }
    let of_constructor = |metric: &str, arm| figures.median(metric, &Parameters::default(), arm);
    let left = || {
        let each_time = of_constructor("constructed_ns", "dedicated")?;
        let once = of_constructor("constructed_ns", "dedicated with constructor")?;
        let alone = of_constructor("constructor_ns", "dedicated")?;
        Some(1.0 - (each_time - once) / alone)
    };
    musts.push(Must::ratio(
        "what is left of a constructor of some 100 ns where objects stay constructed",
        left(),
        0.02,
    ));
    musts
}

/// Groups that make caches while another CPU is busy.
fn groups(figures: Figures) -> Vec<Must> {
    const GROUPS: u64 = 10_000;
    // Of the document's 10,000 groups.
    const INTERRUPTS: f64 = 101.0;
    let row = parameter("groups", GROUPS)
        .with("busy_cpus", std::thread::available_parallelism().map_or(0, |cpus| cpus.get() as u64 - 1));
    let of = |metric: &str| figures.median(metric, &row, "kick on replace only");
    vec![
        Must::new("kicks while 10,000 groups make caches", "", of("kicks"), Some(0.0)),
        Must::new("interrupts meanwhile, beyond the background", "", of("interrupts"), Some(INTERRUPTS)),
        Must::new("first object of a size in a new group, warm", "ns", of("first_object_warm_ns"), Some(2000.0)),
    ]
}

/// Readers and updaters against liburcu's. None of its figures, where it is not installed: then it is missed.
fn rcu(figures: Figures) -> Vec<Must> {
    let [alone, beside] = [0, 1].map(|others| parameter("readers_besides", others));
    let over = |metric: &str, row: &Parameters, ours: &str, theirs: &str| {
        Some(figures.median(metric, row, ours)? / figures.median(metric, row, theirs)?)
    };
    let memb = |metric: &str, row: &Parameters| over(metric, row, "commensal", "liburcu-memb");
    let of_ours = |metric: &str, name: &str| figures.median(metric, &alone, name);
    let checkpoint = figures.median("checkpoint_ns", &Parameters::default(), "commensal qsbr flagged");
    let others = || rcu::RETIRING.iter().map(|(name, _)| *name).filter(|name| *name != "commensal");
    let retired = |name: &str| figures.median("retire_ns", &Parameters::default(), name);
    let best = others().filter_map(retired).reduce(f64::min).filter(|_| others().count() > 2);
    vec![
        Must::ratio("a section, over liburcu's memb", memb("read_ns", &alone), 1.05),
        Must::ratio("the same beside another reader", memb("read_ns", &beside), 1.05),
        Must::ratio(
            "the same through calls of a shared library, both",
            over("read_ns", &alone, rcu::CALLED, "liburcu-memb called"),
            1.05,
        ),
        Must::new("a section of a registered reader", "ns", of_ours("read_ns", "commensal qsbr"), Some(0.4)),
        Must::new("a section of a kickable one", "ns", of_ours("read_ns", "commensal qsbr kickable"), Some(0.8)),
        Must::new("a checkpoint of one that is not flagged", "ns", checkpoint, Some(0.7)),
        Must::ratio("a load from a Cell, over arc-swap's", over("read_ns", &alone, "commensal Cell", "arc-swap"), 0.5),
        Must::ratio("waiting for one running reader, over liburcu's memb", memb("synchronize_ns", &beside), 1.7),
        Must::ratio(
            "the same with one that registered, over liburcu's qsbr",
            over("synchronize_ns", &beside, "commensal qsbr", "liburcu-qsbr"),
            1.0,
        ),
        Must::ratio(
            "time to retire and free 64 bytes, over the best of the others",
            retired("commensal").zip(best).map(|(ours, best)| ours / best),
            1.0 / 1.1,
        ),
    ]
}

/// What a direct handle gains.
fn recorder(figures: Figures) -> Vec<Must> {
    let median = |threads: u64, arm: &str| figures.median("handle_ns", &parameter("threads", threads), arm);
    let must = |threads, limit| {
        let over = median(threads, "commensal direct").zip(median(threads, "prometheus"));
        let threads = if threads == 1 { "one thread" } else { "two threads" };
        let what = format!("an increment by a direct handle, {threads}, over prometheus");
        Must::ratio(what, over.map(|(ours, theirs)| ours / theirs), limit)
    };
    vec![must(1, 0.6), must(2, 0.25)]
}

/// Whoever is not waited for pays nothing for the lock report.
fn locks(analysis: &Analysis) -> Vec<Must> {
    let over = ratio(analysis, &analysis.rows[0][0], WITH);
    vec![Must::ratio("an uncontended lock with accounting over the lock without", over, 1.05)]
}

/// Giving memory back in the background does not make mallocs slow, and gives it back.
fn upkeep(analysis: &Analysis) -> Vec<Must> {
    let of = |metric: usize| &analysis.rows[0][metric];
    let over_best = |metric| place(analysis, COMMENSAL).and_then(|ours| analysis.over_best_peer(0, metric, ours));
    vec![
        Must::ratio(
            "p99.9 of a server's mallocs with upkeep, over without",
            ratio(analysis, of(upkeep::MALLOC), COMMENSAL),
            1.2,
        ),
        Must::ratio(
            "the same over the better of jemalloc and mimalloc, which purge, too",
            over_best(upkeep::MALLOC),
            1.0,
        ),
        Must::ratio(
            "memory two intervals after its peak, over what is live",
            median(analysis, of(upkeep::RESIDENT), COMMENSAL),
            1.2,
        ),
    ]
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
        let floor =
            ratio(analysis, &judged[WALL], FLOOR).map_or(String::new(), |ratio| format!(" (the floor: {ratio:.2})"));
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
