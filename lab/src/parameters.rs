//! What tells one row of a measurement from another: a bundled program's name, numbers of CPUs, threads or updates. The JSON has them by
//! name, and tables as a few words.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a parameter is called in JSON, and in tables; one that is not here is read as it is written. `docs/measured.py` reads this, too.
const WORDS: [(&str, &str); 10] = [
    ("busy_cpus", "busy CPUs"),
    ("possible_cpus", "possible CPUs"),
    ("touched_slots", "slots touched"),
    ("threshold", "checkpoints"),
    ("till_qs_ms", "ms till told"),
    ("hold_ms", "ms"),
    ("work_ns", "ns of work"),
    ("hold_ns", "ns of hold"),
    ("paused_percent", "% paused"),
    ("equal_run_rate", "at equal run rate"),
];

/// The parameter that names a program.
const WORKLOAD: &str = "workload";

/// Names and values, in the order of the names. None for a measurement of one row.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Parameters(BTreeMap<String, Value>);

impl Parameters {
    /// A program's name; no parameters if it is empty.
    pub fn of_workload(name: &str) -> Self {
        if name.is_empty() { Self::default() } else { Self::default().with(WORKLOAD, name) }
    }

    /// The same and one more.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// A parameter's number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    /// Whether they name a program and nothing else: over such rows there is a mean, over numbers of CPUs it would mean nothing.
    pub fn are_workload(&self) -> bool {
        self.0.keys().all(|name| name == WORKLOAD)
    }
}

/// For tables: the program first, then the others: "make, 256 possible CPUs".
impl std::fmt::Display for Parameters {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let workload = self.0.get(WORKLOAD).and_then(Value::as_str).map(str::to_owned);
        let others = self.0.iter().filter(|(name, _)| *name != WORKLOAD).map(|(name, value)| {
            let words = WORDS.iter().find(|(known, _)| known == name).map_or(name.as_str(), |(_, words)| words);
            match (value.as_str(), value.as_bool()) {
                (Some(text), _) => format!("{words} {text}"),
                (_, Some(true)) => words.to_owned(),
                (_, Some(false)) => format!("not {words}"),
                _ if *value == 1 => format!("{value} {}", words.strip_suffix('s').unwrap_or(words)),
                _ => format!("{value} {words}"),
            }
        });
        out.write_str(&workload.into_iter().chain(others).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_words_and_machines_names() {
        let none = Parameters::default;
        for (parameters, words) in [
            (Parameters::of_workload(""), ""),
            (none().with("possible_cpus", 256).with("updates", 64), "256 possible CPUs, 64 updates"),
            (Parameters::of_workload("make").with("possible_cpus", 2), "make, 2 possible CPUs"),
            (none().with("path", "owner").with("threads", 1), "path owner, 1 thread"),
            // In the order of the names, whatever came first: rows are told apart by that.
            (none().with("till_qs_ms", 1).with("threshold", 256), "256 checkpoints, 1 ms till told"),
            (none().with("equal_run_rate", true), "at equal run rate"),
            (none().with("equal_run_rate", false), "not at equal run rate"),
        ] {
            assert_eq!(parameters.to_string(), words);
        }
        let of_life = none().with("possible_cpus", 256).with("updates", 64);
        assert_eq!(serde_json::to_string(&of_life).unwrap(), r#"{"possible_cpus":256,"updates":64}"#);
        assert_eq!((of_life.number("possible_cpus"), of_life.number("threads")), (Some(256), None));
    }
}
