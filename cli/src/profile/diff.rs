//! `commensal profile diff`: two profiles of a program, by how much each call site grew.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use lab::sheet::{Sheet, Side};
use profiles::diff::{self, Change};
use profiles::estimate;
use profiles::profile::{Measure, Profile};
use serde_json::{Value, json};
use watch::units;

use super::{Cut, Which, print, read, warn, words};
use crate::failure::Failure;

/// Compare two profiles: which call sites grew, most first, and which shrank
#[derive(Args)]
pub struct Diff {
    /// The earlier profile
    before: PathBuf,

    /// The later profile
    after: PathBuf,

    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    cut: Cut,
}

/// Shows a table.
pub fn diff(request: &Diff) -> Result<ExitCode, Failure> {
    let ((first, before), (second, after)) = (read(&request.before)?, read(&request.after)?);
    // Both mostly have the same files.
    warn(first.warnings.iter().chain(&second.warnings).collect::<BTreeSet<_>>());
    let (measure, note) = request.which.of(&request.after, &after, None)?;
    if !before.measures.contains(&measure) {
        let (file, option) = (request.before.display(), words::option(measure));
        return Err(Failure::ours(format!("{file}: has no figures for {option}, as {} has", request.after.display())));
    }
    let rebuilt = diff::rebuilt(&before, &after);
    let changes = diff::changes(&before, &after, measure, request.cut.depth.into());
    let grown = changes.partition_point(|change| change.growth() >= 0);
    let shrunk = grown.max(changes.len().saturating_sub(request.cut.rows));
    let shown: Vec<&Change> = changes[..grown.min(request.cut.rows)].iter().chain(&changes[shrunk..]).collect();
    let is_sure = |change: &Change| {
        let gaps = [before.mean_gap_bytes, after.mean_gap_bytes];
        estimate::differ([change.before, change.after], gaps)
    };
    let json = || {
        let row = |change: &&Change| {
            json!({
                "before": {"bytes": change.before.bytes, "blocks": change.before.blocks},
                "after": {"bytes": change.after.bytes, "blocks": change.after.blocks},
                "beyond_chance": is_sure(change),
                "stack": words::stack_json(&change.stack),
            })
        };
        json!({
            "measure": words::option(measure).trim_start_matches('-'),
            "before": {"bytes": before.total(measure).bytes, "blocks": before.total(measure).blocks},
            "after": {"bytes": after.total(measure).bytes, "blocks": after.total(measure).blocks},
            "rebuilt": rebuilt,
            "rows": shown.iter().map(row).collect::<Value>(),
            "note": note,
        })
    };
    let text = || {
        let mut text = note.as_ref().map(|note| format!("{note}\n")).unwrap_or_default();
        text += &heading(&before, &after, measure);
        if !rebuilt.is_empty() {
            text += &format!("Compared by functions without lines, as {} was rebuilt.\n", rebuilt.join(", "));
        }
        let hidden = changes.len() - shown.len();
        let rest =
            if hidden == 0 { String::new() } else { format!("and {hidden} smaller changes; --rows shows more\n") };
        let legend = if shown.iter().all(|change| is_sure(change) != Some(false)) {
            ""
        } else {
            "~ may be chance: samples of the same memory vary as much.\n"
        };
        format!("{text}\n{}{rest}{legend}", sheet(&shown, is_sure))
    };
    print(request.cut.json, json, text)
}

fn heading(before: &Profile, after: &Profile, measure: Measure) -> String {
    let totals = [before, after].map(|profile| profile.total(measure));
    let [first, second] = totals.map(words::amount);
    let growth = signed(i128::from(totals[1].bytes) - i128::from(totals[0].bytes));
    format!("{}: {first} before, {second} after, {}: {growth}\n", words::program(after), measure.word())
}

fn sheet(shown: &[&Change], is_sure: impl Fn(&Change) -> Option<bool>) -> Sheet {
    let right = ["difference", "before", "after"].map(|heading| (heading, Side::Right));
    let mut sheet = Sheet::new(right.into_iter().chain([("call site", Side::Left)]));
    for change in shown {
        let sign = if is_sure(change) == Some(false) { "~ " } else { "" };
        let [before, after] = [change.before, change.after].map(|amount| units::bytes(amount.bytes));
        let stack = words::stack(&change.stack, "  from ").join("\n");
        sheet.add([format!("{sign}{}", signed(change.growth())), before, after, stack]);
    }
    sheet
}

fn signed(bytes: i128) -> String {
    let sign = if bytes < 0 { "−" } else { "+" };
    format!("{sign}{}", units::bytes(u64::try_from(bytes.unsigned_abs()).unwrap_or(u64::MAX)))
}
