//! `commensal lab pack`: in some five minutes, the experiments and the allocators' comparison of a machine, as one file.
//!
//! Each part is a command whose result is JSON already. A pack has them all, by name, and says of which machine, commit
//! and day it is. `lab/pack.schema.json` describes it; `cargo xtask packs` makes a page of the committed ones.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use lab::experiment;
use serde_json::{Map, Value, json as value};

use crate::failure::Failure;
use crate::places;

const VERSION: u32 = 1;
/// What a part takes, in minutes: the usual one, and a brief one.
const MINUTES: [f64; 2] = [0.8, 0.2];

/// A part: its name, and the words that have the command print its JSON.
struct Part {
    name: &'static str,
    words: Vec<&'static str>,
}

fn parts(is_brief: bool) -> Vec<Part> {
    let blocks: &[&'static str] = if is_brief { &["--blocks", "1"] } else { &[] };
    let of_lab = |name| Part { name, words: [&["lab", name, "--quick", "--json", "-"], blocks].concat() };
    let suite =
        Part { name: "suite", words: [&["compare", "--suite", "--quick", "--format", "json"], blocks].concat() };
    experiment::ALL.iter().map(|experiment| of_lab(experiment.name)).chain([suite]).collect()
}

/// Measures, and writes the file, which is named by the date if it is not told.
pub fn pack(path: Option<&Path>, is_brief: bool) -> Result<ExitCode, Failure> {
    let date = today();
    let path = path.map_or_else(|| format!("commensal-pack-{date}.json").into(), Path::to_owned);
    places::check(Some(&path), None)?;
    let command = places::own()?;
    let parts = parts(is_brief);
    let (start, count, minutes) = (Instant::now(), parts.len(), MINUTES[usize::from(is_brief)]);
    let mut results = Map::new();
    for (number, part) in parts.iter().enumerate() {
        let left = minutes * (count - number) as f64;
        places::tell(format_args!("pack: {} of {count}, {}; about {left:.0} min left", number + 1, part.name));
        results.insert(part.name.to_owned(), measured(&command, part)?);
    }
    let made = of_results(results, &date)?;
    // One line: with line breaks it would be twice as long, and it is for programs.
    std::fs::write(&path, format!("{made}\n"))
        .map_err(|error| Failure::ours(format!("cannot write {}: {error}", path.display())))?;
    places::tell(format_args!("wrote {} after {:.0} min", path.display(), start.elapsed().as_secs_f64() / 60.0));
    Ok(ExitCode::SUCCESS)
}

/// The JSON of a part. Its tables go to standard error.
fn measured(command: &Path, part: &Part) -> Result<Value, Failure> {
    let cannot = |why: String| Failure::ours(format!("pack: {}: {why}", part.words.join(" ")));
    let output = Command::new(command).args(&part.words).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| cannot(error.to_string()))?;
    // Status 1 means that an arm failed: the result says which.
    serde_json::from_slice(&output.stdout)
        .map_err(|error| cannot(format!("{}, without a result ({error})", output.status)))
}

/// A pack of results, each of which names the machine and the commit.
fn of_results(mut results: Map<String, Value>, date: &str) -> Result<Value, Failure> {
    let mut common = |key: &str| {
        let mut values = results.values_mut().filter_map(|result| result.as_object_mut()?.remove(key));
        let first = values.next();
        values.for_each(drop);
        first.ok_or_else(|| Failure::ours(format!("pack: no result tells the {key}")))
    };
    let (machine, commit) = (common("machine")?, common("commit")?);
    // It has the paths of programs.
    let _ = common("command");
    results.values_mut().for_each(without_folders);
    Ok(value!({
        "format": "commensal-pack", "version": VERSION, "made": date, "commit": commit, "machine": machine, "results": results,
    }))
}

/// Leaves of each absolute path its last part: the folders are the user's.
fn without_folders(value: &mut Value) {
    match value {
        Value::String(text) => *text = last_parts(text),
        Value::Array(values) => values.iter_mut().for_each(without_folders),
        Value::Object(fields) => fields.values_mut().for_each(without_folders),
        _ => {}
    }
}

fn last_parts(text: &str) -> String {
    let is_of_path = |c: char| !c.is_whitespace() && !"\"';:,=()".contains(c);
    let words = text.split_inclusive(|c| !is_of_path(c));
    let last = |word: &str| match word.strip_prefix('/') {
        Some(path) => path.rsplit('/').next().unwrap_or(path).to_owned(),
        None => word.to_owned(),
    };
    words.map(last).collect()
}

/// The date, of Greenwich.
fn today() -> String {
    let output = Command::new("date").args(["-u", "+%F"]).output();
    output.map_or_else(|_| "undated".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pack_tells_machine_and_commit_once() {
        let result = |name: &str| value!({"experiment": name, "machine": {"cpus": 2}, "commit": "abc", "arms": []});
        let results = ["one", "two"].map(|name| (name.to_owned(), result(name))).into_iter().collect();
        let made = of_results(results, "2026-11-29").unwrap_or_else(|_| panic!("they tell both"));
        assert_eq!((&made["machine"]["cpus"], &made["commit"]), (&value!(2), &value!("abc")));
        assert_eq!(made["results"]["two"], value!({"experiment": "two", "arms": []}));
        assert!(of_results(Map::new(), "").is_err());
    }

    #[test]
    fn pack_tells_no_folder() {
        let mut result = value!({"origin": "LD_PRELOAD=/home/me/lib/a.so; '/opt/x y'", "runs": [1, "ns/op"]});
        without_folders(&mut result);
        assert_eq!(result, value!({"origin": "LD_PRELOAD=a.so; 'x y'", "runs": [1, "ns/op"]}));
    }

    #[test]
    fn pack_has_all_experiments_and_the_suite() {
        let names: Vec<&str> = parts(false).iter().map(|part| part.name).collect();
        assert_eq!(names.len(), experiment::ALL.len() + 1);
        assert!(names.contains(&"startup") && names.ends_with(&["suite"]));
    }
}
