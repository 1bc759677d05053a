//! What the command prints, word by word. After an intended change: `INSTA_UPDATE=always cargo test -p cli --test screens`.

mod common;

use std::process::Output;

use common::{commensal, text};

fn done(words: &str) -> Output {
    // Help is wrapped at the terminal's width if there is one.
    commensal().args(words.split(' ')).env("COLUMNS", "100").output().unwrap()
}

#[test]
fn help_is_as_it_was() {
    let screens = [
        "--help", "run --help", "compare --help", "stat --help", "exporter --help", "lab list", "profile --help",
        "profile show --help",
    ]
    .map(|of| format!("$ commensal {of}\n{}\n", text(&done(of).stdout)));
    insta::assert_snapshot!(screens.concat());
}

#[test]
fn bad_usage_is_one_line_and_status_2() {
    let wrong = [
        "nonsense",
        "rnu -- true",
        "run",
        "run --no-such-option true",
        "run --conf novalue -- true",
        "run --conf keep=64 -- true",
        "run --conf stats:exit --conf keeep:64 -- true",
        "run --conf keep:1, -- true",
        "run --conf",
        "run --locks --locks-json -- true",
        "compare",
        "compare --quick",
        "compare --blocks 0 -- true",
        "compare --blocks 9 --until-ci 1% -- true",
        "compare --until-ci 3 -- true",
        "compare --with mine -- true",
        "compare --with mine=/no/such/library.so -- true",
        "compare --with glibc=libc.so.6 -- true",
        "compare --arm lean=keep -- true",
        "compare --arm a= --arm a= -- true",
        "compare --command a=true",
        "compare --command a=true --command a=true",
        "compare --command a='x --command b=true",
        "compare --command a=true --command b=true -- true",
        "compare --fail-if slower -- true",
        "compare --fail-if slower:2% --blocks 3 --command a=true --command b=true",
        "compare --format html -- true",
        "compare --json - -- true",
        "compare --suite -- true",
        "compare --require-programs",
        "compare --json /no/such/place -- true",
        "compare --input /no/such/file -- true",
        "compare --input /tmp -- true",
        "compare --time-limit 1e19 -- true",
        "lab dinner",
        "lab cuonters",
        "lab startup --json /no/such/place/result.json",
        "lab startup --cpus 8",
        "lab counters --cpus 0",
        "lab counters --cpus 8 --profile best",
        "lab counters --cpus 8 --profile none.toml",
        "lab counters --profile x86-256",
        "lab counters --profile simple",
        "lab counters --out x.toml",
        "lab forecast --quick",
        "lab calibrate",
        "lab calibrate --out /no/such/place/x.toml",
        "lab calibrate --out here",
        "lab calibrate --out x.toml --cpus 8",
        "lab validate --profile best",
        "lab hackbench ten",
        "doctor dinner",
        "conf --json=/tmp/settings",
        "stat -1",
        "stat 1 soon",
        "stat 1 1 0",
        "stat --prometheus 9464",
        "exporter --listen here",
        "completions tcl",
        "top --color sometimes",
        "slabinfo",
        "profile",
        "profile shwo a",
        "profile show",
        "profile show a --by sites",
        "profile show a --live --peak",
        "profile flame a",
        "profile diff a",
        "top --delay 0",
        "top --delay soon",
        "top --once --delay 2",
        "top",
        "workload dinner",
    ];
    let screens = wrong.map(|words| {
        let done = done(words);
        let line = text(&done.stderr);
        assert_eq!((done.status.code(), line.matches('\n').count()), (Some(2), 1), "{words}: {line}");
        assert!(done.stdout.is_empty(), "{words}: {}", text(&done.stdout));
        format!("$ commensal {words}\n{line}")
    });
    insta::assert_snapshot!(screens.concat());
}
