//! What the tables of profiles have in common.

use profiles::estimate::Interval;
use profiles::profile::{Amount, Frame, Measure, Profile};
use serde_json::{Value, json};
use watch::units;

/// Longer names of functions are cut; JSON has them whole.
const LONGEST: usize = 90;

/// The option that asks for a measure.
pub fn option(measure: Measure) -> &'static str {
    match measure {
        Measure::Live => "--live",
        Measure::Peak => "--peak",
        Measure::Allocated => "--allocated",
    }
}

/// The program's name.
pub fn program(profile: &Profile) -> String {
    let name = profile.program.rsplit('/').next().filter(|name| !name.is_empty());
    units::word(name.unwrap_or("a program"))
}

/// The sum and how it was sampled.
pub fn total(profile: &Profile, measure: Measure) -> String {
    let mut text = format!("{} {}", amount(profile.total(measure)), measure.word());
    match profile.mean_gap_bytes {
        0 | 1 => {}
        gap => text += &format!(", estimated from samples with a mean gap of {}", units::bytes(gap)),
    }
    text
}

/// The program, the sum, and how many samples are missing.
pub fn heading(profile: &Profile, measure: Measure) -> String {
    let lost = match profile.lost_samples {
        0 => String::new(),
        1 => "1 sample was lost, so these figures are too low.\n".to_owned(),
        lost => format!("{lost} samples were lost, so these figures are too low.\n"),
    };
    format!("{}: {}\n{lost}", program(profile), total(profile, measure))
}

/// Bytes, and blocks if they are counted.
pub fn amount(of: Amount) -> String {
    let bytes = units::bytes(of.bytes);
    match of.blocks {
        0 => bytes,
        1 => format!("{bytes} in 1 block"),
        blocks => format!("{bytes} in {blocks} blocks"),
    }
}

/// A part of a whole.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:.1} %", part as f64 * 100.0 / whole as f64) }
}

/// The bounds of an interval.
pub fn bounds(of: &Interval) -> String {
    let [least, most] = of.bytes.map(|bytes| units::bytes(bytes.round() as u64));
    format!("{least} to {most}")
}

/// A number of samples.
pub fn samples(of: &Interval) -> String {
    if of.samples.round() == 1.0 { "1 sample".to_owned() } else { format!("{:.0} samples", of.samples) }
}

/// A frame on one line.
pub fn frame(frame: &Frame) -> String {
    let name = name(&frame.function);
    let place = units::word(&frame.place());
    if place.is_empty() { name } else { format!("{name} ({place})") }
}

/// A function's name, without control characters, and cut if it is long.
pub fn name(function: &str) -> String {
    let name = units::word(function);
    match name.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    }
}

/// The frames of a stack, a line each.
pub fn stack(frames: &[impl AsRef<Frame>], before_callers: &str) -> Vec<String> {
    let line = |(depth, of): (usize, &Frame)| match depth {
        0 => frame(of),
        _ => format!("{before_callers}{}", frame(of)),
    };
    if frames.is_empty() {
        return vec!["(unknown)".to_owned()];
    }
    frames.iter().map(AsRef::as_ref).enumerate().map(line).collect()
}

/// A stack for programs.
pub fn stack_json(frames: &[impl AsRef<Frame>]) -> Value {
    let frame = |of: &Frame| json!({"function": of.function, "file": of.file, "line": of.line, "module": of.module});
    frames.iter().map(|of| frame(of.as_ref())).collect()
}

/// What is left out of a table.
pub fn rest(rows: usize, shown: usize, bytes: u64) -> String {
    match rows.saturating_sub(shown) {
        0 => String::new(),
        1 => format!("and 1 more with {}; --rows shows more\n", units::bytes(bytes)),
        more => format!("and {more} more with {}; --rows shows more\n", units::bytes(bytes)),
    }
}
