//! The page of the book: for each suite, tables of servers, of kernels and programs, and of figures in which others win.

use std::fmt::Write;

use serde_json::Value;

use super::results::{GLIBC, KERNELS, MEAN, Metrics, OF_PROGRAMS, OF_SERVERS, OURS, PROGRAMS, SERVERS, Suite};
use crate::charts::short;

const OPENING: &str = "\
# Servers and programs

<!-- Made of docs/proof by `cargo xtask proof --bless`, which overwrites changes. -->

Commensal was measured as users get it: its Debian package, in fresh systems of Debian, with the servers, programs and
allocators of that Debian. The following command repeats all that in some 55 minutes. It needs root, debootstrap, and a
machine that is otherwise idle:

```sh
cargo xtask proof --suite bookworm --suite sid
```

Figures are ratios to glibc's: less than 1 is better. The brackets have the 95 % interval. Of each server and program the
least ratio is bold, if it is not above 1. glibc's own rows have its figures themselves. [Measure a
server](how/measure-a-server.md), [Compare](how/compare.md) and [Measurement](design/measurement.md) say how all this is
measured.
";
/// The rows in which ours is worst, for each metric.
const WORST: usize = 3;
/// How much better another must be to be told, and how many such figures are told.
const MARGIN: f64 = 1.05;
const LOSSES: usize = 15;

pub fn page(suites: &[Suite]) -> String {
    suites.iter().fold(OPENING.to_owned(), |text, suite| text + &section(suite))
}

fn section(suite: &Suite) -> String {
    let about = &suite.about;
    let mut text = format!(
        "\n## Debian {}, glibc {}\n\n{}\n",
        word(&about["suite"]),
        word(&about["machine"]["libc"]),
        conditions(about)
    );
    let servers: Vec<(&str, &str)> = [MEAN].into_iter().chain(suite.rows(SERVERS)).map(|row| (SERVERS, row)).collect();
    let _ = write!(text, "\n### Servers in {}\n\n{}", word(&about["suite"]), table(suite, &servers, OF_SERVERS));
    let mut rows = vec![(KERNELS, MEAN), (PROGRAMS, MEAN)];
    rows.extend(worst(suite));
    let _ = write!(
        text,
        "\n### Programs in {}\n\n{} kernels and {} programs. Below their means are those in which Commensal is worst, by \
         time and by memory.\n\n{}",
        word(&about["suite"]),
        suite.rows(KERNELS).len(),
        suite.rows(PROGRAMS).len(),
        table(suite, &rows, OF_PROGRAMS)
    );
    text + &losses(suite) + &findings(about)
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("unknown")
}

/// The machine, the commit, and all versions.
fn conditions(about: &Value) -> String {
    let machine = &about["machine"];
    let below = if machine["is_virtual"] == true { ", virtual" } else { "" };
    let mut text = format!(
        "{}, {} CPUs{below}, Linux {}; commit {}; {} blocks of servers, {} of programs.\n\n```text\n",
        word(&machine["model"]),
        machine["cpus"],
        word(&machine["kernel"]),
        word(&about["commit"]),
        about["blocks"][SERVERS],
        about["blocks"]["programs"],
    );
    let allocators =
        about["versions"].as_object().into_iter().flatten().map(|(name, version)| (&**name, word(version)));
    let programs = [SERVERS, "programs"].into_iter().flat_map(|key| about[key].as_array()).flatten();
    for (name, version) in allocators.chain(programs.map(|of| (word(&of["name"]), word(&of["version"])))) {
        let _ = writeln!(text, "{name:12} {}", brief(version));
    }
    text + "```"
}

/// The beginning of what a program says of its version. Hashes say nothing to readers.
fn brief(version: &str) -> String {
    version.split_whitespace().take(4).filter(|word| word.len() < 50 && *word != "-").collect::<Vec<_>>().join(" ")
}

/// A line for glibc and for each allocator in each row.
fn table(suite: &Suite, rows: &[(&str, &str)], metrics: Metrics) -> String {
    let titles = metrics.iter().map(|(_, title)| format!(" {title} |")).collect::<String>();
    let mut text = format!("| | |{titles}\n|---|---|{}\n", "---|".repeat(metrics.len()));
    for (group, row) in rows {
        let cells = |cell: &dyn Fn(&str) -> String| {
            metrics.iter().map(|(metric, _)| format!(" {} |", cell(metric))).collect::<String>()
        };
        let own = |metric: &str| suite.baseline(group, row, metric).map(amount);
        let mut name = if *row == MEAN { format!("{group}, {MEAN}") } else { (*row).to_owned() };
        if metrics.iter().any(|(metric, _)| own(metric).is_some()) {
            let _ = writeln!(text, "| {name} | {GLIBC} |{}", cells(&|metric| own(metric).unwrap_or_default()));
            name.clear();
        }
        for arm in suite.arms() {
            let _ = writeln!(text, "| {name} | {arm} |{}", cells(&|metric| ratio(suite, [group, row, metric, arm])));
            name.clear();
        }
    }
    text
}

/// A ratio, with its interval if it is ours.
fn ratio(suite: &Suite, [group, row, metric, arm]: [&str; 4]) -> String {
    let Some(of) = suite.figure(group, row, metric, arm) else { return "–".to_owned() };
    let all = suite.arms().into_iter().filter_map(|arm| suite.figure(group, row, metric, arm));
    let is_best = all.fold(1.0, |least, other| other.ratio.min(least)) >= of.ratio;
    let text = if is_best { format!("**{:.2}**", of.ratio) } else { format!("{:.2}", of.ratio) };
    let [low, high] = of.interval;
    if arm == OURS { format!("{text} ({low:.2} to {high:.2})") } else { text }
}

/// Three digits, and a unit in which they are no thousands.
fn amount((median, unit): (f64, &str)) -> String {
    match unit {
        "kB" => format!("{} MB", short(median / 1000.0)),
        "s" if median < 1.0 => format!("{} ms", short(median * 1000.0)),
        "ns" if median < 1e6 => format!("{} µs", short(median / 1e3)),
        "ns" => format!("{} ms", short(median / 1e6)),
        unit => format!("{} {unit}", short(median)),
    }
}

/// The kernels and programs in which ours is worst by time or by memory, in the order of the suite.
fn worst(suite: &Suite) -> Vec<(&'static str, &str)> {
    let rows =
        || [KERNELS, PROGRAMS].into_iter().flat_map(|group| suite.rows(group).into_iter().map(move |row| (group, row)));
    let mut chosen = Vec::new();
    for metric in ["wall_s", "peak_kb"] {
        let ratio = |row: &(&str, &str)| suite.figure(row.0, row.1, metric, OURS).map_or(0.0, |of| of.ratio);
        let mut all: Vec<_> = rows().collect();
        all.sort_by(|one, other| ratio(other).total_cmp(&ratio(one)));
        chosen.extend(all.into_iter().take(WORST));
    }
    rows().filter(|row| chosen.contains(row)).collect()
}

/// The figures in which another allocator is better than ours, the worst first.
fn losses(suite: &Suite) -> String {
    let of_ours = suite.figures.iter().filter(|of| of.arm == OURS && of.row != MEAN);
    let compared: Vec<_> = of_ours
        .map(|ours| {
            let others =
                suite.arms().into_iter().filter(|arm| *arm != OURS).filter_map(|arm| {
                    suite.figure(&ours.group, &ours.row, &ours.metric, arm).map(|of| (arm, of.ratio))
                });
            let best = others.fold((GLIBC, 1.0), |best, other| if other.1 < best.1 { other } else { best });
            (ours, best)
        })
        .collect();
    let mut lost: Vec<_> = compared.iter().filter(|(ours, best)| ours.ratio > best.1 * MARGIN).collect();
    lost.sort_by(|one, other| (other.0.ratio / other.1.1).total_cmp(&(one.0.ratio / one.1.1)));
    let to_glibc = lost.iter().filter(|(ours, _)| ours.interval[0] > 1.0).count();
    let mut text = format!(
        "\n### Where Commensal loses in {}\n\nIn {} of {} figures, another allocator is more than {:.0} % better than \
         Commensal. In {to_glibc} of them, Commensal is worse than glibc by its whole interval.",
        word(&suite.about["suite"]),
        lost.len(),
        compared.len(),
        (MARGIN - 1.0) * 100.0
    );
    if lost.is_empty() {
        return text + "\n";
    }
    let _ = write!(
        text,
        " The {} worst are:\n\n| | figure | Commensal | best |\n|---|---|---|---|\n",
        lost.len().min(LOSSES)
    );
    for (ours, (best, least)) in lost.into_iter().take(LOSSES) {
        let titles = if ours.group == SERVERS { OF_SERVERS } else { OF_PROGRAMS };
        let title = titles.iter().find(|(metric, _)| *metric == ours.metric).map_or("", |(_, title)| title);
        let own = ratio(suite, [&ours.group, &ours.row, &ours.metric, OURS]);
        let _ = writeln!(text, "| {} | {title} | {own} | {best} {least:.2} |", ours.row);
    }
    text
}

/// What programs did otherwise than under glibc.
fn findings(about: &Value) -> String {
    let all = about["findings"].as_array().into_iter().flatten();
    let lines: String =
        all.map(|of| format!("* {} under {}: {}\n", word(&of["row"]), word(&of["arm"]), word(&of["what"]))).collect();
    if lines.is_empty() { lines } else { format!("\nThe runs were not all alike:\n\n{lines}") }
}

#[cfg(test)]
mod tests {
    use super::super::results::{lines, read, tests::example};
    use super::*;

    #[test]
    fn tables_have_ratios_with_our_interval_and_the_best_in_bold() {
        let text = page(&[read(&lines(&example())).unwrap()]);
        let has = |line: &str| assert!(text.contains(&format!("\n{line}\n")), "{line} is not in {text}");
        has("## Debian bookworm, glibc 2.36");
        has("jemalloc     5.3.0-1\nredis        redis 1\nnginx        nginx 1\ngit          git 1\n```");
        has("| redis | glibc | 12.5 µs |  |  |  |  | 40.0 MB |");
        has("|  | commensal | **0.80** (0.75 to 0.85) | – | – | – | – | 0.90 (0.85 to 0.95) |");
        has("|  | jemalloc | 0.90 | – | – | – | – | **0.60** |");
        has("| servers, geometric mean | commensal | **0.40** (0.35 to 0.45) | – | – | – | – | – |");
        has("| kernels, geometric mean | commensal | **0.50** (0.45 to 0.55) | – | – |");
        has("| git | glibc | 500 ms |  |  |");
        has("|  | commensal | 1.25 (1.20 to 1.30) | – | – |");
        assert_eq!(page(&[]), OPENING);
    }

    #[test]
    fn losses_are_told_with_the_better_allocator() {
        let text = losses(&read(&lines(&example())).unwrap());
        assert!(text.contains("In 2 of 5 figures, another allocator is more than 5 % better"), "{text}");
        assert!(text.contains("In 1 of them, Commensal is worse than glibc by its whole interval."), "{text}");
        let (memory, time) = ("| redis | memory idle | 0.90 (0.85 to 0.95) | jemalloc 0.60 |", "| git | time | 1.25");
        assert!(text.find(memory).unwrap() < text.find(time).unwrap(), "{text}");
        assert!(text.contains("| glibc 1.00 |"), "{text}");
    }

    #[test]
    fn versions_are_without_hashes() {
        assert_eq!(brief(&format!("3.40.1 2022-12-28 14:03:47 {}", "f".repeat(64))), "3.40.1 2022-12-28 14:03:47");
        assert_eq!(brief("Z3 version 4.8.12 - 64 bit"), "Z3 version 4.8.12");
        assert_eq!(brief("Redis server v=7.0.15 sha=0 malloc=x"), "Redis server v=7.0.15 sha=0");
    }

    #[test]
    fn amounts_have_three_digits_and_a_unit_that_fits() {
        let of = |median, unit| amount((median, unit));
        assert_eq!([of(12_340.0, "ns"), of(1_234_000.0, "ns"), of(0.5, "s")], ["12.3 µs", "1.23 ms", "500 ms"]);
        assert_eq!([of(2.0, "s"), of(123_400.0, "kB")], ["2.00 s", "123 MB"]);
    }
}
