//! `commensal lab servers`: a server under every arm, and those that cannot be measured.

mod common;

use std::fs;

use common::{assert_contains, commensal, found, path_of, succeeds, text, valid, write_program};
use serde_json::json;

/// The names are those that results are compared by over the years.
const METRICS: [&str; 8] = ["request_ns", "cpu_ns", "p50_ns", "p99_ns", "p999_ns", "loaded_kb", "idle_kb", "start_s"];

#[test]
fn redis_has_all_figures_under_each_arm() {
    let place = tempfile::tempdir().unwrap();
    let report = place.path().join("report");
    let words = ["lab", "servers", "redis", "--quick", "--blocks", "1", "--seed", "3", "--json", "-", "--report"];
    let done = succeeds(commensal().args(words).arg(&report));
    let (told, result) = (text(&done.stderr), valid(&done.stdout));
    assert_contains(
        &told,
        &["redis: Redis server", "99.9 % latency", "memory when idle", "Shown of commensal on redis"],
    );
    assert_eq!((&result["experiment"], &result["blocks"]), (&"servers".into(), &1.into()));
    for arm in ["glibc", "glibc again", "commensal"] {
        for metric in METRICS {
            let (runs, median) = found(&result, arm, &json!({ "workload": "redis" }), metric);
            assert!(runs == 1 && (median > 0.0 || metric == "cpu_ns"), "{arm}: {runs} runs, {metric} {median}");
        }
        let of = |metric| found(&result, arm, &json!({ "workload": "redis" }), metric).1;
        assert!(of("p50_ns") <= of("p99_ns") && of("p99_ns") <= of("p999_ns"), "{arm}");
        // Ten thousand values of 700 bytes on average are there.
        assert!(of("loaded_kb") > 7000.0, "{arm}: {}", of("loaded_kb"));
    }
    let compared = result["comparisons"].as_array().unwrap();
    assert!(compared.iter().any(|one| one["candidate"] == "commensal" && one["metric"] == "p999_ns"));
    let about = &result["servers"][0];
    assert_eq!((&about["name"], &about["connections"]), (&"redis".into(), &16.into()));
    assert!(about["version"].as_str().unwrap().contains("Redis server") && about["rate_per_s"].as_f64().unwrap() > 1.0);
    assert_eq!(result["missing"], json!([]));
    let page = fs::read_to_string(report.join("index.html")).unwrap();
    assert_contains(&page, &["allocators under real servers", "memory under load", "Redis server"]);
}

#[test]
fn absent_server_is_named_with_its_package() {
    let place = tempfile::tempdir().unwrap();
    let mut command = commensal();
    command.args(["lab", "servers", "redis", "rust"]).env("PATH", place.path()).env_remove("COMMENSAL_EXAMPLE_SERVER");
    let done = command.output().unwrap();
    assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(125), ""));
    let expected = ["redis-server not in PATH; install Debian's redis-server", "cargo install --path examples/server"];
    assert_contains(&text(&done.stderr), &expected);
}

#[test]
fn server_that_does_not_start_is_told_with_its_last_lines() {
    let place = tempfile::tempdir().unwrap();
    let path = path_of(place.path(), &["id"]);
    write_program(&path.join("memcached"), "#!/bin/sh\necho 'out of luck' >&2\nexit 3\n");
    let done = commensal().args(["lab", "servers", "memcached", "--quick"]).env("PATH", &path).output().unwrap();
    assert_eq!(done.status.code(), Some(125), "{}", text(&done.stderr));
    assert_contains(&text(&done.stderr), &["cannot measure memcached under glibc", "exit status: 3", "out of luck"]);
}

/// One that answers, but not what memcached answers.
#[test]
fn server_with_wrong_answers_is_told() {
    let place = tempfile::tempdir().unwrap();
    let path = path_of(place.path(), &["id", "python3"]);
    let server = "#!/usr/bin/env python3\n\
        import socket, sys\n\
        listener = socket.socket(socket.AF_UNIX)\n\
        listener.bind(sys.argv[sys.argv.index('-s') + 1])\n\
        listener.listen(16)\n\
        all = [listener.accept()[0] for _ in range(16)]\n\
        all[0].recv(100)\n\
        all[0].sendall(b'NONSENSE\\r\\n')\n\
        all[0].recv(100)\n";
    write_program(&path.join("memcached"), server);
    let done = commensal().args(["lab", "servers", "memcached", "--quick"]).env("PATH", &path).output().unwrap();
    assert_eq!(done.status.code(), Some(125), "{}", text(&done.stderr));
    assert_contains(&text(&done.stderr), &[r#"expected "VERSION", got "NONSENS""#]);
}

#[test]
fn options_of_servers_are_refused_elsewhere() {
    for (words, named) in
        [("startup redis", "SERVER"), ("startup --with a=libc.so.6", "--with"), ("servers --cpus 8", "--cpus")]
    {
        let done = commensal().arg("lab").args(words.split(' ')).output().unwrap();
        let line = text(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{line}");
        assert_contains(&line, &["has no option", named]);
    }
}
