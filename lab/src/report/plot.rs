//! Plots as SVG that take their colours from the page: so they can be read by day and by night, and on a phone.
//!
//! A plot is a list of elements, of which later ones lie on top. Each series is one path, of dots as well: a dot is a line of no length
//! with round ends.

use maud::{Markup, html};
use statistics::{Comparison, Verdict};

use super::Figure;
use crate::analysis::{Analysis, BASELINE, CONTROL, Judged};
use crate::metric::for_people;

/// Narrow, so that letters keep their size on a phone.
const WIDTH: f64 = 480.0;
/// What has the page's width: a phone shows it smaller.
const WIDE: f64 = 960.0;
/// What is left of the width beside the longest name of a row, at least.
const ROOM: f64 = 280.0;
const LETTER_WIDTH: f64 = 7.0;
const ROW: f64 = 24.0;
/// The title's part of a plot, and that of what is written below the axis.
const ABOVE: f64 = 28.0;
const BELOW: f64 = 30.0;
const HEIGHT: f64 = 280.0;
const TURNS_HEIGHT: f64 = 400.0;
/// What has no logarithm stands at its place.
const LEAST: f64 = 1e-3;
/// What is left beside the outermost values, as a part of their distance.
const MARGIN: f64 = 0.06;

const INK: &str = "var(--ink)";
const FAINT: &str = "var(--faint)";
const LESS: &str = "var(--less)";
const MORE: &str = "var(--more)";
/// How many arms have a colour of their own.
pub const ARM_COLOURS: usize = 8;

/// The colour of an arm; the baseline's first, then its control's.
fn colour(arm: usize) -> String {
    format!("var(--arm{})", arm % ARM_COLOURS)
}

/// In pixels, from the left and from the top; or as values on two axes.
type Point = (f64, f64);

/// Points of one colour: the width of the line between them, and the radius of a dot at each; 0 is neither.
struct Series {
    colour: String,
    points: Vec<Point>,
    line: u32,
    dot: u32,
}

impl Series {
    /// A line where arms are equal.
    fn equal(rows: usize) -> Self {
        Series { colour: INK.to_owned(), points: vec![(1.0, 0.0), (1.0, rows as f64)], line: 1, dot: 0 }
    }
}

/// The ratios of one metric with their intervals, a row for each arm. None without a candidate.
pub fn intervals(analysis: &Analysis, judged: &Judged, baseline: usize) -> Option<Figure> {
    let arms = &analysis.measured.arms;
    let compared = arms.iter().zip(&judged.comparisons);
    let (names, rows): (Vec<String>, Vec<&Comparison>) =
        compared.filter_map(|(arm, compared)| Some((arm.name.clone(), compared.as_ref()?))).unzip();
    let ends = rows.iter().flat_map(|compared| [compared.interval[0], compared.ratio, compared.interval[1]]);
    let (x, y) = (Axis::of_ratios(ends)?, Axis::of_rows(names));
    let mut all = vec![Series::equal(rows.len())];
    for (row, compared) in rows.iter().enumerate() {
        let colour = match compared.verdict {
            Verdict::Less => LESS,
            Verdict::More => MORE,
            Verdict::NotShown => INK,
        };
        let at = |ratio| (ratio, middle(row));
        all.push(Series { colour: colour.to_owned(), points: compared.interval.map(at).into(), line: 3, dot: 0 });
        all.push(Series { colour: colour.to_owned(), points: vec![at(compared.ratio)], line: 0, dot: 4 });
    }
    Some(plot(&format!("{} over {}'s", judged.metric.title, arms[baseline].name), [x, y], &all, &[]))
}

/// All subjects in one metric: a row for each, a dot for each arm. None without a candidate.
pub fn subjects(analysis: &Analysis, metric: usize) -> Option<Figure> {
    let measured = &analysis.measured;
    let arms = measured.arms.iter().map(|arm| arm.name.as_str()).enumerate().skip(CONTROL);
    let arms: Vec<(usize, &str)> = arms.collect();
    let ratio = |row: usize, arm: usize| Some((arm, analysis.rows[row][metric].comparisons[arm]?.ratio));
    let dots = |row| arms.iter().filter_map(|(arm, _)| ratio(row, *arm)).collect();
    let rows: Vec<Dots> = measured.rows.iter().enumerate().map(|(row, of)| (of.name(), dots(row))).collect();
    let x = Axis::of_ratios(rows.iter().flat_map(|(_, dots)| dots).map(|(_, ratio)| *ratio))?;
    let title = format!("{} over {}'s", measured.rows[0].metrics[metric].title, measured.arms[BASELINE].name);
    Some(in_rows(&title, &rows, &arms, x, vec![Series::equal(rows.len())]))
}

/// The runs of one metric, block by block: here a drift, a spike or a second mode can be seen. None of a single block.
pub fn runs(analysis: &Analysis, row: usize, metric: usize) -> Option<Figure> {
    let (of, arms) = (&analysis.measured.rows[row], &analysis.measured.arms);
    let described = &of.metrics[metric];
    // An axis of round numbers needs values in the unit that people read.
    let (unit, scale) = if described.unit == "kB" { ("MiB", 1024.0) } else { (described.unit, 1.0) };
    let curve = |arm: usize| {
        let values = of.values(arm, metric)?.into_iter().zip(1..);
        let points: Vec<Point> = values.map(|(value, block)| (f64::from(block), value / scale)).collect();
        Some(Curve { arm, name: arms[arm].name.clone(), points })
    };
    let all: Vec<Curve> = (0..arms.len()).filter_map(curve).collect();
    let has_some = all.iter().flat_map(|curve| &curve.points).any(|point| point.1 > 0.0);
    let title = format!("{}, block by block", described.title);
    if analysis.measured.blocks > 1 && has_some { curves(&title, &all, [Scale::Plain, Scale::In(unit)]) } else { None }
}

/// A curve of a plot: in an arm's colour, with its name, through these points.
pub struct Curve {
    /// Whose colour it has.
    pub arm: usize,
    /// What the key calls it.
    pub name: String,
    /// From left to right.
    pub points: Vec<Point>,
}

/// What is told along an axis, and how.
#[derive(Clone)]
pub enum Scale {
    /// Logarithms of values in a unit, with a line at each power of ten.
    Powers(&'static str),
    /// Logarithms of these numbers, with a line at each.
    At(Vec<f64>),
    /// Values in a unit.
    In(&'static str),
    /// Numbers as they are.
    Plain,
    /// Rows of these names, from the top to the bottom.
    Rows(Vec<String>),
}

/// Curves over a common axis. None without a point.
pub fn curves(title: &str, curves: &[Curve], [x, y]: [Scale; 2]) -> Option<Figure> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let axes = [Axis::around(x, points().map(|point| point.0))?, Axis::around(y, points().map(|point| point.1))?];
    let key: Vec<(usize, &str)> = curves.iter().map(|curve| (curve.arm, curve.name.as_str())).collect();
    let series = |of: &Curve| Series { colour: colour(of.arm), points: of.points.clone(), line: 1, dot: 2 };
    Some(plot(title, axes, &curves.iter().map(series).collect::<Vec<_>>(), &key))
}

/// A row's name, and what arms have there.
type Dots = (String, Vec<(usize, f64)>);

/// Rows with a dot for each arm that has a value there. None without a value.
pub fn dots(title: &str, rows: &[Dots], arms: &[(usize, &str)], x: Scale) -> Option<Figure> {
    let axis = Axis::around(x, rows.iter().flat_map(|(_, dots)| dots).map(|(_, value)| *value))?;
    Some(in_rows(title, rows, arms, axis, Vec::new()))
}

fn in_rows(title: &str, rows: &[Dots], arms: &[(usize, &str)], x: Axis, mut series: Vec<Series>) -> Figure {
    for &(arm, _) in arms {
        let dots = rows.iter().enumerate().flat_map(|(row, (_, dots))| dots.iter().map(move |dot| (row, dot)));
        let points = dots.filter(|(_, (of, _))| *of == arm).map(|(row, (_, value))| (*value, middle(row)));
        series.push(Series { colour: colour(arm), points: points.collect(), line: 0, dot: 4 });
    }
    plot(title, [x, Axis::of_rows(rows.iter().map(|(name, _)| name.clone()).collect())], &series, arms)
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
pub fn turns(panels: &[(String, Vec<Turn>)], (rows, time): (u32, f64), words: [&str; 3]) -> Figure {
    const BESIDE: f64 = 46.0;
    let [axis, marked, others] = words;
    let colour_of = |is_marked| if is_marked { MORE.to_owned() } else { colour(2) };
    let mut drawing = Drawing::default();
    let wide = WIDE / panels.len() as f64;
    for (number, (title, turns)) in panels.iter().enumerate() {
        let (left, bottom) = (number as f64 * wide + BESIDE, TURNS_HEIGHT - BELOW);
        let x = Axis { scale: Scale::Plain, low: 0.0, high: time };
        let y = Axis { scale: Scale::Plain, low: -1.0, high: f64::from(rows) };
        let panel = Panel { left, top: ABOVE, right: left + wide - BESIDE - 10.0, bottom, x, y };
        panel.draw(&mut drawing, title);
        drawing.words((left - 8.0, ABOVE - 6.0), "end", "CPU");
        drawing.words(((left + panel.right) / 2.0, TURNS_HEIGHT), "middle", axis);
        // Those that are marked come last, and so on top.
        for is_marked in [false, true] {
            let turns = turns.iter().filter(|turn| turn.is_marked == is_marked && turn.at <= time);
            drawing.dots(turns.map(|turn| panel.at((turn.at, f64::from(turn.row)))), &colour_of(is_marked), 2);
        }
    }
    let y = TURNS_HEIGHT + 20.0;
    for (x, is_marked, words) in [(60.0, true, marked), (WIDE / 2.0, false, others)] {
        drawing.entry((x, y), &colour_of(is_marked), words);
    }
    drawing.figure(WIDE, y + 14.0)
}

/// A plot with the arms' colours below it.
fn plot(title: &str, [x, y]: [Axis; 2], series: &[Series], key: &[(usize, &str)]) -> Figure {
    let widest = y.marks().iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0);
    let left = widest as f64 * LETTER_WIDTH + 14.0;
    let width = WIDTH.max(left + ROOM);
    let height = match &y.scale {
        Scale::Rows(names) => ABOVE + ROW * names.len() as f64 + BELOW,
        _ => HEIGHT,
    };
    let panel = Panel { left, top: ABOVE, right: width - 36.0, bottom: height - BELOW, x, y };
    let mut drawing = Drawing::default();
    panel.draw(&mut drawing, title);
    for Series { colour, points, line, dot } in series {
        let points = || points.iter().map(|point| panel.at(*point));
        if *line > 0 {
            drawing.line(points(), colour, *line);
        }
        if *dot > 0 {
            drawing.dots(points(), colour, *dot);
        }
    }
    let (mut x, mut y) = (14.0, height);
    for &(arm, name) in key {
        let wide = name.chars().count() as f64 * LETTER_WIDTH + 32.0;
        if x + wide > width {
            (x, y) = (14.0, y + 20.0);
        }
        drawing.entry((x, y), &colour(arm), name);
        x += wide;
    }
    drawing.figure(width, if key.is_empty() { height } else { y + 14.0 })
}

/// Where a row is on an axis of rows.
fn middle(row: usize) -> f64 {
    row as f64 + 0.5
}

/// An axis: where values stand on it, and what is written beside it.
struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    /// With room for these values. None if there are none.
    fn around(scale: Scale, values: impl Iterator<Item = f64>) -> Option<Self> {
        let axis = Self { scale, low: f64::INFINITY, high: f64::NEG_INFINITY };
        let places = values.map(|value| axis.place(value));
        let (low, high) = places.fold((axis.low, axis.high), |(low, high), at| (low.min(at), high.max(at)));
        let margin = (high - low).max(high.abs() * 0.01) * MARGIN;
        let (low, high) = match axis.scale {
            Scale::Powers(_) => (low.floor(), high.ceil().max(low.floor() + 1.0)),
            _ => (low - margin, high + margin),
        };
        (low.is_finite() && high.is_finite()).then_some(Self { low, high, ..axis })
    }

    /// With room for these ratios, and 1. None if there are none.
    fn of_ratios(ratios: impl Iterator<Item = f64>) -> Option<Self> {
        let mut ratios = ratios.peekable();
        ratios.peek()?;
        Self::around(Scale::Plain, ratios.chain([1.0]))
    }

    fn of_rows(names: Vec<String>) -> Self {
        Self { low: names.len() as f64, high: 0.0, scale: Scale::Rows(names) }
    }

    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Powers(_) | Scale::At(_) => value.max(LEAST).log10(),
            _ => value,
        }
    }

    /// Which part of the axis is below a value.
    fn part(&self, value: f64) -> f64 {
        (self.place(value) - self.low) / (self.high - self.low)
    }

    /// Values at which there is a line, and what is written there.
    fn marks(&self) -> Vec<(f64, String)> {
        let step = round_step(self.high - self.low);
        let places = (-step.log10().floor()).max(0.0) as usize;
        let steps = ((self.low / step).ceil() as i64..=(self.high / step).floor() as i64).map(|at| at as f64 * step);
        match &self.scale {
            Scale::Powers(unit) => {
                let powers = (self.low as i32..=self.high as i32).map(|power| 10f64.powi(power));
                powers.map(|value| (value, for_people(value, unit))).collect()
            }
            Scale::At(values) => values.iter().map(|value| (*value, format!("{value:.0}"))).collect(),
            Scale::In(unit) => steps.map(|value| (value, for_people(value, unit))).collect(),
            Scale::Plain => steps.map(|value| (value, format!("{value:.places$}"))).collect(),
            Scale::Rows(names) => names.iter().enumerate().map(|(row, name)| (middle(row), name.clone())).collect(),
        }
    }
}

/// One, two or five of a power of ten: the greatest that is there four times in a range.
fn round_step(range: f64) -> f64 {
    let power = 10f64.powf((range.abs() / 4.0).log10().floor());
    [5.0, 2.0].map(|many| many * power).into_iter().find(|step| range.abs() / step >= 4.0).unwrap_or(power)
}

/// A rectangle between two axes.
struct Panel {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
    x: Axis,
    y: Axis,
}

impl Panel {
    /// Where values stand.
    fn at(&self, (x, y): Point) -> Point {
        let (right, up) = (self.x.part(x), self.y.part(y));
        (self.left + right * (self.right - self.left), self.bottom - up * (self.bottom - self.top))
    }

    /// Draws a title, the lines, and what is written beside them.
    fn draw(&self, drawing: &mut Drawing, title: &str) {
        let Self { left, top, right, bottom, .. } = *self;
        drawing.words(((left + right) / 2.0, top - 12.0), "middle", title);
        let mut lines = format!("M{left:.0} {top:.0}V{bottom:.0}H{right:.0}");
        let mut written = f64::NEG_INFINITY;
        for (value, label) in self.x.marks() {
            let (x, _) = self.at((value, 0.0));
            lines += &format!("M{x:.0} {bottom:.0}V{top:.0}");
            let half = label.chars().count() as f64 * LETTER_WIDTH / 2.0;
            if x - half > written {
                drawing.words((x, bottom + 16.0), "middle", &label);
                written = x + half + LETTER_WIDTH;
            }
        }
        for (value, label) in self.y.marks() {
            let (_, y) = self.at((0.0, value));
            lines += &format!("M{left:.0} {y:.0}H{right:.0}");
            drawing.words((left - 8.0, y + 4.0), "end", &label);
        }
        drawing.path(lines, FAINT, 1);
    }
}

/// What is drawn, from the back to the front.
#[derive(Default)]
struct Drawing(Vec<Markup>);

impl Drawing {
    fn path(&mut self, steps: String, colour: &str, width: u32) {
        if !steps.is_empty() {
            self.0.push(html! { path d=(steps) stroke=(colour) stroke-width=(width) {} });
        }
    }

    fn line(&mut self, points: impl IntoIterator<Item = Point>, colour: &str, width: u32) {
        let steps: Vec<String> = points.into_iter().map(|(x, y)| format!("{x:.0} {y:.0}")).collect();
        self.path(format!("M{}", steps.join("L")), colour, width);
    }

    fn dots(&mut self, points: impl IntoIterator<Item = Point>, colour: &str, radius: u32) {
        self.path(points.into_iter().map(|(x, y)| format!("M{x:.0} {y:.0}h0")).collect(), colour, 2 * radius);
    }

    fn words(&mut self, (x, y): Point, anchor: &str, words: &str) {
        let [x, y] = [x, y].map(|at| format!("{at:.0}"));
        self.0.push(html! { text x=(x) y=(y) text-anchor=(anchor) fill=(INK) { (words) } });
    }

    /// A dot, and beside it what has its colour.
    fn entry(&mut self, (x, y): Point, colour: &str, words: &str) {
        self.dots([(x, y)], colour, 4);
        self.words((x + 10.0, y + 4.0), "start", words);
    }

    fn figure(self, width: f64, height: f64) -> Figure {
        let head = "<svg role=\"img\" xmlns=\"http://www.w3.org/2000/svg\" fill=\"none\" stroke-linecap=\"round\" \
                    font-family=\"sans-serif\" font-size=\"11\"";
        let elements: String = self.0.into_iter().map(|element| element.into_string() + "\n").collect();
        Figure::bare(format!("{head} viewBox=\"0 0 {width:.0} {height:.0}\">\n{elements}</svg>"))
    }
}

/// How many dots a plot has.
#[cfg(test)]
pub fn count_of_dots(svg: &str) -> usize {
    svg.matches("h0").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(svg: &str, expected: &[&str]) {
        expected.iter().for_each(|words| assert!(svg.contains(words), "{words:?} is missing in {svg}"));
    }

    #[test]
    fn curves_have_marks_where_they_were_measured_and_colours_of_the_page() {
        let at = || Scale::At(vec![2.0, 80.0, 512.0]);
        let curve = |arm, points: &[Point]| Curve { arm, name: format!("arm {arm}"), points: points.to_vec() };
        let of = [curve(0, &[(2.0, 120.0), (512.0, 4100.0)]), curve(3, &[(2.0, 0.5), (512.0, 0.5)])];
        let svg = curves("set-up", &of, [at(), Scale::Powers("ns")]).unwrap().svg;
        has(&svg, &["set-up", ">2<", ">80<", ">512<", ">10 ns<", ">1 µs<", "arm 3", "var(--arm0)", "var(--arm3)"]);
        assert!(svg.contains("role=\"img\"") && !svg.contains(" width="), "it is as wide as the page lets it");
        assert!(curves("nothing", &[curve(0, &[])], [at(), Scale::Plain]).is_none());
    }

    #[test]
    fn dots_stand_in_their_rows_beside_the_longest_name() {
        let rows = [("name".repeat(20), vec![(0, 1.0), (2, 1000.0)]), ("remote".to_owned(), vec![(2, 12.0)])];
        let svg = dots("one update", &rows, &[(0, ""), (2, "")], Scale::Powers("ns")).unwrap().svg;
        // Three dots, and one for each arm in the key.
        assert_eq!(count_of_dots(&svg), 5, "{svg}");
        let of_arms = svg.split("d=\"M").filter_map(|path| path.split_once("h0")?.0.split_once(' '));
        let places: Vec<f64> = of_arms.map(|(x, _)| x.parse().unwrap()).collect();
        assert!(places[1] - places[0] > 150.0, "{places:?}");
        assert!(dots("nothing", &[], &[], Scale::Powers("ns")).is_none());
    }

    #[test]
    fn turns_are_marked_or_not() {
        let turn = |row, at, is_marked| Turn { row, at, is_marked };
        let some = vec![turn(0, 0.5, true), turn(71, 1.5, false), turn(3, 9.0, true)];
        let panels = [("herd".to_owned(), some), ("none".to_owned(), Vec::new())];
        let svg = turns(&panels, (72, 3.0), ["intervals", "waited", "not"]).svg;
        // Two of the three are in time, and two are in the key.
        assert_eq!(count_of_dots(&svg), 4, "{svg}");
        assert_eq!((svg.matches("var(--more)").count(), svg.matches("var(--arm2)").count()), (2, 2), "{svg}");
        has(&svg, &["herd", "none", "intervals", "waited", "CPU"]);
    }

    #[test]
    fn zero_has_a_place_on_an_axis_of_powers() {
        let axis = Axis::around(Scale::Powers("ns"), [0.0, 10.0].into_iter()).unwrap();
        assert_eq!((axis.place(0.0), axis.low, axis.high), (-3.0, -3.0, 1.0));
    }

    #[test]
    fn lines_stand_at_round_numbers() {
        let marks = |low, high| Axis { scale: Scale::Plain, low, high }.marks().into_iter().map(|(_, label)| label);
        assert!(marks(0.5, 12.5).eq(["2", "4", "6", "8", "10", "12"]));
        assert!(marks(0.997, 1.006).eq(["0.998", "1.000", "1.002", "1.004", "1.006"]));
        assert!(marks(-1.0, 72.0).eq(["0", "10", "20", "30", "40", "50", "60", "70"]));
    }
}
