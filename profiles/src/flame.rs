//! Flame graphs: each frame is as wide as the bytes that were allocated in it or below it.

use std::borrow::Cow;
use std::io::Write;

use anyhow::{Context, Result, ensure};
use inferno::flamegraph::color::{BackgroundColor, BasicPalette, Palette};
use inferno::flamegraph::{self, Direction, Options};

use crate::profile::{Measure, Profile};

/// More bytes than any program has. The drawing adds without a check.
const MOST_BYTES: u64 = 1 << 60;

/// Writes the SVG, of which the subtitle is a line below the title. A browser zooms in it and searches.
pub fn write(profile: &Profile, measure: Measure, title: &str, subtitle: &str, out: impl Write) -> Result<()> {
    let root = profile.program.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("all");
    let lines: Vec<String> = profile
        .samples
        .iter()
        .filter_map(|sample| {
            let bytes = sample.amount(measure).bytes;
            let frames = sample.stack.iter().rev().map(|frame| plain(&frame.function));
            let stack: Vec<Cow<'_, str>> = std::iter::once(plain(root)).chain(frames).collect();
            (bytes > 0).then(|| format!("{} {bytes}", stack.join(";")))
        })
        .collect();
    ensure!(!lines.is_empty(), "no bytes are {} in this profile", measure.word());
    ensure!(profile.total(measure).bytes < MOST_BYTES, "the figures are larger than memory can be");
    let mut options = Options::default();
    options.title = title.to_owned();
    options.subtitle = Some(subtitle.to_owned());
    options.count_name = "bytes".to_owned();
    options.name_type = "Function:".to_owned();
    options.colors = Palette::Basic(BasicPalette::Aqua);
    options.bgcolors = Some(BackgroundColor::Flat((255, 255, 255).into()));
    // A browser begins at the top, where the outermost functions are then. Narrower frames have no room for a letter.
    options.direction = Direction::Inverted;
    options.min_width = 0.1;
    // The same function has the same colour in each graph.
    options.hash = true;
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), out).context("cannot write the graph")
}

/// A name without the signs that the lines of flame graphs are made of, and without control characters.
fn plain(name: &str) -> Cow<'_, str> {
    let is_sign = |sign: char| sign == ';' || sign.is_control();
    if name.contains(is_sign) { name.replace(is_sign, ",").into() } else { name.into() }
}
