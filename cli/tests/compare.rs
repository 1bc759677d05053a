//! `commensal compare`, with allocators that each do one thing wrong: every one of them must be found out.

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use common::watched::eventually;
use common::{PATIENCE, assert_says, commensal, compile, library, path_of, result, succeeds, text, valid};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

const FAKES: [&str; 5] = ["SLOW", "LEAKING", "CRASHING", "HANGING", "DIRTY"];

/// Where the fakes and the program are, compiled once.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        compile(include_str!("guest.c"), &folder.path().join("guest"), &["-O1"]);
        for fake in FAKES {
            let define = format!("-D{fake}");
            compile(include_str!("fakes.c"), &fake_in(folder.path(), fake), &["-O1", "-shared", "-fPIC", &define]);
        }
        folder
    });
    folder.path()
}

fn fake_in(folder: &Path, fake: &str) -> PathBuf {
    folder.join(format!("{}.so", fake.to_lowercase()))
}

/// `commensal compare` with these words.
fn compare(words: &str) -> Command {
    let mut command = commensal();
    command.arg("compare").args(words.split(' '));
    command
}

fn comparison<'a>(result: &'a Value, candidate: &str, metric: &str) -> &'a Value {
    let all = result["comparisons"].as_array().unwrap();
    let is_it = |one: &&Value| one["candidate"] == candidate && one["metric"] == metric;
    all.iter().find(is_it).unwrap_or_else(|| panic!("no {metric} of {candidate} in {result}"))
}

/// In one comparison, of which each arm but the sound ones does another thing wrong.
#[test]
fn allocators_that_do_one_thing_wrong_are_found_out() {
    let place = tempfile::tempdir().unwrap();
    let json = place.path().join("result.json");
    // Nothing but this library and the fakes, so that the test does not depend on what is installed.
    let mut command = compare("--arm usual= --arm other=keep:64 --blocks 12 --seed 1");
    for fake in FAKES {
        command.arg("--with").arg(format!("{}={}", fake.to_lowercase(), fake_in(folder(), fake).display()));
    }
    // The others need some hundredths of a second, and more where others have the CPU.
    command.args(["--time-limit", "7.5", "--json"]).arg(&json).arg("--").arg(folder().join("guest"));
    let done = command.output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    assert_says(&done, &["× usual", "slower", "peak memory", "more", "not measured", "12 blocks", "seed 1"]);
    assert_says(&done, &["FINDING: under crashing: was killed by signal 6 (SIGABRT)", "out of order"]);
    assert_says(&done, &["FINDING: under hanging: still ran after 7.5 s and was killed"]);
    assert_says(&done, &["FINDING: under dirty: printed something else on standard output"]);
    assert_says(&done, &["-sum 11400000", "+sum 11400020"]);
    let result = result(&json);
    for (candidate, metric, least) in [("slow", "wall_s", 1.0), ("leaking", "peak_kb", 1.5)] {
        let compared = comparison(&result, candidate, metric);
        assert_eq!(compared["verdict"], "slower", "{compared}");
        assert!(compared["ratio"].as_f64().unwrap() > least, "{compared}");
    }
    let findings = result["findings"].as_array().unwrap();
    let mut accused: Vec<&str> = findings.iter().map(|finding| finding["arm"].as_str().unwrap()).collect();
    accused.sort_unstable();
    assert_eq!(accused, ["crashing", "dirty", "hanging"], "slower is no fault");
    assert!(findings.iter().all(|finding| finding["is_fault"] == true), "{findings:?}");
    assert_eq!(comparison(&result, "other", "wall_s")["baseline"], "usual", "the others go on");
}

#[test]
fn equal_arms_show_no_difference() {
    let place = tempfile::tempdir().unwrap();
    let json = place.path().join("result.json");
    let mut command = compare("--arm a= --arm b= --blocks 12 --seed 7 --json");
    succeeds(command.arg(&json).arg("--report").arg(place.path().join("report")).args(["--", "true"]));
    let result = result(&json);
    let told = (&result["experiment"], &result["seed"], &result["blocks"]);
    assert_eq!(told, (&"compare".into(), &7.into(), &12.into()));
    assert!(result["command"].as_str().unwrap().ends_with("-- true"));
    // Of what is counted: times depend on who else wants the CPU.
    let compared = comparison(&result, "b", "page_faults");
    let ratio = compared["ratio"].as_f64().unwrap();
    assert!((0.9..1.1).contains(&ratio), "{compared}");
    assert_eq!(comparison(&result, "a again", "wall_s")["baseline"], "a");
    let page = fs::read_to_string(place.path().join("report/index.html")).unwrap();
    assert!(["<svg", "prefers-color-scheme: dark", "width=device-width"].iter().all(|words| page.contains(words)));
    let without_namespaces = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!without_namespaces.contains("http"), "the page needs no network");
    common::result(&place.path().join("report/compare.json"));
}

#[test]
fn limit_decides_the_status_of_two_commands() {
    let told = |blocks: &str, words: &[&str]| {
        let mut command = compare("--seed 1 --fail-if slower:50% --fail-if memory:200% --blocks");
        let done = command.arg(blocks).args(words).output().unwrap();
        (done.status.code(), text(&done.stderr))
    };
    let quick = "--command=a=sleep 0.01";
    let (status, line) = told("12", &[quick, "--command=b=sh -c 'sleep 0.05'"]);
    assert_eq!(status, Some(1), "{line}");
    assert!(
        line.contains("slower:50%: EXCEEDED: wall time under b is ") && line.contains("memory:200%: ok: "),
        "{line}"
    );
    let (status, line) = told("12", &[quick, "--command=b=sleep 0.01"]);
    assert!(status == Some(0) && line.contains("slower:50%: ok: "), "{line}");
    // What goes wrong otherwise is no regression.
    let (status, line) = told("12", &["--command=a=true", "--command=b=false"]);
    assert!(status == Some(2) && line.contains("slower:50%: b was not measured"), "{line}");
    let (status, line) = told("12", &["--command=a=true", "--command=b=/no/such/program"]);
    assert!(status == Some(2) && line.contains("/no/such/program does not exist"), "{line}");
    let (status, line) = told("5", &["--command=a=true", "--command=b=true"]);
    assert!(status == Some(2) && line.contains("5 blocks cannot show a difference"), "{line}");
    // Of the arms of a program, those that are no peers are held to it.
    let (status, line) = told("12", &["--arm=a=", "--arm=b=keep:1", "--", "true"]);
    assert!(status == Some(0) && line.contains("wall time under b is"), "{line}");
}

#[test]
fn commands_run_as_they_are_and_may_print_what_they_like() {
    let place = tempfile::tempdir().unwrap();
    let json = place.path().join("result.json");
    let mut command = compare("--blocks 2 --command=a=env --json");
    command.arg(&json).arg("--command=b=sh -c 'echo \"$LD_PRELOAD\"; echo $0 | grep -q sh'");
    let done = succeeds(command.env("COMMENSAL_CONF", "keep:1"));
    assert_says(
        &done,
        &["    a            env\n", "    b            sh -c echo \"$LD_PRELOAD\"", "a again is a control"],
    );
    let result = result(&json);
    assert_eq!((&result["arms"][2]["name"], &result["findings"]), (&"b".into(), &Value::Array(Vec::new())));
}

/// A counter is there with a figure, or a line says why it is missing.
#[test]
fn instructions_are_counted_or_the_reason_is_told() {
    let result = valid(&succeeds(&mut compare("--blocks 1 --format json --command=a=true --command=b=true")).stdout);
    let counted = &result["arms"][0]["metrics"]["instructions"]["median"];
    let told = result["not_counted"].as_str().unwrap_or_default();
    assert_eq!(counted.is_null(), told.contains("instructions (user)"), "{counted} {told}");
    assert!(counted.is_null() || counted.as_f64().unwrap() > 1000.0, "{counted}");
    assert!(told.is_empty() || told.contains("perf_event_open: ") && !told.contains('\n'), "{told}");
}

#[test]
fn formats_have_the_same_figures() {
    let of = |format: &str| {
        let words =
            format!("--blocks 6 --seed 1 --format {format} --fail-if faults:900% --command=a=true --command=b=true");
        text(&succeeds(&mut compare(&words)).stdout)
    };
    let json: Value = valid(of("json").as_bytes());
    assert_eq!((&json["limits"][0]["candidate"], &json["limits"][0]["is_exceeded"]), (&"b".into(), &false.into()));
    let metrics = json["arms"][0]["metrics"].as_object().unwrap().len();
    let csv = of("csv");
    assert!(csv.starts_with("workload,metric,unit,arm,median,"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + 3 * metrics, "{csv}");
    let markdown = of("markdown");
    assert!(markdown.starts_with("## a, b\n\n| wall time | median | × a |"), "{markdown}");
    assert_eq!(markdown.matches("\n| a again | ").count(), 2, "{markdown}");
}

#[test]
fn json_on_standard_output_is_nothing_but_json() {
    let done = compare("--arm a= --blocks 1 --format json -- true").output().unwrap();
    let value: Value = valid(&done.stdout);
    assert_eq!(value["arms"][0]["name"], "commensal", "one configuration is held against the default");
}

#[test]
fn arms_besides_glibc_are_those_that_are_installed() {
    let done = compare("--blocks 1 --format json -- true").output().unwrap();
    let result = valid(&done.stdout);
    let names: Vec<&str> = result["arms"].as_array().unwrap().iter().map(|arm| arm["name"].as_str().unwrap()).collect();
    assert_eq!(names[..3], ["glibc", "glibc again", "commensal"]);
    for peer in ["jemalloc", "mimalloc", "tcmalloc"] {
        let told = text(&done.stderr).contains(&format!("{peer} is not installed; install Debian's package lib"));
        assert_ne!(names.contains(&peer), told, "{peer}: {names:?} {}", text(&done.stderr));
    }
}

#[test]
fn preparation_comes_before_each_run_and_is_not_measured() {
    let place = tempfile::tempdir().unwrap();
    let (log, json) = (place.path().join("log"), place.path().join("result.json"));
    // It has a thousand times as many page faults.
    let prepare = format!("dd if=/dev/zero of=/dev/null bs=64M count=1 2> /dev/null; echo x >> {}", log.display());
    let mut command = compare("--arm a= --arm b= --blocks 2 --json");
    succeeds(command.arg(&json).args(["--prepare", &prepare, "--", "true"]));
    // One dropped block and two more, of two arms and the control.
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 9);
    let faults = result(&json)["arms"][0]["metrics"]["page_faults"]["median"].as_f64().unwrap();
    assert!((1.0..5000.0).contains(&faults), "{faults}");
    let failing = compare("--prepare").args(["echo why >&2; exit 3", "--", "true"]).output().unwrap();
    assert_eq!(failing.status.code(), Some(125));
    assert!(text(&failing.stderr).contains("exit status: 3: why"), "{}", text(&failing.stderr));
}

#[test]
fn input_is_given_to_every_run() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("input");
    fs::write(&file, "guests\n").unwrap();
    let done = succeeds(compare("--arm a= --blocks 2 --input").arg(&file).args(["--", "grep", "-q", "guests"]));
    assert!(!text(&done.stdout).contains("exit status 1"), "{}", text(&done.stdout));
}

#[test]
fn compare_goes_on_until_the_interval_is_narrow() {
    let done = succeeds(compare("--arm a= --arm b= --until-ci 30% --format json --").arg(folder().join("guest")));
    assert!(valid(&done.stdout)["blocks"].as_u64().unwrap() >= 10);
}

#[test]
fn interrupted_compare_shows_what_is_known_so_far() {
    let place = tempfile::tempdir().unwrap();
    let (log, json) = (place.path().join("log"), place.path().join("result.json"));
    let script = format!("echo x >> {}; sleep 0.05", log.display());
    let mut command = compare("--arm a= --blocks 1000 --json");
    command.arg(&json).args(["--", "sh", "-c", &script]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let runs = || fs::read_to_string(&log).unwrap_or_default().lines().count();
    eventually("the script has run", || (runs() >= 10).then_some(()));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.signal(), Some(2));
    assert_says(&done, &["Ended early", "wall time"]);
    assert_eq!(result(&json)["interrupted"], true);
}

/// An option permits it. A failure under one arm alone is a finding, as before.
#[test]
fn program_that_fails_under_the_baseline_is_told_at_once() {
    let told = |words: &[&str]| {
        let done = compare("--arm a= --blocks 2").args(words).output().unwrap();
        (done.status.code(), text(&done.stdout), text(&done.stderr))
    };
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let script = format!("echo x >> {}; echo no >&2; exit 3", log.display());
    let (status, shown, line) = told(&["--", "sh", "-c", &script]);
    let expected = "commensal: sh: ended with exit status 3 under commensal; it said: no; \
                    if this program may fail, add --allow-failure";
    assert_eq!((status, shown.as_str(), line.lines().next_back()), (Some(125), "", Some(expected)));
    assert_eq!(fs::read_to_string(&log).unwrap(), "x\n", "one run");
    let (status, shown, _) = told(&["--allow-failure", "--", "false"]);
    assert!(status == Some(0) && shown.contains("ends with exit status 1 also under the baseline"), "{shown}");
    let under_a = "[ -z \"$COMMENSAL_CONF\" ]";
    let done = compare("--arm a=keep:1 --blocks 2 -- sh -c").arg(under_a).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert_says(&done, &["FINDING: under a: ended with exit status 1"]);
}

#[test]
fn program_that_runs_without_the_arms_allocator_is_warned_about() {
    let place = tempfile::tempdir().unwrap();
    let library = place.path().join("libjemalloc.so.2");
    compile("int guest(void) { return 0; }", &library, &["-shared", "-fPIC", "-Wl,-soname,libjemalloc.so.2"]);
    let search = format!("-Wl,-rpath,{}", place.path().display());
    // Nothing is used of it, and the linker takes it all the same.
    let linked = ["-Wl,--no-as-needed", &library.to_string_lossy(), &search];
    for (options, why) in [(&["-static"][..], "statically linked"), (&linked, "is linked with jemalloc")] {
        let program = place.path().join("guest");
        compile("int main(void) { return 0; }", &program, options);
        let done = succeeds(compare("--arm a= --blocks 1 --").arg(&program));
        assert!(text(&done.stderr).contains(why), "{}", text(&done.stderr));
    }
}

#[test]
fn preload_of_the_environment_is_dropped_and_told() {
    let script = "[ -z \"$COMMENSAL_CONF\" ] && ! grep -q libm /proc/self/maps";
    let mut command = compare("--arm a= --blocks 1 -- sh -c");
    let done = succeeds(command.arg(script).env("LD_PRELOAD", "libm.so.6").env("COMMENSAL_CONF", "keep:1"));
    assert!(!text(&done.stdout).contains("exit status"), "{}", text(&done.stdout));
    for variable in ["LD_PRELOAD", "COMMENSAL_CONF"] {
        assert!(text(&done.stderr).contains(&format!("{variable} is set, and is ignored")));
    }
}

#[test]
fn output_that_may_differ_is_not_compared() {
    let done = compare("--arm a=keep:1 --blocks 1 -- env").output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert_says(&done, &["FINDING: under a: printed something else", "+COMMENSAL_CONF=keep:1", "--any-output"]);
    succeeds(&mut compare("--arm a=keep:1 --blocks 1 --any-output -- env"));
}

/// It would stop: its process group is not the terminal's.
#[test]
fn measured_program_that_wants_the_terminal_has_none() {
    let command = format!(
        "{} compare --arm a= --blocks 1 -- sh -c 'if read x < /dev/tty; then echo read; else echo none; fi'",
        env!("CARGO_BIN_EXE_commensal")
    );
    let mut on_terminal = Command::new("script");
    on_terminal.args(["-qec", &command, "/dev/null"]).stdin(Stdio::null());
    let Ok(done) = common::as_commensal(&mut on_terminal).output() else {
        return common::skip("measured_program_that_wants_the_terminal_has_none", "there is no program script");
    };
    assert_eq!(done.status.code(), Some(0), "{}{}", text(&done.stdout), text(&done.stderr));
}

/// Closing a terminal must leave nothing behind.
#[test]
fn measured_program_ends_with_the_command() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("process");
    let script = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 10000", file.display());
    for signal in [Signal::HUP, Signal::KILL] {
        let _ = fs::remove_file(&file);
        let mut command = compare("--arm a= --blocks 1 -- sh -c");
        let mut child = command.arg(&script).stdout(Stdio::null()).spawn().unwrap();
        let process = eventually("it runs", || fs::read_to_string(&file).ok());
        kill_process(Pid::from_child(&child), signal).unwrap();
        child.wait().unwrap();
        eventually("it is gone", || {
            let state = fs::read_to_string(format!("/proc/{}/stat", process.trim())).unwrap_or_default();
            (state.is_empty() || state.contains(") Z ")).then_some(())
        });
    }
}

#[test]
fn preparation_that_hangs_or_fails_late_loses_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (count, json) = (place.path().join("count"), place.path().join("result.json"));
    // It leaves something running that keeps its output open, and fails in the fourth block.
    let prepare = format!("sleep 30 & echo x >> {0}; [ $(wc -l < {0}) -lt 11 ]", count.display());
    let mut command = compare("--arm a= --blocks 9 --json");
    let done = command.arg(&json).args(["--prepare", &prepare, "--", "true"]).output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    assert_says(&done, &["Ended early, after 2 whole blocks", "FINDING: --prepare", "wall time"]);
    assert_eq!(result(&json)["blocks"], 2);

    let start = Instant::now();
    let mut command = compare("--prepare");
    let mut child =
        command.args(["sleep 10000", "--", "true"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(2));
    assert!(start.elapsed() < PATIENCE);
}

#[test]
fn kernels_run_under_the_library_give_the_same_checksum() {
    let run = |name: &str, preload: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_commensal"));
        command.args(["workload", name, "1"]);
        if preload {
            command.env("LD_PRELOAD", library());
        }
        text(&succeeds(&mut command).stdout)
    };
    for kernel in programs::KERNELS {
        assert_eq!(run(kernel.name, false), run(kernel.name, true), "{}", kernel.name);
    }
}

/// What the suite's script for sh needs.
const FEW: [&str; 5] = ["sh", "sort", "cut", "uniq", "cksum"];

#[test]
fn suite_measures_kernels_and_real_programs_in_tables_of_their_own() {
    let place = tempfile::tempdir().unwrap();
    let json = place.path().join("suite.json");
    let mut command = compare("--suite --quick --blocks 1 --arm a= --arm b= --json");
    command.arg(&json).arg("--report").arg(place.path()).env("PATH", path_of(place.path(), &FEW));
    let done = succeeds(&mut command);
    assert_says(
        &done,
        &["geometric mean of kernels", "short-lived", "Real programs", "not measured: z3: z3 not in PATH"],
    );
    let result = result(&json);
    assert_eq!(result["experiment"], "suite");
    assert_eq!(result["programs"][0]["name"], "sh");
    assert_eq!(result["missing"].as_array().unwrap().len(), 9);
    let workload = |of: &Value| of["parameters"]["workload"].as_str().map(str::to_owned);
    let kernels = programs::KERNELS.iter().map(|kernel| kernel.name);
    for name in kernels.chain(["sh"]) {
        let arms = result["arms"].as_array().unwrap().iter();
        assert_eq!(arms.filter(|arm| workload(arm).as_deref() == Some(name)).count(), 3, "{name}");
    }
    let means = result["comparisons"].as_array().unwrap().iter();
    assert!(means.filter(|one| workload(one).as_deref() == Some("geometric mean of kernels")).count() >= 2);
    common::result(&place.path().join("suite.json"));
}

#[test]
fn suite_that_requires_programs_names_what_to_install() {
    let place = tempfile::tempdir().unwrap();
    let mut command = compare("--suite --require-programs");
    let done = command.env("PATH", path_of(place.path(), &FEW)).output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    assert!(text(&done.stderr).contains("redis-server and redis-benchmark not in PATH; install Debian's redis-server"));
    assert!(done.stdout.is_empty(), "{}", text(&done.stdout));
}
