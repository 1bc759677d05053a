//! The names that `cm_get` reads: all that `commensal conf` and a statistics page tell, with their values.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use commensal_runtime::observe::figures::{Kind, TABLES, Unit};
use common::commensal_does;
use common::watched::{Place, Watched, eventually};
use dropin::subject::Linkage;
use serde_json::Value;
use watch::process::now_ns;

/// A line of the program `names all`.
#[derive(Debug)]
struct Line {
    kind: String,
    can_be_set: bool,
    name: String,
    error: i32,
    value: u64,
    text: String,
}

impl Line {
    fn of(line: &str) -> Line {
        let words: Vec<&str> = line.splitn(6, ' ').collect();
        let [kind, can, name, error, value, text] = words[..] else { panic!("{line:?} has other words") };
        Line {
            kind: kind.to_owned(),
            can_be_set: can == "can",
            name: name.to_owned(),
            error: error.parse().expect("an error is a number"),
            value: value.parse().expect("a value is a number"),
            text: text.to_owned(),
        }
    }
}

fn lines(out: &mut impl BufRead) -> Vec<Line> {
    let lines = out.lines().map(|line| line.expect("a line can be read"));
    lines.take_while(|line| line != "end").map(|line| Line::of(&line)).collect()
}

fn started(place: &Place, conf: &str) -> Watched {
    let program = dropin::compile::with_commensal_header("names", "names_of_all", &Linkage::Shared.flags());
    let mut command = Command::new(program);
    command.arg("all").env("COMMENSAL_CONF", conf).env("XDG_RUNTIME_DIR", place.path());
    Watched::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))
}

/// Nothing is set: each value is the default that `conf` prints. Planted bugs that were seen here: defaults read as 0.
#[test]
fn names_of_settings_are_those_of_conf_with_their_defaults() {
    let mut watched = started(&Place::new(), "");
    let read = lines(&mut BufReader::new(watched.0.stdout.take().expect("it is a pipe")));
    let settings: Vec<&Line> = read.iter().filter(|line| line.kind == "setting").collect();
    let printed: Value = serde_json::from_slice(&commensal_does(&["conf", "--json"]).stdout).expect("it is JSON");
    let rows = printed.as_array().expect("it is a list");
    assert_eq!(settings.len(), rows.len());
    for (line, row) in settings.iter().zip(rows) {
        assert_eq!((line.name.as_str(), line.text.as_str()), (as_text(&row["key"]), as_text(&row["default"])), "{row}");
        assert_eq!(line.can_be_set, row["when"] == "any time", "{row}");
        let has_no_number = ["profile.file", "control", "possible_cpus", "upkeep.cgroup"].contains(&line.name.as_str());
        assert_eq!(line.error != 0, has_no_number, "{line:?}");
        match row["words"].as_array() {
            Some(words) if words.contains(&row["default"]) => {
                assert_eq!(words[line.value as usize], row["default"], "{line:?}");
            }
            _ if has_no_number || line.text == "off" => assert_eq!(line.value, 0, "{line:?}"),
            _ => assert_eq!(line.value.to_string(), line.text, "{line:?}"),
        }
    }
}

fn as_text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// The page is written between two readings. It tells counters that lie between theirs, and gauges near them.
/// Planted bugs that were seen here: one figure by name was 9 larger.
#[test]
fn values_of_statistics_are_those_of_the_page() {
    /// The program goes on while its page is written.
    const MOVED: u64 = 1 << 20;
    let place = Place::new();
    let mut watched = started(&place, "observe:on,observe.interval_ms:20");
    let mut out = BufReader::new(watched.0.stdout.take().expect("it is a pipe"));
    let before = lines(&mut out);
    let since_ns = now_ns();
    let page = eventually("a page after the first reading", || {
        let done = place.command(&["stat", "--json", &watched.pid().to_string()]).output().expect("it starts");
        let said: Value = serde_json::from_slice(&done.stdout).ok()?;
        (said["began_ns"].as_u64()? >= since_ns).then_some(said)
    });
    drop(watched.0.stdin.take());
    let after = lines(&mut out);
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("the rest can be read");
    assert!(rest.is_empty() && watched.0.wait().expect("it ends").success(), "{rest}");
    let statistics = |lines: &[Line]| -> Vec<(String, u64)> {
        let all = lines.iter().filter(|line| line.kind == "statistic");
        all.map(|line| {
            assert!(line.error == 0 && !line.can_be_set && line.text == line.value.to_string(), "{line:?}");
            (line.name.clone(), line.value)
        })
        .collect()
    };
    let (before, after) = (statistics(&before), statistics(&after));
    assert_eq!(before.len(), TABLES[0].figures.len());
    for (figure, ((name, early), (_, late))) in TABLES[0].figures.iter().zip(before.iter().zip(&after)) {
        assert_eq!(figure.name, name);
        let told = page["process"][name].as_u64().unwrap_or_else(|| panic!("{name} is not in {page}"));
        let (least, most) = (*early.min(late), *early.max(late));
        let slack = match (figure.kind, figure.unit) {
            (Kind::Counter, _) | (_, Unit::YesOrNo | Unit::Moment | Unit::Nanoseconds) => 0,
            (Kind::Gauge, Unit::Bytes) => MOVED,
            (Kind::Gauge, Unit::Count) => 8,
        };
        let is_near = least.saturating_sub(slack) <= told && told <= most + slack;
        assert!(is_near, "{name}: {early} and {late} by name, {told} on the page");
    }
    let held = before.iter().find(|(name, _)| name == "in_use_bytes").map(|(_, value)| *value);
    assert!(held.is_some_and(|bytes| bytes > 20 << 20), "{held:?}");
}
