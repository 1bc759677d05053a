//! Grafana's dashboard asks for metrics and labels that the exporter has.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use commensal_runtime::observe::figures::TABLES;
use serde_json::Value;
use watch::openmetrics::{OF_KERNEL, name_of};

/// All strings of these keys, anywhere in a value.
fn strings<'a>(value: &'a Value, keys: &[&str], found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| match value.as_str() {
            Some(text) if keys.contains(&&**key) => found.push(text),
            _ => strings(value, keys, found),
        }),
        Value::Array(values) => values.iter().for_each(|value| strings(value, keys, found)),
        _ => {}
    }
}

/// Words of letters and underscores.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

/// Planted bugs that were seen here: a metric without its unit, and a label of another table.
#[test]
fn dashboard_asks_for_metrics_and_labels_that_there_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/grafana/commensal.json");
    let dashboard: Value = serde_json::from_slice(&fs::read(path).expect("the dashboard")).expect("it is JSON");
    let tables = || TABLES.iter().chain([&OF_KERNEL]);
    let metrics: BTreeSet<String> =
        tables().flat_map(|table| table.figures.iter().filter_map(move |figure| name_of(table, figure))).collect();
    let mut texts = Vec::new();
    strings(&dashboard, &["expr", "query"], &mut texts);
    let mut asked = 0;
    for text in texts {
        let metric = words(text).find(|word| word.starts_with("commensal_"));
        let Some(metric) = metric else { continue };
        asked += 1;
        assert!(metrics.contains(metric), "found the metric {metric}, which the exporter does not have, in {text}");
        let table = tables().find(|table| table.figures.iter().any(|f| name_of(table, f).as_deref() == Some(metric)));
        let of_table = table.expect("it has one").labels.iter().map(|label| label.name);
        let labels: Vec<&str> = ["pid", "program"].into_iter().chain(of_table).collect();
        let by = text.split("by (").nth(1).and_then(|rest| rest.split(')').next()).unwrap_or_default();
        let wrong = words(by).find(|label| !labels.contains(label));
        assert_eq!(wrong, None, "{metric} has the labels {labels:?}: {text}");
    }
    assert!(asked >= 15, "{asked} questions of the dashboard");
}
