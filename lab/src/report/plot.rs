//! Plots as SVG that take their colours from the page: so they can be read by day and by night, and on a phone.
//!
//! The plotting library knows fixed colours only. Each that is used here stands for a variable of the page's style sheet, and is
//! replaced by it in the finished text.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::analysis::{Analysis, BASELINE, CONTROL, Judged};
use crate::metric::for_people;
use crate::statistics::Verdict;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Narrow, so that letters keep their size on a phone.
const WIDTH: u32 = 480;
const LETTERS: i32 = 13;
const LETTER_WIDTH: u32 = 7;
const ROW: u32 = 24;
const RUNS_HEIGHT: u32 = 240;
/// Title, axis and margins.
const AROUND: u32 = 66;

const INK: RGBColor = RGBColor(0, 0, 1);
const FAINT: RGBColor = RGBColor(0, 0, 2);
const LESS: RGBColor = RGBColor(0, 0, 3);
const MORE: RGBColor = RGBColor(0, 0, 4);
/// How many arms have a colour of their own.
pub const ARM_COLOURS: usize = 8;

/// The colour of an arm; the baseline's first, then its control's.
fn colour(arm: usize) -> RGBColor {
    RGBColor(0, 0, 16 + (arm % ARM_COLOURS) as u8)
}

/// What each colour becomes.
fn variables() -> impl Iterator<Item = (RGBColor, String)> {
    let named = [(INK, "ink"), (FAINT, "faint"), (LESS, "less"), (MORE, "more")];
    let named = named.into_iter().map(|(colour, name)| (colour, format!("var(--{name})")));
    named.chain((0..ARM_COLOURS).map(|arm| (colour(arm), format!("var(--arm{arm})"))))
}

/// The ratios of one metric with their intervals, a row for each arm. None without a candidate.
pub fn intervals(analysis: &Analysis, judged: &Judged, baseline: usize) -> Result<Option<String>> {
    let arms = &analysis.measured.arms;
    let compared =
        arms.iter().zip(&judged.comparisons).filter_map(|(arm, compared)| Some((&arm.name, compared.as_ref()?)));
    let rows: Vec<_> = compared.collect();
    if rows.is_empty() {
        return Ok(None);
    }
    let title = format!("{} over {}'s", judged.metric.title, arms[baseline].name);
    let names: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
    let ends = rows.iter().flat_map(|(_, compared)| [compared.interval[0], compared.ratio, compared.interval[1]]);
    let ends: Vec<f64> = ends.collect();
    let draw_rows = |area: &Area| {
        ratios(area, &title, &names, &ends, |chart, row, y| {
            let compared = rows[row].1;
            let colour = match compared.verdict {
                Verdict::Less => LESS,
                Verdict::More => MORE,
                Verdict::NotShown => INK,
            };
            let [from, to] = compared.interval;
            chart.draw_series([PathElement::new([(from, y), (to, y)], colour.stroke_width(3))])?;
            chart.draw_series([Circle::new((compared.ratio, y), 4, colour.filled())])?;
            Ok(())
        })
    };
    draw(AROUND + ROW * rows.len() as u32, draw_rows).map(Some)
}

/// All subjects in one metric: a row for each, a dot for each arm. None without a candidate.
pub fn subjects(analysis: &Analysis, metric: usize) -> Result<Option<String>> {
    let measured = &analysis.measured;
    let ratio = |row: usize, arm: usize| Some(analysis.rows[row][metric].comparisons[arm]?.ratio);
    let names: Vec<&str> = measured.rows.iter().map(|row| row.name.as_str()).collect();
    let arms: Vec<(usize, &str)> =
        measured.arms.iter().map(|arm| arm.name.as_str()).enumerate().skip(CONTROL).collect();
    let all = (0..names.len()).flat_map(|row| arms.iter().filter_map(move |(arm, _)| ratio(row, *arm)));
    let all: Vec<f64> = all.collect();
    if all.is_empty() {
        return Ok(None);
    }
    let title = format!("{} over {}'s", measured.rows[0].metrics[metric].title, measured.arms[BASELINE].name);
    let draw_rows = |area: &Area| {
        ratios(area, &title, &names, &all, |chart, row, y| {
            let dots = arms.iter().filter_map(|(arm, _)| Some((*arm, ratio(row, *arm)?)));
            chart.draw_series(dots.map(|(arm, ratio)| Circle::new((ratio, y), 4, colour(arm).filled())))?;
            Ok(())
        })
    };
    with_key(AROUND + ROW * names.len() as u32, &arms, draw_rows).map(Some)
}

/// The runs of one metric, block by block: here a drift, a spike or a second mode can be seen. None of a single block.
pub fn runs(analysis: &Analysis, row: usize, metric: usize) -> Result<Option<String>> {
    let measured = &analysis.measured;
    let (of, described) = (&measured.rows[row], &measured.rows[row].metrics[metric]);
    // An axis of round numbers needs values in the unit that people read.
    let (unit, scale) = if described.unit == "kB" { ("MiB", 1024.0) } else { (described.unit, 1.0) };
    let values = |arm: usize| Some(of.values(arm, metric)?.iter().map(|value| value / scale).collect());
    let arms: Vec<(usize, Vec<f64>)> = (0..measured.arms.len()).filter_map(|arm| Some((arm, values(arm)?))).collect();
    let values = arms.iter().flat_map(|(_, values)| values.iter().copied());
    let (low, high) = values.fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    if measured.blocks < 2 || high <= 0.0 {
        return Ok(None);
    }
    let margin = (high - low).max(high * 0.01) * 0.08;
    let draw_runs = |area: &Area| {
        let mut chart = ChartBuilder::on(area)
            .caption(format!("{}, block by block", described.title), letters(LETTERS + 2))
            .margin(6)
            .margin_right(16)
            .set_label_area_size(LabelAreaPosition::Left, 74)
            .set_label_area_size(LabelAreaPosition::Bottom, 26)
            .build_cartesian_2d(0.5..measured.blocks as f64 + 0.5, (low - margin).max(0.0)..high + margin)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(6)
            .y_labels(5)
            .y_label_formatter(&|value| for_people(*value, unit))
            .x_label_formatter(&|block| format!("{block:.0}"))
            .bold_line_style(FAINT)
            .light_line_style(TRANSPARENT)
            .axis_style(FAINT)
            .label_style(letters(LETTERS))
            .draw()?;
        for (arm, values) in &arms {
            let points = values.iter().zip(1..).map(|(value, block)| (f64::from(block), *value));
            chart.draw_series(LineSeries::new(points.clone(), colour(*arm).stroke_width(1)))?;
            chart.draw_series(points.map(|at| Circle::new(at, 2, colour(*arm).filled())))?;
        }
        Ok(())
    };
    let names: Vec<(usize, &str)> = arms.iter().map(|(arm, _)| (*arm, measured.arms[*arm].name.as_str())).collect();
    with_key(RUNS_HEIGHT, &names, draw_runs).map(Some)
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Rows with names at their left, a common axis of ratios below, and a line where arms are equal.
fn ratios(
    area: &Area,
    title: &str,
    names: &[&str],
    ratios: &[f64],
    mut draw_row: impl FnMut(&mut Chart, usize, f64) -> Drawn,
) -> Drawn {
    let (low, high) = ratios.iter().fold((1.0f64, 1.0f64), |(low, high), ratio| (low.min(*ratio), high.max(*ratio)));
    let margin = (high - low).max(0.01) * 0.06;
    let (low, high, rows) = (low - margin, high + margin, names.len() as f64);
    let name_width = names.iter().map(|name| name.chars().count() as u32).max().unwrap_or(0) * LETTER_WIDTH;
    let mut chart = ChartBuilder::on(area)
        .caption(title, letters(LETTERS + 2))
        .margin(6)
        .margin_right(16)
        .set_label_area_size(LabelAreaPosition::Left, name_width + 14)
        .set_label_area_size(LabelAreaPosition::Bottom, 26)
        .build_cartesian_2d(low..high, 0.0..rows)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_labels(6)
        .bold_line_style(FAINT)
        .light_line_style(TRANSPARENT)
        .axis_style(FAINT)
        .label_style(letters(LETTERS))
        .draw()?;
    chart.draw_series([PathElement::new([(1.0, 0.0), (1.0, rows)], INK)])?;
    for (row, name) in names.iter().enumerate() {
        let y = rows - row as f64 - 0.5;
        draw_row(&mut chart, row, y)?;
        let (left, middle) = chart.backend_coord(&(low, y));
        let beside = letters(LETTERS).pos(Pos::new(HPos::Right, VPos::Center));
        // Coordinates of the chart count from the whole picture's corner, those of an area from its own.
        let (_, top) = area.get_base_pixel();
        area.draw(&Text::new((*name).to_owned(), (left - 8, middle - top), beside))?;
    }
    Ok(())
}

/// A picture of this height, with the arms' colours below it.
fn with_key(height: u32, arms: &[(usize, &str)], picture: impl Fn(&Area) -> Drawn) -> Result<String> {
    let mut places = Vec::new();
    let (mut x, mut line) = (10, 0);
    for &(arm, name) in arms {
        let width = 24 + name.chars().count() as i32 * LETTER_WIDTH as i32;
        if x + width > WIDTH as i32 {
            (x, line) = (10, line + 1);
        }
        places.push((arm, name, x, 10 + 20 * line));
        x += width + 8;
    }
    draw(height + 20 * (line as u32 + 1) + 4, |area| {
        let (above, below) = area.split_vertically(height);
        picture(&above)?;
        for &(arm, name, x, y) in &places {
            below.draw(&Circle::new((x + 4, y), 4, colour(arm).filled()))?;
            let beside = letters(LETTERS).pos(Pos::new(HPos::Left, VPos::Center));
            below.draw(&Text::new(name.to_owned(), (x + 14, y), beside))?;
        }
        Ok(())
    })
}

/// Draws, and lets the page choose the colours and the size.
fn draw(height: u32, picture: impl FnOnce(&Area) -> Drawn) -> Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        picture(&area).map_err(|error| anyhow!("cannot draw a plot: {error}"))?;
        area.present().map_err(|error| anyhow!("cannot draw a plot: {error}"))?;
    }
    let size = format!("width=\"{WIDTH}\" height=\"{height}\" ");
    text = text.replacen(&size, "role=\"img\" ", 1);
    for (colour, variable) in variables() {
        let RGBColor(red, green, blue) = colour;
        text = text.replace(&format!("#{red:02X}{green:02X}{blue:02X}"), &variable);
    }
    Ok(text)
}

fn letters(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_text_style(&(WIDTH, WIDTH)).color(&INK)
}
