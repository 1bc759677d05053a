//! All metrics as text, in the format of OpenMetrics 1.0.
//!
//! A family is one name and all its samples. Names of the program that look the same once they are made fit ([`names`]) come together in one
//! family, and families of several kinds, or with each other's suffixes, are told apart by their kind: nothing is left out, and no sample is
//! there twice. Of samples that would be the same, all but the first carry a label `original` with the key as the program wrote it.

mod names;

use crate::histogram::Distribution;
use crate::recorder::{Description, Descriptions, MetricKind, Snapshot};
use metrics::{Key, Unit};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

/// One sample's value, of whichever kind.
#[derive(Clone, Copy)]
enum Value<'a> {
    Counter(u64),
    Gauge(f64),
    Distribution(&'a Distribution),
}

/// What families are sorted by, and the samples of one.
type Families<'a> = BTreeMap<(String, MetricKind), Vec<(&'a Key, Value<'a>)>>;

pub(crate) fn render(snapshot: &Snapshot, descriptions: &Descriptions) -> String {
    let mut families = Families::new();
    let counters = snapshot.counters.iter().map(|(key, value)| (MetricKind::Counter, key, Value::Counter(*value)));
    let gauges = snapshot.gauges.iter().map(|(key, value)| (MetricKind::Gauge, key, Value::Gauge(*value)));
    let histograms =
        snapshot.histograms.iter().map(|(key, value)| (MetricKind::Histogram, key, Value::Distribution(value)));
    for (kind, key, value) in counters.chain(gauges).chain(histograms) {
        let name = names::family(key.name(), kind, unit_of(describe(descriptions, kind, key)));
        families.entry((name, kind)).or_default().push((key, value));
    }
    let (mut text, mut taken) = (String::new(), HashSet::new());
    for ((wanted, kind), mut samples) in families {
        // The program's own name first: it keeps its labels where another name has become the same.
        samples.sort_by_key(|(key, _)| key.name() != wanted);
        let name = free_name(&mut taken, &wanted, kind);
        let description = samples.iter().find_map(|(key, _)| describe(descriptions, kind, key));
        let unit = unit_of(description).filter(|unit| name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_')));
        write_head(&mut text, &name, samples[0].1, unit, description.map(|description| &*description.text));
        let mut seen = HashSet::new();
        for (key, value) in samples {
            let mut labels = names::labels(key, kind);
            if !seen.insert(labels.clone()) {
                labels = format!("{labels}{}{}", if labels.is_empty() { "" } else { "," }, names::original(key));
            }
            write_sample(&mut text, &name, &labels, value);
        }
    }
    text.push_str("# EOF\n");
    text
}

fn describe<'a>(descriptions: &'a Descriptions, kind: MetricKind, key: &Key) -> Option<&'a Description> {
    descriptions.get(&(kind, key.name_shared()))
}

/// What of the units the format takes for one: a count of things has none.
fn unit_of(description: Option<&Description>) -> Option<&'static str> {
    description.and_then(|description| description.unit).filter(|&unit| unit != Unit::Count).map(|unit| unit.as_str())
}

/// A name of which neither itself nor one of its samples is another family's.
fn free_name(taken: &mut HashSet<String>, wanted: &str, kind: MetricKind) -> String {
    let (suffixes, word): (&[&str], _) = match kind {
        MetricKind::Counter => (&["", "_total", "_created"], "counter"),
        MetricKind::Gauge => (&[""], "gauge"),
        MetricKind::Histogram => (&["", "_bucket", "_count", "_sum", "_created"], "histogram"),
    };
    let mut name = wanted.to_owned();
    loop {
        let names: Vec<String> = suffixes.iter().map(|suffix| format!("{name}{suffix}")).collect();
        if names.iter().all(|name| !taken.contains(name)) {
            taken.extend(names);
            return name;
        }
        write!(name, "_{word}").expect("a string takes everything");
    }
}

fn write_head(text: &mut String, name: &str, value: Value, unit: Option<&str>, help: Option<&str>) {
    let kind = match value {
        Value::Counter(_) => "counter",
        Value::Gauge(_) => "gauge",
        Value::Distribution(distribution) if distribution.buckets.is_empty() => "summary",
        Value::Distribution(_) => "histogram",
    };
    writeln!(text, "# TYPE {name} {kind}").expect("a string takes everything");
    if let Some(unit) = unit {
        writeln!(text, "# UNIT {name} {unit}").expect("a string takes everything");
    }
    if let Some(help) = help {
        writeln!(text, "# HELP {name} {}", names::escaped(help)).expect("a string takes everything");
    }
}

fn write_sample(text: &mut String, name: &str, labels: &str, value: Value) {
    let mut line = |suffix: &str, more: &str, value: String| {
        let comma = if labels.is_empty() || more.is_empty() { "" } else { "," };
        let labels = format!("{labels}{comma}{more}");
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        writeln!(text, "{name}{suffix}{labels} {value}").expect("a string takes everything");
    };
    match value {
        Value::Counter(value) => line("_total", "", value.to_string()),
        Value::Gauge(value) => line("", "", number(value)),
        Value::Distribution(distribution) => {
            // The format has no negative quantiles.
            for (quantile, value) in distribution.quantiles.iter().filter(|(_, value)| value.is_nan() || *value >= 0.0)
            {
                line("", &format!("quantile=\"{}\"", number(*quantile)), number(*value));
            }
            for (bound, count) in &distribution.buckets {
                line("_bucket", &format!("le=\"{}\"", number(*bound)), count.to_string());
            }
            if !distribution.buckets.is_empty() {
                line("_bucket", "le=\"+Inf\"", distribution.count.to_string());
            }
            // Negative values, and what is no number, have no sum in the format, and a histogram without a sum has its count at the last bucket only.
            let bounds_are_positive = distribution.buckets.iter().all(|(bound, _)| *bound >= 0.0);
            let has_sum = distribution.sum >= 0.0 && bounds_are_positive;
            if has_sum || distribution.buckets.is_empty() {
                line("_count", "", distribution.count.to_string());
            }
            if has_sum {
                line("_sum", "", number(distribution.sum));
            }
        }
    }
}

/// As the format writes numbers: the shortest that is read back as the same.
fn number(value: f64) -> String {
    match value {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        _ => format!("{value:?}"),
    }
}
