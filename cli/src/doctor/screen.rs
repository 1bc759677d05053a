//! The findings as a person reads them: one line that says it all, and a table of 80 columns.

use commensal_lab::sheet::{Sheet, Side};

use super::Report;
use super::finding::{Finding, Verdict};

const COLUMNS: u16 = 80;

/// The whole screen.
pub fn table(report: &Report) -> String {
    let mut sheet =
        Sheet::new([("item", Side::Left), ("verdict", Side::Left), ("found, and what it means", Side::Left)]);
    for item in &report.items {
        sheet.add([item.item.to_owned(), item.verdict.word().to_owned(), words(item)]);
    }
    format!("{}\n{}", summary(report), sheet.within(COLUMNS))
}

fn words(item: &Finding) -> String {
    let advice = item.advice.as_ref().map_or(String::new(), |advice| format!("\n→ {advice}"));
    format!("{}\n{}{advice}", item.found, item.meaning)
}

/// What all items come to.
fn summary(report: &Report) -> String {
    let named = |verdict: Verdict| -> Vec<&str> {
        report.items.iter().filter(|item| item.verdict == verdict).map(|item| item.item).collect()
    };
    let (fails, less, unknown) = (named(Verdict::Fails), named(Verdict::Less), named(Verdict::Unknown));
    let conduct = report.seen.unwrap_or(report.expected);
    let conduct = format!("{}, {}", conduct.mode.words(), conduct.kicks.words());
    let first = if fails.is_empty() {
        format!("Commensal {} works here: {conduct}.", report.version)
    } else {
        format!("Commensal {} does not work here: {}.", report.version, fails.join(", "))
    };
    let told = [("With less: ", less), ("Unknown: ", unknown)];
    let told = told.into_iter().filter(|(_, items)| !items.is_empty());
    let lines = told.map(|(word, items)| format!("{word}{}.", items.join(", ")));
    [first].into_iter().chain(lines).map(|line| wrapped(&line)).collect()
}

/// The words of a line, on as many lines as they need.
fn wrapped(line: &str) -> String {
    let mut lines = String::new();
    let mut column = 0;
    for word in line.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > usize::from(COLUMNS) {
            lines.push('\n');
            column = 0;
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::process::tests::on;
    use super::super::slots::Conduct;
    use super::*;

    fn report(items: Vec<Finding>) -> Report {
        let verdict = items.iter().map(|item| item.verdict).max().unwrap();
        Report { version: "0.1.0", verdict, expected: Conduct::expected(&on("6.8.0")), seen: None, items }
    }

    #[test]
    fn the_table_fits_into_80_columns_and_loses_no_word() {
        let long = "word ".repeat(60);
        let items = vec![
            Finding::fine("runtime-directory", long.trim(), "meaning").advising("advice"),
            Finding::fine("b", "/a/very/long/path/".repeat(8), "x").but(Verdict::Less),
        ];
        let shown = table(&report(items));
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        assert_eq!(shown.matches("word").count(), 60, "{shown}");
        assert!(
            shown.starts_with("Commensal 0.1.0 works here: slots by concurrency ids, kicks possible.\nWith less: b.\n")
        );
    }

    #[test]
    fn long_lists_of_items_are_wrapped() {
        let items = (0..20).map(|_| Finding::fine("huge-pages", "x", "x").but(Verdict::Unknown));
        let shown = table(&report(items.collect()));
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        let summary = shown.split("\n\n").next().unwrap();
        assert_eq!((summary.matches("huge-pages").count(), summary.lines().count()), (20, 5), "{summary}");
    }

    #[test]
    fn what_fails_is_in_the_first_line() {
        let shown = table(&report(vec![Finding::fine("library", "none", "x").but(Verdict::Fails)]));
        assert!(shown.starts_with("Commensal 0.1.0 does not work here: library.\n"), "{shown}");
    }
}
