//! The figures of one suite: of what the command said, what is kept in a file, and how that is read.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

pub const GLIBC: &str = "glibc";
pub const OURS: &str = "commensal";
pub const SERVERS: &str = "servers";
pub const KERNELS: &str = "kernels";
pub const PROGRAMS: &str = "real programs";
/// The name of a row that stands for all of its group.
pub const MEAN: &str = "geometric mean";

/// What a table has of a group: a metric's name in JSON, and its title.
pub type Metrics = &'static [(&'static str, &'static str)];

/// Of kernels and programs.
pub const OF_PROGRAMS: Metrics = &[("wall_s", "time"), ("cpu_s", "CPU time"), ("peak_kb", "peak memory")];
/// Of servers.
pub const OF_SERVERS: Metrics = &[
    ("request_ns", "time per request"),
    ("cpu_ns", "CPU per request"),
    ("p99_ns", "p99"),
    ("p999_ns", "p99.9"),
    ("loaded_kb", "memory under load"),
    ("idle_kb", "memory idle"),
];

/// What an allocator has in one metric, over what glibc has.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub group: String,
    /// The server, the kernel or the program.
    pub row: String,
    pub metric: String,
    pub arm: String,
    pub ratio: f64,
    pub interval: [f64; 2],
}

/// One suite.
pub struct Suite {
    /// All but the figures.
    pub about: Value,
    pub figures: Vec<Figure>,
}

impl Suite {
    pub fn figure(&self, group: &str, row: &str, metric: &str, arm: &str) -> Option<&Figure> {
        let is_it = |of: &&Figure| [&of.group, &of.row, &of.metric, &of.arm] == [group, row, metric, arm];
        self.figures.iter().find(is_it)
    }

    /// The allocators beside glibc, ours first.
    pub fn arms(&self) -> Vec<&str> {
        let mut arms = distinct(self.figures.iter().map(|of| of.arm.as_str()));
        arms.sort_unstable_by_key(|arm| (*arm != OURS, *arm));
        arms
    }

    /// The rows of a group but its mean.
    pub fn rows(&self, group: &str) -> Vec<&str> {
        distinct(self.figures.iter().filter(|of| of.group == group && of.row != MEAN).map(|of| of.row.as_str()))
    }

    /// What glibc has itself, and in which unit.
    pub fn baseline(&self, group: &str, row: &str, metric: &str) -> Option<(f64, &str)> {
        let all = self.about["baselines"].as_array()?.iter();
        let is_it = |of: &&Value| of["group"] == group && of["row"] == row && of["metric"] == metric;
        all.filter(is_it).find_map(|of| Some((of["median"].as_f64()?, of["unit"].as_str()?)))
    }
}

fn distinct<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all = Vec::new();
    words.for_each(|word| {
        if !all.contains(&word) {
            all.push(word)
        }
    });
    all
}

/// What is kept of a suite's results: who made them and how, what glibc needs, and each ratio to that.
pub fn of(suite: &str, programs: &Value, servers: &Value, versions: &str) -> Result<Value, String> {
    for (what, result) in [("programs", programs), (SERVERS, servers)] {
        if result["interrupted"] == true {
            return Err(format!("the measurement of {what} was interrupted; run it again"));
        }
        // One without absent commands calls jemalloc by name: no other malloc can be measured under it.
        if list(&result["missing"]).any(|missing| list(&missing["commands"]).next().is_some()) {
            return Err(format!("found no {}; expected all {what} to be installed", result["missing"]));
        }
    }
    let real: Vec<&Value> = list(&programs["programs"]).map(|program| &program["name"]).collect();
    let group = |row: &Value| if real.contains(&row) { PROGRAMS } else { KERNELS };
    let (mut baselines, mut rows) = (Vec::new(), Vec::new());
    keep(programs, OF_PROGRAMS, group, (&mut baselines, &mut rows));
    keep(servers, OF_SERVERS, |_| SERVERS, (&mut baselines, &mut rows));
    let versions: serde_json::Map<_, _> = versions
        .lines()
        .filter_map(|line| line.split_once(' ').map(|(name, version)| (name.to_owned(), json!(version))))
        .collect();
    let findings: Vec<&Value> = list(&programs["findings"]).chain(list(&servers["findings"])).collect();
    Ok(json!({
        "suite": suite, "commit": programs["commit"], "machine": programs["machine"], "versions": versions,
        "blocks": {"programs": programs["blocks"], SERVERS: servers["blocks"]},
        "programs": programs["programs"], SERVERS: servers["servers"], "findings": findings,
        "baselines": baselines, "rows": rows,
    }))
}

/// Adds what glibc needs, and the ratios to it.
fn keep(
    result: &Value, metrics: Metrics, group: impl Fn(&Value) -> &'static str,
    (baselines, rows): (&mut Vec<Value>, &mut Vec<Value>),
) {
    for arm in list(&result["arms"]).filter(|arm| arm["name"] == GLIBC) {
        let row = &arm["parameters"]["workload"];
        let found = metrics.iter().map(|(metric, _)| (metric, &arm["metrics"][metric]));
        baselines.extend(found.filter(|(_, of)| !of.is_null()).map(|(metric, of)| {
            json!({
                "group": group(row), "row": row, "metric": metric, "median": of["median"], "unit": of["unit"],
            })
        }));
    }
    let of_all = list(&result["comparisons"]).filter(|compared| compared["baseline"] == GLIBC);
    for compared in of_all.filter(|compared| metrics.iter().any(|(metric, _)| compared["metric"] == *metric)) {
        let (arm, row) = (compared["candidate"].as_str().unwrap_or_default(), &compared["parameters"]["workload"]);
        if arm.ends_with(" again") {
            continue;
        }
        let mean = row.as_str().and_then(|row| row.strip_prefix(MEAN));
        // A result with several groups has a mean of each, and says of which.
        let of_mean = mean.and_then(|rest| rest.strip_prefix(" of "));
        let (group, row) = (of_mean.unwrap_or(group(row)), mean.map_or(row.clone(), |_| json!(MEAN)));
        rows.push(json!({
            "group": group, "row": row, "metric": compared["metric"], "arm": arm, "ratio": rounded(&compared["ratio"]),
            "ci95": list(&compared["ci95"]).map(rounded).collect::<Vec<_>>(),
        }));
    }
}

/// Four digits behind the point are enough.
fn rounded(ratio: &Value) -> Option<f64> {
    ratio.as_f64().map(|ratio| (ratio * 1e4).round() / 1e4)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The file's text: a line for each figure.
pub fn lines(results: &Value) -> String {
    let fields = results.as_object().into_iter().flatten().map(|(name, value)| match value {
        Value::Array(all) if !all.is_empty() => {
            let all: Vec<String> = all.iter().map(|one| format!("    {one}")).collect();
            format!("  \"{name}\": [\n{}\n  ]", all.join(",\n"))
        }
        value => format!("  \"{name}\": {value}"),
    });
    format!("{{\n{}\n}}\n", fields.collect::<Vec<_>>().join(",\n"))
}

/// All suites of a folder, the one with the newest glibc last.
pub fn read_all(folder: &Path) -> Result<Vec<Suite>, String> {
    let mut suites = Vec::new();
    // Before the first measurement there is no folder.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        suites.push(read(&text).map_err(|why| format!("{}: {why}", path.display()))?);
    }
    suites.sort_by_key(|suite| glibc_of(&suite.about));
    Ok(suites)
}

/// The numbers of glibc's version.
fn glibc_of(about: &Value) -> Vec<u32> {
    let version = about["machine"]["libc"].as_str().unwrap_or_default();
    version.split('.').filter_map(|number| number.parse().ok()).collect()
}

/// A suite from its file.
pub fn read(text: &str) -> Result<Suite, String> {
    let about: Value = serde_json::from_str(text).map_err(|error| format!("found no JSON: {error}"))?;
    let suite = Suite { figures: list(&about["rows"]).map(figure).collect::<Result<_, _>>()?, about };
    if suite.figures.iter().all(|of| of.arm != OURS) {
        return Err(format!("found no figure of {OURS}; expected what `cargo xtask proof --suite SUITE` writes"));
    }
    Ok(suite)
}

fn figure(row: &Value) -> Result<Figure, String> {
    let word = |key: &str| row[key].as_str().map(str::to_owned).ok_or(key.to_owned());
    let number = |value: &Value| value.as_f64().filter(|number| *number > 0.0);
    let of = || {
        Ok(Figure {
            group: word("group")?,
            row: word("row")?,
            metric: word("metric")?,
            arm: word("arm")?,
            ratio: number(&row["ratio"]).ok_or("ratio")?,
            interval: number(&row["ci95"][0])
                .zip(number(&row["ci95"][1]))
                .map(|(low, high)| [low, high])
                .ok_or("ci95")?,
        })
    };
    of().map_err(|key: String| format!("found the row {row}; expected it to have a {key}"))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn compared(workload: &str, metric: &str, candidate: &str, ratio: f64) -> Value {
        json!({
            "metric": metric, "parameters": {"workload": workload}, "baseline": GLIBC, "candidate": candidate,
            "ratio": ratio, "ci95": [ratio - 0.05, ratio + 0.05],
        })
    }

    fn arm(workload: &str, metric: &str, median: f64, unit: &str) -> Value {
        let metrics = json!({metric: {"unit": unit, "median": median, "runs": [median]}});
        json!({"name": GLIBC, "parameters": {"workload": workload}, "metrics": metrics})
    }

    fn result(programs: &[&str], arms: &[Value], comparisons: &[Value]) -> Value {
        let programs: Vec<Value> =
            programs.iter().map(|name| json!({"name": name, "version": format!("{name} 1")})).collect();
        json!({
            "commit": "abc", "blocks": 3, "interrupted": false, "missing": [], "findings": [], "programs": programs,
            "machine": {"model": "A CPU", "cpus": 2, "is_virtual": true, "kernel": "6.1", "libc": "2.36"},
            "servers": programs, "arms": arms, "comparisons": comparisons,
        })
    }

    /// Two servers, a kernel and a program, with one peer.
    pub fn example() -> Value {
        let programs = result(
            &["git"],
            &[arm("git", "wall_s", 0.5, "s")],
            &[
                compared("lifo", "wall_s", OURS, 0.5),
                compared("lifo", "wall_s", "jemalloc", 0.75),
                compared("git", "wall_s", OURS, 1.25),
                compared("git", "wall_s", "glibc again", 1.0),
                compared("git", "page_faults", OURS, 2.0),
                compared("geometric mean of kernels", "wall_s", OURS, 0.5),
            ],
        );
        let servers = result(
            &["redis", "nginx"],
            &[arm("redis", "request_ns", 12_500.0, "ns"), arm("redis", "idle_kb", 40000.0, "kB")],
            &[
                compared("redis", "request_ns", OURS, 0.8),
                compared("nginx", "request_ns", OURS, 0.2),
                compared("geometric mean", "request_ns", OURS, 0.4),
                compared("redis", "request_ns", "jemalloc", 0.9),
                compared("redis", "idle_kb", OURS, 0.9),
                compared("redis", "idle_kb", "jemalloc", 0.6),
            ],
        );
        of("bookworm", &programs, &servers, "glibc 2.36-9\njemalloc 5.3.0-1\n").unwrap()
    }

    #[test]
    fn figures_and_means_are_kept_by_group() {
        let text = lines(&example());
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), example());
        assert!(!text.contains("glibc again") && !text.contains("page_faults") && !text.contains("runs"), "{text}");
        let suite = read(&text).unwrap();
        assert_eq!((suite.arms(), suite.rows(SERVERS)), (vec![OURS, "jemalloc"], vec!["redis", "nginx"]));
        assert_eq!((suite.rows(KERNELS), suite.rows(PROGRAMS)), (vec!["lifo"], vec!["git"]));
        let of = |group, row, metric, arm| suite.figure(group, row, metric, arm).map(|of| (of.ratio, of.interval));
        assert_eq!(of(PROGRAMS, "git", "wall_s", OURS), Some((1.25, [1.2, 1.3])));
        assert_eq!(of(KERNELS, MEAN, "wall_s", OURS), Some((0.5, [0.45, 0.55])));
        assert_eq!(of(SERVERS, MEAN, "request_ns", OURS), Some((0.4, [0.35, 0.45])));
        assert_eq!(suite.baseline(SERVERS, "redis", "request_ns"), Some((12_500.0, "ns")));
        assert_eq!(suite.baseline(SERVERS, "nginx", "request_ns"), None);
    }

    #[test]
    fn results_that_are_not_whole_are_refused() {
        let sound = result(&[], &[], &[]);
        let refused = |programs: &Value, servers: &Value| of("sid", programs, servers, "").unwrap_err();
        let with = |key: &str, value: Value| {
            let mut changed = sound.clone();
            changed[key] = value;
            changed
        };
        assert!(refused(&with("interrupted", json!(true)), &sound).contains("programs was interrupted"));
        assert!(refused(&sound, &with("missing", json!([{"name": "nginx", "commands": ["nginx"]}]))).contains("nginx"));
        let why = |text: &str| read(text).err().unwrap();
        assert!(why("{").contains("no JSON") && why("{\"rows\": []}").contains("no figure of commensal"));
        let broken = lines(&example()).replace("\"ratio\":0.8", "\"ratio\":\"0.8\"");
        assert!(why(&broken).ends_with("expected it to have a ratio"), "{}", why(&broken));
    }

    #[test]
    fn versions_of_glibc_are_numbers() {
        let of = |libc: &str| glibc_of(&json!({"machine": {"libc": libc}}));
        assert!(of("2.9") < of("2.36") && of("2.36") < of("2.43"));
    }
}
