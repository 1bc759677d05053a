//! `commensal lab`: the experiments run, and say what they have to say in the common form.

mod common;

use std::fs;

use common::{assert_contains, assert_says, commensal, found, succeeds, text, valid};
use lab::profile::Profile;
use serde_json::{Value, json};

/// What `commensal lab` tells people, and its result.
#[track_caller]
fn lab(words: &str) -> (String, Value) {
    let done = succeeds(commensal().arg("lab").args(words.split(' ')).args(["--json", "-"]));
    (text(&done.stderr), valid(&done.stdout))
}

#[test]
fn startup_measures_every_arm_and_writes_everything() {
    let place = tempfile::tempdir().unwrap();
    let report = place.path().join("deep/report");
    let (told, result) = lab(&format!("startup --blocks 8 --seed 3 --report {}", report.display()));
    assert_contains(&told, &["Document:", "lazy counters", "× glibc", "× empty library", "8 blocks", "seed 3"]);
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

/// Every part, small; the names are those that results are compared by over the years.
#[test]
fn counters_measures_every_part_and_writes_one_object() {
    let place = tempfile::tempdir().unwrap();
    let report = place.path().join("report");
    let (told, result) = lab(&format!("counters --quick --blocks 1 --seed 4 --report {}", report.display()));
    assert_contains(
        &told,
        &[
            "Document:",
            "objection: the gain of merging",
            "13.5 %",
            "cannot be told",
            "the document says 0.940 ×",
            "2 possible CPUs",
        ],
    );
    assert_eq!((&result["experiment"], &result["seed"], &result["blocks"]), (&"counters".into(), &4.into(), &1.into()));
    let has = |name: &str, parameters: Value, metric: &str| {
        let (runs, median) = found(&result, name, &parameters, metric);
        assert_eq!(runs, 1, "{metric} of {name} with {parameters}");
        median
    };
    for name in ["eager", "merged", "cached", "lazy", "lazy and cached"] {
        for cpus in [2, 8, 80, 256, 512] {
            for metric in ["create_destroy_ns", "create_destroy_alive_ns", "setup_share", "bytes_per_object"] {
                has(name, json!({ "possible_cpus": cpus }), metric);
            }
            has(name, json!({ "possible_cpus": cpus, "threads": 2 }), "shared_total_ns");
        }
        for updates in [64, 512, 4096] {
            has(name, json!({ "possible_cpus": 256, "updates": updates }), "setup_share");
        }
    }
    has("lazy", json!({ "possible_cpus": 256 }), "upgrade_ns");
    for name in ["plain", "checked", "atomic", "per-cpu", "lazy", "told"] {
        has(name, json!({ "counters": 1 }), "owner_add_ns");
        has(name, json!({ "counters": 16 }), "owner_add_ns");
        has(name, json!({ "counters": 16, "in": "a set" }), "owner_add_ns");
    }
    has("atomic", json!({}), "remote_add_ns");
    has("lazy", json!({ "threads": 2 }), "upgraded_add_ns");
    has("told", json!({ "path": "upgraded" }), "auto_add_ns");
    has("eager", json!({ "possible_cpus": 512 }), "read_ns");
    has("lazy and cached", json!({ "possible_cpus": 256, "touched_slots": 80 }), "sum_ns");
    for metric in ["spawn_system_s", "spawn_user_s", "spawn_wall_s"] {
        has("lazy", json!({ "possible_cpus": 256 }), metric);
        has("glibc", json!({ "possible_cpus": 80 }), metric);
    }
    let page = fs::read_to_string(report.join("index.html")).unwrap();
    for words in ["set-up and tear-down, by possible CPUs", "update of an upgraded counter"] {
        assert!(page.contains(words), "{words:?} is missing on the page");
    }
    common::result(&report.join("counters.json"));
    // What is counted is the same on every machine: the object alone, and the rows of all CPUs.
    assert_eq!(has("lazy", json!({ "possible_cpus": 512 }), "bytes_per_object"), 80.0);
    assert_eq!(
        has("eager", json!({ "possible_cpus": 256 }), "bytes_per_object"),
        f64::from(24 + 3 * 64 * (1 + 2 + 256))
    );
    let comparisons = result["comparisons"].as_array().unwrap();
    let documented: Vec<f64> = comparisons.iter().filter_map(|one| one["document"]["value"].as_f64()).collect();
    for value in [0.94, 0.89, 0.97] {
        assert!(documented.contains(&value), "{value} is missing in {documented:?}");
    }
}

/// What a cost model says is told as such, everywhere.
#[test]
fn counters_are_simulated_and_say_so() {
    let (told, result) = lab("counters --quick --blocks 1 --cpus 72 --profile simple");
    assert_contains(&told, &["SIMULATED, simple cost model: 72 CPUs", "of 72", "Not simulated"]);
    assert_eq!((&result["machine"]["kind"], &result["machine"]["cpus"]), (&"simulated".into(), &72.into()));
    let taken = |name: &str| found(&result, name, &json!({ "threads": 2 }), "upgraded_add_ns").1;
    let (atomic, lazy) = (taken("atomic"), taken("lazy"));
    assert!(atomic > 5.0 * lazy, "two CPUs fight over a word: {atomic}, and over none: {lazy}");
}

#[test]
fn cache_measures_every_part() {
    let (told, result) = lab("cache --blocks 1");
    assert_contains(
        &told,
        &["kmem_cache_alloc", "0.1359", "1.020 × (0.973 to 1.067)", "real hardware", "A constructor takes"],
    );
    let median = |name: &str, parameters: Value, metric: &str| found(&result, name, &parameters, metric).1;
    for name in ["general", "dedicated"] {
        for context in ["task", "message"] {
            assert!(median(name, json!({ "context": context }), "hackbench_s") > 0.0);
        }
        assert!(median(name, json!({ "threads": 2 }), "pop_push_ns") > 0.0);
        assert!(median(name, json!({ "bytes": 904 }), "bytes_per_object") > 904.0);
        assert!(median(name, json!({ "interface": "Rust", "threads": 1, "process": "solo" }), "pop_push_ns") > 0.0);
    }
    assert!(median("glibc", json!({ "threads": 1 }), "pop_push_ns") > 0.0);
    for (name, metric) in [
        ("dedicated", "constructed_ns"),
        ("dedicated with constructor", "constructed_ns"),
        ("dedicated", "constructor_ns"),
    ] {
        assert!(median(name, json!({}), metric) > 0.0, "{metric} of {name}");
    }
    let comparisons = result["comparisons"].as_array().unwrap();
    let documented = comparisons.iter().find(|one| !one["document"].is_null()).expect("the document has a figure");
    assert!((documented["document"]["value"].as_f64().unwrap() - 1.0199).abs() < 1e-4);
}

/// Counted on this machine; what happens on one where nothing else does is told by the probe's own tests. With it stands what is simulated of the
/// document's machines, and what had been predicted of them.
#[test]
fn kicks_are_made_on_replacing_only() {
    let (told, result) = lab("kicks --blocks 1 --seed 3");
    let arms = result["arms"].as_array().unwrap();
    let kicks = |name: &str| {
        let arm = arms.iter().find(|arm| arm["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        (arm["parameters"]["groups"].as_f64().unwrap(), arm["metrics"]["kicks"]["runs"][0].as_f64().unwrap())
    };
    let (groups, on_create) = kicks("kick on create");
    assert_eq!(on_create, 5.0 * groups, "five caches in each group");
    assert_eq!(kicks("kick on replace only").1, 0.0);
    assert!(kicks("replace").1 >= 1.0);
    let expected = [
        "with 79 busy CPUs, of 80 CPUs (x86-80)",
        " for 10000 groups",
        "as predicted",
        "as the document",
        "least and most costs",
        "simulated, of 80 CPUs (x86-80)",
    ];
    assert_contains(&told, &expected);
}

/// The herd is simulated, of as many CPUs as the document had, and its absence; on two cores only when turns come is shown.
#[test]
fn stagger_shows_the_herd_and_its_absence() {
    let place = tempfile::tempdir().unwrap();
    let words = format!("stagger --quick --blocks 1 --cpus 72 --seed 3 --report {}", place.path().display());
    let (told, result) = lab(&words);
    let expected = ["SIMULATED", "872", "199", "35.76", "117", "4.19", "1.000 to 1.986", "0.697", "put them right"];
    assert_contains(&told, &expected);
    let arms = result["arms"].as_array().unwrap();
    let of = |name: &str, load: &str, is_equal: bool, metric: &str| {
        let is_it = |arm: &&Value| {
            let parameters = &arm["parameters"];
            arm["name"] == name
                && parameters["load"] == load
                && parameters["equal_run_rate"] == is_equal
                && parameters["online"] == "all"
                && parameters["paused_percent"].is_null()
        };
        let arm = arms.iter().find(is_it).unwrap_or_else(|| panic!("no {name} under {load}"));
        arm["metrics"][metric]["median"].as_f64().unwrap()
    };
    for (load, least) in [("kasan", 7.5), ("without", 1.8)] {
        let [aligned, grid] = ["aligned", "grid"].map(|arm| of(arm, load, true, "contended"));
        assert!(aligned >= least * grid, "{load}: {aligned} and {grid}");
        let on_grid =
            ["period_min", "period_max", "drains_per_interval", "missed"].map(|metric| of("grid", load, true, metric));
        assert_eq!(on_grid, [1.0, 1.0, 72.0, 0.0], "{load}");
        assert!(of("grid", load, true, "ahead_max") <= 1.0, "{load}");
        let posted = |metric| of("posted", load, false, metric);
        assert!(posted("period_min") == 1.0 && (posted("period_max") - 1.986).abs() < 0.001, "{load}");
        let rate = posted("drains_per_interval") / of("aligned", load, false, "drains_per_interval");
        assert!((rate / 0.697 - 1.0).abs() < 0.02, "{load}: {rate}");
    }
    for (load, before) in [("kasan", 872.0), ("without", 240.0)] {
        let near = of("aligned", load, false, "contended") / before;
        assert!((0.5..2.0).contains(&near), "{load}: {near} of what the document has");
    }
    let documented = |one: &&Value| !one["document"].is_null() && one["candidate"] == "posted";
    assert_eq!(result["comparisons"].as_array().unwrap().iter().filter(documented).count(), 6);
    let page = fs::read_to_string(place.path().join("index.html")).unwrap();
    assert!(page.contains("figure class=\"wide\"") && page.contains("Each drain of 72 CPUs, simulated"));

    let (told, _) = lab("stagger --quick --blocks 1");
    assert_contains(&told, &["two threads serve 72 CPUs", "cannot be told", "1.000 to 1.000"]);
}

#[test]
fn hackbench_prints_what_hackbench_prints() {
    for options in ["-pipe 1 process 2", "1 thread 2 --context message"] {
        let done = succeeds(commensal().args(["lab", "hackbench"]).args(options.split(' ')));
        let said = text(&done.stdout);
        assert!(said.starts_with("Running with 1*40 (== 40) tasks.\nTime: "), "{options}: {said}");
    }
}

/// A profile of this machine is written, read again, and says what simulated times are.
#[test]
fn costs_that_were_measured_can_be_simulated_with() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("here.toml");
    let done = succeeds(commensal().args(["lab", "calibrate", "--quick", "--out"]).arg(&file));
    assert_says(&done, &["measured here: counters upgraded 2 atomic"]);
    let simulated = |machine: &str| {
        let words = ["workload", "counters", "simulated", machine, "own", "one", "atomic"];
        let done = succeeds(commensal().args(words));
        text(&done.stdout).trim().parse::<f64>().unwrap()
    };
    let of_profile = simulated(&format!("2@{}", file.display()));
    // What was measured, and not a round figure.
    assert_ne!(of_profile, simulated("2"));
    let (_, result) = lab(&format!("kicks --quick --blocks 1 --cpus 8 --profile {}", file.display()));
    assert_eq!(result["machine"]["model"], format!("cost model {}", file.display()));
}

/// Bands and the word stand beside every figure.
#[test]
fn forecast_is_labelled_as_simulated() {
    let place = tempfile::tempdir().unwrap();
    let (told, result) = lab(&format!("forecast --profile here-2 --report {}", place.path().display()));
    assert_contains(&told, &["CPUs, simulated"]);
    assert_eq!((&result["experiment"], &result["machine"]["kind"]), (&"forecast".into(), &"simulated".into()));
    let arms = result["arms"].as_array().unwrap();
    assert_eq!(arms.len(), 2 * 7, "with 1 and 2 CPUs");
    for arm in arms {
        let of = &arm["metrics"]["operation_ns"];
        let [low, value, high] = [&of["ci95"][0], &of["median"], &of["ci95"][1]].map(|ns| ns.as_f64().unwrap());
        assert!(0.0 < low && low <= value && value <= high, "{arm:#}");
        // Its costs have bands.
        assert!(low < high || arm["name"] == "striped", "{arm:#}");
    }
    // One word for two CPUs is what two of them wait for; words of their own are not.
    let of = |name: &str, threads: u64| found(&result, name, &json!({ "threads": threads }), "operation_ns").1;
    assert!(of("atomic", 2) > 3.0 * of("atomic", 1) && of("malloc and free", 2) < 1.5 * of("malloc and free", 1));
    let page = fs::read_to_string(place.path().join("index.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("Forecast: here-2, simulated"));
}

/// The figures of published curves follow from the sources, not from the machine. A machine of which all CPUs are told to be near each other cannot say what was
/// published of one with eight sockets, whatever is fitted.
#[test]
fn model_is_validated_on_points_that_no_fit_has_seen() {
    let flat = ["other", "far"].into_iter().fold(Profile::find("xeon-448").unwrap(), |profile, distance| {
        let near = |what: &str| profile.cost(&format!("cluster.{what}")).value;
        let [latency, service] = [near("latency"), near("service")];
        profile.with(&format!("{distance}.latency"), latency).with(&format!("{distance}.service"), service)
    });
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("flat.toml");
    fs::write(&file, flat.text().unwrap()).unwrap();
    let done =
        commensal().args(["lab", "validate", "--quick", "--json", "-", "--profile"]).arg(&file).output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    let found = valid(&done.stdout);
    // That of the flat machine comes behind the published ones.
    let (curves, of_flat) = found["curves"].as_array().unwrap().split_at(2);
    for curve in curves {
        assert!(curve["median"].as_f64().unwrap() <= 0.2, "{curve:#}");
        let seen: Vec<u64> = curve["fitted"].as_array().unwrap().iter().map(|one| one[1].as_u64().unwrap()).collect();
        let points = curve["points"].as_array().unwrap();
        assert!(seen.len() == 3 && points.len() > 25);
        assert!(points.iter().all(|point| !seen.contains(&point["threads"].as_u64().unwrap())));
    }
    assert_eq!(found["here"].as_array().unwrap().len(), 9);
    let told = text(&done.stderr);
    assert!(of_flat[0]["unfit"].is_string() && told.contains("IMPOSSIBLE"), "{told}");
}
