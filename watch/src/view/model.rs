//! What the live view shows: a state, changed by keys and by readings of pages. It draws nothing and reads nothing.

use std::collections::{HashMap, VecDeque};

use commensal_runtime::observe::figures::{Cache, Group, Kind, Lock, Row, Slot, TABLES};
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::grid::{Cell, Grid, Order, heading_of};
use crate::process::{Process, State, now_ns};

/// Points of a process's history: ten minutes, once in a second.
const HISTORY: usize = 600;
/// The shortest and the longest time between two looks, in milliseconds.
const SHORTEST_MS: u64 = 100;
const LONGEST_MS: u64 = 60_000;

/// A table of a process that has a screen.
#[derive(Debug)]
pub struct Tab {
    pub name: &'static str,
    /// What its screen says if it has no rows.
    pub nothing: &'static str,
    /// The heading of the column by which it is sorted, the largest first; empty: it is as it is.
    sorted_by: &'static str,
    grid: fn(&Known) -> Grid,
}

impl Tab {
    const fn new(name: &'static str, sorted_by: &'static str, nothing: &'static str, grid: fn(&Known) -> Grid) -> Self {
        Tab { name, nothing, sorted_by, grid }
    }
}

/// Topics of the first tab.
const OF_MEMORY: [&str; 2] = ["memory", "limits"];
const NOTHING: &str = "nothing to show yet";

/// All of them. The first one also has memory over time.
pub static TABS: [Tab; 6] = [
    Tab::new("memory", "", NOTHING, |known| known.figures(|topic| OF_MEMORY.contains(&topic))),
    Tab::new("caches", "span", NOTHING, |known| known.table(Cache::NUMBER)),
    Tab::new("slots", "", NOTHING, |known| known.table(Slot::NUMBER)),
    Tab::new("groups", "charged", "the program has no memory groups", |known| known.table(Group::NUMBER)),
    Tab::new("locks", "total wait", "no thread has waited for a lock", |known| known.table(Lock::NUMBER)),
    Tab::new("activity", "", NOTHING, |known| known.figures(|topic| !OF_MEMORY.contains(&topic))),
];

/// What is on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Screen {
    List,
    /// One process, and the number of a tab.
    One(u32, usize),
}

/// Memory at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When it was read, in seconds on the machine's monotonic clock.
    pub at_s: f64,
    pub in_use: f64,
    /// Bytes of runs in use and free ones that the kernel has not got back.
    pub held: f64,
    pub resident: f64,
}

/// A process, and what it was like before.
#[derive(Debug)]
pub struct Known {
    pub process: Process,
    /// The page before that one.
    pub before: Option<Process>,
    pub history: VecDeque<Point>,
}

#[derive(Debug)]
pub struct Model {
    pub screen: Screen,
    pub chosen: usize,
    /// How each table is sorted, where it is not as usual.
    orders: HashMap<Option<usize>, Order>,
    /// What rows have to contain.
    pub filter: String,
    /// Whether the filter is being typed.
    pub types: bool,
    pub is_paused: bool,
    /// Whether keys are explained.
    pub helps: bool,
    pub pause_ms: u64,
    /// Processes by number.
    pub known: Vec<Known>,
    pub errors: Vec<String>,
    is_single: bool,
}

/// What a key asks for beyond the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Stay,
    Look,
    Quit,
}

impl Model {
    /// All processes, or one.
    pub fn new(pid: Option<u32>, pause_ms: u64) -> Self {
        Model {
            screen: pid.map_or(Screen::List, |pid| Screen::One(pid, 0)),
            chosen: 0,
            orders: HashMap::new(),
            filter: String::new(),
            types: false,
            is_paused: false,
            helps: false,
            pause_ms: pause_ms.clamp(SHORTEST_MS, LONGEST_MS),
            known: Vec::new(),
            errors: Vec::new(),
            is_single: pid.is_some(),
        }
    }

    /// Takes what was read; a process that was not read any more stays for as long as it is looked at.
    pub fn take(&mut self, processes: Vec<Process>, errors: Vec<String>) {
        let mut old = std::mem::take(&mut self.known);
        for process in processes {
            let place = old.iter().position(|known| is_same(&known.process, &process));
            let known = match place.map(|place| old.swap_remove(place)) {
                Some(known) => known.followed_by(process),
                None => Known { before: None, history: VecDeque::new(), process }.noted(),
            };
            self.known.push(known);
        }
        if let Screen::One(pid, _) = self.screen {
            let is_read = self.known.iter().any(|known| known.process.pid == pid);
            self.known.extend(old.into_iter().filter(|known| !is_read && known.process.pid == pid));
        }
        self.known.sort_by_key(|known| known.process.pid);
        self.errors = errors;
        self.stay_inside();
    }

    /// A process has ended without leaving a page: what it said last stays.
    pub fn end(&mut self, pid: u32) {
        for known in self.known.iter_mut().filter(|known| known.process.pid == pid) {
            (known.process.state, known.process.kernel) = (State::Gone, None);
        }
    }

    pub fn press(&mut self, key: KeyEvent) -> Wish {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Wish::Quit } else { Wish::Stay };
        }
        if self.types {
            self.type_filter(key.code);
            return Wish::Stay;
        }
        if self.helps {
            self.helps = false;
            return Wish::Stay;
        }
        match key.code {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Esc => return self.go_back(),
            KeyCode::Char('h' | '?') => self.helps = true,
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Char('/') => self.types = true,
            KeyCode::Char('s') => self.sort_by_next(1),
            KeyCode::Char('S') => self.sort_by_next(-1),
            KeyCode::Char('r') => self.turn_order(),
            KeyCode::Char('+') => self.pause_ms = (self.pause_ms * 2).min(LONGEST_MS),
            KeyCode::Char('-') => self.pause_ms = (self.pause_ms / 2).max(SHORTEST_MS),
            KeyCode::Char(' ') => return Wish::Look,
            KeyCode::Up | KeyCode::Char('k') => self.choose(-1),
            KeyCode::Down | KeyCode::Char('j') => self.choose(1),
            KeyCode::PageUp => self.choose(-10),
            KeyCode::PageDown => self.choose(10),
            KeyCode::Home => self.chosen = 0,
            KeyCode::End => self.choose(isize::MAX),
            KeyCode::Enter => self.open(),
            KeyCode::Tab | KeyCode::Right => self.turn_page(1),
            KeyCode::BackTab | KeyCode::Left => self.turn_page(TABS.len() - 1),
            KeyCode::Char(digit @ '1'..='6') => self.show(digit as usize - '1' as usize),
            _ => {}
        }
        Wish::Stay
    }

    /// The process on the screen.
    pub fn current(&self) -> Option<&Known> {
        match self.screen {
            Screen::One(pid, _) => self.known.iter().find(|known| known.process.pid == pid),
            Screen::List => None,
        }
    }

    /// The table on the screen, sorted and filtered.
    pub fn grid(&self) -> Grid {
        let mut grid = self.unsorted();
        grid.filter(&self.filter);
        if let Some(order) = self.order() {
            grid.sort(order);
        }
        grid
    }

    fn unsorted(&self) -> Grid {
        match (self.screen, self.current()) {
            (Screen::List, _) => Grid::list(self.known.iter().map(|known| &known.process)),
            (Screen::One(_, tab), Some(known)) => (TABS[tab].grid)(known),
            (Screen::One(..), None) => Grid::default(),
        }
    }

    /// How the table on the screen is sorted; none: it is as it is.
    pub fn order(&self) -> Option<Order> {
        let tab = self.tab();
        let usual = tab.map_or("in use", |tab| TABS[tab].sorted_by);
        let usual = || {
            let column = self.unsorted().headings.iter().position(|heading| heading == usual)?;
            Some(Order { column, rises: false })
        };
        self.orders.get(&tab).copied().or_else(usual)
    }

    fn tab(&self) -> Option<usize> {
        match self.screen {
            Screen::List => None,
            Screen::One(_, tab) => Some(tab),
        }
    }

    fn sort_by_next(&mut self, step: isize) {
        let columns = self.grid().headings.len() as isize;
        if columns > 0 {
            let order = self.order().unwrap_or(Order { column: 0, rises: false });
            let column = (order.column as isize + step).rem_euclid(columns) as usize;
            self.orders.insert(self.tab(), Order { column, ..order });
        }
    }

    fn turn_order(&mut self) {
        let order = self.order().unwrap_or(Order { column: 0, rises: false });
        self.orders.insert(self.tab(), Order { rises: !order.rises, ..order });
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.types = false,
            KeyCode::Esc => (self.types, self.filter) = (false, String::new()),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.stay_inside();
    }

    fn choose(&mut self, step: isize) {
        self.chosen = self.chosen.saturating_add_signed(step);
        self.stay_inside();
    }

    fn stay_inside(&mut self) {
        self.chosen = self.chosen.min(self.grid().rows.len().saturating_sub(1));
    }

    fn open(&mut self) {
        let key = self.grid().rows.get(self.chosen).map(|(key, _)| key.clone());
        if let (Screen::List, Some(pid)) = (self.screen, key.and_then(|key| key.parse().ok())) {
            self.go_to(Screen::One(pid, 0));
        }
    }

    fn go_back(&mut self) -> Wish {
        match self.screen {
            _ if !self.filter.is_empty() => self.filter.clear(),
            Screen::One(..) if !self.is_single => self.go_to(Screen::List),
            _ => return Wish::Quit,
        }
        self.stay_inside();
        Wish::Look
    }

    fn go_to(&mut self, screen: Screen) {
        (self.screen, self.chosen) = (screen, 0);
        self.filter.clear();
        // They were another screen's.
        self.errors.clear();
    }

    fn turn_page(&mut self, by: usize) {
        if let Screen::One(_, tab) = self.screen {
            self.show((tab + by) % TABS.len());
        }
    }

    fn show(&mut self, number: usize) {
        if let Screen::One(pid, _) = self.screen {
            self.go_to(Screen::One(pid, number));
        }
    }
}

/// Whether two readings are of one process: a number may be given again.
fn is_same(one: &Process, other: &Process) -> bool {
    one.pid == other.pid && one.said.page().made_at_ns() == other.said.page().made_at_ns()
}

impl Known {
    /// The same process, read again.
    fn followed_by(mut self, process: Process) -> Self {
        let has_said_more = process.said.snapshot().ended_ns() > self.process.said.snapshot().ended_ns();
        let old = std::mem::replace(&mut self.process, process);
        if has_said_more {
            self.before = Some(old);
        }
        self.noted()
    }

    fn noted(mut self) -> Self {
        let figures = self.process.figures();
        self.history.push_back(Point {
            at_s: now_ns() as f64 / 1e9,
            in_use: figures.in_use_bytes as f64,
            held: (figures.run_bytes + figures.dirty_bytes) as f64,
            resident: self.process.kernel.as_ref().map_or(0, |kernel| kernel.resident_bytes) as f64,
        });
        while self.history.len() > HISTORY {
            self.history.pop_front();
        }
        self
    }

    fn table(&self, number: usize) -> Grid {
        let mut grid = Grid::of(&self.process, number);
        grid.add_rates(&self.process, number, self.before.as_ref());
        grid
    }

    /// Figures of the process, one a row.
    fn figures(&self, is_shown: fn(&str) -> bool) -> Grid {
        let mut cells = self.table(0).rows.pop().unwrap_or_default().1;
        let mut rates = cells.split_off(TABLES[0].figures.len().min(cells.len())).into_iter();
        let rows = TABLES[0].figures.iter().zip(cells).map(|(figure, value)| {
            let rate = if figure.kind == Kind::Counter { rates.next() } else { None };
            let rate = rate.unwrap_or(Cell::Number(String::new(), 0.0));
            let says = Cell::Word(figure.says.trim_end_matches('.').to_owned());
            (figure.topic, (figure.name.to_owned(), vec![Cell::Word(heading_of(figure.name)), value, rate, says]))
        });
        let rows = rows.filter(|(topic, _)| is_shown(topic)).map(|(_, row)| row).collect();
        Grid { headings: ["figure", "value", "per second", "meaning"].map(str::to_owned).to_vec(), rows }
    }
}
