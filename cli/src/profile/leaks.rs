//! `commensal profile leaks`: what was live, by call site, with whole stacks and how far the estimates may be off.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use profiles::estimate;
use profiles::profile::{Amount, Measure, Profile};
use profiles::table::{By, Key, Row, rows};
use serde_json::{Value, json};
use watch::units;

use super::{Which, open, print, words};
use crate::failure::Failure;

/// How the comment begins that says when the profile was taken, and its end for the program's exit.
const AT: &str = "at: ";
const EXIT: &str = "exit";

/// Show which calls allocated what was never freed, most bytes first
#[derive(Args)]
pub struct Leaks {
    /// A profile that was taken at the program's exit
    file: PathBuf,

    /// How many call sites to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    rows: usize,

    /// How many functions of each stack to show; stacks that agree in these are one call site
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    depth: u16,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows a list.
pub fn leaks(request: &Leaks) -> Result<ExitCode, Failure> {
    let (opened, profile) = open(&request.file)?;
    let live = Which { live: true, peak: false, allocated: false };
    let (measure, _) = live.of(&request.file, &profile, Some(Measure::Live))?;
    let rows = rows(&profile, measure, By::Site(request.depth.into()));
    let json = || {
        json!({
            "at": moment(&profile),
            "bytes": profile.total(measure).bytes,
            "blocks": profile.total(measure).blocks,
            "mean_gap_bytes": profile.mean_gap_bytes,
            "lost_samples": profile.lost_samples,
            "sites": rows.iter().take(request.rows).map(|row| site_json(&profile, row)).collect::<Value>(),
            "warnings": opened.warnings,
        })
    };
    print(request.json, json, || text(&profile, &rows, request.rows))
}

/// When the profile was taken, if it says so.
fn moment(profile: &Profile) -> Option<&str> {
    profile.comments.iter().find_map(|comment| comment.strip_prefix(AT))
}

fn text(profile: &Profile, rows: &[Row], most: usize) -> String {
    let mut text = words::heading(profile, Measure::Live);
    if moment(profile) != Some(EXIT) {
        text +=
            "The profile does not say that it was taken at the exit: the program may still have freed these blocks.\n";
    }
    let amounts: Vec<Amount> = rows.iter().map(|row| row.own).collect();
    match estimate::interval_of_sum(&amounts, profile.mean_gap_bytes) {
        Some(of) => {
            let _ = writeln!(
                text,
                "These are estimates from {}. With 95 % certainty, the sum is {}.\n\
                 A call site with few samples may hold several times as much or as little. One that holds less than {} may \
                 be missing.",
                words::samples(&of),
                words::bounds(&of),
                units::bytes(profile.mean_gap_bytes),
            );
        }
        None if rows.is_empty() => {}
        None => {
            text += "The profile does not say how it was sampled, so it is unknown how far off these figures may be.\n"
        }
    }
    let whole = profile.total(Measure::Live).bytes;
    let shown = rows.len().min(most);
    for row in &rows[..shown] {
        let _ = write!(text, "\n{}, {}", words::amount(row.own), words::percent(row.own.bytes, whole));
        if let Some(of) = estimate::interval(row.own, profile.mean_gap_bytes) {
            let _ = match of.bytes[1] - of.bytes[0] < 0.01 * of.bytes[1] {
                true => write!(text, "; exact, as all blocks of this size are sampled"),
                false => write!(text, "; 95 %: {} from {}", words::bounds(&of), words::samples(&of)),
            };
        }
        let Key::Stack(stack) = &row.key else { continue };
        words::stack(stack, "").iter().for_each(|line| text += &format!("\n    {line}"));
        text += "\n";
    }
    let left = rows[shown..].iter().fold(0_u64, |sum, row| sum.saturating_add(row.own.bytes));
    let rest = words::rest(rows.len(), shown, left);
    if rest.is_empty() { text } else { format!("{text}\n{rest}") }
}

fn site_json(profile: &Profile, row: &Row) -> Value {
    let Key::Stack(stack) = &row.key else { return Value::Null };
    let interval = estimate::interval(row.own, profile.mean_gap_bytes);
    json!({
        "bytes": row.own.bytes,
        "blocks": row.own.blocks,
        "samples": interval.map(|of| of.samples.round()),
        "bytes_95": interval.map(|of| of.bytes.map(f64::round)),
        "stack": words::stack_json(stack),
    })
}
