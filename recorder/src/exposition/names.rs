//! Names, labels and texts as the format has them.
//!
//! A name has letters, digits, underscores and colons, and no digit at the beginning; a label's has no colons. What is none of these becomes
//! an underscore. Texts may have anything, with line ends, quotes and backslashes escaped.

use crate::recorder::MetricKind;
use metrics::Key;
use std::collections::HashSet;
use std::fmt::Write as _;

/// Labels that the format itself puts to samples, or this recorder.
const ORIGINAL: &str = "original";
const RESERVED: [&str; 3] = ["le", "quantile", ORIGINAL];

/// What the family of a name is called: fit for the format, with its unit at the end, and without what the samples of a counter have.
pub fn family(name: &str, kind: MetricKind, unit: Option<&str>) -> String {
    let mut family = fit(name, ":");
    if kind == MetricKind::Counter
        && let Some(stem) = family.strip_suffix("_total").filter(|stem| !stem.is_empty())
    {
        family.truncate(stem.len());
    }
    if let Some(unit) = unit
        && family.strip_suffix(unit).is_none_or(|stem| !stem.ends_with('_'))
    {
        write!(family, "_{unit}").expect("a string takes everything");
    }
    family
}

fn fit(name: &str, also: &str) -> String {
    let is_fit = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || also.contains(letter);
    let mut fit: String = name.chars().map(|letter| if is_fit(letter) { letter } else { '_' }).collect();
    if fit.is_empty() || fit.starts_with(|first: char| first.is_ascii_digit()) {
        fit.insert(0, '_');
    }
    fit
}

/// A key's labels as they stand between braces, in the order of their names. An empty label is none, and of names that have become the same
/// all but the first get a number.
pub fn labels(key: &Key, kind: MetricKind) -> String {
    let own = RESERVED.iter().filter(|_| kind == MetricKind::Histogram);
    let mut taken: HashSet<String> = own.chain([&ORIGINAL]).map(|name| (*name).to_owned()).collect();
    let mut given: Vec<_> = key.labels().filter(|label| !label.value().is_empty()).collect();
    given.sort();
    let mut written: Vec<(String, &str)> = Vec::new();
    for label in given {
        let name = fit(label.key(), "");
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let free = [name.clone()].into_iter().chain(numbered).find(|name| taken.insert(name.clone()));
        written.push((free.expect("numbers do not end"), label.value()));
    }
    written.sort();
    let pairs: Vec<String> = written.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    pairs.join(",")
}

/// The label that tells a key from others that look the same: no two are the same.
pub fn original(key: &Key) -> String {
    let mut text = key.name().to_owned();
    key.labels().for_each(|label| {
        write!(text, " {:?}={:?}", label.key(), label.value()).expect("a string takes everything");
    });
    format!("{ORIGINAL}=\"{}\"", escaped(&text))
}

pub fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::Label;

    #[test]
    fn names_become_fit() {
        let of = |name: &str| family(name, MetricKind::Gauge, None);
        assert_eq!(["a.b", "9lives", "größe", "", "a:b_total"].map(of), ["a_b", "_9lives", "gr__e", "_", "a:b_total"]);
        let counter = |name: &str| family(name, MetricKind::Counter, Some("bytes"));
        let sent = "sent_bytes";
        assert_eq!(["sent", "sent_total", "sent_bytes", "sent_bytes_total"].map(counter), [sent; 4]);
        assert_eq!([counter("_total"), counter("kilobytes")], ["_total_bytes", "kilobytes_bytes"]);
    }

    #[test]
    fn labels_are_escaped_and_told_apart() {
        let key = |labels: &[(&'static str, &'static str)]| {
            let labels: Vec<Label> = labels.iter().map(|&(name, value)| Label::new(name, value)).collect();
            Key::from_parts("x", labels)
        };
        let of = |given| labels(&key(given), MetricKind::Histogram);
        assert_eq!(of(&[("path", "a\"b\\c\nd"), ("größe", "ü")]), "gr__e=\"ü\",path=\"a\\\"b\\\\c\\nd\"");
        assert_eq!(of(&[("b.c", "1"), ("b_c", "2"), ("a", "3")]), "a=\"3\",b_c=\"1\",b_c_2=\"2\"");
        assert_eq!(of(&[("le", "1"), ("none", "")]), "le_2=\"1\"");
        assert_eq!(labels(&key(&[("le", "1"), ("original", "x")]), MetricKind::Gauge), "le=\"1\",original_2=\"x\"");
    }
}
