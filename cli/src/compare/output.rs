//! What `compare` prints: tables as text or Markdown, or all figures as CSV or JSON.

use clap::ValueEnum;
use lab::analysis::Analysis;
use lab::finding::PRINTED;
use lab::sheet::Sheet;
use lab::suite::Programs;
use lab::{spreadsheet, table};

use super::{Compare, commands};
use crate::failure::Failure;

/// The form of what goes to standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for a terminal
    #[default]
    Text,
    /// The same tables, for a page or a comment
    Markdown,
    /// One line for each arm and metric, with unrounded figures
    Csv,
    /// All runs, as --json writes them to a file
    Json,
}

/// What was compared, and what was not.
pub struct Shown<'a> {
    pub request: &'a Compare,
    pub groups: &'a [Analysis],
    pub programs: &'a Programs,
    /// Why some counters are missing.
    pub not_counted: Option<&'a str>,
}

impl Shown<'_> {
    /// All in a format other than JSON.
    pub fn in_format(&self, format: Format) -> Result<String, Failure> {
        match format {
            Format::Markdown => Ok(self.markdown()),
            Format::Csv => spreadsheet::text(self.groups).map_err(Failure::of),
            Format::Text | Format::Json => Ok(self.text()),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n{}\n", title(self.request), table::conditions(&self.groups[0]));
        for analysis in self.groups {
            if !analysis.group.is_empty() {
                text += &format!("{}\n", heading(analysis));
            }
            let sheets = table::usual(analysis);
            sheets.iter().for_each(|sheet| text += &format!("{sheet}\n"));
            text += &(table::legend(analysis, &sheets) + &table::notes(analysis) + "\n");
        }
        text + &self.notes()
    }

    fn markdown(&self) -> String {
        let mut text = format!("## {}\n", title(self.request));
        for analysis in self.groups {
            if !analysis.group.is_empty() {
                text += &format!("\n### {}\n", heading(analysis));
            }
            let sheets = table::usual(analysis);
            sheets.iter().map(Sheet::markdown).for_each(|sheet| text += &format!("\n{sheet}"));
            let words = table::legend(analysis, &sheets) + &table::notes(analysis);
            text += &format!("\n```text\n{words}```\n");
        }
        text + &format!("\n```text\n{}{}```\n", table::conditions(&self.groups[0]), self.notes())
    }

    fn notes(&self) -> String {
        let mut text: String = about(self.programs).iter().map(|line| format!("{line}\n")).collect();
        self.not_counted.iter().for_each(|line| text += &format!("note: {line}\n"));
        let differs = self.groups.iter().flat_map(Analysis::findings).any(|finding| finding.what.starts_with(PRINTED));
        text + if differs { "note: if the output may differ, add --any-output\n" } else { "" }
    }
}

/// The heading of a group's tables; empty if there is one group.
pub fn heading(analysis: &Analysis) -> String {
    let (first, rest) = analysis.group.split_at(analysis.group.len().min(1));
    first.to_uppercase() + rest
}

/// The real programs with their versions, and the missing ones.
pub fn about(programs: &Programs) -> Vec<String> {
    let versions = programs.versions.iter().map(|of| format!("    {:12} {}", of.name, of.version));
    let missing = programs.missing.iter().map(|missing| format!("note: not measured: {missing}"));
    versions.chain(missing).collect()
}

/// What is compared, in a line.
pub fn title(request: &Compare) -> String {
    if request.suite {
        return "allocation kernels and real programs".to_owned();
    }
    if !request.commands.is_empty() {
        return commands::names(&request.commands).join(", ");
    }
    let words: Vec<String> = request.command.iter().map(|word| word.display().to_string()).collect();
    words.join(" ")
}
