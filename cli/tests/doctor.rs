//! `commensal doctor` as a user meets it: what it says is what the library does, also where the machine gives less.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{as_commensal, commensal, commensal_does, compile, skip, text};
use serde_json::{Value, json};

const VERDICTS: [&str; 4] = ["fine", "unknown", "less", "fails"];
const ITEMS: &str = "library mode membarrier statistics-page settings sandbox stranded-memory grace-periods background";

/// The names in an object, sorted.
fn names(object: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// The findings, after their form was checked: programs go by these names and words.
#[track_caller]
fn findings(done: &Output) -> Value {
    let found: Value = serde_json::from_slice(&done.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", text(&done.stdout), text(&done.stderr)));
    let is_one_of = |value: &Value, words: &[&str]| words.contains(&value.as_str().unwrap());
    assert_eq!(names(&found), ["items", "seen", "verdict", "version"]);
    assert!(is_one_of(&found["verdict"], &VERDICTS), "{found}");
    let seen = &found["seen"];
    if !seen.is_null() {
        assert_eq!(names(seen), ["kicks", "mode"]);
        assert!(is_one_of(&seen["mode"], &["concurrency-ids", "slot-per-thread"]), "{found}");
        assert!(is_one_of(&seen["kicks"], &["possible", "refused", "not-used"]), "{found}");
    }
    let items = found["items"].as_array().unwrap();
    for item in items {
        assert_eq!(names(item), ["advice", "found", "item", "meaning", "verdict"]);
        let is_known = ITEMS.split(' ').any(|name| item["item"] == name);
        assert!(is_known && is_one_of(&item["verdict"], &VERDICTS), "{item}");
        assert!(["found", "meaning"].iter().all(|name| !item[*name].as_str().unwrap().is_empty()), "{item}");
        assert!(item["advice"].is_null() || item["advice"].is_string(), "{item}");
    }
    assert!(!items.is_empty());
    found
}

/// The verdict of an item, and what was found.
#[track_caller]
fn item<'a>(findings: &'a Value, name: &str) -> (&'a str, &'a str) {
    let items = findings["items"].as_array().unwrap();
    let item = items.iter().find(|item| item["item"] == name).unwrap_or_else(|| panic!("{name} in {findings}"));
    (item["verdict"].as_str().unwrap(), item["found"].as_str().unwrap())
}

/// Whether this machine has what the library makes use of; where it has not, what is taken away makes no difference.
fn has_all() -> bool {
    findings(&commensal_does(&["doctor", "--json"]))["seen"]
        == json!({ "mode": "concurrency-ids", "kicks": "possible" })
}

/// The findings of a command that runs the doctor in its own way.
#[track_caller]
fn findings_under(program: &Path, args: &[&str]) -> Value {
    let mut under = Command::new(program);
    under.args(args).args([env!("CARGO_BIN_EXE_commensal"), "doctor", "--json"]);
    findings(&as_commensal(&mut under).output().unwrap())
}

#[test]
fn table_says_the_same_as_json_in_80_columns() {
    let [done, json] = [&["doctor"][..], &["doctor", "--json"]].map(commensal_does);
    let (shown, found) = (text(&done.stdout), findings(&json));
    assert_eq!([&done, &json].map(|it| (it.status.code(), text(&it.stderr).is_empty())), [(Some(0), true); 2]);
    assert!(shown.starts_with(&format!("Commensal {} works here: ", env!("CARGO_PKG_VERSION"))), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80) && !shown.contains('\u{1b}'), "{shown}");
    for it in found["items"].as_array().unwrap() {
        assert!(shown.contains(&format!("\n {} ", it["item"].as_str().unwrap())), "{it}: {shown}");
    }
    assert_eq!(item(&found, "statistics-page").0, "fine", "{found}");
    assert_eq!(item(&found, "settings").0, "fine", "{found}");
}

#[test]
fn fallback_without_restartable_sequences_is_seen_and_explained() {
    let done = commensal().env("GLIBC_TUNABLES", "glibc.pthread.rseq=0").args(["doctor", "--json"]).output().unwrap();
    let found = findings(&done);
    assert_eq!(found["seen"], json!({ "mode": "slot-per-thread", "kicks": "not-used" }), "{found}");
    assert_eq!((done.status.code(), &found["verdict"], item(&found, "mode").0), (Some(0), &json!("less"), "less"));
    assert!(!has_all() || item(&found, "mode").1.contains("GLIBC_TUNABLES"), "{found}");
}

#[test]
fn kicks_that_a_filter_refuses_are_seen_and_explained() {
    if !has_all() {
        return skip("kicks_that_a_filter_refuses_are_seen_and_explained", "kicks are not possible anyway");
    }
    let folder = tempfile::tempdir().unwrap();
    let c = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dropin/c");
    let filter = folder.path().join("filter");
    compile(&fs::read_to_string(c.join("seccomp.c")).unwrap(), &filter, &["-pthread", "-I", c.to_str().unwrap()]);
    for (call, why) in [("membarrier=1", "a seccomp filter refuses"), ("membarrier=38", "or a seccomp filter says so")]
    {
        let found = findings_under(&filter, &["run", call]);
        assert_eq!(found["seen"], json!({ "mode": "concurrency-ids", "kicks": "refused" }), "{found}");
        let (verdict, told) = item(&found, "membarrier");
        assert!(verdict == "less" && told.contains(why), "{found}");
    }
}

#[test]
fn statistics_page_that_is_refused_is_explained() {
    let found = findings_under(Path::new("sh"), &["-c", "ulimit -f 32; exec \"$@\"", "sh"]);
    let (verdict, why) = item(&found, "statistics-page");
    assert!(verdict == "less" && why.contains("ulimit -f"), "{found}");
    assert_eq!(item(&found, "settings").0, "fine", "{found}");
}

#[test]
fn process_in_a_sandbox_tells_what_it_lost() {
    for (tunables, kind) in [("", "by concurrency ids"), ("glibc.pthread.rseq=0", "one slot per thread")] {
        let done =
            commensal().env("GLIBC_TUNABLES", tunables).args(["doctor", "--sandbox", "--json"]).output().unwrap();
        let found = findings(&done);
        assert_eq!((done.status.code(), item(&found, "sandbox").0), (Some(0), "fine"), "{kind}: {found}");
        assert!(item(&found, "stranded-memory").1.contains(" MiB"), "{kind}: {found}");
        assert!(item(&found, "grace-periods").1.contains(" ms"), "{kind}: {found}");
    }
    // A thread that makes another call is found out, and so would one of the library's.
    let folder = tempfile::tempdir().unwrap();
    let asks = folder.path().join("asks.so");
    let source = "#include <pthread.h>\n#include <unistd.h>\nstatic volatile int begun;\n\
        static void *ask(void *unused) { for (begun = 1;; usleep(1000)) getppid(); return unused; }\n\
        __attribute__((constructor)) static void start(void) {\n\
        pthread_t t; pthread_create(&t, NULL, ask, NULL); while (!begun) usleep(1000); }";
    compile(source, &asks, &["-shared", "-fPIC", "-pthread"]);
    let done = commensal().env("LD_PRELOAD", &asks).args(["doctor", "--sandbox", "--json"]).output().unwrap();
    let found = findings(&done);
    let (verdict, why) = item(&found, "sandbox");
    assert!((done.status.code(), verdict) == (Some(1), "fails") && why.contains("system call 110"), "{found}");
}

#[test]
fn library_that_does_not_work_gives_status_1() {
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str, source: &str| {
        let library = folder.path().join(name);
        compile(source, &library, &["-shared", "-fPIC"]);
        library
    };
    let empty = made("empty.so", "const char commensal_version[] = \"0.0.1\";");
    let crash = "#include <stdlib.h>\n__attribute__((constructor)) static void start(void) { abort(); }";
    let crash = made("crash.so", crash);
    for (library, why) in [
        (Path::new("/no/such/libcommensal.so"), "cannot be found"),
        (Path::new("/etc/passwd"), "is not a shared library"),
        (&empty, "printed no statistics"),
        (&crash, "killed by signal 6"),
    ] {
        let run = |args: &[&str]| commensal().env("COMMENSAL_LIBRARY", library).args(args).output().unwrap();
        let done = run(&["doctor", "--json"]);
        let found = findings(&done);
        assert_eq!((done.status.code(), &found["verdict"], &found["seen"]), (Some(1), &json!("fails"), &Value::Null));
        assert!(item(&found, "library").0 == "fails" && found.to_string().contains(why), "{found}");
        assert!(text(&run(&["doctor"]).stdout).contains(" does not work here.\n"));
    }
}

#[test]
fn settings_that_the_library_does_not_know_are_told() {
    let run = |conf: &str| {
        let done = commensal().env("COMMENSAL_CONF", conf).args(["doctor", "--json"]).output().unwrap();
        assert_eq!(done.status.code(), Some(0));
        findings(&done)
    };
    assert_eq!(item(&run("keep:2,huge:avoid,stats:off"), "settings").0, "fine");
    let wrong = run("kep:2,huge:large,upkeep.interval_ms:100");
    let (verdict, told) = item(&wrong, "settings");
    assert!(
        verdict == "less" && told.contains("did you mean 'keep'") && told.contains("huge cannot be 'large'"),
        "{told}"
    );
}
