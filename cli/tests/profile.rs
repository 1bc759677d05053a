//! `commensal profile`: what it prints of profiles that are made here, and of a program with a leak.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{assert_contains, assert_says, commensal, compile, succeeds, text};
use profiles::builder::{Builder, Value};
use profiles::read;
use serde_json::Value as Json;
use tempfile::TempDir;

/// Prints a line for each block: its bytes, and the return addresses of the call. Then all mappings.
const LEAKING: &str = r#"
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>

static void note(size_t bytes) {
    void *addresses[64];
    int count = backtrace(addresses, 64);
    printf("%zu", bytes);
    for (int i = 1; i < count; i++)
        printf(" %p", addresses[i]);
    printf("\n");
}

#define NOINLINE __attribute__((noinline))
NOINLINE void load_table(void) { note(40 << 20); __asm__ volatile(""); }
NOINLINE void open_session(void) { note(1 << 20); __asm__ volatile(""); }
NOINLINE void serve(int rounds) { for (int i = 0; i < rounds; i++) open_session(); }

int main(int count, char **words) {
    if (count < 3) load_table();
    serve(atoi(words[1]));
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    while (fgets(line, sizeof line, maps)) fputs(line, stdout);
}
"#;

const GAP: i64 = 512 << 10;

fn write(folder: &TempDir, name: &str, builder: &Builder) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, read::gzipped(&builder.finish())).unwrap();
    path
}

/// The profile of all blocks of the program, which are live.
fn profile(folder: &TempDir, program: &Path, name: &str, words: &[&str]) -> PathBuf {
    let printed = text(&succeeds(Command::new(program).args(words)).stdout);
    let mut builder = Builder::new(GAP);
    // The build id is not known, so the file on disk is taken as it is.
    builder.maps(&printed, |_| String::new()).comment("at: exit");
    for line in printed.lines().filter(|line| line.contains(" 0x")) {
        let mut words = line.split(' ');
        let Some(Ok(bytes)) = words.next().map(str::parse::<i64>) else { continue };
        let stack: Vec<u64> = words.filter_map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()).collect();
        builder.sample(&stack, [1, bytes, 1, bytes, 1, bytes], &[]);
    }
    write(folder, name, &builder)
}

/// A program that leaks in `open_session`: a profile of few rounds, and one of many.
fn leaking(folder: &TempDir) -> [PathBuf; 2] {
    let program = folder.path().join("leaking");
    compile(LEAKING, &program, &["-O1", "-g"]);
    [("few", "2"), ("many", "60")].map(|(name, rounds)| profile(folder, &program, name, &[rounds]))
}

fn json(done: &Output) -> Json {
    serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&done.stdout)))
}

#[test]
fn planted_leak_is_the_first_line_of_diff_and_of_leaks() {
    let folder = tempfile::tempdir().unwrap();
    let [few, many] = leaking(&folder);
    let diff = succeeds(commensal().args(["profile", "diff"]).args([&few, &many]));
    let first = text(&diff.stdout).lines().nth(5).unwrap().to_owned();
    assert_contains(&first, &["+58.0 MiB", "2.00 MiB", "60.0 MiB", "open_session (", "leaking.c:17)"]);
    assert!(!text(&diff.stdout).contains("load_table"), "{}", text(&diff.stdout));
    let leaks = succeeds(commensal().args(["profile", "leaks", "--json"]).arg(&many));
    let sites = &json(&leaks)["sites"];
    assert_eq!((&sites[0]["bytes"], &sites[0]["stack"][0]["function"]), (&(60 << 20).into(), &"open_session".into()));
    assert_eq!(sites[0]["stack"][1]["function"], "serve");
    assert_eq!(sites[1]["stack"][0]["function"], "load_table");
    let back = succeeds(commensal().args(["profile", "diff"]).args([&many, &few]));
    assert_says(&back, &["−58.0 MiB"]);
}

#[test]
fn go_reads_the_profile_with_symbols_without_the_program() {
    if !dropin::skips::has_tools("go_reads_the_profile_with_symbols_without_the_program", &["go"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [_, many] = leaking(&folder);
    let named = folder.path().join("named.pb.gz");
    succeeds(commensal().args(["profile", "symbols", "-o"]).args([&named, &many]));
    std::fs::remove_file(folder.path().join("leaking")).unwrap();
    let top =
        succeeds(Command::new("go").args(["tool", "pprof", "-top", "-lines"]).arg(&named).current_dir(folder.path()));
    assert_says(&top, &["Type: inuse_space", "60MB 60.00%", "open_session", "leaking.c:17", "main"]);
    assert!(!text(&top.stderr).to_lowercase().contains("fail"), "{}", text(&top.stderr));
    // It needs no names from files that are gone.
    let again = succeeds(commensal().args(["profile", "show"]).arg(&named));
    assert_says(&again, &["60.0 MiB", "open_session (", "leaking.c:17)"]);
    assert!(again.stderr.is_empty(), "{}", text(&again.stderr));
}

/// A server with a table, a leak of small blocks, freed blocks, and names that have much in them.
fn server(leaked: i64) -> Builder {
    let mut builder = Builder::new(GAP);
    builder.comment("lost samples: 3").comment("at: exit");
    builder.mapping([0x1000, 0x9000], 0, "/no/such/server", "0123").mapping([0x9000, 0xa000], 0, "[vdso]", "");
    let long = "std::unordered_map<std::string, std::vector<std::shared_ptr<Session>>>::operator[]".repeat(2);
    builder.name(0x1001, &[("table::Table::grow", "/src/table.rs", 41), ("table::Table::new", "/src/table.rs", 12)]);
    builder.name(0x2001, &[("open_session", "/src/net/session.c", 7)]).name(0x3001, &[(&long, "", 0)]);
    builder.name(0x4001, &[("main", "main.c", 99)]).name(0x5001, &[("bad\u{1b}[2Jname", "x", 0)]);
    let worker =
        [("thread", Value::Word("worker")), ("group", Value::Word("tenant")), ("region", Value::Word("request"))];
    let lived = |ns| [("thread", Value::Word("worker")), ("lifetime", Value::Nanoseconds(ns))];
    builder.sample(&[0x1001, 0x4001], [1, 64 << 20, 1, 64 << 20, 1, 64 << 20], &[("thread", Value::Word("main"))]);
    let (blocks, bytes) = (leaked * 5000, leaked * 520_000);
    builder.sample(&[0x2001, 0x3001, 0x4001, 0x9101], [blocks, bytes, blocks, bytes, blocks, bytes], &worker);
    builder.sample(&[0x2001, 0x6001, 0x4001], [5000, 520_000, 0, 0, 5000, 520_000], &lived(1 << 20));
    builder.sample(&[0x2001, 0x6001, 0x4001], [10_000, 1_040_000, 0, 0, 0, 0], &lived(1 << 10));
    let noise = 1 + leaked / 9;
    builder.sample(&[0x7001], [noise * 64, noise << 19, noise * 64, noise << 19, 0, 0], &worker[..1]);
    builder.sample(&[0x5001], [65_536, 8 << 16, 65_536, 8 << 16, 0, 0], &worker[..1]);
    builder
}

fn screen(folder: &TempDir, words: &str) -> String {
    let done = commensal().arg("profile").args(words.split(' ')).current_dir(folder.path()).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{words}: {}", text(&done.stderr));
    format!("$ commensal profile {words}\n{}{}\n", text(&done.stderr), text(&done.stdout))
}

#[test]
fn tables_are_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "a", &server(1));
    write(&folder, "b", &server(9));
    let mut empty = Builder::new(GAP);
    empty.name(1, &[("main", "main.c", 3)]).sample(&[1], [5000, 520_000, 0, 0, 5000, 520_000], &[]);
    write(&folder, "freed", &empty);
    let all = [
        "show a", "show b --peak --rows 1", "show a --by function", "show a --by thread", "show a --by group",
        "show a --by region", "show a --by lifetime", "show freed", "show a --rows 1 --json", "diff a b",
        "diff b a --rows 1", "leaks b", "leaks freed",
    ];
    insta::assert_snapshot!(all.map(|words| screen(&folder, words)).concat());
}

#[test]
fn flame_graph_is_written() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "a", &server(4));
    screen(&folder, "flame a -o a.svg");
    let svg = std::fs::read_to_string(folder.path().join("a.svg")).unwrap();
    assert_contains(&svg, &["<svg", "Memory of server: live", "open_session", "table::Table::grow"]);
}

#[test]
fn bad_profile_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let good = write(&folder, "good", &server(1));
    let bytes = std::fs::read(&good).unwrap();
    std::fs::write(folder.path().join("half"), &bytes[..100]).unwrap();
    std::fs::write(folder.path().join("text"), "# nothing\n").unwrap();
    let mut go = server(1).finish();
    go.sample_type.truncate(4);
    go.sample.iter_mut().for_each(|sample| sample.value.truncate(4));
    std::fs::write(folder.path().join("go"), read::gzipped(&go)).unwrap();
    let bad =
        ["show none", "show half", "show text", "show go --peak", "show .", "diff good none", "flame good -o no/a"];
    let said = bad.map(|words| {
        let done = commensal().arg("profile").args(words.split(' ')).current_dir(folder.path()).output().unwrap();
        let said = text(&done.stderr);
        let lines: Vec<&str> = said.lines().filter(|line| !line.contains("warning")).collect();
        assert!(done.stdout.is_empty() && lines.len() == 1, "{words}: {said}");
        format!("$ commensal profile {words}\n{}\nstatus {}\n", lines[0], done.status.code().unwrap())
    });
    insta::assert_snapshot!(said.concat());
}
