//! `commensal lab`: the experiments run, and say what they have to say in the common form.

mod common;

use std::fs;

use common::{commensal, result, text, valid};

#[test]
fn startup_measures_every_arm_and_writes_everything() {
    let place = tempfile::tempdir().unwrap();
    let (json, report) = (place.path().join("startup.json"), place.path().join("deep/report"));
    let mut command = commensal();
    command.args(["lab", "startup", "--blocks", "8", "--seed", "3", "--json"]).arg(&json).arg("--report").arg(&report);
    let done = command.output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    for words in ["Document:", "lazy counters", "over glibc", "over empty library", "8 blocks", "seed 3"] {
        assert!(text(&done.stdout).contains(words), "{words:?} is missing in {}", text(&done.stdout));
    }
    let result = result(&json);
    assert_eq!((&result["experiment"], &result["seed"]), (&"startup".into(), &3.into()));
    let arms = result["arms"].as_array().unwrap();
    for name in ["glibc", "glibc again", "empty library", "commensal"] {
        let arm = arms.iter().find(|arm| arm["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        for metric in ["spawn_wall_s", "spawn_user_s", "spawn_system_s"] {
            assert_eq!(arm["metrics"][metric]["runs"].as_array().unwrap().len(), 8);
        }
    }
    let comparisons = result["comparisons"].as_array().unwrap();
    assert!(comparisons.iter().any(|one| one["baseline"] == "empty library" && one["candidate"] == "commensal"));
    // The document compares lazy with eager set-up, as one of ours with a peer is.
    for one in comparisons.iter().filter(|one| !one["document"].is_null()) {
        assert_eq!((&one["candidate"], &one["metric"]), (&"commensal".into(), &"spawn_cpu_s".into()));
        assert_eq!(one["document"]["value"], 0.89);
    }
    let page = fs::read_to_string(report.join("index.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("Document:"));
    common::result(&report.join("startup.json"));
}

#[test]
fn all_experiments_are_one_page() {
    let place = tempfile::tempdir().unwrap();
    let done =
        commensal().args(["lab", "all", "--quick", "--blocks", "1", "--report"]).arg(place.path()).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert!(fs::read_to_string(place.path().join("index.html")).unwrap().contains("startup"));
}

#[test]
fn json_on_standard_output_is_nothing_but_json() {
    let done = commensal().args(["lab", "startup", "--blocks", "1", "--json", "-"]).output().unwrap();
    assert_eq!(valid(&done.stdout)["experiment"], "startup");
    assert!(text(&done.stderr).contains("over glibc"));
}
