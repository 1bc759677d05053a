//! What is said of processes once: in lists, whole, as JSON, as a slab table, and to whoever scrapes; and of what is no page, what it is instead.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};

use commensal_runtime::observe::figures::TABLES;
use common::watched::{NAME, NOBODYS, Place, Watched, eventually, program};
use common::{NOBODY, as_commensal, commensal, compile, for_everybody, skip, text};
use serde_json::Value;
use watch::process::START;

fn does(place: &Place, args: &[&str]) -> Output {
    place.command(args).output().unwrap()
}

/// The process with this number and program in a list: directories that are not the test's may hold pages of crashed ones with the same number.
fn listed<'a>(all: &'a Value, pid: u32, program: &str) -> Option<&'a Value> {
    let is_it = |found: &&Value| found["pid"] == pid && found["program"] == program;
    all["processes"].as_array().unwrap().iter().find(is_it)
}

/// What is printed by a command that succeeds and has nothing else to say, but for what lies in directories that are not the test's.
#[track_caller]
fn said(place: &Place, args: &[&str]) -> String {
    let done = does(place, args);
    let elsewhere = |line: &str| {
        ["/dev/shm/commensal-", "/tmp/commensal-", "/run/user/"].iter().any(|folder| line.contains(folder))
    };
    let own: Vec<String> = text(&done.stderr).lines().filter(|line| !elsewhere(line)).map(str::to_owned).collect();
    assert_eq!((done.status.code(), own), (Some(0), Vec::new()), "{args:?}");
    text(&done.stdout)
}

/// One line, and the status of a command that could not do its part.
#[track_caller]
fn refused(done: &Output) -> String {
    let line = text(&done.stderr);
    assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(125), ""), "{line}");
    assert!(line.starts_with("commensal: ") && line.matches('\n').count() == 1, "{line:?}");
    line
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn row<'a>(rows: &'a Value, name: &str) -> &'a Value {
    let named = rows.as_array().unwrap().iter().find(|row| row["name"] == name);
    named.unwrap_or_else(|| panic!("no {name} in {rows}"))
}

#[test]
fn stat_shows_a_running_process_as_it_is() {
    let place = Place::new();
    let watched = place.start(16, 50_000, 20);
    let pid = watched.pid().to_string();
    let value = json(&said(&place, &["stat", "--json", &pid]));
    assert_eq!(
        (&value["pid"], &value["program"], &value["state"]),
        (&watched.pid().into(), &NAME.into(), &"running".into())
    );
    assert_eq!(value["command"], format!("./{NAME} 16 50000 20"));
    assert_eq!(value["threads"], 1);
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} is no number"));
    let figure = |name: &str| number(&value["process"][name]);
    let held = (16 << 20) + 50_000 * 64 + 100_000;
    // It goes on while it is looked over, a part at a time: spans that it takes or returns meanwhile are found twice, or not at all.
    const MOVED: u64 = 1 << 20;
    assert!(figure("in_use_bytes").abs_diff(held) <= MOVED && figure("peak_bytes") >= held, "{value}");
    assert!(number(&value["resident_bytes"]) >= held && figure("large_bytes") >= (16 << 20) - MOVED, "{value}");
    let small = row(&value["caches"], "malloc-64");
    assert!((50_000..51_000).contains(&number(&small["in_use"])), "{small}");
    assert!(number(&small["objects"]) >= number(&small["in_use"]), "{small}");
    assert_eq!(
        (&small["object_bytes"], &row(&value["caches"], "orders")["in_use"]),
        (&64.into(), &1.into()),
        "{value}"
    );
    let tenant = row(&value["groups"], "tenant");
    assert_eq!((&tenant["limit_bytes"], &tenant["parent"]), (&(1 << 20).into(), &"".into()));
    assert!((100_000..200_000).contains(&number(&tenant["charged_bytes"])), "{tenant}");
    assert!(value["age_ns"].is_u64() && number(&value["ended_ns"]) >= number(&value["began_ns"]));
    for table in &TABLES[1..] {
        assert!(value[table.name].is_array() && value["lost"][table.name] == 0, "{}: {value}", table.name);
    }
    // The same for people, and by another command.
    let whole = said(&place, &["stat", &pid]);
    assert!(whole.starts_with(&format!("{NAME} ({pid}), running; as of ")), "{whole}");
    for part in ["\ncaches\n", "\nslots\n", "\ngroups\n", " tenant ", " orders ", "in_use_bytes", "1.00 MiB"] {
        assert!(whole.contains(part), "{part:?}: {whole}");
    }
    assert!(said(&place, &["top", "--once", &pid]).starts_with(&format!("{NAME} ({pid}), running")));
    assert_eq!(json(&said(&place, &["top", "--once", "--json", &pid]))["command"], value["command"]);
}

#[test]
fn list_contains_all_processes() {
    let place = Place::new();
    let (one, other) = (place.start(8, 0, 20), place.start(2, 0, 20));
    for args in [&["stat", "--json"][..], &["top", "--json"]] {
        let all = json(&said(&place, args));
        for (watched, mib) in [(&one, 8), (&other, 2)] {
            let found = listed(&all, watched.pid(), NAME).unwrap_or_else(|| panic!("{all}"));
            let in_use = found["process"]["in_use_bytes"].as_u64().unwrap();
            assert!((mib << 20..(mib + 2) << 20).contains(&in_use), "{all}");
        }
        assert!(all["unreadable"].is_array());
    }
    for args in [&["stat"][..], &["top", "--once"]] {
        let list = said(&place, args);
        for (watched, in_use) in [(&one, " 8."), (&other, " 2.")] {
            let own = [&watched.pid().to_string(), NAME];
            let line = list.lines().find(|line| line.split_whitespace().take(2).eq(own));
            let line = line.unwrap_or_else(|| panic!("{list}"));
            assert!(line.contains("running") && line.contains(in_use), "{line}");
        }
    }
}

#[test]
fn crashed_process_leaves_its_page() {
    let place = Place::new();
    let mut watched = place.start(4, 1000, 20);
    let pid = watched.pid();
    let number = pid.to_string();
    watched.kill();
    let value = place.json(pid);
    assert_eq!(
        (&value["state"], &value["command"], &value["resident_bytes"]),
        (&"gone".into(), &Value::Null, &Value::Null)
    );
    assert!(value["process"]["in_use_bytes"].as_u64().unwrap() >= 4 << 20, "{value}");
    let whole = said(&place, &["stat", &number]);
    assert!(whole.starts_with(&format!("{NAME} ({pid}), gone; as of ")), "{whole}");
    assert!(whole.lines().next().unwrap().ends_with(" ago, the last write of its page"), "{whole}");
    assert!(said(&place, &["slabinfo", &number]).contains("\nmalloc-"));
    let list = said(&place, &["stat"]);
    assert!(list.lines().any(|line| line.contains(&number) && line.contains(" gone ")), "{list}");
    assert!(place.page(pid).exists(), "looking loses nothing");
    // Its number is given to another one, which has nothing to do with it.
    let other = Watched::start(Command::new("sleep").arg("1000"));
    fs::rename(place.page(pid), place.page(other.pid())).unwrap();
    let value = place.json(other.pid());
    assert_eq!((&value["state"], &value["program"], &value["command"]), (&"gone".into(), &NAME.into(), &Value::Null));
}

/// Two containers may number their processes alike, and share the directory.
#[test]
fn processes_of_two_namespaces_are_told_apart() {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["-Urpf", "--mount-proc"]);
        command
    };
    if !unshare().arg("true").status().is_ok_and(|status| status.success()) {
        return skip("processes_of_two_namespaces_are_told_apart", "no PID namespaces can be made here");
    }
    let place = Place::new();
    let mut containers: Vec<Child> = Vec::new();
    for many in 1..=2 {
        let mut command = unshare();
        command.arg(commensal().get_program()).args(["run", "--", &format!("./{NAME}"), "1", "10", "20"]);
        as_commensal(&mut command).env("XDG_RUNTIME_DIR", place.path()).current_dir(program());
        containers.push(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        run_elsewhere(&place, many);
    }
    for (left, mut container) in [1, 0].into_iter().zip(containers) {
        drop(container.stdin.take());
        assert!(container.wait().unwrap().success());
        run_elsewhere(&place, left);
    }
}

/// So many programs are told of, sooner or later, and all of them run.
#[track_caller]
fn run_elsewhere(place: &Place, many: usize) {
    eventually("all of them run", || {
        let told = json(&said(place, &["stat", "--json"]));
        let programs = told["processes"].as_array().unwrap().iter().filter(|process| process["program"] == NAME);
        let is_found = |pid: &Value| does(place, &["stat", &pid.to_string()]).status.success();
        let programs: Vec<&Value> = programs.filter(|process| is_found(&process["pid"])).collect();
        let states: Vec<&Value> = programs.iter().map(|process| &process["state"]).collect();
        (states.len() == many && states.iter().all(|state| *state == "running")).then_some(())
    });
}

#[test]
fn process_after_an_orderly_end_leaves_nothing() {
    let place = Place::new();
    let mut watched = place.start(1, 0, 20);
    let pid = watched.pid();
    assert!(place.page(pid).exists());
    let modes = [place.page(pid), place.path().join("commensal")]
        .map(|path| fs::metadata(path).unwrap().permissions().mode() & 0o777);
    assert_eq!(modes, [0o600, 0o700]);
    watched.finish();
    assert!(!place.page(pid).exists());
    let line = refused(&does(&place, &["stat", &pid.to_string()]));
    assert!(line.contains(&format!("there is no process {pid}, and none that left a statistics page")), "{line}");
}

/// A child of `vfork` has its parent's memory, and must leave its parent's page alone.
#[test]
fn only_a_crash_leaves_a_process_gone() {
    const SOURCE: &str = r#"
        #include <signal.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/prctl.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static void leave(int number) { _exit(number == SIGALRM ? 0 : 1); }
        static void crash_after_a_child_of(pid_t child) {
            if (child == 0)
                _exit(0);
            waitpid(child, NULL, 0);
            raise(SIGKILL);
        }
        int main(int argc, char **argv) {
            const char *how = argv[1];
            if (strncmp(how, "filtered ", 9) == 0) {
                prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                how += 9;
            }
            if (strcmp(how, "_exit") == 0)
                _exit(0);
            if (strcmp(how, "_Exit") == 0)
                _Exit(0);
            if (strcmp(how, "quick_exit") == 0)
                quick_exit(0);
            if (strcmp(how, "vfork") == 0)
                crash_after_a_child_of(vfork());
            if (strcmp(how, "fork") == 0)
                crash_after_a_child_of(fork());
            if (strcmp(how, "handler") == 0) {
                signal(SIGALRM, leave);
                ualarm(1000, 0);
                for (;;)
                    free(malloc(100000));
            }
            return 0;
        }
    "#;
    let place = Place::new();
    let program = place.path().join("leaver");
    compile(SOURCE, &program, &["-O1"]);
    let ways = ["return", "_exit", "_Exit", "quick_exit", "handler", "filtered return", "filtered _exit"];
    let crashes = ["vfork", "fork", "filtered vfork", "filtered fork"];
    for (how, crashed) in ways.map(|how| (how, false)).into_iter().chain(crashes.map(|how| (how, true))) {
        let mut child = Watched::start(&mut place.command(&["run", "--", program.to_str().unwrap(), how]));
        let pid = child.pid();
        assert_eq!(child.0.wait().unwrap().success(), !crashed, "{how}");
        let all = json(&said(&place, &["stat", "--json"]));
        let own = listed(&all, pid, "leaver");
        assert_eq!(own.map(|process| process["state"].as_str().unwrap()), crashed.then_some("gone"), "{how}");
        assert_eq!(place.page(pid).exists(), crashed, "{how}");
    }
}

/// Its page grows old, and it has no mappings that anybody can look at: it is there all the same.
#[test]
fn process_without_its_main_thread_is_running() {
    const SOURCE: &str = r#"
        #include <poll.h>
        #include <pthread.h>
        #include <stdlib.h>
        #include <unistd.h>
        static void *go_on(void *none) {
            for (int times = 0; times < 100; times++) {
                void *volatile blocks[1000];
                for (int number = 0; number < 1000; number++)
                    blocks[number] = malloc(200);
                for (int number = 0; number < 1000; number++)
                    free(blocks[number]);
                poll(NULL, 0, 10);
            }
            sleep(1000);
        }
        int main(void) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, go_on, NULL) == 0)
                pthread_exit(NULL);
            return 1;
        }
    "#;
    let place = Place::new();
    let program = place.path().join("headless");
    compile(SOURCE, &program, &["-O1", "-pthread"]);
    // Without upkeep nobody writes the page when the program rests.
    let mut command = place.command(&["run", "--", program.to_str().unwrap()]);
    let mut child = Watched::start(command.env("COMMENSAL_CONF", "upkeep:off"));
    let pid = child.pid();
    let state = || place.page(pid).exists().then(|| place.json(pid));
    let old = eventually("its page is old", || state().filter(|said| said["age_ns"].as_u64().unwrap() > 2_500_000_000));
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    child.kill();
    assert!(status.contains(") Z "), "{status}");
    assert_eq!((&old["state"], &old["threads"]), (&"running".into(), &2.into()));
    assert_eq!(place.json(pid)["state"], "gone");
}

#[test]
fn process_without_a_page_is_named() {
    let place = Place::new();
    let watched = place.start(1, 0, 20);
    let nobodys = NOBODYS.to_string();
    let own = std::process::id().to_string();
    for args in [
        &["stat"][..],
        &["stat", "--json"],
        &["slabinfo"],
        &["top", "--once"],
        &["top"],
        &["exporter", "--listen", "0"],
    ] {
        let line = |pid: &str| refused(&place.command(args).arg(pid).output().unwrap());
        let missing = line(&nobodys);
        assert!(missing.contains("there is no process 5000000, and none that left a statistics page"), "{missing}");
        let own = line(&own);
        assert!(own.contains("has no statistics page, or is another user's; ") && own.contains(START), "{own}");
        // A name, in place of a number.
        let done = place.command(args).arg(NAME).output().unwrap();
        let named = text(&done.stderr);
        assert_eq!((done.status.code(), named.matches('\n').count()), (Some(2), 1), "{named}");
        assert!(named.contains("expected the number of a process with a statistics page; "), "{named}");
        assert!(named.contains(&format!("{NAME} ({})", watched.pid())) && named.contains(START), "{named}");
    }
}

/// Commands that are about it refuse it, and the others show what is whole.
#[test]
fn damaged_page_is_named_and_others_are_shown() {
    let place = Place::new();
    let mut watched = place.start(1, 0, 20);
    let good = watched.pid();
    watched.kill();
    let path = place.page(NOBODYS);
    let whole = fs::read(place.page(good)).unwrap();
    fs::write(&path, &whole[..100]).unwrap();
    let expected = format!("{}: a statistics page of 100 bytes that should have", path.display());
    for args in [&["stat"][..], &["slabinfo"], &["top", "--once", "--json"]] {
        let line = refused(&place.command(args).arg(NOBODYS.to_string()).output().unwrap());
        assert!(line.contains(&expected), "{args:?}: expected {expected:?}: {line}");
    }
    // In the list it is beside what can be shown.
    let done = does(&place, &["stat"]);
    assert_eq!(done.status.code(), Some(0));
    assert!(text(&done.stdout).contains(&good.to_string()), "{}", text(&done.stdout));
    assert!(text(&done.stderr).contains(&expected), "{}", text(&done.stderr));
    let all = json(&said(&place, &["stat", "--json"]));
    assert!(all["processes"].as_array().unwrap().iter().any(|process| process["pid"] == good));
    let mut unreadable = all["unreadable"].as_array().unwrap().iter();
    assert!(unreadable.any(|said| said.as_str().unwrap().starts_with(&expected)), "{all}");
}

#[test]
fn page_is_readable_by_its_user_and_root_only() {
    if !rustix::process::getuid().is_root() {
        return skip("page_is_readable_by_its_user_and_root_only", "only root can be somebody else");
    }
    let folder = tempfile::tempdir().unwrap();
    let command = for_everybody(folder.path());
    let as_nobody = |args: &[&str]| {
        let mut run = Command::new(&command);
        run.args(args).env_remove("XDG_RUNTIME_DIR").env_remove("COMMENSAL_CONF").env_remove("COMMENSAL_LIBRARY");
        run.current_dir("/").uid(NOBODY).gid(NOBODY);
        run
    };
    let place = Place::new();
    let roots = place.start(1, 0, 20);
    let line = refused(&as_nobody(&["stat", &roots.pid().to_string()]).output().unwrap());
    assert!(line.contains("has no statistics page, or is another user's"), "{line}");
    // Also where it knows the place.
    let mut told = as_nobody(&["stat", &roots.pid().to_string()]);
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(refused(&told.env("XDG_RUNTIME_DIR", place.path()).output().unwrap()).contains("or is another user's"));
    // Root may look at everybody's.
    let mut theirs = Watched::start(&mut as_nobody(&["run", "--", "sleep", "1000"]));
    let pid = theirs.pid();
    let found = eventually("root sees it", || {
        let done = does(&place, &["stat", "--json", &pid.to_string()]);
        done.status.success().then(|| json(&text(&done.stdout)))
    });
    assert_eq!((&found["program"], &found["state"]), (&"sleep".into(), &"running".into()));
    theirs.kill();
    assert_eq!(place.json(pid)["state"], "gone");
    // Nobody else wants to know how it ended.
    fs::remove_file(format!("/dev/shm/commensal-{NOBODY}/{pid}")).unwrap();
}

#[test]
fn lines_of_intervals_add_up_to_what_the_page_says() {
    let place = Place::new();
    let watched = place.start(4, 0, 5);
    let pid = watched.pid().to_string();
    let figure = |value: &Value, name: &str| value[name].as_u64().unwrap_or_else(|| panic!("{name}: {value}"));
    let whole = || json(&said(&place, &["stat", &pid, "--json"]))["process"].clone();
    let before = whole();
    let lines: Vec<Value> = said(&place, &["stat", &pid, "0.6", "4", "--json"]).lines().map(json).collect();
    let after = whole();
    assert_eq!(lines.len(), 4);
    for name in ["runs", "upkeep_own_turns", "kicks"] {
        let (sum, first) = (lines.iter().map(|line| figure(line, name)).sum::<u64>(), figure(&lines[0], name));
        assert!(first >= figure(&before, name) && sum <= figure(&after, name), "{name}: {before} {lines:?} {after}");
    }
    assert!(figure(&lines[0], "runs") > 0 && figure(&lines[3], "in_use_bytes") >= 4 << 20, "{lines:?}");
    let text = said(&place, &["stat", &pid, "0.1", "21"]);
    let (headers, rest): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.contains("in use"));
    assert_eq!((headers.len(), rest.len()), (2, 21), "the header comes again: {text}");
}

#[test]
fn process_that_ends_between_two_lines_is_told() {
    let place = Place::new();
    for (count, status) in [(None, 0), (Some("1000"), 1)] {
        let mut watched = place.start(1, 0, 20);
        let pid = watched.pid().to_string();
        let mut command = place.command(&["stat", &pid, "60"]);
        let mut stat = command.args(count).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(stat.stdout.as_mut().unwrap()).lines();
        assert!(lines.by_ref().take(2).all(|line| line.is_ok()));
        watched.kill();
        // Long before the next line is due.
        let done = stat.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(status));
        assert_eq!(text(&done.stderr), format!("commensal: process {pid} has ended after 1 line\n"));
    }
}
