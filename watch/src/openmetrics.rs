//! Text in the OpenMetrics format, for programs that watch many machines.
//!
//! A metric is named `commensal_` and by its table and field, and has the labels `pid` and `program`, and those of its row. Nanoseconds become seconds, the
//! format's base unit, and moments are left out, as no two machines have the same clock for them. Processes that are no more are counted, and not shown.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit as OfFormat};
use runtime::observe::page::{Cache, Field, Figures, Group, Kind, Lock, Row, Slot, Unit};

use crate::process::{Process, State};

type Labels = Vec<(&'static str, String)>;

/// The media type of the text.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What some processes say.
pub fn text(processes: Vec<Process>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("commensal");
    registry.register_collector(Box::new(Scrape(processes)));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// The name of a field's metric, without what the format puts before and after it.
fn name_of(table: &str, field: &Field) -> String {
    let name = field.name.trim_end_matches("_bytes").trim_end_matches("_ns");
    format!("{table}{name}")
}

#[derive(Debug)]
struct Scrape(Vec<Process>);

const AGE: Field = of_process("page_age_ns", Unit::Nanoseconds, "How old the process's statistics page is.");
const RESIDENT: Field = of_process("resident_bytes", Unit::Bytes, "Bytes of memory, as the kernel counts them.");
const THREADS: Field = of_process("threads", Unit::Count, "Threads of the process.");

const fn of_process(name: &'static str, unit: Unit, says: &'static str) -> Field {
    Field { name, kind: Kind::Gauge, unit, says }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let running: Vec<&Process> = self.0.iter().filter(|process| process.state == State::Running).collect();
        let gone = self.0.len() - running.len();
        let counts = [
            ("processes", "Processes that have a statistics page.", running.len()),
            ("gone_processes", "Pages of processes that were killed, crashed or execute another program.", gone),
        ];
        for (name, help, many) in counts {
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&(many as u64))?;
        }
        let kernel = |process: &Process| process.kernel.clone().unwrap_or_default();
        let mut told = |field: Field, value: &dyn Fn(&Process) -> u64| {
            metric(&mut encoder, "", &field, running.iter().map(|process| (labels(process), value(process))))
        };
        told(AGE, &Process::age_ns)?;
        told(RESIDENT, &|process| kernel(process).resident_bytes)?;
        told(THREADS, &|process| kernel(process).threads)?;
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
    let rows: Vec<(Labels, Vec<u64>)> = running.iter().flat_map(|process| of_process(process)).collect();
    for (column, field) in R::FIELDS.iter().enumerate() {
        metric(encoder, name, field, rows.iter().map(|(labels, values)| (labels.clone(), values[column])))?;
    }
    Ok(())
}

fn labels(process: &Process) -> Labels {
    vec![("pid", process.pid.to_string()), ("program", process.name())]
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
    let name = name_of(table, field);
    let mut metric = encoder.encode_descriptor(&name, field.says.trim(), unit.as_ref(), kind)?;
    for (labels, value) in samples {
        // No limit.
        if field.unit == Unit::Bytes && value == u64::MAX {
            continue;
        }
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
