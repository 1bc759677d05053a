//! `commensal doctor` as a user meets it: what it says is what the library does, also where the machine gives less.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{as_commensal, commensal, commensal_does, compile, skip, text};

/// What the doctor says in one line, without the table's columns.
fn words(done: &Output) -> String {
    text(&done.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// It ends with this status, and says all of this.
#[track_caller]
fn says(done: &Output, status: i32, expected: &[&str]) {
    let said = words(done);
    assert_eq!((done.status.code(), text(&done.stderr).as_str()), (Some(status), ""), "{said}");
    for words in expected {
        assert!(said.contains(words), "{words:?} is missing in {said}");
    }
}

/// A doctor that another program starts with these arguments.
fn under(program: &Path, args: &[&str]) -> Output {
    let mut under = Command::new(program);
    under.args(args).args([env!("CARGO_BIN_EXE_commensal"), "doctor"]);
    as_commensal(&mut under).output().unwrap()
}

#[test]
fn doctor_says_the_mode_in_80_columns() {
    let done = commensal_does(&["doctor"]);
    let version = env!("CARGO_PKG_VERSION");
    let fine = format!("version {version} programs run under it");
    says(&done, 0, &[&format!("Commensal {version} works here: mode "), &fine, "settings fine no errors"]);
    let shown = text(&done.stdout);
    assert!(shown.lines().all(|line| line.chars().count() <= 80) && !shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn reason_for_less_is_explained() {
    if !words(&commensal_does(&["doctor"])).contains("mode concurrency-ids, kicks possible.") {
        return skip("reason_for_less_is_explained", "this machine gives less anyway");
    }
    let folder = tempfile::tempdir().unwrap();
    let c = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dropin/c");
    let filter = folder.path().join("filter");
    compile(&fs::read_to_string(c.join("seccomp.c")).unwrap(), &filter, &["-pthread", "-I", c.to_str().unwrap()]);
    let fallback = "works here: mode slot-per-thread, kicks not-used.";
    let refused = "works here: mode concurrency-ids, kicks refused.";
    for (call, mode, why) in [
        ("rseq=1", fallback, "mode less one slot per thread (fallback): a seccomp filter refuses rseq"),
        ("rseq=38", fallback, "the kernel has no rseq, or a seccomp filter says so"),
        ("membarrier=1", refused, "membarrier less kicks are refused: a seccomp filter refuses membarrier"),
        ("membarrier=38", refused, "the kernel has no membarrier, or a seccomp filter says so"),
        ("membarrier=22", refused, "not for restartable sequences"),
    ] {
        says(&under(&filter, &["run", call]), 0, &[mode, why, "→ "]);
    }
    let tuned = |tunables: &str| commensal().env("GLIBC_TUNABLES", tunables).arg("doctor").output().unwrap();
    let off = "glibc.malloc.check=0:glibc.pthread.rseq=0";
    says(&tuned(off), 0, &[fallback, "GLIBC_TUNABLES has glibc.pthread.rseq=0"]);
    says(&tuned(&format!("{off}:glibc.pthread.rseq=1")), 0, &["mode concurrency-ids"]);
}

#[test]
fn complaint_of_the_library_is_repeated() {
    let wrong = commensal().env("COMMENSAL_CONF", "kep:2,huge:large").arg("doctor").output().unwrap();
    says(&wrong, 0, &["settings less ", "did you mean 'keep'", "huge cannot be 'large'"]);
    says(&under(Path::new("sh"), &["-c", "ulimit -f 32; exec \"$@\"", "sh"]), 0, &["settings less ", "ulimit -f"]);
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
    for (library, why) in [
        (Path::new("/no/such/libcommensal.so"), "cannot be found"),
        (Path::new("/etc/passwd"), "is not a shared library"),
        (&empty, "printed no statistics"),
        (&made("crash.so", crash), "signal: 6"),
    ] {
        let done = commensal().env("COMMENSAL_LIBRARY", library).arg("doctor").output().unwrap();
        says(&done, 1, &["does not work here. ", "library fails ", why]);
    }
}
