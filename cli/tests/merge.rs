//! `--shard` and `lab merge`: several parts become what one machine would have said, and what is no whole is refused.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{commensal, result, succeeds, text};
use serde_json::Value;

const KICKS: [&str; 9] = ["lab", "kicks", "--quick", "--cpus", "8", "--profile", "x86-80", "--seed", "3"];

fn file(place: &Path, name: &str) -> String {
    place.join(name).to_str().unwrap().to_owned()
}

/// What was said, but for the command that said it.
fn said(path: &Path) -> Value {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    value["command"] = Value::Null;
    value
}

fn must(words: &[&str]) -> String {
    text(&succeeds(commensal().args(words)).stdout)
}

fn refused(words: &[&str], expected: &str) {
    let done = commensal().args(words).output().unwrap();
    assert_eq!(done.status.code(), Some(2), "{words:?}: {}{}", text(&done.stdout), text(&done.stderr));
    assert!(text(&done.stderr).contains(expected), "{words:?}: {}", text(&done.stderr));
}

#[test]
fn parts_of_an_experiment_are_what_one_machine_says() {
    let place = tempfile::tempdir().unwrap();
    let [whole, merged] = ["whole.json", "merged.json"].map(|name| file(place.path(), name));
    let told = must(&[&KICKS[..], &["--json", &whole]].concat());
    assert!(!told.contains("as predicted"), "nobody predicted anything of 8 CPUs");
    let parts = [1, 2, 3].map(|index| file(place.path(), &format!("{index}.json")));
    let sizes = parts.iter().enumerate().map(|(at, part)| {
        let shard = format!("{}/3", at + 1);
        must(&[&KICKS[..], &["--shard", &shard, "--json", part]].concat());
        said(Path::new(part))["answers"].as_array().unwrap().len()
    });
    // Each makes some of the three.
    assert_eq!(sizes.collect::<Vec<_>>(), [1, 1, 1]);
    let [one, two, three] = parts.each_ref().map(String::as_str);
    let merge = ["lab", "merge", three, one, two, "--json", &merged];
    assert_eq!(must(&merge).lines().skip(8).collect::<Vec<_>>(), told.lines().skip(8).collect::<Vec<_>>());
    assert_eq!(said(Path::new(&merged)), said(Path::new(&whole)));
    result(Path::new(&merged));
    refused(&["lab", "merge", one, three], "missing shards: 2/3");
    refused(&["lab", "merge"], "expected those of all shards");
    refused(&["lab", "merge", one, two, three, "--seed", "3"], "lab merge has no option --seed");
}

#[test]
fn parts_are_of_what_says_the_same_everywhere() {
    let place = tempfile::tempdir().unwrap();
    let json = file(place.path(), "part.json");
    let shard = ["--shard", "1/2", "--json", &json];
    refused(&[&["lab", "kicks", "--seed", "1"], &shard[..]].concat(), "add --cpus N");
    refused(&[&["lab", "kicks", "--cpus", "8"], &shard[..]].concat(), "add --seed N");
    refused(&[&KICKS[..], &["--shard", "1/2"]].concat(), "add --json FILE");
    refused(&[&KICKS[..], &["--shard", "3/2", "--json", &json]].concat(), "expected I/N");
    refused(&[&["lab", "validate"], &shard[..]].concat(), "lab validate has no option --shard");
    refused(&["lab", "kicks", "x.json"], "only lab merge takes files");
}

/// What Slurm and Kubernetes would start, started by hand.
#[test]
fn cluster_scripts_make_parts_that_merge() {
    let place = tempfile::tempdir().unwrap();
    let cluster = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/cluster");
    // The explorer is another package's: here its place is taken by a command that writes where it is told.
    let explorer = place.path().join("explorer");
    common::write_program(&explorer, "#!/bin/sh\nfor last; do :; done; echo \"$*\" > \"$last\"\n");
    let start = |script: &str, variables: &[(&str, &str)]| {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(place.path()).envs(variables.iter().copied());
        command.env("COMMENSAL", env!("CARGO_BIN_EXE_commensal")).env("COMMENSAL_EXPLORE", &explorer);
        succeeds(command.env("PROFILE", "here-2"));
    };
    let slurm = format!("COMMENSAL_CLUSTER={} sh {}", cluster.display(), cluster.join("slurm-array.sh").display());
    for index in ["1", "2"] {
        start(&slurm, &[("SLURM_ARRAY_TASK_ID", index), ("SLURM_ARRAY_TASK_COUNT", "2")]);
    }
    let job = fs::read_to_string(cluster.join("kubernetes-job.yaml")).unwrap();
    let command =
        job.lines().find_map(|line| line.trim().strip_prefix("command: [\"sh\", \"-c\", \"")?.strip_suffix("\"]"));
    let parts = job.lines().find_map(|line| line.trim().strip_prefix("completions: ")).unwrap();
    let command = command.expect("a shell is started").replace("/opt/commensal/", &format!("{}/", cluster.display()));
    assert!(command.contains(&format!(" {parts} /parts")), "as many parts as pods: {command}");
    let command = command.replace(&format!(" {parts} /parts"), " 2 pods");
    for index in ["0", "1"] {
        start(&command, &[("JOB_COMPLETION_INDEX", index)]);
    }
    let of = |folder: &str, index: u32| -> PathBuf { place.path().join(format!("{folder}/forecast-{index}.json")) };
    for index in [1, 2] {
        assert_eq!(said(&of("parts", index)), said(&of("pods", index)));
        let told = fs::read_to_string(place.path().join(format!("pods/exploration-{index}.json"))).unwrap();
        assert!(told.contains(&format!("--shard {index}/2")), "{told}");
    }
    let json = file(place.path(), "merged.json");
    let [one, two] = [1, 2].map(|index| of("pods", index).to_str().unwrap().to_owned());
    must(&["lab", "merge", &one, &two, "--json", &json]);
    assert_eq!(result(Path::new(&json))["experiment"], "forecast");
}
