//! What is rendered is OpenMetrics: read back by a parser that is not ours, and held against the few rules that it does not know.
//!
//! Planted, each found here: quotes that are not escaped; a counter without `_total`; names that have become the same in two families; a
//! unit that is not at the end of the name; no end.

use commensal_metrics::{Builder, Recorder};
use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram, with_local_recorder,
};
use openmetrics_parser::openmetrics::parse_openmetrics;
use openmetrics_parser::{MetricNumber, OpenMetricsType, OpenMetricsValue};
use std::collections::HashSet;

type Exposition = openmetrics_parser::MetricsExposition<OpenMetricsType, OpenMetricsValue>;

fn recorder() -> Recorder {
    Builder::new().build().expect("the usual settings are good")
}

/// Reads what was rendered.
fn read(recorder: &Recorder) -> Exposition {
    let text = checked(recorder);
    parse_openmetrics(&text).unwrap_or_else(|why| panic!("{why}:\n{text}"))
}

/// What was rendered, looked at for what the parser does not see: that each sample is there once, families stand together, and each has
/// a name of its own with its unit at the end. The parser forbids units of histograms and families with several sets of labels, which the format allows.
fn checked(recorder: &Recorder) -> String {
    let text = recorder.render();
    assert!(text.ends_with("\n# EOF\n") || text == "# EOF\n", "{text}");
    let (mut families, mut samples, mut family) = (HashSet::new(), HashSet::new(), "");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split(' ').next().expect("there is a name");
            assert!(families.insert(family), "{family} begins twice:\n{text}");
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            let unit = rest.strip_prefix(family).and_then(|rest| rest.strip_prefix(' ')).expect("of this family");
            assert!(family.ends_with(&format!("_{unit}")), "{line}");
        } else if !line.starts_with('#') {
            let (sample, _) = line.rsplit_once(' ').expect("a value follows");
            assert!(sample.starts_with(family) && samples.insert(sample), "{line} is there twice, or not its family's");
        }
    }
    text
}

/// The value of a counter or gauge whose labels have these values.
fn value(exposition: &Exposition, family: &str, labels: &[(&str, &str)]) -> f64 {
    let family = exposition.families.get(family).unwrap_or_else(|| panic!("no {family}"));
    let has = |sample: &&openmetrics_parser::Sample<OpenMetricsValue>| {
        let labels_of = sample.get_labelset().expect("it has labels");
        labels.iter().all(|(name, value)| labels_of.get_label_value(name) == Some(value))
    };
    let sample = family.iter_samples().find(has).unwrap_or_else(|| panic!("no {labels:?}"));
    let number = match &sample.value {
        OpenMetricsValue::Counter(counter) => &counter.value,
        OpenMetricsValue::Gauge(number) => number,
        other => panic!("{other:?} is no number"),
    };
    match number {
        MetricNumber::Int(number) => *number as f64,
        MetricNumber::Float(number) => *number,
    }
}

#[test]
fn nothing_counted_is_an_empty_exposition() {
    assert_eq!(recorder().render(), "# EOF\n");
}

#[test]
fn counters_and_gauges_are_read_back() {
    let recorder = recorder();
    with_local_recorder(&recorder, || {
        describe_counter!("sent_total", Unit::Bytes, "What \"went\" out\nby \\ lines");
        describe_counter!("requests", Unit::Count, "Requests");
        counter!("sent_total", "to" => "a").increment(7);
        counter!("sent_total", "to" => "b").increment(1 << 62);
        counter!("requests").absolute(5);
        gauge!("load").set(0.1);
        gauge!("least").set(f64::MIN_POSITIVE);
        gauge!("most").set(f64::INFINITY);
        gauge!("none").set(f64::NAN);
    });
    let read = read(&recorder);
    let sent = &read.families["sent_bytes"];
    assert_eq!((sent.family_type, &*sent.unit), (OpenMetricsType::Counter, "bytes"));
    assert_eq!(sent.help, "What \"went\" out\nby \\ lines");
    assert_eq!(value(&read, "sent_bytes", &[("to", "b")]), (1_u64 << 62) as f64);
    assert_eq!(value(&read, "sent_bytes", &[("to", "a")]), 7.0);
    assert_eq!((value(&read, "requests", &[]), &*read.families["requests"].unit), (5.0, ""));
    assert_eq!(value(&read, "load", &[]), 0.1);
    assert_eq!(value(&read, "least", &[]), f64::MIN_POSITIVE);
    assert_eq!(value(&read, "most", &[]), f64::INFINITY);
    assert!(value(&read, "none", &[]).is_nan());
}

#[test]
fn labels_come_through_whatever_is_in_them() {
    let (recorder, nasty) =
        (recorder(), ["a\"b", "back\\slash", "two\nlines", "größe 量 🍽", "{x=\"y\"} 3", " ", "\\n"]);
    with_local_recorder(&recorder, || {
        for (at, text) in nasty.into_iter().enumerate() {
            counter!("größe.bytes", "wo?" => text, "mensa" => "1").increment(at as u64 + 1);
        }
    });
    let read = read(&recorder);
    for (at, text) in nasty.into_iter().enumerate() {
        assert_eq!(value(&read, "gr__e_bytes", &[("wo_", text), ("mensa", "1")]), at as f64 + 1.0, "{text:?}");
    }
}

#[test]
fn keys_that_look_the_same_are_all_there() {
    let recorder = recorder();
    with_local_recorder(&recorder, || {
        counter!("a_b").increment(1);
        counter!("a.b").increment(2);
        counter!("a/b_total").increment(3);
        counter!("a_b", "empty" => "").increment(4);
        gauge!("a_b").set(5);
        gauge!("a_b_total").set(6);
        histogram!("a_b").record(7.0);
    });
    let text = checked(&recorder);
    for line in [
        "a_b_total 1",
        "a_b_total{original=\"a.b\"} 2",
        "a_b_total{original=\"a/b_total\"} 3",
        "a_b_total{original=\"a_b \\\"empty\\\"=\\\"\\\"\"} 4",
        "a_b_gauge 5.0",
        "a_b_total_gauge 6.0",
        "a_b_histogram_count 1",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in:\n{text}");
    }
}

#[test]
fn histograms_are_summaries_or_have_buckets() {
    let by_quantiles = Builder::new().quantiles(&[0.5, 1.0]).build().expect("these are quantiles");
    let by_buckets = Builder::new().buckets(&[0.5, 10.0]).build().expect("these are bounds");
    for recorder in [&by_quantiles, &by_buckets] {
        with_local_recorder(recorder, || {
            histogram!("service", "le" => "x").record_many(0.25, 2);
            histogram!("service", "le" => "x").record(100.0);
        });
        read(recorder);
        with_local_recorder(recorder, || describe_histogram!("service", Unit::Seconds, "How long"));
    }
    let text = checked(&by_quantiles);
    assert!(text.starts_with("# TYPE service_seconds summary\n# UNIT service_seconds seconds\n# HELP"), "{text}");
    assert!(text.contains("service_seconds{le_2=\"x\",quantile=\"1.0\"} 100.0\n"), "{text}");
    assert!(text.contains("_count{le_2=\"x\"} 3\nservice_seconds_sum{le_2=\"x\"} 100.5\n"), "{text}");
    let text = checked(&by_buckets);
    for (bound, count) in [("0.5", 2), ("10.0", 2), ("+Inf", 3)] {
        let line = format!("\nservice_seconds_bucket{{le_2=\"x\",le=\"{bound}\"}} {count}\n");
        assert!(text.contains(&line), "no {line} in {text}");
    }
    // No sum and no quantiles of negative values.
    with_local_recorder(&by_buckets, || histogram!("below").record(-1.0));
    let text = checked(&by_buckets);
    assert!(text.contains("below_bucket{le=\"+Inf\"} 1\n"), "{text}");
    assert!(!text.contains("below_sum") && !text.contains("below_count"), "{text}");
    with_local_recorder(&by_quantiles, || histogram!("below").record(-1.0));
    let text = checked(&by_quantiles);
    assert!(text.contains("# TYPE below summary\nbelow_count 1\n# TYPE"), "{text}");
}

#[test]
fn what_is_said_first_describes_and_order_is_by_name() {
    let recorder = recorder();
    with_local_recorder(&recorder, || {
        describe_gauge!("b", "first");
        describe_gauge!("b", Unit::Bytes, "second");
        gauge!("b", "x" => "2").set(2);
        gauge!("b", "x" => "10").set(10);
        counter!("a").increment(1);
    });
    let text = "# TYPE a counter\na_total 1\n# TYPE b gauge\n# HELP b first\nb{x=\"10\"} 10.0\nb{x=\"2\"} 2.0\n# EOF\n";
    assert_eq!(recorder.render(), text);
}
