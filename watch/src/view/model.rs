//! What the live view shows: a state, changed by keys and by readings of pages. It draws nothing and reads nothing.

use std::collections::{HashMap, VecDeque};

use commensal::observe::figures::{Cache, Group, Lock, Row, Slot, TABLES};
use commensal::observe::page::AnyRow;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::grid::{Cell, Grid, Order};
use crate::process::{Process, State, now_ns};
use crate::units;

/// Points of a process's history: ten minutes, once in a second.
const HISTORY: usize = 600;
/// The shortest and the longest time between two looks, in milliseconds.
const SHORTEST_MS: u64 = 100;
const LONGEST_MS: u64 = 60_000;

/// What is shown of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tab {
    /// Memory over time.
    Memory,
    /// Caches, as in slabtop.
    Caches,
    /// Magazines and page lists of slots.
    Slots,
    /// Memory groups.
    Groups,
    /// Lock contention.
    Locks,
    /// Kicks, upkeep and RCU.
    Activity,
}

impl Tab {
    /// All of them, with their names.
    pub const ALL: [(Tab, &'static str); 6] = [
        (Tab::Memory, "memory"),
        (Tab::Caches, "caches"),
        (Tab::Slots, "slots"),
        (Tab::Groups, "groups"),
        (Tab::Locks, "locks"),
        (Tab::Activity, "activity"),
    ];
}

/// What is on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Screen {
    /// All processes.
    List,
    /// One process.
    One(u32, Tab),
}

/// Memory at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When it was read, in seconds on the machine's monotonic clock.
    pub at_s: f64,
    /// Bytes in use.
    pub in_use: f64,
    /// Bytes of runs in use and free ones that the kernel has not got back.
    pub held: f64,
    /// Bytes in memory, as the kernel counts them.
    pub resident: f64,
}

/// A process, and what it was like before.
#[derive(Debug)]
pub struct Known {
    /// What was read last.
    pub process: Process,
    /// The page before that one.
    pub before: Option<Process>,
    /// Its memory, the last points of it.
    pub history: VecDeque<Point>,
}

/// The state.
#[derive(Debug)]
pub struct Model {
    /// What is on the screen.
    pub screen: Screen,
    /// The row that is chosen.
    pub chosen: usize,
    /// How each table is sorted, where it is not as usual.
    orders: HashMap<Option<Tab>, Order>,
    /// What rows have to contain.
    pub filter: String,
    /// Whether the filter is being typed.
    pub types: bool,
    /// Whether pages are not looked at.
    pub is_paused: bool,
    /// Whether keys are explained.
    pub helps: bool,
    /// Milliseconds between two looks.
    pub pause_ms: u64,
    /// Processes by number.
    pub known: Vec<Known>,
    /// What could not be read.
    pub errors: Vec<String>,
    /// Whether only one process is looked at.
    is_single: bool,
}

/// What a key asks for beyond the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing.
    Stay,
    /// To look at the pages at once.
    Look,
    /// To leave.
    Quit,
}

impl Model {
    /// All processes, or one.
    pub fn new(pid: Option<u32>, pause_ms: u64) -> Self {
        Model {
            screen: pid.map_or(Screen::List, |pid| Screen::One(pid, Tab::Memory)),
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

    /// Does what a key says.
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
            KeyCode::BackTab | KeyCode::Left => self.turn_page(Tab::ALL.len() - 1),
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
            (Screen::List, _) => list(&self.known),
            (Screen::One(_, tab), Some(known)) => known.grid(tab),
            (Screen::One(..), None) => Grid::default(),
        }
    }

    /// How the table on the screen is sorted; none: it is as it is.
    pub fn order(&self) -> Option<Order> {
        let tab = self.tab();
        let usual = match tab {
            None => "in use",
            Some(Tab::Caches) => "span",
            Some(Tab::Locks) => "total wait",
            Some(Tab::Groups) => "charged",
            Some(Tab::Memory | Tab::Slots | Tab::Activity) => "",
        };
        let usual = || {
            let column = self.unsorted().headings.iter().position(|heading| heading == usual)?;
            Some(Order { column, rises: false })
        };
        self.orders.get(&tab).copied().or_else(usual)
    }

    fn tab(&self) -> Option<Tab> {
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
            self.go_to(Screen::One(pid, Tab::Memory));
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
            let number = Tab::ALL.iter().position(|&(other, _)| other == tab).unwrap_or(0);
            self.show((number + by) % Tab::ALL.len());
        }
    }

    fn show(&mut self, number: usize) {
        if let Screen::One(pid, _) = self.screen {
            self.go_to(Screen::One(pid, Tab::ALL[number].0));
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

    /// Seconds between the two pages.
    fn passed_s(&self) -> f64 {
        let ended_ns = |process: &Process| process.said.snapshot().ended_ns();
        let passed = |before| ended_ns(&self.process).saturating_sub(before) as f64 / 1e9;
        self.before.as_ref().map(ended_ns).filter(|&before| before > 0).map_or(0.0, passed)
    }

    fn grid(&self, tab: Tab) -> Grid {
        match tab {
            Tab::Caches => self.table(Cache::NUMBER),
            Tab::Slots => self.table(Slot::NUMBER),
            Tab::Groups => self.table(Group::NUMBER),
            Tab::Locks => self.table(Lock::NUMBER),
            Tab::Memory => self.figures(|topic| topic == "memory"),
            Tab::Activity => self.figures(|topic| topic != "memory"),
        }
    }

    fn table(&self, number: usize) -> Grid {
        let table = &TABLES[number];
        let before = self.before.as_ref().map(|before| keyed(before, number)).unwrap_or_default();
        let mut grid = Grid::of(table, &keyed(&self.process, number), &before, self.passed_s(), now_ns());
        if !table.numbered.is_empty() {
            grid.headings.insert(0, table.numbered.to_owned());
            for (row, (_, cells)) in grid.rows.iter_mut().enumerate() {
                cells.insert(0, Cell::Number(row.to_string(), row as f64));
            }
        }
        grid
    }

    /// Figures of the process, one a row.
    fn figures(&self, is_shown: fn(&str) -> bool) -> Grid {
        let whole = self.table(0);
        let (headings, cells) =
            (whole.headings, whole.rows.into_iter().next().map(|(_, cells)| cells).unwrap_or_default());
        let rate = |name: &str| {
            let column = headings.iter().position(|heading| heading.strip_suffix("/s") == Some(name));
            column.map_or(Cell::Number(String::new(), 0.0), |column| cells[column].clone())
        };
        let shown =
            TABLES[0].figures.iter().zip(&cells).zip(&headings).filter(|((figure, _), _)| is_shown(figure.topic));
        let rows = shown.map(|((figure, cell), name)| {
            let says = Cell::Word(figure.says.trim_end_matches('.').to_owned());
            (figure.name.to_owned(), vec![Cell::Word(name.clone()), cell.clone(), rate(name), says])
        });
        let rows = rows.collect();
        Grid { headings: ["figure", "value", "per second", "meaning"].map(str::to_owned).to_vec(), rows }
    }
}

/// The rows of a table, by keys that tell them apart: there may be several groups and caches of one name.
fn keyed(process: &Process, table: usize) -> Vec<(String, AnyRow<'_>)> {
    let mut seen = HashMap::new();
    let keyed = process.rows(table).map(|row| {
        let name = row.texts().collect::<Vec<_>>().join("\n");
        let times: &mut u32 = seen.entry(name.clone()).or_default();
        *times += 1;
        (format!("{name}\n{times}"), row)
    });
    keyed.collect()
}

/// All processes.
fn list(known: &[Known]) -> Grid {
    let headings =
        ["pid", "program", "state", "as of", "in use", "peak", "cached", "resident", "threads", "kicks", "command"];
    let rows = known.iter().map(|Known { process, .. }| {
        let (figures, kernel) = (process.figures(), process.kernel.clone().unwrap_or_default());
        let bytes = |value: u64| Cell::Number(units::bytes(value), value as f64);
        let count = |value: u64| Cell::Number(units::count(value), value as f64);
        let cells = vec![
            Cell::Number(process.pid.to_string(), process.pid.into()),
            Cell::Word(process.name()),
            Cell::Word(process.state.word().to_owned()),
            Cell::Number(units::duration(process.age_ns()), process.age_ns() as f64),
            bytes(figures.in_use_bytes),
            bytes(figures.peak_bytes),
            bytes(figures.cached_bytes),
            bytes(kernel.resident_bytes),
            count(kernel.threads),
            count(figures.kicks),
            Cell::Word(kernel.command),
        ];
        (process.pid.to_string(), cells)
    });
    Grid { headings: headings.map(str::to_owned).to_vec(), rows: rows.collect() }
}
