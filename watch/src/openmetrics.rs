//! Text in the OpenMetrics format, for programs that watch many machines.
//!
//! A metric is named `commensal_` and by its table and field, and has the labels `pid` and `program`, and those of its
//! row. Nanoseconds become seconds, the format's base unit, and moments are left out, as no two machines have the same
//! clock for them. Processes that are no more are counted, and not shown. Rows that have the same labels, as groups of one
//! name have, are one sample, their sum or the largest of them: the format has each only once.

use std::collections::BTreeMap;
use std::fmt;

use commensal_runtime::observe::figures::{Figure, Kind, TABLES, Table, Together, Unit, unitless};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit as OfFormat};

use crate::process::{Process, State};

type Labels = Vec<(&'static str, String)>;

/// What somebody who scrapes is told.
#[derive(Debug, Default)]
pub struct Scrape {
    /// Processes that have a page; those that are no more are not shown.
    pub processes: Vec<Process>,
    /// How many were seen to be gone up to now.
    pub gone: u64,
    /// How many pages could not be read.
    pub unreadable: u64,
}

/// What is told, as text.
pub fn text(scrape: Scrape) -> String {
    let mut registry = Registry::with_prefix("commensal");
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string takes any text");
    text
}

/// What a figure's samples are called, by the rules of the format: the base unit at the end, and "total" for what only
/// grows. None: it has no metric.
pub fn name_of(table: &Table, figure: &Figure) -> Option<String> {
    if figure.unit == Unit::Moment {
        return None;
    }
    let unit = unit_of(figure).map_or(String::new(), |unit| format!("_{}", unit.as_str()));
    let total = if figure.kind == Kind::Counter { "_total" } else { "" };
    Some(format!("commensal_{}{}{unit}{total}", table.metrics, unitless(figure.name)))
}

fn unit_of(figure: &Figure) -> Option<OfFormat> {
    match figure.unit {
        Unit::Bytes => Some(OfFormat::Bytes),
        Unit::Nanoseconds => Some(OfFormat::Seconds),
        Unit::Count | Unit::YesOrNo | Unit::Moment => None,
    }
}

/// What is told of all processes together: metrics, and what they mean.
pub const OF_ALL: [(&str, MetricType, &str); 3] = [
    ("processes", MetricType::Gauge, "Processes that have a statistics page."),
    (
        "gone_processes",
        MetricType::Counter,
        "Processes with a statistics page that were killed or crashed, or ended in a way that the library does not see.",
    ),
    (
        "unreadable_pages",
        MetricType::Gauge,
        "Statistics pages that cannot be read: damaged, of another version, or too many in one directory.",
    ),
];

/// What is told of a process besides what it says of itself.
pub static OF_KERNEL: Table = Table::of_figures(&[
    of_process("page_age_ns", Unit::Nanoseconds, "Age of the process's statistics page."),
    of_process("resident_bytes", Unit::Bytes, "Resident bytes, as the kernel counts them now."),
    of_process("threads", Unit::Count, "Threads of the process."),
]);

/// The values of [`OF_KERNEL`]; zeroes if the process has ended, but for the age of its page.
pub fn of_kernel(process: &Process) -> [u64; 3] {
    let (resident_bytes, threads) = process.kernel.as_ref().map_or((0, 0), |it| (it.resident_bytes, it.threads));
    [process.age_ns(), resident_bytes, threads]
}

/// Of processes of one number the kernel knows only one.
const fn of_process(name: &'static str, unit: Unit, says: &'static str) -> Figure {
    Figure { topic: "process", name, kind: Kind::Gauge, unit, together: Together::Most, says }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let running: Vec<&Process> = self.processes.iter().filter(|process| process.state == State::Running).collect();
        for ((name, kind, says), value) in OF_ALL.into_iter().zip([running.len() as u64, self.gone, self.unreadable]) {
            let mut metric = encoder.encode_descriptor(name, says, None, kind)?;
            match kind {
                MetricType::Counter => metric.encode_counter::<NoLabelSet, _, u64>(&value, None)?,
                _ => metric.encode_gauge(&value)?,
            }
        }
        let told = |process: &&Process| (labels(process), of_kernel(process).to_vec());
        metrics(&mut encoder, &OF_KERNEL, running.iter().map(told))?;
        (0..TABLES.len()).try_for_each(|number| {
            let rows = running.iter().flat_map(|process| rows_of(process, number));
            metrics(&mut encoder, &TABLES[number], rows)
        })
    }
}

/// The rows of a table that are exported: their labels and values.
fn rows_of(process: &Process, number: usize) -> impl Iterator<Item = (Labels, Vec<u64>)> {
    let table = &TABLES[number];
    process.rows(number).enumerate().map(move |(number, row)| {
        let number = (!table.numbered.is_empty()).then(|| (table.numbered, number.to_string()));
        let texts = table.labels.iter().map(|label| label.name).zip(row.texts().map(str::to_owned));
        (labels(process).into_iter().chain(number).chain(texts).collect(), row.values().collect())
    })
}

/// A metric for each figure, of the rows that have the figures' values.
fn metrics(
    encoder: &mut DescriptorEncoder<'_>, table: &Table, rows: impl Iterator<Item = (Labels, Vec<u64>)>,
) -> fmt::Result {
    let rows = joined(table.figures, rows);
    for (column, figure) in table.figures.iter().enumerate().filter(|(_, figure)| figure.unit != Unit::Moment) {
        let samples = rows.iter().map(|(labels, values)| (labels, values[column]));
        // The number for no limit.
        let samples = samples.filter(|&(_, value)| figure.unit != Unit::Bytes || value != u64::MAX);
        metric(encoder, table, figure, samples)?;
    }
    Ok(())
}

/// Rows that have the same labels become one; what is the most, the number for no limit, stays so.
fn joined(figures: &[Figure], rows: impl Iterator<Item = (Labels, Vec<u64>)>) -> BTreeMap<Labels, Vec<u64>> {
    let mut joined = BTreeMap::<Labels, Vec<u64>>::new();
    for (labels, values) in rows {
        let all = joined.entry(labels).or_insert_with(|| vec![0; figures.len()]);
        for ((known, value), figure) in all.iter_mut().zip(values).zip(figures) {
            *known = match figure.together {
                Together::Most => value.max(*known),
                Together::Sum => known.saturating_add(value),
            };
        }
    }
    joined
}

fn labels(process: &Process) -> Labels {
    vec![("pid", process.pid.to_string()), ("program", process.name())]
}

fn metric<'a>(
    encoder: &mut DescriptorEncoder<'_>, table: &Table, figure: &Figure,
    samples: impl Iterator<Item = (&'a Labels, u64)>,
) -> fmt::Result {
    let kind = if figure.kind == Kind::Counter { MetricType::Counter } else { MetricType::Gauge };
    let mut samples = samples.peekable();
    // A family without samples is allowed, and says nothing; not everybody can read one.
    if samples.peek().is_none() {
        return Ok(());
    }
    let name = format!("{}{}", table.metrics, unitless(figure.name));
    let unit = unit_of(figure);
    let mut metric = encoder.encode_descriptor(&name, figure.says, unit.as_ref(), kind)?;
    for (labels, value) in samples {
        let mut sample = metric.encode_family(labels)?;
        let seconds = value as f64 / 1e9;
        match (figure.kind, figure.unit) {
            (Kind::Counter, Unit::Nanoseconds) => sample.encode_counter::<NoLabelSet, _, f64>(&seconds, None)?,
            (Kind::Counter, _) => sample.encode_counter::<NoLabelSet, _, f64>(&value, None)?,
            (Kind::Gauge, Unit::Nanoseconds) => sample.encode_gauge(&seconds)?,
            (Kind::Gauge, _) => sample.encode_gauge(&value)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use std::collections::HashSet;

    /// Two processes that run, and one that does not.
    fn processes() -> Vec<Process> {
        vec![sample::process(7, 0), Process { state: State::Gone, ..sample::process(8, 0) }, sample::process(9, 1)]
    }

    /// The value of the first sample of a name that has these labels.
    fn value(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        let samples = text.lines().filter_map(|line| line.rsplit_once(' '));
        let mut named = samples.filter(|(sample, _)| sample.split('{').next() == Some(name));
        let (_, value) = named.find(|(sample, _)| labels.iter().all(|label| sample.contains(label)))?;
        Some(value.parse().expect("it is a number"))
    }

    #[test]
    fn exposition_has_the_figures_of_the_pages() {
        let text = text(Scrape { processes: processes(), gone: 3, unreadable: 4 });
        let found = |name: &str, labels: &[(&str, &str)]| value(&text, name, labels);
        assert_eq!(
            (found("commensal_processes", &[]), found("commensal_gone_processes_total", &[])),
            (Some(2.0), Some(3.0))
        );
        assert_eq!(found("commensal_unreadable_pages", &[]), Some(4.0));
        assert_eq!(found("commensal_in_use_bytes", &[("pid", "7"), ("program", "sample")]), Some(1e7));
        assert_eq!(found("commensal_in_use_bytes", &[("pid", "9")]), Some(2e7));
        assert_eq!(found("commensal_in_use_bytes", &[("pid", "8")]), None, "it is no more");
        assert_eq!(found("commensal_resident_bytes", &[("pid", "7")]), Some(8e7));
        assert_eq!(found("commensal_threads", &[("pid", "7")]), Some(3.0));
        assert_eq!(found("commensal_kicks_total", &[("pid", "9")]), Some(6.0));
        assert_eq!(found("commensal_cache_refills_total", &[("pid", "9"), ("name", "requests")]), Some(40.0));
        assert_eq!(found("commensal_cache_in_use", &[("pid", "7"), ("name", "empty")]), None, "nobody used it");
        assert_eq!(found("commensal_slot_cached_objects", &[("pid", "7"), ("slot", "1")]), Some(100.0));
        assert_eq!(found("commensal_group_charged_bytes", &[("pid", "7"), ("name", "tenant \"one\"\\")]), Some(4096.0));
        assert_eq!(found("commensal_group_limit_bytes", &[]), None, "there is no limit");
        let age = found("commensal_page_age_seconds", &[("pid", "7")]).unwrap();
        assert!((3600.0..3700.0).contains(&age), "{age}");
        let caller = ("caller", "page_heap::runs::PageHeap::allocate");
        assert_eq!(
            found("commensal_lock_total_wait_seconds_total", &[caller, ("class", "page heap"), ("pid", "9")]),
            Some(0.0015)
        );
        assert_eq!(found("commensal_lock_max_wait_seconds", &[caller]), Some(9e-7));
    }

    /// A counter's samples end in `_total`, and the unit stands at the end of the family's name.
    #[test]
    fn metric_of_each_figure_has_its_kind_and_unit() {
        let text = text(Scrape { processes: processes(), ..Scrape::default() });
        let mut names = HashSet::new();
        for table in TABLES.iter().chain([&OF_KERNEL]) {
            for (figure, name) in table.figures.iter().filter_map(|figure| Some((figure, name_of(table, figure)?))) {
                assert!(names.insert(name.clone()), "{name} is there twice");
                let family = name.trim_end_matches("_total");
                // The only group has no limit, and what has no sample is not there.
                if family == "commensal_group_limit_bytes" {
                    assert!(!text.contains(family), "{text}");
                    continue;
                }
                let unit = unit_of(figure).map_or(String::new(), |unit| unit.as_str().to_owned());
                let times = |what: &str| text.lines().filter(|line| *line == format!("# {what}")).count();
                assert_eq!(times(&format!("TYPE {family} {}", figure.kind.word())), 1, "{family}:\n{text}");
                assert_eq!(times(&format!("UNIT {family} {unit}")), usize::from(!unit.is_empty()), "{family}: {unit}");
                let help = format!("# HELP {family} {}", figure.says.trim_end_matches('.'));
                assert!(text.lines().any(|line| line.starts_with(&help)), "{help}:\n{text}");
                assert!(text.lines().any(|line| line.starts_with(&format!("{name}{{"))), "{name}");
            }
        }
        let families = text.lines().filter(|line| line.starts_with("# TYPE ")).count();
        assert_eq!(families, names.len() - 1 + OF_ALL.len());
    }

    fn assert_each_is_there_once(text: &str) {
        let mut samples = HashSet::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(samples.insert(line.rsplit_once(' ').unwrap().0.to_owned()), "{line} is there twice");
        }
    }

    /// Users whose processes have numbers of their own, or who make their pages themselves, may have one of the same number and name each.
    #[test]
    fn processes_of_one_number_and_name_are_one_sample() {
        let processes = vec![sample::process(7, 0), sample::process(7, 1)];
        let text = text(Scrape { processes, ..Scrape::default() });
        assert_each_is_there_once(&text);
        let found = |name: &str, labels: &[(&str, &str)]| value(&text, name, labels);
        let in_all = ["resident_bytes", "threads", "in_use_bytes", "kicks_total", "upkeep_on"]
            .map(|name| found(&format!("commensal_{name}"), &[]).unwrap());
        assert_eq!(in_all, [8e7, 3.0, 3e7, 11.0, 1.0]);
        let age = found("commensal_page_age_seconds", &[]).unwrap();
        assert!((3600.0..3700.0).contains(&age), "the older one's: {age}");
        let of_cache = ["object_bytes", "limit", "batch", "in_use", "refills_total"]
            .map(|name| found(&format!("commensal_cache_{name}"), &[("name", "malloc-64")]).unwrap());
        assert_eq!(of_cache, [64.0, 120.0, 60.0, 600.0, 40.0]);
        let of_lock = ["contended_total", "max_wait_seconds", "total_wait_seconds_total"]
            .map(|name| found(&format!("commensal_lock_{name}"), &[]).unwrap());
        assert_eq!(of_lock, [35.0, 9e-7, 0.003]);
    }
}
