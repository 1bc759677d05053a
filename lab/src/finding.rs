//! Whether a program behaves the same under each arm, and what differs.
//!
//! A run that printed something else cannot count as faster. So the end and the output of each run are compared with the
//! baseline's. If the output differs even between runs of the baseline (a time, say), it is not compared, and a note says so.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;

use anyhow::Result;
use similar::TextDiff;

use crate::process::{End, Run};

/// Part of an output that is kept for display. All of it is compared.
const KEPT_BYTES: usize = 1 << 20;
/// Variants of an output that are kept for display.
const KEPT_VARIANTS: usize = 2;
const SHOWN_LINES: usize = 14;
/// How findings about output begin.
pub const PRINTED: &str = "printed something else";
const STREAMS: [&str; 2] = ["standard output", "standard error"];

/// Something that the user must know about a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// Where: the program's name, if there were several.
    pub row: String,
    /// The arm; empty if it is not about one.
    pub arm: String,
    /// What happened, in one line.
    pub what: String,
    /// What it printed, or how that differs, line by line.
    pub detail: String,
    /// Whether it is a fault of the arm, whose figures then mean nothing. Otherwise it is a note.
    pub is_fault: bool,
}

/// What one arm's runs did, seen so far.
#[derive(Default)]
struct Conduct {
    runs: usize,
    /// By the hash of what was printed: how often, and how the first few begin. For each stream.
    printed: [BTreeMap<u64, (usize, Vec<u8>)>; 2],
    failure: Option<(usize, End, Vec<u8>)>,
    left_running: usize,
}

/// What a program did under each arm.
pub struct Witness {
    row: String,
    names: Vec<String>,
    conducts: Vec<Conduct>,
    /// How runs have to end: as the first one did under the baseline.
    expected: Option<End>,
    prints_the_same: bool,
    /// Of runs whose figures could not be read.
    unreadable: Vec<Finding>,
}

impl Witness {
    /// Arms in their order: the baseline, its control, then the others.
    pub fn new(row: &str, names: Vec<String>, prints_the_same: bool) -> Self {
        let conducts = names.iter().map(|_| Conduct::default()).collect();
        Self { row: row.to_owned(), names, conducts, expected: None, prints_the_same, unreadable: Vec::new() }
    }

    /// Each run has to end with status 0, also the first.
    pub fn expecting_success(self) -> Self {
        Self { expected: Some(End::Exited(0)), ..self }
    }

    /// Takes note of a run. Whether it ended as it should have, so that its cost means something.
    pub fn saw(&mut self, arm: usize, run: &Run, printed: &mut [File; 2]) -> Result<bool> {
        let is_expected = match (self.expected, run.end) {
            (Some(expected), end) => end == expected,
            // A program may exit with 1 on purpose, but not crash or hang.
            (None, end) => matches!(end, End::Exited(_)),
        };
        self.expected.get_or_insert(run.end);
        let conduct = &mut self.conducts[arm];
        conduct.runs += 1;
        conduct.left_running += usize::from(run.left_running);
        let mut kept = [Vec::new(), Vec::new()];
        for ((file, seen), kept) in printed.iter_mut().zip(&mut conduct.printed).zip(&mut kept) {
            let hash = digest(file, kept)?;
            // What a run printed before it failed is not what the program prints.
            if is_expected {
                let text = if seen.len() < KEPT_VARIANTS { kept.clone() } else { Vec::new() };
                seen.entry(hash).or_insert((0, text)).0 += 1;
            }
        }
        if !is_expected && conduct.failure.is_none() {
            let [output, errors] = kept;
            conduct.failure = Some((conduct.runs, run.end, if errors.is_empty() { output } else { errors }));
        }
        Ok(is_expected)
    }

    /// Takes note of a run that ended as it should have, but printed this instead of figures.
    pub fn saw_no_figures(&mut self, arm: usize, text: String) {
        self.unreadable.push(self.finding(arm, "did not print the expected figures".to_owned(), text, true));
    }

    /// Whether the baseline itself failed, so there is nothing to compare with.
    pub fn baseline_failed(&self) -> bool {
        self.conducts[0].failure.is_some()
    }

    /// All findings, faults first.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = (0..self.names.len()).flat_map(|arm| self.of_arm(arm)).collect();
        if let Some(End::Exited(status)) = self.expected.filter(|end| *end != End::Exited(0)) {
            let what =
                format!("ends with exit status {status} also under the baseline; its runs were measured all the same");
            findings.push(Finding { row: self.row.clone(), what, ..Finding::default() });
        }
        for (stream, name) in STREAMS.iter().enumerate() {
            if self.prints_the_same && !self.is_steady(stream) {
                let what =
                    format!("prints something else on {name} in each run, even under one arm; it was not compared");
                findings.push(Finding { row: self.row.clone(), what, ..Finding::default() });
            }
        }
        findings.sort_by_key(|finding| !finding.is_fault);
        findings.extend(self.unreadable.iter().cloned());
        findings
    }

    /// What is told of one arm.
    fn of_arm(&self, arm: usize) -> Vec<Finding> {
        let conduct = &self.conducts[arm];
        let mut findings = Vec::new();
        if let Some((run, end, said)) = &conduct.failure {
            let said = String::from_utf8_lossy(said);
            let lines: Vec<&str> = said.lines().take(SHOWN_LINES).collect();
            // A failure that the baseline shows, too, is not the arm's fault.
            let shared = arm > 0 && self.conducts[0].failure.as_ref().is_some_and(|(_, baseline, _)| baseline == end);
            let too = if shared { ", as under the baseline" } else { "" };
            findings.push(self.finding(arm, format!("{end} in run {run}{too}"), lines.join("\n"), !shared));
        } else if arm > 0 && self.prints_the_same {
            findings.extend((0..STREAMS.len()).filter_map(|stream| self.difference(arm, stream)));
        }
        if conduct.left_running > 0 {
            let runs = conduct.left_running;
            let what = format!("left processes running in {runs} of {} runs; they were killed", conduct.runs);
            findings.push(self.finding(arm, what, String::new(), false));
        }
        findings
    }

    fn difference(&self, arm: usize, stream: usize) -> Option<Finding> {
        let (_, (_, expected)) =
            self.conducts[0].printed[stream].first_key_value().filter(|_| self.is_steady(stream))?;
        let conduct = &self.conducts[arm];
        let others =
            || conduct.printed[stream].iter().filter(|(hash, _)| !self.conducts[0].printed[stream].contains_key(hash));
        // Of the first few that were seen, the text is there.
        let (_, (_, first)) = others().max_by_key(|(_, (_, text))| text.len())?;
        let runs: usize = others().map(|(_, (count, _))| count).sum();
        let what = format!("{PRINTED} on {} in {runs} of {} runs", STREAMS[stream], conduct.runs);
        Some(self.finding(arm, what, how_different(expected, first), true))
    }

    /// Whether the baseline and its control print the same each time.
    fn is_steady(&self, stream: usize) -> bool {
        let mut seen: Vec<u64> =
            self.conducts.iter().take(2).flat_map(|conduct| conduct.printed[stream].keys().copied()).collect();
        seen.sort_unstable();
        seen.dedup();
        seen.len() <= 1
    }

    fn finding(&self, arm: usize, what: String, detail: String, is_fault: bool) -> Finding {
        Finding { row: self.row.clone(), arm: self.names[arm].clone(), what, detail, is_fault }
    }
}

/// Reads a file to its end: the hash of all of it, and its beginning.
fn digest(file: &mut impl Read, kept: &mut Vec<u8>) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(hasher.finish());
        }
        hasher.write(&buffer[..count]);
        let room = KEPT_BYTES - kept.len();
        kept.extend_from_slice(&buffer[..count.min(room)]);
    }
}

/// The first lines that differ, as a unified diff; for what is no text, where it differs first.
fn how_different(expected: &[u8], found: &[u8]) -> String {
    let (Ok(expected_text), Ok(found_text)) = (str::from_utf8(expected), str::from_utf8(found)) else {
        let at =
            expected.iter().zip(found).position(|(one, other)| one != other).unwrap_or(expected.len().min(found.len()));
        return format!(
            "binary output; it differs from byte {at} on ({} and {} bytes were compared)",
            expected.len(),
            found.len()
        );
    };
    let diff = TextDiff::from_lines(expected_text, found_text);
    let unified = diff.unified_diff().context_radius(1).to_string();
    let mut lines: Vec<&str> = unified.lines().take(SHOWN_LINES).collect();
    if unified.lines().count() > SHOWN_LINES {
        lines.push("…");
    }
    if lines.is_empty() {
        return format!("it differs after the first {KEPT_BYTES} bytes");
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::process::{Interrupt, Program, Starter};

    /// Lets a script run once under each arm, as often as there are scripts for it.
    fn witnessed(scripts: &[&[&str]]) -> Witness {
        let names = ["base", "base again", "other"].iter().take(scripts.len()).map(ToString::to_string).collect();
        let mut witness = Witness::new("row", names, true);
        let mut starter = Starter::new(None, Interrupt::never().unwrap()).unwrap();
        for (arm, scripts) in scripts.iter().enumerate() {
            for script in *scripts {
                let program = Program::new("/bin/sh", ["sh", "-c", script]);
                let run = starter.run(&program, Duration::from_millis(700)).unwrap().unwrap();
                witness.saw(arm, &run, starter.printed().unwrap()).unwrap();
            }
        }
        witness
    }

    fn told(scripts: &[&[&str]]) -> Vec<String> {
        let found = witnessed(scripts).findings();
        found.iter().map(|finding| format!("{} {} {}", finding.arm, finding.what, finding.detail)).collect()
    }

    #[test]
    fn equal_output_under_all_arms_is_not_a_finding() {
        assert_eq!(told(&[&["echo a", "echo a"], &["echo a"], &["echo a"]]), [""; 0]);
    }

    #[test]
    fn another_output_is_shown_line_by_line() {
        let told = told(&[&["echo a; echo b"], &["echo a; echo b"], &["echo a; echo b", "echo a; echo c"]]);
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("other printed something else on standard output in 1 of 2 runs"), "{told:?}");
        assert!(told[0].contains("-b\n+c"), "{told:?}");
    }

    #[test]
    fn crashes_hangs_and_other_statuses_are_told_with_what_was_said() {
        let crash = told(&[&["true"], &["true"], &["echo why >&2; kill -ABRT $$"]]);
        assert_eq!(crash, ["other was killed by signal 6 (SIGABRT) in run 1 why"]);
        let hang = told(&[&["true"], &["true"], &["true", "sleep 9"]]);
        assert_eq!(hang, ["other still ran after 0.7 s and was killed in run 2 "]);
        let status = told(&[&["exit 4"], &["exit 4"], &["exit 5"]]);
        assert!(status[0].starts_with("other ended with exit status 5"), "{status:?}");
        assert!(status[1].contains("also under the baseline"), "{status:?}");
    }

    #[test]
    fn output_that_differs_each_time_is_held_against_no_arm() {
        let told = told(&[&["echo $$", "echo $$"], &["echo $$"], &["echo x"]]);
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("in each run"), "{told:?}");
    }

    /// Otherwise chance would decide which arm is accused.
    #[test]
    fn failure_under_the_baseline_too_is_held_against_no_arm() {
        let witness = witnessed(&[&["exit 0", "exit 1"], &["exit 0"], &["exit 0", "exit 1"]]);
        assert!(witness.baseline_failed());
        let told = witness.findings();
        let faults: Vec<&str> = told.iter().filter(|told| told.is_fault).map(|told| told.arm.as_str()).collect();
        assert_eq!(faults, ["base"]);
        assert!(
            told.iter().any(|told| told.arm == "other" && told.what.ends_with("as under the baseline")),
            "{told:?}"
        );
    }

    #[test]
    fn output_of_a_failed_run_is_not_the_reference() {
        let told = told(&[&["echo a", "echo half; exit 1"], &["echo a"], &["echo b"]]);
        assert!(told.iter().any(|told| told.contains("other printed something else")), "{told:?}");
        assert!(!told.iter().any(|told| told.contains("in each run")), "{told:?}");
    }

    #[test]
    fn binary_output_is_not_printed() {
        assert!(how_different(b"\xff\x00a", b"\xff\x00b").contains("byte 2"));
    }
}
