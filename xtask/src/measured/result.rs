//! A result in the form that all experiments share (lab/result.schema.json), as far as the book shows it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value};

use super::Side;

/// What one file says.
pub struct Outcome {
    file: String,
    /// On what, by which command, when: as the book tells it.
    pub place: String,
    arms: Vec<Arm>,
    comparisons: Vec<Comparison>,
}

/// An arm with certain parameters.
pub struct Arm {
    pub name: String,
    pub parameters: Map<String, Value>,
    metrics: Map<String, Value>,
}

/// What an arm has of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub unit: String,
    pub median: f64,
}

/// A comparison of two arms.
#[derive(Clone, Debug)]
pub struct Comparison {
    metric: String,
    parameters: Map<String, Value>,
    candidate: String,
    pub baseline: String,
    pub ratio: f64,
    pub interval: [f64; 2],
    /// The smallest effect that could have been seen, if any could.
    pub detectable: Option<f64>,
    pub verdict: String,
    /// The document's figure, and its ratio.
    pub document: Option<(String, f64)>,
}

impl Outcome {
    /// Reads what was measured of an experiment.
    pub fn read(path: &Path, experiment: &str, side: Side) -> Result<Self, String> {
        let file = path.display().to_string();
        let cpus = if side == Side::Simulated { " --cpus N" } else { "" };
        let wanted = format!("expected what `commensal lab {experiment}{cpus} --json FILE` writes");
        let text = fs::read_to_string(path).map_err(|error| format!("{file} cannot be read ({error}); {wanted}"))?;
        let value: Value =
            serde_json::from_str(&text).map_err(|error| format!("{file} is no JSON ({error}); {wanted}"))?;
        let mut outcome = Self::of(&value, experiment, side).map_err(|why| format!("{file}: {why}; {wanted}"))?;
        let date = date(path)?;
        outcome.place.push_str(&format!("; {date}"));
        outcome.file = file;
        Ok(outcome)
    }

    fn of(value: &Value, experiment: &str, side: Side) -> Result<Self, String> {
        let found = text(value, "experiment")?;
        if found != experiment {
            return Err(format!("found the experiment `{found}`"));
        }
        let machine = &value["machine"];
        let kind = text(machine, "kind")?;
        if kind != side.word() {
            return Err(format!("found what was measured on a {kind} machine"));
        }
        if value["interrupted"] == true {
            return Err("found a measurement that was interrupted".to_owned());
        }
        let arms = list(value, "arms")?.iter().map(Arm::of).collect::<Result<_, _>>()?;
        let comparisons = list(value, "comparisons")?.iter().map(Comparison::of).collect::<Result<_, _>>()?;
        Ok(Outcome { file: String::new(), place: place(value, side)?, arms, comparisons })
    }

    /// The arms that have a metric and these parameters, in their order; with what they have of it.
    pub fn of_metric(&self, metric: &str, wanted: &[Wanted]) -> Result<Vec<(&Arm, Figure)>, String> {
        let mut found = Vec::new();
        for arm in self.arms.iter().filter(|arm| wanted.iter().all(|wanted| wanted.is_met(&arm.parameters))) {
            if let Some(figure) = arm.metrics.get(metric) {
                let figure = Figure { unit: text(figure, "unit")?.to_owned(), median: number(figure, "median")? };
                found.push((arm, figure));
            }
        }
        Ok(found)
    }

    /// All metrics' names, for whoever asks for another one.
    pub fn metrics(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.arms.iter().flat_map(|arm| arm.metrics.keys().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// An arm against its baseline, if it was compared.
    pub fn comparison(&self, metric: &str, arm: &Arm) -> Option<&Comparison> {
        let is_it =
            |one: &&Comparison| one.metric == metric && one.candidate == arm.name && one.parameters == arm.parameters;
        self.comparisons.iter().find(is_it)
    }

    /// The file's name.
    pub fn file(&self) -> &str {
        &self.file
    }
}

impl Arm {
    fn of(value: &Value) -> Result<Self, String> {
        let object =
            |name: &str| value[name].as_object().cloned().ok_or_else(|| format!("found an arm without `{name}`"));
        Ok(Arm {
            name: text(value, "name")?.to_owned(),
            parameters: object("parameters")?,
            metrics: object("metrics")?,
        })
    }

    /// Whether it is a baseline's second run, by which a machine shows that it was fit.
    pub fn is_control(&self) -> bool {
        self.name.ends_with(" again")
    }
}

impl Comparison {
    fn of(value: &Value) -> Result<Self, String> {
        let interval = list(value, "ci95")?;
        let end = |at: usize| interval.get(at).and_then(Value::as_f64).ok_or("found an interval without two numbers");
        let document = match &value["document"] {
            Value::Null => None,
            document => Some((text(document, "figure")?.to_owned(), number(document, "value")?)),
        };
        Ok(Comparison {
            metric: text(value, "metric")?.to_owned(),
            parameters: value["parameters"].as_object().cloned().ok_or("found a comparison without `parameters`")?,
            candidate: text(value, "candidate")?.to_owned(),
            baseline: text(value, "baseline")?.to_owned(),
            ratio: number(value, "ratio")?,
            interval: [end(0)?, end(1)?],
            detectable: value["mde"].as_f64(),
            verdict: text(value, "verdict")?.to_owned(),
            document,
        })
    }
}

/// What a row must have: a parameter with a value, or none of that name.
pub struct Wanted<'a> {
    pub name: &'a str,
    value: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    /// `name=value`, or `no name`.
    pub fn of(word: &'a str) -> Result<Self, String> {
        if let Some(name) = word.strip_prefix("no ") {
            return Ok(Wanted { name, value: None });
        }
        let (name, value) =
            word.split_once('=').ok_or_else(|| format!("found `{word}`; expected NAME=VALUE or no NAME"))?;
        Ok(Wanted { name, value: Some(value) })
    }

    fn is_met(&self, parameters: &Map<String, Value>) -> bool {
        let found =
            parameters.get(self.name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        found.as_deref() == self.value
    }
}

/// On what it was measured, by which command and of which commit; without the machine's paths.
fn place(value: &Value, side: Side) -> Result<String, String> {
    let machine = &value["machine"];
    let (model, kernel, cpus) = (text(machine, "model")?, text(machine, "kernel")?, number(machine, "cpus")?);
    let on = match side {
        Side::Host => {
            let real = if machine["is_virtual"] == true { ", virtual" } else { "" };
            let libc = machine["libc"].as_str().map_or(String::new(), |version| format!(", glibc {version}"));
            format!("Measured here, {model}, {cpus} CPUs{real}, Linux {kernel}{libc}")
        }
        Side::Simulated => format!("**Simulated**, {cpus} CPUs, {model}; times are the model's"),
    };
    let (commit, seed) = (text(value, "commit")?, number(value, "seed")?);
    let changed = if commit.ends_with('+') { " with changes" } else { "" };
    let command = command(text(value, "command")?);
    // Else chance drew it, and the book has to tell.
    let seed = if command.contains("--seed ") { String::new() } else { format!(", seed {seed}") };
    Ok(format!("{on}: `{command}`{seed}, commit {}{changed}", commit.trim_end_matches('+')))
}

/// The command as anybody would type it: where its result went is left out, and where the program lies.
fn command(typed: &str) -> String {
    let mut words = typed.split(' ');
    words.next();
    let mut told = vec!["commensal"];
    while let Some(word) = words.next() {
        if ["--json", "--report"].contains(&word) {
            words.next();
        } else {
            told.push(word);
        }
    }
    told.join(" ")
}

/// The day on which a file was written.
fn date(path: &Path) -> Result<String, String> {
    let output = Command::new("date").args(["-u", "+%F", "-r"]).arg(path).output();
    let output = output.map_err(|error| format!("`date` cannot be run ({error}); install coreutils"))?;
    let day = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if day.is_empty() { Err(format!("`date` does not know when {} was written", path.display())) } else { Ok(day) }
}

fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str, String> {
    value[name].as_str().ok_or_else(|| format!("found no text `{name}`"))
}

fn number(value: &Value, name: &str) -> Result<f64, String> {
    value[name].as_f64().ok_or_else(|| format!("found no number `{name}`"))
}

fn list<'a>(value: &'a Value, name: &str) -> Result<&'a Vec<Value>, String> {
    value[name].as_array().ok_or_else(|| format!("found no list `{name}`"))
}

/// A result of two arms, and of the first one's control.
#[cfg(test)]
pub fn example(side: Side) -> String {
    let (groups, busy, ratio) = if side == Side::Host { (10_000, 1, 0.001) } else { (100, 79, 0.5) };
    let arm = |name: &str, median: f64| {
        serde_json::json!({
            "name": name, "parameters": { "groups": groups, "busy_cpus": busy },
            "metrics": { "interrupts": { "unit": "1", "median": median, "ci95": [1.0, 2.0], "runs": [1.0] },
                         "first_object_ns": { "unit": "ns", "median": median, "ci95": [1.0, 2.0], "runs": [1.0] } },
        })
    };
    let comparison = |candidate: &str, ratio: f64, verdict: &str, mde: Value| {
        serde_json::json!({
            "metric": "interrupts", "parameters": { "groups": groups, "busy_cpus": busy }, "baseline": "kick on create",
            "candidate": candidate, "ratio": ratio, "ci95": [ratio, ratio], "p": 0.01, "mde": mde, "verdict": verdict, "drift": 0.0,
            "document": if candidate.ends_with("only") { serde_json::json!({ "source": "a", "figure": "of 10,000 groups", "value": 0.002 }) } else { Value::Null },
        })
    };
    serde_json::json!({
        "experiment": "kicks", "commit": "abc+", "seed": 7, "command": "./here/commensal lab kicks --quick --json /tmp/a --seed 7 --report /tmp/b",
        "machine": { "kind": side.word(), "cpus": 2, "model": "a model", "kernel": "6.18", "libc": "2.36", "is_virtual": true },
        "arms": [arm("kick on create", 47_741.0), arm("kick on create again", 47_000.0), arm("kick on replace only", 45.0)],
        "comparisons": [comparison("kick on create again", 0.9, "faster", Value::Null), comparison("kick on replace only", ratio, "faster", 0.1.into())],
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(side: Side) -> Outcome {
        Outcome::of(&serde_json::from_str(&example(side)).unwrap(), "kicks", side).unwrap()
    }

    #[test]
    fn a_place_tells_what_was_typed_and_no_paths() {
        let place = of(Side::Host).place;
        assert_eq!(
            place,
            "Measured here, a model, 2 CPUs, virtual, Linux 6.18, glibc 2.36: `commensal lab kicks --quick --seed 7`, commit abc with changes"
        );
        assert!(of(Side::Simulated).place.starts_with("**Simulated**, 2 CPUs, a model; times are the model's"));
    }

    #[test]
    fn rows_are_found_by_their_parameters() {
        let outcome = of(Side::Host);
        let count = |words: &[&str]| {
            let wanted: Vec<Wanted> = words.iter().map(|word| Wanted::of(word).unwrap()).collect();
            outcome.of_metric("interrupts", &wanted).unwrap().len()
        };
        assert_eq!([count(&[]), count(&["groups=10000"]), count(&["groups=10000", "no threads"])], [3; 3]);
        assert_eq!([count(&["groups=1"]), count(&["no groups"]), count(&["threads=1"])], [0; 3]);
        assert!(Wanted::of("groups").is_err());
        let (arm, figure) = &outcome.of_metric("interrupts", &[]).unwrap()[2];
        assert_eq!((figure.median, figure.unit.as_str()), (45.0, "1"));
        let compared = outcome.comparison("interrupts", arm).unwrap();
        assert_eq!((compared.ratio, compared.document.clone().unwrap().1), (0.001, 0.002));
        assert!(outcome.comparison("kicks", arm).is_none());
    }

    #[test]
    fn another_form_is_refused() {
        let refused = |from: &str, to: &str| {
            let text = example(Side::Host).replace(from, to);
            assert_ne!(text, example(Side::Host), "{from}");
            Outcome::of(&serde_json::from_str(&text).unwrap(), "kicks", Side::Host).err().unwrap_or_default()
        };
        assert!(refused("\"host\"", "\"simulated\"").contains("simulated machine"));
        assert!(refused("\"arms\"", "\"legs\"").contains("`arms`"));
        assert!(refused("\"ratio\"", "\"factor\"").contains("`ratio`"));
        assert!(refused("\"commit\"", "\"version\"").contains("`commit`"));
        assert!(refused("\"commit\"", "\"interrupted\": true, \"commit\"").contains("interrupted"));
    }

    #[test]
    fn files_have_a_day() {
        let day = date(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        assert!(day.len() == 10 && day.starts_with("20"), "{day}");
        assert!(date(Path::new("/nowhere")).is_err());
    }
}
