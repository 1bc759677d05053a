//! `commensal profile show`: bytes and blocks by call site, function, thread, group, region or lifetime.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use lab::sheet::{Sheet, Side};
use profiles::profile::{Measure, Profile};
use profiles::table::{self, Key, Row};
use serde_json::{Value, json};
use watch::units;

use super::{Cut, Which, open, print, words};
use crate::failure::Failure;

/// Show bytes and blocks by call site
#[derive(Args)]
pub struct Show {
    /// The profile
    file: PathBuf,

    #[command(flatten)]
    table: Table,
}

/// How a profile is shown.
#[derive(Args)]
pub struct Table {
    #[command(flatten)]
    which: Which,

    /// By which fact to sum
    #[arg(long, value_enum, default_value_t = By::Site)]
    by: By,

    #[command(flatten)]
    cut: Cut,
}

/// By which fact samples are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// The call and its callers
    Site,
    /// The function that made the call
    Function,
    /// The thread
    Thread,
    /// The memory group
    Group,
    /// The region
    Region,
    /// How long blocks lived; of blocks that were allocated
    Lifetime,
}

impl By {
    fn fact(self, depth: u16) -> table::By {
        match self {
            Self::Site => table::By::Site(depth.into()),
            Self::Function => table::By::Function,
            Self::Thread => table::By::Thread,
            Self::Group => table::By::Group,
            Self::Region => table::By::Region,
            Self::Lifetime => table::By::Lifetime,
        }
    }

    fn heading(self) -> &'static str {
        match self {
            Self::Site => "call site",
            Self::Function => "function",
            Self::Thread => "thread",
            Self::Group => "group",
            Self::Region => "region",
            Self::Lifetime => "freed after at most",
        }
    }
}

/// Shows a table.
pub fn show(request: &Show) -> Result<ExitCode, Failure> {
    let (opened, profile) = open(&request.file)?;
    request.table.show(&request.file, &opened.warnings, &profile)
}

impl Table {
    /// Shows it.
    pub fn show(&self, file: &Path, warnings: &[String], profile: &Profile) -> Result<ExitCode, Failure> {
        let usual = (self.by == By::Lifetime).then_some(Measure::Allocated);
        let (measure, note) = self.which.of(file, profile, usual)?;
        let rows = table::rows(profile, measure, self.by.fact(self.cut.depth));
        let json = || {
            json!({
                "measure": words::option(measure).trim_start_matches('-'),
                "bytes": profile.total(measure).bytes,
                "blocks": profile.total(measure).blocks,
                "mean_gap_bytes": profile.mean_gap_bytes,
                "lost_samples": profile.lost_samples,
                "comments": profile.comments,
                "rows": rows.iter().take(self.cut.rows).map(|row| row_json(row, self.by)).collect::<Value>(),
                "warnings": warnings,
                "note": note,
            })
        };
        let text = || {
            let note = note.as_ref().map(|note| format!("{note}\n")).unwrap_or_default();
            let shown = rows.len().min(self.cut.rows);
            let left = rows[shown..].iter().fold(0_u64, |sum, row| sum.saturating_add(row.own.bytes));
            let sheet = sheet(profile, measure, self.by, &rows[..shown]);
            let heading = words::heading(profile, measure);
            format!(
                "{note}{heading}
{sheet}{}",
                words::rest(rows.len(), shown, left)
            )
        };
        print(self.cut.json, json, text)
    }
}

fn sheet(profile: &Profile, measure: Measure, by: By, rows: &[Row]) -> Sheet {
    let whole = profile.total(measure).bytes;
    let figures: &[&str] = match by {
        By::Function => &["bytes", "share", "blocks", "with callees", "share"],
        _ => &["bytes", "share", "blocks"],
    };
    let headings = figures.iter().map(|heading| (*heading, Side::Right)).chain([(by.heading(), Side::Left)]);
    let mut sheet = Sheet::new(headings);
    for row in rows {
        let mut cells =
            vec![units::bytes(row.own.bytes), words::percent(row.own.bytes, whole), row.own.blocks.to_string()];
        if by == By::Function {
            let bytes = row.with_callees.bytes;
            cells.extend([units::bytes(bytes), words::percent(bytes, whole)]);
        }
        cells.push(match &row.key {
            Key::Stack(stack) => words::stack(stack, "  from ").join("\n"),
            Key::Word(word) => words::name(word),
            Key::Lifetime(ns) => units::duration(*ns),
            Key::None if by == By::Lifetime => "not freed".to_owned(),
            Key::None => "(none)".to_owned(),
        });
        sheet.add(cells);
    }
    sheet
}

fn row_json(row: &Row, by: By) -> Value {
    let mut json = json!({"bytes": row.own.bytes, "blocks": row.own.blocks});
    if by == By::Function {
        json["with_callees"] = json!({"bytes": row.with_callees.bytes, "blocks": row.with_callees.blocks});
    }
    let (name, value) = match &row.key {
        Key::Stack(stack) => ("stack", words::stack_json(stack)),
        Key::Word(word) => (by.heading(), json!(word)),
        Key::Lifetime(ns) => ("most_lifetime_ns", json!(ns)),
        Key::None if by == By::Lifetime => ("most_lifetime_ns", Value::Null),
        Key::None => (by.heading(), Value::Null),
    };
    json[name] = value;
    json
}
