//! The reference of the book: what the table of figures says.

use std::fmt::Write;

use commensal::observe::columns;
use commensal::observe::figures::{Kind, SLAB_COLUMNS, TABLES, Unit};

use crate::openmetrics::{OF_ALL, OF_KERNEL, name_of};

const ABOUT: &str = "\
A process under `commensal run`, or one with `observe:on` in its settings, writes what it knows of itself to a \
*statistics page*, a file of its own in its user's runtime directory, mode 0600. `commensal stat PID` shows all \
of it, `commensal stat PID --json` has the figures by the names below, `commensal top` shows it live, and \
`commensal stat --prometheus ADDR` serves the metrics. The layout has a version; a reader of another version \
says so.
";
const ABOUT_METRICS: &str = "\
Each metric has the labels `pid` and `program`, and those that its table names. Times are in seconds there; \
moments have no metric, as no two machines have the same clock for them. If rows have the same labels, their \
metric is the sum, or the largest value where a sum says nothing. These metrics are there besides:
";
const ABOUT_EXIT: &str = "\
`commensal run --stats`, or `stats:exit`, prints the figures of the process on standard error when the program \
exits, by what they are about and without their units; then what waiting for locks cost; and then a row of \
figures for each size class that was used, as for caches above.
";
const ABOUT_SLABINFO: &str = "\
`commensal run --slabinfo` prints it when the program exits, `commensal slabinfo PID` at any time. The columns \
are those of the kernel's `/proc/slabinfo`.
";
const ABOUT_LOCKS: &str = "\
`commensal run --locks` prints it when the program exits, `--locks-json` as JSON, and `cm_lock_report` gives C \
programs the same rows at any time. The columns are those of `perf lock contention`; times have the largest unit \
that suits them as text, and are nanoseconds as JSON.
";

/// The page, but for its title.
pub fn page() -> String {
    let words = |all: &[(&str, &str)]| {
        all.iter().map(|(word, says)| format!("*{word}* ({says})")).collect::<Vec<_>>().join(", ")
    };
    let mut text = format!("## The statistics page\n\n{ABOUT}\n");
    let _ = writeln!(text, "Kinds are {}.", words(&Kind::ALL.map(|(_, word, says)| (word, says))));
    let _ = writeln!(text, "Units are {}.", words(&Unit::ALL.map(|(_, word, says)| (word, says))));
    for table in &TABLES {
        let _ = write!(text, "\n### {}\n\n{}", table.name, table.says);
        let number = (!table.numbered.is_empty()).then_some((table.numbered, "the row's number."));
        let labels: Vec<_> =
            number.into_iter().chain(table.labels.iter().map(|label| (label.name, label.says))).collect();
        text += if labels.is_empty() { "\n" } else { " Its metrics have these labels besides:\n\n" };
        labels.iter().for_each(|(name, says)| text += &format!("* `{name}`: {says}\n"));
        let rows = table.figures.iter().map(|figure| {
            let metric = name_of(table, figure).map_or_else(|| "–".to_owned(), |name| format!("`{name}`"));
            vec![
                format!("`{}`", figure.name),
                figure.kind.word().to_owned(),
                figure.unit.word().to_owned(),
                metric,
                figure.says.to_owned(),
            ]
        });
        text += &drawn(&["figure", "kind", "unit", "metric", "meaning"], rows);
    }
    let of_all = OF_ALL.map(|(name, kind, says)| {
        let total = if matches!(kind, prometheus_client::metrics::MetricType::Counter) { "_total" } else { "" };
        vec![format!("`commensal_{name}{total}`"), says.to_owned()]
    });
    let of_kernel = OF_KERNEL
        .figures
        .iter()
        .map(|figure| vec![format!("`{}`", name_of(&OF_KERNEL, figure).unwrap_or_default()), figure.says.to_owned()]);
    let _ = write!(
        text,
        "\n### Metrics\n\n{ABOUT_METRICS}{}",
        drawn(&["metric", "meaning"], of_all.into_iter().chain(of_kernel))
    );
    let _ = write!(text, "\n## Printed at exit\n\n{ABOUT_EXIT}");
    let columns = [("name", "What people call it.")].into_iter().chain(SLAB_COLUMNS);
    let columns = columns.map(|(head, says)| vec![format!("`{head}`"), says.to_owned()]);
    let _ = write!(text, "\n## The slab table\n\n{ABOUT_SLABINFO}{}", drawn(&["column", "meaning"], columns));
    let columns = columns::described()
        .map(|(name, says)| vec![crate::text::heading_of(name), format!("`{name}`"), says.trim().to_owned()]);
    let _ = write!(text, "\n## The lock report\n\n{ABOUT_LOCKS}{}", drawn(&["column", "in JSON", "meaning"], columns));
    text
}

/// A table, with a blank line before it.
fn drawn(headings: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let head = line(headings.iter().map(|&heading| heading.to_owned()).collect());
    let rule = format!("|{}\n", "---|".repeat(headings.len()));
    let rows = rows.map(|cells| line(cells.into_iter().map(|cell| cell.replace('|', "\\|")).collect()));
    ["\n".to_owned(), head, rule].into_iter().chain(rows).collect()
}
