//! The reference of the book, from the table of figures.

use std::fmt::Write;

use commensal_runtime::observe::figures::TABLES;

use crate::openmetrics::{OF_ALL, OF_KERNEL, name_of};

const ABOUT: &str = "\
A process under `commensal run`, or with `observe:on` in its settings, writes its statistics to a *statistics page*.
This is a file with mode 0600 in the user's runtime directory.

`commensal stat` lists the processes that have a page, and `commensal stat PID` prints all figures of one. With
`--json`, figures have the names below. `commensal stat PID 1` prints a line each second.
`commensal stat --clear` removes the pages of processes that are gone.

Each layout of the page has a version. The command refuses pages of another version.

**Age.** Threads write the page on slow paths of the library, twice a second. The background thread writes it once
more before it rests. A process with one thread has no background thread, so its page grows old while it is idle.
All commands say the age of the figures first (*as of*). They read the resident memory and the number of threads
from the kernel at that moment.

**Ends.** `exit`, `quick_exit` and `_exit` remove the page. After a crash it stays, and the process is listed as
*gone*. So is a process that ended by a system call of its own or after `exec` of a program without the library. The
pages of the last 32 such processes are kept. `_exit` does so in programs that preload or link `libcommensal`.
";
const ABOUT_RESIDENT: &str = "\
`commensal stat PID` and `--stats` divide the resident memory that the kernel counts:

```text
resident 80.0 MiB = in use 60.0 MiB + cached 2.00 MiB + dirty 8.00 MiB
    + rest 10.0 MiB (free in spans, up to 5.00 MiB; metadata, up to 1.00 MiB; the program's own)
```

The figures in use, cached and dirty are memory that was touched, mostly. Of free memory in spans and of metadata
the library knows only the address space, so the line has them as upper bounds within the rest. The program's own
memory is its code, its stacks and what it maps itself. If the program never touched some blocks, or the kernel
swapped them out, the rest is larger than it looks. If the sum does not fit at all, the line ends in how much is
missing.
";
const ABOUT_FIGURES: &str = "\
A *gauge* goes up and down. A *counter* only goes up, since the process started; a fork child continues its parent's.
A *moment* is a time on the machine's monotonic clock in nanoseconds, or 0 for none. *Yes or no* is 1 or 0.
";
const ABOUT_METRICS: &str = "\
Each metric has the labels `pid` and `program`, and those of its table. Times are in seconds. Moments have no
metric, because each machine has a clock of its own. If rows have the same labels, the metric is their sum, or their
largest value where a sum means nothing. There are also these metrics:
";
const ABOUT_EXIT: &str = "\
`commensal run --stats`, or `stats:exit`, prints statistics on standard error when the program exits. First come the
program's name and number and the division of its resident memory. Then come the figures of the process by topic,
without their units. Then come the waits for locks, and a row of figures for each size class that was used.
";
const ABOUT_SLABINFO: &str = "\
`commensal run --slabinfo` prints the table when the program exits, `commensal slabinfo PID` at any time. The
columns are those of the kernel's `/proc/slabinfo`, with spans for slabs. `limit` and `batchcount` have the meanings of
the table *caches* above. `sharedfactor` and `sharedavail` are always 0.
";
const ABOUT_LOCKS: &str = "\
`commensal run --locks` prints the report when the program exits, and `--locks-json` prints it as JSON.
`cm_lock_report` gives C programs the same rows at any time. The columns are those of `perf lock contention`, which
have the meanings of the table *locks* above; `type` is its class. The average wait is rounded down. As text, times
have a suitable unit; as JSON, they are nanoseconds, in `total_wait_ns`, `max_wait_ns` and `avg_wait_ns`.
";

/// The page without its title.
pub fn page() -> String {
    let mut text = format!("## The statistics page\n\n{ABOUT}\n### Resident memory\n\n{ABOUT_RESIDENT}\n");
    let _ = write!(text, "### Figures\n\n{ABOUT_FIGURES}");
    for table in &TABLES {
        let _ = write!(text, "\n### {}\n\n{}", table.name, table.says);
        let number = (!table.numbered.is_empty()).then_some((table.numbered, "the row's number."));
        let labels: Vec<_> =
            number.into_iter().chain(table.labels.iter().map(|label| (label.name, label.says))).collect();
        text += if labels.is_empty() { "\n" } else { " Its metrics have these labels, too:\n\n" };
        labels.iter().for_each(|(name, says)| text += &format!("* `{name}`: {says}\n"));
        let rows = table.figures.iter().map(|figure| {
            let metric = name_of(table, figure).map_or_else(|| "–".to_owned(), |name| format!("`{name}`"));
            vec![
                format!("`{}`", figure.name),
                figure.says.to_owned(),
                figure.kind.word().to_owned(),
                figure.unit.word().to_owned(),
                metric,
            ]
        });
        text += &drawn(&["figure", "meaning", "kind", "unit", "metric"], rows);
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
    let _ = write!(text, "\n## The slab table\n\n{ABOUT_SLABINFO}");
    let _ = write!(text, "\n## The lock report\n\n{ABOUT_LOCKS}");
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
