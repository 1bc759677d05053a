//! Draws the state. Whatever colours say is said by words or forms, too: there may be none.

use ratatui_core::layout::{Constraint, Layout, Rect};
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::symbols::Marker;
use ratatui_core::terminal::Frame;
use ratatui_core::text::{Line, Span, Text};
use ratatui_widgets::chart::{Axis, Chart, Dataset, GraphType, LegendPosition};
use ratatui_widgets::clear::Clear;
use ratatui_widgets::paragraph::{Paragraph, Wrap};
use ratatui_widgets::table::{Row, Table, TableState};

use super::grid::Grid;
use super::model::{Known, Model, Point, Screen, TABS};
use crate::process::{START, State};
use crate::{text, units};

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    pub colours: bool,
    pub unicode: bool,
}

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);
const HEADING: Style = BOLD.add_modifier(Modifier::UNDERLINED);

const HELP: &str = "
 q, Ctrl-C    leave
 Enter        open the chosen process
 Esc          clear the filter, or go back
 up, down     choose a row; also k and j, page up and down, home and end
 1 to 6, Tab  choose a table of the process
 s, S         sort by the next or the previous column
 r            reverse the order
 /            show only rows that contain a text; Enter ends it, Esc clears it
 p            pause or continue
 +, -         refresh half as often, or twice as often
 space        refresh now
 h, ?         show this help

 A process writes its figures on slow paths of the library. `as of` tells
 their age: an idle process with one thread writes none. `resident` and
 `threads` are the kernel's counts of now. `commensal stat --clear` removes
 what is gone.
 Press any key to continue.";

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, model: &Model, means: Means) {
    let errors = model.errors.len().min(3) as u16;
    let rows = [Constraint::Length(1), Constraint::Min(1), Constraint::Length(errors), Constraint::Length(1)];
    let [title, body, below, keys] = Layout::vertical(rows).areas(frame.area());
    let lines: Vec<Line<'_>> = model.errors.iter().map(|error| Line::raw(format!("! {error}"))).collect();
    frame.render_widget(Text::from(lines), below);
    frame.render_widget(title_of(model), title);
    match model.screen {
        Screen::List => draw_list(frame, body, model),
        Screen::One(_, tab) => draw_one(frame, body, model, tab, means),
    }
    frame.render_widget(keys_of(model, means), keys);
    if model.helps {
        draw_help(frame, body);
    }
}

fn title_of(model: &Model) -> Line<'_> {
    let mut spans = match (model.screen, model.current()) {
        (Screen::One(..), Some(known)) => vec![Span::styled(text::heading(&known.process), BOLD)],
        (Screen::One(pid, _), None) => vec![Span::styled(format!("process {pid} has no statistics page"), BOLD)],
        (Screen::List, _) => {
            let running = model.known.iter().filter(|known| known.process.state == State::Running).count();
            let gone = model.known.len() - running;
            let mut said = format!("commensal top: {running} running");
            if gone > 0 {
                said += &format!(", {gone} gone");
            }
            vec![
                Span::styled(said, BOLD),
                Span::raw(format!("; every {}", units::duration(model.pause_ms * 1_000_000))),
            ]
        }
    };
    // First, so that a narrow screen shows it.
    if model.is_paused {
        spans.insert(0, Span::styled(" PAUSED ", REVERSED));
        spans.insert(1, Span::raw(" "));
    }
    Line::from(spans)
}

fn keys_of(model: &Model, means: Means) -> Line<'_> {
    if model.types {
        return Line::from(vec![Span::styled(" filter: ", REVERSED), Span::raw(format!(" {}_", model.filter))]);
    }
    let choose = if means.unicode { "↑↓" } else { "j k" };
    let of_screen = match model.screen {
        Screen::List => [(choose, "choose"), ("Enter", "open")],
        Screen::One(..) => [("Esc", "back"), ("1-6", "show")],
    };
    let always = [("s", "sort"), ("r", "reverse"), ("/", "filter"), ("p", "pause"), ("?", "help")];
    let keys = [("q", "quit")].into_iter().chain(of_screen).chain(always);
    let keys = keys.flat_map(|(key, what)| [Span::styled(format!(" {key}"), BOLD), Span::raw(format!(" {what} "))]);
    // First: what is left out has to be seen on a narrow screen, too.
    let filter = (!model.filter.is_empty()).then(|| Span::styled(format!(" only {:?} ", model.filter), REVERSED));
    Line::from(filter.into_iter().chain(keys).collect::<Vec<_>>())
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    if model.known.is_empty() {
        let said = format!("\nno process has a statistics page: {START}");
        return frame.render_widget(Paragraph::new(said).wrap(Wrap::default()), area);
    }
    draw_grid(frame, area, model, &model.grid());
}

fn draw_one(frame: &mut Frame<'_>, area: Rect, model: &Model, tab: usize, means: Means) {
    let [tabs, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
    let names = TABS.iter().enumerate().flat_map(|(number, other)| {
        let style = if number == tab { REVERSED } else { Style::new() };
        [Span::styled(format!(" {} {} ", number + 1, other.name), style), Span::raw(" ")]
    });
    frame.render_widget(Line::from(names.collect::<Vec<_>>()), tabs);
    let (Some(known), grid) = (model.current(), model.grid()) else { return };
    // The first part of a screen is the picture, if there is room for both.
    let picture_rows = if tab == 0 && means.unicode && body.height >= 16 { body.height * 2 / 5 } else { 0 };
    let [picture, rest] = Layout::vertical([Constraint::Length(picture_rows), Constraint::Min(1)]).areas(body);
    if picture_rows > 0 {
        draw_history(frame, picture, known, means);
    }
    if grid.rows.is_empty() {
        let what = if model.filter.is_empty() { TABS[tab].nothing } else { "no row contains the text" };
        frame.render_widget(Paragraph::new(format!("\n {what}")), rest);
    } else {
        draw_grid(frame, rest, model, &grid);
    }
}

fn draw_grid(frame: &mut Frame<'_>, area: Rect, model: &Model, grid: &Grid) {
    // Keys are cut, too, where the screen is narrower than the first column.
    let widths = grid.widths(area.width);
    let order = model.order();
    let aligned = |text: &str, column: usize| {
        let line = Line::raw(text.to_owned());
        if grid.is_words(column) { line.left_aligned() } else { line.right_aligned() }
    };
    let headings = (0..widths.len()).map(|column| {
        let style = if order.is_some_and(|order| order.column == column) { HEADING } else { BOLD };
        aligned(&grid.headings[column], column).style(style)
    });
    let rows = grid.rows.iter().map(|(_, cells)| {
        Row::new(cells.iter().take(widths.len()).enumerate().map(|(column, cell)| aligned(cell.text(), column)))
    });
    let table = Table::new(rows, widths.iter().copied())
        .header(Row::new(headings))
        .column_spacing(2)
        .row_highlight_style(REVERSED);
    let mut state = TableState::new().with_selected(Some(model.chosen));
    frame.render_stateful_widget(table, area, &mut state);
}

/// Memory over time. Lines differ by what they are drawn with, and by colour where there is any.
fn draw_history(frame: &mut Frame<'_>, area: Rect, known: &Known, means: Means) {
    let (Some(first), Some(last)) = (known.history.front(), known.history.back()) else { return };
    let points = |value: fn(&Point) -> f64| {
        known.history.iter().map(|point| (point.at_s - last.at_s, value(point))).collect::<Vec<_>>()
    };
    let (resident, held, in_use) =
        (points(|point| point.resident), points(|point| point.held), points(|point| point.in_use));
    let most = [&resident, &held, &in_use].into_iter().flatten().map(|&(_, value)| value).fold(1.0, f64::max);
    let coloured = |colour| if means.colours { Style::new().fg(colour) } else { Style::new() };
    let line = |name: &'static str, points, marker, colour| {
        Dataset::default().name(name).data(points).marker(marker).graph_type(GraphType::Line).style(coloured(colour))
    };
    let lines = vec![
        line("resident, dots", &resident, Marker::Dot, Color::Yellow),
        line("held, blocks", &held, Marker::HalfBlock, Color::Blue),
        line("in use, fine", &in_use, Marker::Braille, Color::Green),
    ];
    // At least a minute, so that a line does not jump at first.
    let seconds = (last.at_s - first.at_s).max(60.0);
    let x = Axis::default()
        .bounds([-seconds, 0.0])
        .labels([format!("{} ago", units::duration((seconds * 1e9) as u64)), "now".to_owned()]);
    let y = Axis::default().bounds([0.0, most * 1.05]).labels([
        "0".to_owned(),
        units::bytes((most / 2.0) as u64),
        units::bytes(most as u64),
    ]);
    let chart = Chart::new(lines)
        .x_axis(x)
        .y_axis(y)
        .legend_position(Some(LegendPosition::TopLeft))
        .hidden_legend_constraints((Constraint::Ratio(1, 1), Constraint::Ratio(1, 1)));
    frame.render_widget(chart, area);
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(HELP), area);
}
