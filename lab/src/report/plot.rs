//! Plots as SVG that take their colours from the page: so they can be read by day and by night, and on a phone.
//!
//! The plotting library knows fixed colours only. Each that is used here stands for a variable of the page's style sheet, and is
//! replaced by it in the finished text.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use statistics::Verdict;

use crate::analysis::{Analysis, BASELINE, CONTROL, Judged};
use crate::blocks::Row;
use crate::metric::for_people;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// Narrow, so that letters keep their size on a phone.
const WIDTH: u32 = 480;
const LETTERS: i32 = 13;
const LETTER_WIDTH: u32 = 7;
const ROW: u32 = 24;
/// What has the page's width: a phone shows it smaller.
const WIDE: u32 = 960;
const RUNS_HEIGHT: u32 = 240;
const CURVES_HEIGHT: u32 = 280;
const TURNS_HEIGHT: u32 = 420;
/// What has no logarithm stands at its place.
const LEAST: f64 = 1e-3;
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
    let names: Vec<String> = measured.rows.iter().map(Row::name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
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
    with_key((width_beside(&names), AROUND + ROW * names.len() as u32), &arms, draw_rows).map(Some)
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
    with_key((WIDTH, RUNS_HEIGHT), &names, draw_runs).map(Some)
}

/// A curve of a plot: in an arm's colour, with its name, through these points.
pub struct Curve {
    /// Whose colour it has.
    pub arm: usize,
    /// What the key calls it.
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// What is told along an axis, and how.
#[derive(Clone)]
pub enum Scale {
    /// Logarithms of values in a unit, with a line at each power of ten.
    Powers(&'static str),
    /// Logarithms of these numbers, with a line at each.
    At(Vec<f64>),
    /// Parts of a whole.
    Percent,
    /// Numbers as they are.
    Plain,
}

/// Curves over a common axis. None without a point.
pub fn curves(title: &str, curves: &[Curve], [x, y]: [Scale; 2]) -> Result<Option<String>> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let axis = |scale, of: fn(&(f64, f64)) -> f64| Axis::around(scale, &points().map(of).collect::<Vec<_>>());
    let Some((x_axis, y_axis)) = axis(x, |point| point.0).zip(axis(y, |point| point.1)) else { return Ok(None) };
    let draw_curves = |area: &Area| {
        let mut chart = ChartBuilder::on(area)
            .caption(title, letters(LETTERS + 2))
            .margin(6)
            .margin_right(16)
            .set_label_area_size(LabelAreaPosition::Left, 74)
            .set_label_area_size(LabelAreaPosition::Bottom, 26)
            .build_cartesian_2d(x_axis.clone(), y_axis.clone())?;
        chart
            .configure_mesh()
            .bold_line_style(FAINT)
            .light_line_style(TRANSPARENT)
            .axis_style(FAINT)
            .label_style(letters(LETTERS))
            .draw()?;
        for curve in curves {
            let points = curve.points.iter().map(|(at, value)| (x_axis.place(*at), y_axis.place(*value)));
            chart.draw_series(LineSeries::new(points.clone(), colour(curve.arm).stroke_width(2)))?;
            chart.draw_series(points.map(|at| Circle::new(at, 3, colour(curve.arm).filled())))?;
        }
        Ok(())
    };
    let names: Vec<(usize, &str)> = curves.iter().map(|curve| (curve.arm, curve.name.as_str())).collect();
    with_key((WIDTH, CURVES_HEIGHT), &names, draw_curves).map(Some)
}

/// Rows with a dot for each arm that has a value there. None without a value.
pub fn dots(
    title: &str,
    rows: &[(String, Vec<(usize, f64)>)],
    arms: &[(usize, &str)],
    x: Scale,
) -> Result<Option<String>> {
    let values: Vec<f64> = rows.iter().flat_map(|(_, dots)| dots).map(|(_, value)| *value).collect();
    let Some(axis) = Axis::around(x, &values) else { return Ok(None) };
    let names: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
    let draw_rows = |area: &Area| {
        self::rows(area, title, &names, &axis, |chart, row, y| {
            let dots = rows[row].1.iter();
            chart
                .draw_series(dots.map(|(arm, value)| Circle::new((axis.place(*value), y), 4, colour(*arm).filled())))?;
            Ok(())
        })
    };
    with_key((width_beside(&names), AROUND + ROW * rows.len() as u32), arms, draw_rows).map(Some)
}

/// One thing that a row did, at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// Which row's.
    pub row: u32,
    /// When.
    pub at: f64,
    /// Whether it is one of those that the picture is about.
    pub is_marked: bool,
}

/// Panels side by side, each with a title: a row for each of so many, and along it what that did, over so long. Below are the words for the axis, for
/// what is marked and for what is not.
pub fn turns(panels: &[(String, Vec<Turn>)], (rows, time): (u32, f64), words: [&str; 3]) -> Result<String> {
    let [axis, marked, others] = words;
    let colour_of = |is_marked| if is_marked { MORE } else { colour(2) };
    draw_wide(WIDE, TURNS_HEIGHT, |area| {
        let (above, below) = area.split_vertically(TURNS_HEIGHT - 24);
        for (panel, (title, turns)) in above.split_evenly((1, panels.len())).iter().zip(panels) {
            let mut chart = ChartBuilder::on(panel)
                .caption(title, letters(LETTERS + 2))
                .margin(6)
                .margin_right(10)
                .set_label_area_size(LabelAreaPosition::Left, 46)
                .set_label_area_size(LabelAreaPosition::Bottom, 40)
                .build_cartesian_2d(0.0..time, -1.0..f64::from(rows))?;
            chart
                .configure_mesh()
                .x_labels(time as usize + 1)
                .y_labels(8)
                .x_desc(axis)
                .y_desc("CPU")
                .x_label_formatter(&|at| format!("{at:.0}"))
                .y_label_formatter(&|row| format!("{row:.0}"))
                .bold_line_style(FAINT)
                .light_line_style(TRANSPARENT)
                .axis_style(FAINT)
                .label_style(letters(LETTERS))
                .draw()?;
            // Those that are marked come last, and so on top.
            for is_marked in [false, true] {
                let turns = turns.iter().filter(|turn| turn.is_marked == is_marked && turn.at <= time);
                let dots = turns.map(|turn| (turn.at, f64::from(turn.row)));
                chart.draw_series(dots.map(|at| Circle::new(at, 2, colour_of(is_marked).filled())))?;
            }
        }
        for (x, is_marked, words) in [(60, true, marked), (WIDE as i32 / 2, false, others)] {
            below.draw(&Circle::new((x, 10), 4, colour_of(is_marked).filled()))?;
            let beside = letters(LETTERS).pos(Pos::new(HPos::Left, VPos::Center));
            below.draw(&Text::new(words.to_owned(), (x + 10, 10), beside))?;
        }
        Ok(())
    })
}

/// An axis: where values stand on it, and what is written beside it.
#[derive(Clone)]
struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    /// Of plain numbers.
    fn of_plain(low: f64, high: f64) -> Self {
        Self { scale: Scale::Plain, low, high }
    }

    /// With room for these values. None if there are none.
    fn around(scale: Scale, values: &[f64]) -> Option<Self> {
        let axis = Self { scale, low: 0.0, high: 0.0 };
        let places = values.iter().map(|value| axis.place(*value));
        let (low, high) =
            places.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| (low.min(at), high.max(at)));
        let (low, high) = match axis.scale {
            Scale::Powers(_) => (low.floor(), high.ceil().max(low.floor() + 1.0)),
            Scale::At(_) | Scale::Plain => (low - 0.05, high + 0.05),
            Scale::Percent => (0.0, high.max(0.01)),
        };
        low.is_finite().then_some(Self { low, high, ..axis })
    }

    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Powers(_) | Scale::At(_) => value.max(LEAST).log10(),
            Scale::Percent | Scale::Plain => value,
        }
    }

    fn plain(&self) -> RangedCoordf64 {
        (self.low..self.high).into()
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, at: &f64, pixels: (i32, i32)) -> i32 {
        self.plain().map(at, pixels)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match &self.scale {
            Scale::Powers(_) => (self.low as i32..=self.high as i32).map(f64::from).collect(),
            Scale::At(values) => values.iter().map(|value| value.log10()).collect(),
            Scale::Percent | Scale::Plain => self.plain().key_points(hint),
        }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, at: &f64) -> String {
        match self.scale {
            Scale::Powers(unit) => for_people(10f64.powf(at.round()), unit),
            Scale::At(_) => format!("{:.0}", 10f64.powf(*at)),
            Scale::Percent => format!("{:.0} %", at * 100.0),
            Scale::Plain => self.plain().format_ext(at),
        }
    }
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Rows of ratios, and a line where arms are equal.
fn ratios(
    area: &Area,
    title: &str,
    names: &[&str],
    ratios: &[f64],
    mut draw_row: impl FnMut(&mut Chart, usize, f64) -> Drawn,
) -> Drawn {
    let (low, high) = ratios.iter().fold((1.0f64, 1.0f64), |(low, high), ratio| (low.min(*ratio), high.max(*ratio)));
    let margin = (high - low).max(0.01) * 0.06;
    let axis = Axis::of_plain(low - margin, high + margin);
    rows(area, title, names, &axis, |chart, row, y| {
        chart.draw_series([PathElement::new([(1.0, y - 0.5), (1.0, y + 0.5)], INK)])?;
        draw_row(chart, row, y)
    })
}

/// What names of rows take beside a plot.
fn name_width(names: &[&str]) -> u32 {
    names.iter().map(|name| name.chars().count() as u32).max().unwrap_or(0) * LETTER_WIDTH + 14
}

/// So wide that there is room for a plot beside the names.
fn width_beside(names: &[&str]) -> u32 {
    const ROOM: u32 = 240;
    WIDTH.max(name_width(names) + ROOM)
}

/// Rows with names at their left, and a common axis below.
fn rows(
    area: &Area,
    title: &str,
    names: &[&str],
    axis: &Axis,
    mut draw_row: impl FnMut(&mut Chart, usize, f64) -> Drawn,
) -> Drawn {
    let rows = names.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(title, letters(LETTERS + 2))
        .margin(6)
        .margin_right(36)
        .set_label_area_size(LabelAreaPosition::Left, name_width(names))
        .set_label_area_size(LabelAreaPosition::Bottom, 26)
        .build_cartesian_2d(axis.clone(), Axis::of_plain(0.0, rows))?;
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
    for (row, name) in names.iter().enumerate() {
        let y = rows - row as f64 - 0.5;
        draw_row(&mut chart, row, y)?;
        let (left, middle) = chart.backend_coord(&(axis.low, y));
        let beside = letters(LETTERS).pos(Pos::new(HPos::Right, VPos::Center));
        // Coordinates of the chart count from the whole picture's corner, those of an area from its own.
        let (_, top) = area.get_base_pixel();
        area.draw(&Text::new((*name).to_owned(), (left - 8, middle - top), beside))?;
    }
    Ok(())
}

/// A picture of this height, with the arms' colours below it.
fn with_key((width, height): (u32, u32), arms: &[(usize, &str)], picture: impl Fn(&Area) -> Drawn) -> Result<String> {
    let mut places = Vec::new();
    let (mut x, mut line) = (10, 0);
    for &(arm, name) in arms {
        let wide = 24 + name.chars().count() as i32 * LETTER_WIDTH as i32;
        if x + wide > width as i32 {
            (x, line) = (10, line + 1);
        }
        places.push((arm, name, x, 10 + 20 * line));
        x += wide + 8;
    }
    draw_wide(width, height + 20 * (line as u32 + 1) + 4, |area| {
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
    draw_wide(WIDTH, height, picture)
}

fn draw_wide(width: u32, height: u32, picture: impl FnOnce(&Area) -> Drawn) -> Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
        picture(&area).map_err(|error| anyhow!("cannot draw a plot: {error}"))?;
        area.present().map_err(|error| anyhow!("cannot draw a plot: {error}"))?;
    }
    let size = format!("width=\"{width}\" height=\"{height}\" ");
    text = text.replacen(&size, "role=\"img\" ", 1);
    for (colour, variable) in variables() {
        let RGBColor(red, green, blue) = colour;
        text = text.replace(&format!("#{red:02X}{green:02X}{blue:02X}"), &variable);
    }
    Ok(one_path_a_series(&text))
}

/// Dots of one kind that follow each other become one path, in which each is a line of no length with round ends.
fn one_path_a_series(svg: &str) -> String {
    let dot = |line: &'_ str| -> Option<(String, String)> {
        let (x, rest) = line.strip_prefix("<circle cx=\"")?.split_once("\" cy=\"")?;
        let (y, kind) = rest.split_once('"')?;
        Some((format!("M{x} {y}h0"), kind.to_owned()))
    };
    let kind = |line: &str| dot(line).map(|(_, kind)| kind);
    let path = |series: &[&str]| {
        let kind = kind(series[0])?;
        let of = |name: &str| Some(kind.split_once(name)?.1.split_once('"')?.0);
        let (width, colour) = (2 * of("r=\"")?.parse::<u32>().ok()?, of("fill=\"")?);
        let points: String = series.iter().filter_map(|line| dot(line)).map(|(point, _)| point).collect();
        let style = format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-linecap=\"round\"");
        Some(format!("<path d=\"{points}\" {style}/>"))
    };
    let lines: Vec<&str> = svg.lines().collect();
    let series = lines.chunk_by(|one, next| kind(one).is_some() && kind(one) == kind(next));
    let drawn = series.map(|all| if all.len() > 1 { path(all) } else { None }.unwrap_or_else(|| all.join("\n")));
    drawn.collect::<Vec<_>>().join("\n")
}

/// How many dots a plot has, alone or in paths.
#[cfg(test)]
pub fn count_of_dots(svg: &str) -> usize {
    svg.matches("<circle").count() + svg.matches("h0").count()
}

fn letters(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_text_style(&(WIDTH, WIDTH)).color(&INK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(arm: usize, points: &[(f64, f64)]) -> Curve {
        Curve { arm, name: format!("arm {arm}"), points: points.to_vec() }
    }

    #[test]
    fn curves_have_marks_where_they_were_measured_and_colours_of_the_page() {
        let at = || Scale::At(vec![2.0, 80.0, 512.0]);
        let of = [curve(0, &[(2.0, 120.0), (512.0, 4100.0)]), curve(3, &[(2.0, 0.5), (512.0, 0.5)])];
        let svg = curves("set-up", &of, [at(), Scale::Powers("ns")]).unwrap().unwrap();
        for words in [
            "set-up",
            ">\n2\n",
            ">\n80\n",
            ">\n512\n",
            ">\n10 ns\n",
            ">\n1 µs\n",
            "arm 3",
            "var(--arm0)",
            "var(--arm3)",
        ] {
            assert!(svg.contains(words), "{words:?} is missing in {svg}");
        }
        assert!(!svg.contains('#'), "a colour that the page does not choose: {svg}");
        assert!(svg.contains("role=\"img\"") && !svg.contains("width=\"480\""), "it is as wide as the page lets it");
        assert!(curves("nothing", &[curve(0, &[])], [at(), Scale::Percent]).unwrap().is_none());
    }

    #[test]
    fn dots_stand_in_their_rows() {
        let rows = [("owner".to_owned(), vec![(0, 0.3), (2, 2.1)]), ("remote".to_owned(), vec![(2, 12.0)])];
        let svg = dots("one update", &rows, &[(0, "plain"), (2, "atomic")], Scale::Powers("ns")).unwrap().unwrap();
        // Three dots, and one for each arm in the key.
        assert_eq!(count_of_dots(&svg), 5, "{svg}");
        assert!(svg.contains("owner") && svg.contains("remote") && !svg.contains('#'));
        assert!(dots("nothing", &[], &[], Scale::Powers("ns")).unwrap().is_none());
        // Beside the longest name there is room for what is shown.
        let long = [("name".repeat(20), vec![(0, 1.0), (2, 1000.0)])];
        let svg = dots("one update", &long, &[], Scale::Powers("ns")).unwrap().unwrap();
        let places: Vec<f64> =
            svg.split("<circle cx=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect();
        assert!(places.len() == 2 && places[1] - places[0] > 150.0, "{places:?}");
    }

    #[test]
    fn turns_are_marked_or_not() {
        let turn = |row, at, is_marked| Turn { row, at, is_marked };
        let turns_of = vec![turn(0, 0.5, true), turn(71, 1.5, false), turn(3, 9.0, true)];
        let svg = turns(
            &[("herd".to_owned(), turns_of), ("none".to_owned(), Vec::new())],
            (72, 3.0),
            ["intervals", "waited", "not"],
        )
        .unwrap();
        // Two of the three are in time, and two are in the key.
        assert_eq!(count_of_dots(&svg), 4, "{svg}");
        assert_eq!((svg.matches("var(--more)").count(), svg.matches("var(--arm2)").count()), (2, 2), "{svg}");
        for words in ["herd", "none", "intervals", "waited", "CPU"] {
            assert!(svg.contains(words), "{words:?} is missing in {svg}");
        }
        assert!(!svg.contains('#') && svg.contains("role=\"img\""), "{svg}");
    }

    #[test]
    fn dots_of_one_kind_become_one_path() {
        let circle = |x, fill| format!("<circle cx=\"{x}\" cy=\"7\" r=\"2\" opacity=\"1\" fill=\"{fill}\"/>");
        let svg = ["<svg>".to_owned(), circle(1, "a"), circle(-2, "a"), circle(3, "b"), "</svg>".to_owned()].join("\n");
        let path = "<path d=\"M1 7h0M-2 7h0\" fill=\"none\" stroke=\"a\" stroke-width=\"4\" stroke-linecap=\"round\"/>";
        assert_eq!(one_path_a_series(&svg), format!("<svg>\n{path}\n{}\n</svg>", circle(3, "b")));
    }

    #[test]
    fn zero_has_a_place_on_an_axis_of_powers() {
        let axis = Axis::around(Scale::Powers("ns"), &[0.0, 10.0]).unwrap();
        assert_eq!((axis.place(0.0), axis.low, axis.high), (-3.0, -3.0, 1.0));
        assert_eq!(axis.format_ext(&1.0), "10 ns");
    }
}
