//! Text in the OpenMetrics format, for programs that watch many machines.
//!
//! A metric is named `commensal_` and by its table and field, and has the labels `pid` and `program`, and those of its row. Nanoseconds become seconds, the
//! format's base unit, and moments are left out, as no two machines have the same clock for them. Processes that are no more are counted, and not shown.
//! Rows that have the same labels, as groups of one name have, are one sample, their sum or the largest of them: the format has each only once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit as OfFormat};
use runtime::observe::page::{Cache, Field, Figures, Group, Kind, Lock, Row, Slot, Unit};

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
pub fn text(scrape: Scrape) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("commensal");
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// The name of a field's metric, without what the format puts before and after it.
fn name_of(table: &str, field: &Field) -> String {
    let name = field.name.trim_end_matches("_bytes").trim_end_matches("_ns");
    format!("{table}{name}")
}

/// Of rows that have the same labels these have the largest value, as a sum would say nothing:
const LARGEST: [&str; 12] = [
    // what holds for each object or array of a cache by itself,
    "object_bytes",
    "limit",
    "batch",
    // how long each takes, or has been waiting, or how old it is,
    "max_wait_ns",
    "rcu_waiting_ns",
    "unvisited_ns",
    "page_age_ns",
    "upkeep_longest_ns",
    // how each process is set,
    "upkeep_interval_ns",
    "upkeep_patience",
    // and what the kernel says of one process, whatever pages there are with its number. So is what is yes or no.
    "resident_bytes",
    "threads",
];

fn is_largest(field: &Field) -> bool {
    field.unit == Unit::YesOrNo || LARGEST.contains(&field.name)
}

const AGE: Field = of_process("page_age_ns", Unit::Nanoseconds, "How old the process's statistics page is.");
const RESIDENT: Field = of_process("resident_bytes", Unit::Bytes, "Bytes of memory, as the kernel counts them.");
const THREADS: Field = of_process("threads", Unit::Count, "Threads of the process.");

const fn of_process(name: &'static str, unit: Unit, says: &'static str) -> Field {
    Field { name, kind: Kind::Gauge, unit, says }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let running: Vec<&Process> = self.processes.iter().filter(|process| process.state == State::Running).collect();
        let (running_help, gone_help, unreadable_help) = (
            "Processes that have a statistics page.",
            "Processes that were killed, crashed, or left by _exit or exec, of those that had a statistics page.",
            "Statistics pages that cannot be read, as they are damaged or of another version, or that are too many.",
        );
        encoder
            .encode_descriptor("processes", running_help, None, MetricType::Gauge)?
            .encode_gauge(&(running.len() as u64))?;
        encoder
            .encode_descriptor("gone_processes", gone_help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&self.gone, None)?;
        encoder
            .encode_descriptor("unreadable_pages", unreadable_help, None, MetricType::Gauge)?
            .encode_gauge(&self.unreadable)?;
        let told = |process: &&Process| {
            let kernel = process.kernel.clone().unwrap_or_default();
            (labels(process), vec![process.age_ns(), kernel.resident_bytes, kernel.threads])
        };
        metrics(&mut encoder, "", &[AGE, RESIDENT, THREADS], running.iter().map(told))?;
        table::<Figures>(&mut encoder, &running, "", None, |_| true)?;
        table::<Cache>(&mut encoder, &running, "cache_", None, |cache| cache.spans > 0)?;
        table::<Slot>(&mut encoder, &running, "slot_", Some("slot"), |_| true)?;
        table::<Group>(&mut encoder, &running, "group_", None, |_| true)?;
        table::<Lock>(&mut encoder, &running, "lock_", None, |_| true)
    }
}

/// All metrics of a table, of the rows that are to be shown; their number is a label, if it has a name.
fn table<R: Row>(
    encoder: &mut DescriptorEncoder<'_>,
    running: &[&Process],
    name: &str,
    number_label: Option<&'static str>,
    is_shown: fn(&R) -> bool,
) -> fmt::Result {
    let of_process = |process: &Process| {
        let shown = process.said.snapshot().rows::<R>().enumerate().filter(|(_, row)| is_shown(row));
        let labels_and_values = shown.map(|(number, row)| {
            let number = number_label.map(|label| (label, number.to_string()));
            let texts = R::TEXTS.iter().copied().zip(row.texts().map(str::to_owned));
            let labels: Labels = labels(process).into_iter().chain(number).chain(texts).collect();
            (labels, row.values().collect::<Vec<u64>>())
        });
        labels_and_values.collect::<Vec<_>>()
    };
    metrics(encoder, name, R::FIELDS, running.iter().flat_map(|process| of_process(process)))
}

/// A metric for each field, of the rows that have the fields' values.
fn metrics(
    encoder: &mut DescriptorEncoder<'_>,
    table: &str,
    fields: &[Field],
    rows: impl Iterator<Item = (Labels, Vec<u64>)>,
) -> fmt::Result {
    let rows = joined(fields, rows);
    for (column, field) in fields.iter().enumerate() {
        metric(encoder, table, field, rows.iter().map(|(labels, values)| (labels.clone(), values[column])))?;
    }
    Ok(())
}

/// Rows that have the same labels become one; what is the most, the number for no limit, stays so.
fn joined(fields: &[Field], rows: impl Iterator<Item = (Labels, Vec<u64>)>) -> Vec<(Labels, Vec<u64>)> {
    let mut places = HashMap::<Labels, usize>::new();
    let mut joined: Vec<(Labels, Vec<u64>)> = Vec::new();
    for (labels, values) in rows {
        match places.entry(labels.clone()) {
            Entry::Occupied(place) => {
                let (_, known) = &mut joined[*place.get()];
                for ((known, value), field) in known.iter_mut().zip(values).zip(fields) {
                    *known = if is_largest(field) { value.max(*known) } else { known.saturating_add(value) };
                }
            }
            Entry::Vacant(place) => {
                place.insert(joined.len());
                joined.push((labels, values));
            }
        }
    }
    joined
}

fn labels(process: &Process) -> Labels {
    vec![("pid", process.pid.to_string()), ("program", process.name())]
}

/// Whether a value is the number that stands for none.
fn is_no_limit(field: &Field, value: u64) -> bool {
    field.unit == Unit::Bytes && value == u64::MAX
}

fn metric(
    encoder: &mut DescriptorEncoder<'_>,
    table: &str,
    field: &Field,
    samples: impl Iterator<Item = (Labels, u64)>,
) -> fmt::Result {
    let unit = match field.unit {
        Unit::Moment => return Ok(()),
        Unit::Bytes => Some(OfFormat::Bytes),
        Unit::Nanoseconds => Some(OfFormat::Seconds),
        Unit::Count | Unit::YesOrNo => None,
    };
    let kind = if field.kind == Kind::Counter { MetricType::Counter } else { MetricType::Gauge };
    let mut samples = samples.filter(|&(_, value)| !is_no_limit(field, value)).peekable();
    // A family without samples is allowed, and says nothing; not everybody can read one.
    if samples.peek().is_none() {
        return Ok(());
    }
    let name = name_of(table, field);
    let mut metric = encoder.encode_descriptor(&name, field.says.trim(), unit.as_ref(), kind)?;
    for (labels, value) in samples {
        let mut sample = metric.encode_family(&labels)?;
        let seconds = value as f64 / 1e9;
        match (field.kind, field.unit) {
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
    use crate::page::Copied;
    use crate::sample;
    use openmetrics_parser::openmetrics::parse_openmetrics;
    use openmetrics_parser::{MetricNumber, OpenMetricsType, OpenMetricsValue};
    use std::collections::HashSet;

    type Family = openmetrics_parser::MetricFamily<OpenMetricsType, OpenMetricsValue>;
    type Exposition = openmetrics_parser::MetricsExposition<OpenMetricsType, OpenMetricsValue>;

    /// Two processes that run, and one that does not.
    fn processes() -> Vec<Process> {
        vec![sample::process(7, 0), Process { state: State::Gone, ..sample::process(8, 0) }, sample::process(9, 1)]
    }

    fn read(text: &str) -> Exposition {
        parse_openmetrics(text).unwrap_or_else(|why| panic!("{why}:\n{text}"))
    }

    /// The value of the sample that has these labels.
    fn value(family: &Family, labels: &[(&str, &str)]) -> Option<f64> {
        let sample = family.iter_samples().find(|sample| {
            let own = sample.get_labelset().expect("it has labels");
            labels.iter().all(|(name, value)| own.get_label_value(name) == Some(value))
        })?;
        let number = match &sample.value {
            OpenMetricsValue::Counter(counter) => &counter.value,
            OpenMetricsValue::Gauge(number) => number,
            other => panic!("{other:?} is no number"),
        };
        Some(match number {
            MetricNumber::Int(number) => *number as f64,
            MetricNumber::Float(number) => *number,
        })
    }

    #[test]
    fn another_parser_reads_what_was_said() {
        let read = read(&text(Scrape { processes: processes(), gone: 3, unreadable: 4 }).unwrap());
        let found = |family: &str, labels: &[(&str, &str)]| {
            value(read.families.get(family).unwrap_or_else(|| panic!("no {family}")), labels)
        };
        assert_eq!((found("commensal_processes", &[]), found("commensal_gone_processes", &[])), (Some(2.0), Some(3.0)));
        assert_eq!(found("commensal_unreadable_pages", &[]), Some(4.0));
        assert_eq!(found("commensal_in_use_bytes", &[("pid", "7"), ("program", "sample")]), Some(1e7));
        assert_eq!(found("commensal_in_use_bytes", &[("pid", "9")]), Some(2e7));
        assert_eq!(found("commensal_in_use_bytes", &[("pid", "8")]), None, "it is no more");
        assert_eq!(found("commensal_resident_bytes", &[("pid", "7")]), Some(8e7));
        assert_eq!(found("commensal_threads", &[("pid", "7")]), Some(3.0));
        assert_eq!(found("commensal_kicks", &[("pid", "9")]), Some(6.0));
        assert_eq!(found("commensal_cache_refills", &[("pid", "9"), ("name", "requests")]), Some(40.0));
        assert_eq!(found("commensal_cache_in_use", &[("pid", "7"), ("name", "empty")]), None, "it has no spans");
        assert_eq!(found("commensal_slot_cached_objects", &[("pid", "7"), ("slot", "1")]), Some(100.0));
        assert_eq!(found("commensal_group_charged_bytes", &[("pid", "7"), ("name", "tenant \"one\"\\")]), Some(4096.0));
        assert!(!read.families.contains_key("commensal_group_limit_bytes"), "there is no limit");
        let age = found("commensal_page_age_seconds", &[("pid", "7")]).unwrap();
        assert!((3600.0..3700.0).contains(&age), "{age}");
        let caller = ("caller", "page::zone::Zone::allocate");
        assert_eq!(
            found("commensal_lock_total_wait_seconds", &[caller, ("class", "zone"), ("pid", "9")]),
            Some(0.0015)
        );
        assert_eq!(found("commensal_lock_max_wait_seconds", &[caller]), Some(9e-7));
    }

    /// All that is declared is there, as what it is declared as: a counter's samples end in `_total`, and the unit stands at the end of the name.
    #[test]
    fn each_field_is_a_metric_of_its_kind_and_unit() {
        let text = text(Scrape { processes: processes(), ..Scrape::default() }).unwrap();
        let read = read(&text);
        let mut expected = 6;
        let mut tables = vec![("", Figures::FIELDS), ("cache_", Cache::FIELDS), ("slot_", Slot::FIELDS)];
        tables.extend([("group_", Group::FIELDS), ("lock_", Lock::FIELDS)]);
        for (table, field) in
            tables.into_iter().flat_map(|(table, fields)| fields.iter().map(move |field| (table, field)))
        {
            let unit = match field.unit {
                Unit::Moment => continue,
                Unit::Bytes => "bytes",
                Unit::Nanoseconds => "seconds",
                Unit::Count | Unit::YesOrNo => "",
            };
            let name = format!("commensal_{}", [&name_of(table, field), unit].join("_").trim_end_matches('_'));
            assert!(!name.contains("_ns"), "{name}");
            // The only group has no limit, and what has no sample is not there.
            if name == "commensal_group_limit_bytes" {
                assert!(!text.contains(&name), "{text}");
                continue;
            }
            expected += 1;
            let head = |what: &str| text.contains(&format!("# {what}\n"));
            let kind = if field.kind == Kind::Counter { "counter" } else { "gauge" };
            assert!(head(&format!("TYPE {name} {kind}")), "{name}, a {kind}:\n{text}");
            assert_eq!(head(&format!("UNIT {name} {unit}")), !unit.is_empty(), "{name}: {unit}");
            let family = &read.families[&name];
            assert_eq!((&*family.unit, family.family_type == OpenMetricsType::Counter), (unit, kind == "counter"));
            assert!(family.help.starts_with(field.says.trim().trim_end_matches('.')), "{}", family.help);
            let samples = text.lines().filter(|line| line.starts_with(&format!("{name}_total{{"))).count();
            assert_eq!(samples > 0, kind == "counter", "{name}_total");
        }
        assert_eq!(text.lines().filter(|line| line.starts_with("# TYPE ")).count(), expected);
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
        let text = text(Scrape { processes, ..Scrape::default() }).unwrap();
        assert_each_is_there_once(&text);
        let read = read(&text);
        let found = |family: &str, labels: &[(&str, &str)]| value(&read.families[family], labels);
        let in_all = ["resident_bytes", "threads", "in_use_bytes", "kicks", "upkeep_on"]
            .map(|name| found(&format!("commensal_{name}"), &[]).unwrap());
        assert_eq!(in_all, [8e7, 3.0, 3e7, 11.0, 1.0]);
        let age = found("commensal_page_age_seconds", &[]).unwrap();
        assert!((3600.0..3700.0).contains(&age), "the older one's: {age}");
        let of_cache = ["object_bytes", "limit", "batch", "in_use", "refills"]
            .map(|name| found(&format!("commensal_cache_{name}"), &[("name", "malloc-64")]).unwrap());
        assert_eq!(of_cache, [64.0, 120.0, 60.0, 600.0, 40.0]);
        let of_lock = ["contended", "max_wait_seconds", "total_wait_seconds"]
            .map(|name| found(&format!("commensal_lock_{name}"), &[]).unwrap());
        assert_eq!(of_lock, [35.0, 9e-7, 0.003]);
    }

    /// A gauge of a new field is added up unless it is named, and who renames one does so there as well.
    #[test]
    fn what_is_not_added_up_is_there() {
        let tables = [Figures::FIELDS, Cache::FIELDS, Slot::FIELDS, Group::FIELDS, Lock::FIELDS];
        let fields: Vec<Field> = tables.concat().into_iter().chain([AGE, RESIDENT, THREADS]).collect();
        for name in LARGEST {
            let named: Vec<&Field> = fields.iter().filter(|field| field.name == name).collect();
            assert!(!named.is_empty() && named.iter().all(|field| field.kind == Kind::Gauge), "{name}: {named:?}");
        }
        let of_time = fields.iter().filter(|field| field.kind == Kind::Gauge && field.unit == Unit::Nanoseconds);
        for field in of_time {
            assert!(is_largest(field), "{}: times of several are not one after the other", field.name);
        }
    }

    #[test]
    fn groups_of_one_name_are_one_sample() {
        let mut process = sample::process(7, 0);
        process.said = Copied::from_bytes(sample::page_of_groups(&[
            ("a", 1, u64::MAX),
            ("b", 10, 50),
            ("a", 2, 7),
            ("b", 20, 60),
        ]));
        let text = text(Scrape { processes: vec![process], ..Scrape::default() }).unwrap();
        assert_each_is_there_once(&text);
        let read = read(&text);
        let found = |family: &str, name: &str| value(&read.families[family], &[("name", name)]);
        assert_eq!(found("commensal_group_charged_bytes", "a"), Some(3.0));
        assert_eq!(found("commensal_group_charged_bytes", "b"), Some(30.0));
        assert_eq!(
            (found("commensal_group_limit_bytes", "a"), found("commensal_group_limit_bytes", "b")),
            (None, Some(110.0))
        );
    }

    #[test]
    fn nobody_is_an_exposition_too() {
        let text = text(Scrape::default()).unwrap();
        assert!(text.contains("\ncommensal_processes 0\n") && text.ends_with("\n# EOF\n"), "{text}");
        read(&text);
    }
}
