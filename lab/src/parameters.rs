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
        let of_life = Parameters::default().with("possible_cpus", 256).with("updates", 64);
        assert_eq!(of_life.to_string(), "256 possible CPUs, 64 updates");
        assert_eq!(serde_json::to_string(&of_life).unwrap(), r#"{"possible_cpus":256,"updates":64}"#);
        assert_eq!((of_life.number("possible_cpus"), of_life.number("threads")), (Some(256), None));
        assert_eq!(Parameters::of_workload("make").with("possible_cpus", 2).to_string(), "make, 2 possible CPUs");
        assert_eq!(Parameters::default().with("path", "owner").with("threads", 1).to_string(), "path owner, 1 thread");
        let told = Parameters::default().with("freed", "as now").with("threshold", 256).with("till_qs_ms", 1);
        assert_eq!(told.to_string(), "freed as now, 256 checkpoints, 1 ms till told");
        // In the order of the names, whatever came first: rows are told apart by that.
        let turned = Parameters::default().with("till_qs_ms", 1).with("threshold", 256).with("freed", "as now");
        assert_eq!((turned.to_string(), &turned), (told.to_string(), &told));
        let rate = |is_equal: bool| Parameters::default().with("equal_run_rate", is_equal).to_string();
        assert_eq!([rate(true), rate(false)], ["at equal run rate", "not at equal run rate"]);
    }

    #[test]
    fn parameters_of_a_nameless_workload_are_empty() {
        assert_eq!(Parameters::of_workload(""), Parameters::default());
        assert_eq!(Parameters::default().to_string(), "");
    }

    #[test]
    fn means_are_of_programs() {
        assert!(Parameters::of_workload("store").are_workload() && Parameters::default().are_workload());
        assert!(!Parameters::of_workload("make").with("possible_cpus", 2).are_workload());
    }
}
