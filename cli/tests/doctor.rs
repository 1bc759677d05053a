//! `commensal doctor` as a user meets it: what it says is what the library does, also where the machine gives less.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{commensal, commensal_does, compile, skip, text};
use serde_json::{Value, json};

/// The findings, after they were held against the schema.
#[track_caller]
fn findings(done: &Output) -> Value {
    let value: Value = serde_json::from_slice(&done.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", text(&done.stdout), text(&done.stderr)));
    let schema: Value = serde_json::from_str(include_str!("../doctor.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
    value
}

/// What was found of one item.
#[track_caller]
fn item<'a>(findings: &'a Value, name: &str) -> &'a Value {
    let items = findings["items"].as_array().unwrap();
    items.iter().find(|item| item["item"] == name).unwrap_or_else(|| panic!("{name} in {findings}"))
}

/// Whether this machine has what the library makes use of; where it has not, what is taken away makes no difference.
fn has_all() -> bool {
    let done = commensal_does(&["doctor", "--json"]);
    findings(&done)["expected"] == json!({ "mode": "concurrency-ids", "kicks": "possible" })
}

/// The command under a filter that refuses a system call.
fn doctor_without(call: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let c = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dropin/c");
    let filter = folder.path().join("filter");
    let source = fs::read_to_string(c.join("seccomp.c")).unwrap();
    compile(&source, &filter, &["-pthread", "-I", c.to_str().unwrap()]);
    let mut under_it = Command::new(&filter);
    let usual = commensal();
    under_it.args(["run", call, env!("CARGO_BIN_EXE_commensal"), "doctor", "--json"]);
    for (variable, value) in usual.get_envs() {
        match value {
            Some(value) => under_it.env(variable, value),
            None => under_it.env_remove(variable),
        };
    }
    under_it.output().unwrap()
}

#[test]
fn what_was_seen_is_what_was_expected() {
    let done = commensal_does(&["doctor", "--json"]);
    assert_eq!((done.status.code(), &*text(&done.stderr)), (Some(0), ""));
    let found = findings(&done);
    assert_eq!(found["seen"], found["expected"], "{found}");
    assert!(item(&found, "trial")["meaning"].as_str().unwrap().starts_with("as expected"), "{found}");
    assert_eq!(item(&found, "trial")["facts"]["version"], found["version"]);
    let names: Vec<&str> = found["items"].as_array().unwrap().iter().map(|it| it["item"].as_str().unwrap()).collect();
    let schema: Value = serde_json::from_str(include_str!("../doctor.schema.json")).unwrap();
    assert_eq!(json!(names), schema["$defs"]["item"]["properties"]["item"]["enum"], "each item, once");
}

#[test]
fn the_table_says_the_same_in_80_columns() {
    let done = commensal_does(&["doctor"]);
    let shown = text(&done.stdout);
    assert_eq!(done.status.code(), Some(0));
    assert!(shown.starts_with(&format!("Commensal {} works here: ", env!("CARGO_PKG_VERSION"))), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80) && !shown.contains('\u{1b}'), "{shown}");
    let found = findings(&commensal_does(&["doctor", "--json"]));
    for it in found["items"].as_array().unwrap() {
        assert!(shown.contains(&format!("\n {} ", it["item"].as_str().unwrap())), "{it}: {shown}");
    }
}

#[test]
fn without_restartable_sequences_the_fallback_is_seen() {
    let done = commensal().env("GLIBC_TUNABLES", "glibc.pthread.rseq=0").args(["doctor", "--json"]).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "it works");
    let found = findings(&done);
    let fallback = json!({ "mode": "slot-per-thread", "kicks": "not-used" });
    assert_eq!((&found["seen"], &found["expected"]), (&fallback, &fallback), "{found}");
    assert_eq!((&found["verdict"], &item(&found, "rseq")["verdict"]), (&json!("less"), &json!("less")));
    let why = item(&found, "rseq")["found"].as_str().unwrap();
    if has_all() {
        assert!(why.contains("GLIBC_TUNABLES"), "{why}");
    }
}

#[test]
fn where_a_filter_refuses_membarrier_kicks_are_seen_to_be_refused() {
    if !has_all() {
        return skip("where_a_filter_refuses_membarrier_kicks_are_seen_to_be_refused", "kicks are not possible anyway");
    }
    let refused = json!({ "mode": "concurrency-ids", "kicks": "refused" });
    for (call, is_refused, why) in
        [("membarrier=1", true, "a filter of system calls"), ("membarrier=38", false, "or a filter says so")]
    {
        let done = doctor_without(call);
        assert_eq!(done.status.code(), Some(0), "it works: {}", text(&done.stderr));
        let found = findings(&done);
        assert_eq!((&found["seen"], &found["expected"]), (&refused, &refused), "{found}");
        let membarrier = item(&found, "membarrier");
        assert_eq!((&membarrier["verdict"], &membarrier["facts"]["refused"]), (&json!("less"), &json!(is_refused)));
        assert!(membarrier["found"].as_str().unwrap().contains(why), "{membarrier}");
        assert_eq!(item(&found, "trial")["facts"]["kicks"], 0);
    }
}

/// Its malloc is its own, and it says of itself what the library would not do here.
const LIAR: &str = r#"
    #include <stdio.h>
    #include <stddef.h>
    void *__libc_malloc(size_t);
    void *malloc(size_t size) { return __libc_malloc(size); }
    __attribute__((destructor)) static void end(void) {
        fputs("commensal: COMMENSAL_CONF: I do not know that\n", stderr);
        fputs("  solo; slots used 7 (one slot a thread); kicks 0, refused 0\n", stderr);
    }
"#;

#[test]
fn what_was_not_expected_is_told() {
    if !has_all() {
        return skip("what_was_not_expected_is_told", "it would be expected here");
    }
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("liar.so");
    compile(LIAR, &library, &["-shared", "-fPIC"]);
    let run = || {
        commensal()
            .env("COMMENSAL_LIBRARY", &library)
            .env("COMMENSAL_CONF", "keep:1")
            .args(["doctor", "--json"])
            .output()
    };
    let done = run().unwrap();
    let found = findings(&done);
    assert_eq!(found["seen"], json!({ "mode": "slot-per-thread", "kicks": "not-used" }), "{found}");
    let trial = item(&found, "trial");
    assert_eq!((&trial["verdict"], &trial["facts"]["slots"]), (&json!("less"), &json!(7)));
    assert!(trial["meaning"].as_str().unwrap().starts_with("expected slots by concurrency ids"), "{trial}");
    assert!(item(&found, "settings")["meaning"].as_str().unwrap().contains("I do not know that"));
    assert_eq!(item(&found, "library")["verdict"], "less", "it has no version");
    assert_eq!(done.status.code(), Some(0));
}

#[test]
fn where_the_library_would_not_work_the_status_is_1() {
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str, source: &str| {
        let library = folder.path().join(name);
        compile(source, &library, &["-shared", "-fPIC"]);
        library
    };
    let empty = made("empty.so", "const char commensal_version[] = \"0.0.1\";");
    let crash = "#include <stdlib.h>\n__attribute__((constructor)) static void start(void) { abort(); }";
    let crash = made("crash.so", crash);
    for (library, failing, why) in [
        (Path::new("/no/such/libcommensal.so"), "library", "cannot be found"),
        (Path::new("/etc/passwd"), "library", "is not a shared library"),
        (&empty, "trial", "printed no statistics"),
        (&crash, "trial", "ended by signal 6"),
    ] {
        let done = commensal().env("COMMENSAL_LIBRARY", library).args(["doctor", "--json"]).output().unwrap();
        assert_eq!(done.status.code(), Some(1), "{}", library.display());
        let found = findings(&done);
        assert_eq!((&found["verdict"], &found["seen"]), (&json!("fails"), &Value::Null));
        let failing = item(&found, failing);
        assert!(failing["verdict"] == "fails" && failing["found"].as_str().unwrap().contains(why), "{failing}");
    }
    let shown = commensal().env("COMMENSAL_LIBRARY", "/no/such/library.so").arg("doctor").output().unwrap();
    assert_eq!(shown.status.code(), Some(1));
    assert!(text(&shown.stdout).contains("does not work here: library, trial."), "{}", text(&shown.stdout));
}

#[test]
fn each_setting_is_checked_by_the_library() {
    let run = |conf: &str| {
        let done = commensal().env("COMMENSAL_CONF", conf).args(["doctor", "--json"]).output().unwrap();
        assert_eq!(done.status.code(), Some(0));
        findings(&done)
    };
    let right = run("keep:2,huge:avoid,stats:off");
    assert_eq!(item(&right, "settings")["verdict"], "fine", "{right}");
    let wrong = run("kep:2,huge:large,upkeep.interval_ms:100");
    let settings = item(&wrong, "settings");
    assert_eq!(
        (&settings["verdict"], settings["facts"]["complaints"].as_array().map(Vec::len)),
        (&json!("less"), Some(2))
    );
    let meaning = settings["meaning"].as_str().unwrap();
    assert!(meaning.contains("did you mean 'keep'") && meaning.contains("huge cannot be 'large'"), "{meaning}");
}

#[test]
fn what_else_is_preloaded_is_told() {
    let preloading = |name: &str| commensal().env("LD_PRELOAD", name).args(["doctor", "--json"]).output().unwrap();
    let found = findings(&preloading("libm.so.6"));
    assert_eq!((&item(&found, "preload")["verdict"], &found["seen"]), (&json!("fine"), &found["expected"]));
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.so");
    compile(
        "#include <stddef.h>\nvoid *__libc_malloc(size_t);\nvoid *malloc(size_t n) { return __libc_malloc(n); }",
        &other,
        &["-shared", "-fPIC"],
    );
    let found = findings(&preloading(other.to_str().unwrap()));
    assert_eq!(
        (&item(&found, "preload")["verdict"], &found["seen"]),
        (&json!("less"), &found["expected"]),
        "ours is first"
    );
}
