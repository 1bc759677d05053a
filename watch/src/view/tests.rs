//! Screens, drawn into a buffer, and what keys do.

use insta::assert_snapshot;
use ratatui_core::backend::TestBackend;
use ratatui_core::buffer::Buffer;
use ratatui_core::style::{Color, Modifier};
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use commensal_runtime::observe::figures::{Group, TABLES};
use commensal_runtime::observe::page::Text;

use super::draw::{Means, draw};
use super::model::{Model, Screen, Wish};
use crate::page::Copied;
use crate::process::{Process, State};
use crate::sample;

const PLAIN: Means = Means { colours: false, unicode: true };

fn drawn(model: &Model, means: Means, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model, means)).unwrap();
    terminal.backend().buffer().clone()
}

/// What is read on a screen, without blanks at the ends of lines.
fn text(model: &Model, means: Means, width: u16, height: u16) -> String {
    let buffer = drawn(model, means, width, height);
    let rows = buffer.content().chunks(usize::from(width));
    let line = |cells: &[ratatui_core::buffer::Cell]| {
        cells.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()
    };
    rows.map(|row| line(row) + "\n").collect()
}

fn press(model: &mut Model, keys: &[KeyCode]) -> Wish {
    keys.iter().fold(Wish::Stay, |_, &key| model.press(KeyEvent::from(key)))
}

fn letters(model: &mut Model, keys: &str) -> Wish {
    press(model, &keys.chars().map(KeyCode::Char).collect::<Vec<_>>())
}

fn gone(pid: u32) -> Process {
    Process { state: State::Gone, kernel: None, ..sample::process(pid, 0) }
}

/// Two processes, of which one is read twice.
fn model() -> Model {
    let mut model = Model::new(None, 1000);
    model.take(vec![sample::process(101, 0), gone(7)], Vec::new());
    model.take(vec![gone(7), sample::process(101, 1)], vec!["/run/x/3: cut off".to_owned()]);
    model
}

#[test]
fn list_screen_matches_the_snapshot() {
    assert_snapshot!(text(&model(), PLAIN, 80, 24));
}

#[test]
fn figures_of_a_process_are_on_its_first_and_its_last_page() {
    let mut model = model();
    press(&mut model, &[KeyCode::Home, KeyCode::Enter]);
    assert_eq!(model.screen, Screen::One(101, 0));
    let mut figures = Vec::new();
    for key in ["1", "6"] {
        letters(&mut model, key);
        figures.extend(model.grid().rows.into_iter().map(|(name, _)| name));
    }
    assert!(figures.iter().eq(TABLES[0].figures.iter().map(|figure| figure.name)), "{figures:?}");
}

#[test]
fn help_and_filter() {
    let mut model = model();
    letters(&mut model, "?");
    assert_snapshot!("help", text(&model, PLAIN, 80, 24));
    letters(&mut model, "x");
    letters(&mut model, "/gone");
    assert_snapshot!("filter", text(&model, PLAIN, 80, 24));
    // Letters belong to the filter, also those that mean something else.
    assert_eq!(letters(&mut model, "q"), Wish::Stay);
    assert_eq!(model.filter, "goneq");
    press(&mut model, &[KeyCode::Backspace, KeyCode::Enter]);
    assert_eq!((model.filter.as_str(), model.grid().rows.len()), ("gone", 1));
    assert!(text(&model, PLAIN, 40, 10).ends_with("\n only \"gone\"  q quit  ↑↓ choose  Enter o\n"));
    // It goes with Esc, before anything else does.
    assert_eq!(press(&mut model, &[KeyCode::Esc]), Wish::Look);
    assert_eq!(model.grid().rows.len(), 2);
    assert_eq!(press(&mut model, &[KeyCode::Esc]), Wish::Quit);
}

#[test]
fn view_draws_on_a_screen_of_any_size() {
    let mut model = model();
    for (width, height) in [(1, 1), (3, 2), (10, 4), (40, 10), (79, 23), (300, 100)] {
        for keys in ["", "?", " ", "1", "2", "3", "4", "5", "6"] {
            letters(&mut model, keys);
            drawn(&model, PLAIN, width, height);
        }
        press(&mut model, &[KeyCode::Enter]);
    }
}

#[test]
fn colours_and_letters_beyond_ascii_are_where_they_are_wanted_only() {
    let mut model = Model::new(Some(101), 1000);
    model.take(vec![sample::process(101, 0)], Vec::new());
    model.take(vec![sample::process(101, 1)], Vec::new());
    let colours = |means| {
        drawn(&model, means, 100, 30)
            .content()
            .iter()
            .filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
            .count()
    };
    assert!(colours(Means { colours: true, unicode: true }) > 0);
    assert_eq!(colours(PLAIN), 0);
    assert!(!text(&model, PLAIN, 100, 30).is_ascii());
    let ascii = text(&model, Means { colours: false, unicode: false }, 100, 30);
    assert!(ascii.is_ascii(), "{ascii}");
}

/// What stands out as the column by which rows are sorted.
fn underlined(model: &Model) -> String {
    let buffer = drawn(model, PLAIN, 80, 24);
    let cells = buffer.content().iter().filter(|cell| cell.modifier.contains(Modifier::UNDERLINED));
    cells.map(|cell| cell.symbol()).collect::<String>().trim().to_owned()
}

#[test]
fn keys_change_what_is_shown() {
    let mut model = model();
    assert_eq!(underlined(&model), "in use");
    let first = |model: &Model| model.grid().rows[0].0.clone();
    // By bytes in use, the most first.
    assert_eq!(first(&model), "101");
    letters(&mut model, "r");
    assert_eq!(first(&model), "7");
    letters(&mut model, "rS");
    assert_eq!(underlined(&model), "as of");
    press(&mut model, &[KeyCode::Down, KeyCode::Down, KeyCode::Down]);
    assert_eq!(model.chosen, 1);
    press(&mut model, &[KeyCode::PageUp]);
    assert_eq!(model.chosen, 0);
    letters(&mut model, "p");
    assert!(model.is_paused);
    letters(&mut model, "++");
    assert_eq!(model.pause_ms, 4000);
    letters(&mut model, "----------");
    assert_eq!(model.pause_ms, 100);
    assert_eq!(letters(&mut model, " "), Wish::Look);
    assert_eq!(model.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Wish::Quit);
    assert_eq!(letters(&mut model, "q"), Wish::Quit);
    // Pages of a process go round.
    press(&mut model, &[KeyCode::Enter, KeyCode::BackTab]);
    assert!(matches!(model.screen, Screen::One(_, 5)), "{:?}", model.screen);
    press(&mut model, &[KeyCode::Tab]);
    assert!(matches!(model.screen, Screen::One(_, 0)), "{:?}", model.screen);
    letters(&mut model, "2");
    assert_eq!(underlined(&model), "span");
    assert_eq!(press(&mut model, &[KeyCode::Esc]), Wish::Look);
    assert_eq!(model.screen, Screen::List);
}

/// A process that is looked at stays on the screen when it has gone; others do not.
#[test]
fn processes_come_and_go() {
    let mut list = Model::new(None, 1000);
    list.take(vec![sample::process(101, 0), gone(7)], Vec::new());
    list.take(vec![gone(7)], Vec::new());
    assert_eq!(list.known.len(), 1);
    for _ in 0..700 {
        list.take(vec![sample::process(101, 0)], Vec::new());
    }
    assert_eq!(list.known[0].history.len(), 600);
}

#[test]
fn ended_process_is_shown_as_gone_with_its_last_figures() {
    let mut model = Model::new(Some(101), 1000);
    model.take(vec![sample::process(101, 0)], Vec::new());
    // A page that cannot be read just now says nothing of its process.
    model.take(Vec::new(), vec!["/run/x/101: cut off".to_owned()]);
    let screen = text(&model, PLAIN, 80, 24);
    assert!(screen.starts_with("sample (101), running; as of "), "{screen}");
    assert!(screen.contains("\n! /run/x/101: cut off\n q quit"), "{screen}");
    model.end(101);
    let screen = text(&model, PLAIN, 80, 24);
    assert!(screen.starts_with("sample (101), gone; as of 1.00 h ago, the last write of its page\n"), "{screen}");
    let in_use = screen.lines().find(|line| line.starts_with("in use "));
    assert!(in_use.is_some_and(|line| line.contains(" 9.54 MiB ")), "{screen}");
    // The number was given to another one.
    let mut other = sample::process(101, 0);
    other.said = Copied::from_bytes(sample::page_made_at(8, 101, 1000, 0));
    model.take(vec![other], Vec::new());
    assert_eq!((model.known.len(), model.known[0].history.len()), (1, 1));
    assert!(text(&model, PLAIN, 80, 24).starts_with("sample (101), running"));
}

/// Groups may have the same name: how fast one is refused is not told of another.
#[test]
fn groups_of_one_name_have_rates_of_their_own() {
    let of_groups = |round: u64| {
        let refused = [(10, "a"), (500, "a"), (7, "b")].into_iter();
        let rows =
            refused.map(|(refused, name)| Group { name: Text::of(name), refused: refused * round, ..Group::NONE });
        sample::process_of("sample", round * 1_000_000_000, rows.collect::<Vec<_>>().into_iter())
    };
    let mut model = Model::new(Some(101), 1000);
    letters(&mut model, "4");
    model.take(vec![of_groups(1)], Vec::new());
    model.take(vec![of_groups(2)], Vec::new());
    let grid = model.grid();
    let column = grid.headings.iter().position(|heading| heading == "refused/s").unwrap();
    let mut rates: Vec<&str> = grid.rows.iter().map(|(_, cells)| cells[column].text()).collect();
    rates.sort();
    assert_eq!(rates, ["10", "500", "7"]);
}

#[test]
fn processes_of_one_number_have_their_own_history() {
    let mut model = Model::new(None, 1000);
    let other =
        || Process { said: Copied::from_bytes(sample::page_made_at(8, 101, 1000, 1)), ..sample::process(101, 0) };
    for _ in 0..3 {
        model.take(vec![sample::process(101, 0), other()], Vec::new());
        model.take(vec![other(), sample::process(101, 0)], Vec::new());
    }
    assert_eq!(model.known.iter().map(|known| known.history.len()).collect::<Vec<_>>(), [6, 6]);
    for known in &model.known {
        let own = known.process.figures().in_use_bytes as f64;
        assert!(known.history.iter().all(|point| point.in_use == own), "{own}: {:?}", known.history);
    }
}
