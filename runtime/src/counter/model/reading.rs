//! A reading after the upgrade: two cells, which the lock's holder closes and of which it opens one again, while one thread draws and one
//! reads.

#![cfg(test)]

use super::{World, must_find};
use std::vec;
use std::vec::Vec;

/// What is done differently, in order to be found.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Variant {
    AsItIs,
    /// The reader does not look at the sequence again.
    NotLookedAgain,
    /// The holder says nothing of what it does.
    NotAnnounced,
    /// What is seen in motion is taken for too large by one full stock at most, instead of adding up.
    OneStockTooLarge,
    /// The sum of edges is raised before the motion is announced.
    AnnouncedLate,
}

const OFF: &str = "the truth is not within the bound";

const CELLS: usize = 2;
/// Half of the range that stocks are below.
const BATCH: i32 = 2;
/// What each cell has at first.
const FULL: i32 = 2 * BATCH - 1;
const TRIES: u8 = 2;

/// What the holder does, in the order of `settle` and `restock`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Move {
    Announce,
    TakeStock(usize),
    CountClosed,
    Lower(usize),
    Raise,
    CountOpened,
    PutStock(usize),
    End,
}

/// What the reader does next.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Look {
    Sequence,
    Edges,
    Opened,
    SequenceAgain,
    /// Adds up the cells, from this one on.
    Cell(usize),
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Cell {
    edge: i32,
    stock: i32,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Counter {
    variant: Variant,
    cells: [Cell; CELLS],
    sequence: u32,
    edges: i32,
    opened: i32,
    /// What the holder has still to do, the last one first; and what it took out of each cell.
    moves: Vec<Move>,
    taken: [i32; CELLS],
    /// From which cells one is drawn, the last one first.
    draws: Vec<usize>,
    look: Look,
    tries: u8,
    seen: (u32, i32, i32),
    sum: i32,
    /// What was added when the reader began.
    before: i32,
    wrong: Option<&'static str>,
}

/// Two full cells, one of which is closed, and the other one too; then the first is opened again.
fn counter(variant: Variant) -> Counter {
    use Move::*;
    let mut moves = vec![Announce];
    (0..CELLS).for_each(|cell| moves.extend([TakeStock(cell), CountClosed, Lower(cell)]));
    moves.extend([End, Announce, Raise, CountOpened, PutStock(0), End]);
    if variant == Variant::AnnouncedLate {
        // Of the opening alone.
        let opening = moves.iter().rposition(|&step| step == Announce).expect("it is announced");
        moves.swap(opening, opening + 1);
    }
    moves.reverse();
    let cell = Cell { edge: FULL, stock: FULL };
    Counter {
        variant,
        cells: [cell; CELLS],
        sequence: 0,
        edges: CELLS as i32 * FULL,
        opened: CELLS as i32,
        moves,
        taken: [0; CELLS],
        draws: vec![0, 1, 0],
        look: Look::Sequence,
        tries: 0,
        seen: (0, 0, 0),
        sum: 0,
        before: 0,
        wrong: None,
    }
}

impl World for Counter {
    fn steps(&self) -> Vec<Self> {
        let step = |act: fn(&mut Self)| {
            let mut changed = self.clone();
            act(&mut changed);
            changed
        };
        let can = [!self.moves.is_empty(), !self.draws.is_empty(), self.look != Look::Done];
        let acts: [fn(&mut Self); 3] = [Self::hold, Self::draw, Self::read];
        can.into_iter().zip(acts).filter(|(can, _)| *can).map(|(_, act)| step(act)).collect()
    }

    fn wrong(&self, _: bool) -> Option<&'static str> {
        self.wrong
    }
}

impl Counter {
    fn added(&self) -> i32 {
        self.cells.iter().map(|cell| cell.edge - cell.stock).sum()
    }

    fn hold(&mut self) {
        match self.moves.pop().expect("there is something to do") {
            Move::Announce | Move::End if self.variant == Variant::NotAnnounced => {}
            Move::Announce => self.sequence |= 1,
            Move::End => self.sequence += 1,
            Move::TakeStock(at) => {
                let cell = &mut self.cells[at];
                (self.taken[at], cell.edge, cell.stock) = (cell.stock, cell.edge - cell.stock, 0);
            }
            Move::CountClosed => self.opened -= 1,
            Move::Lower(at) => self.edges -= self.taken[at],
            Move::Raise => self.edges += BATCH,
            Move::CountOpened => self.opened += 1,
            Move::PutStock(at) => {
                self.cells[at].edge += BATCH;
                self.cells[at].stock += BATCH;
            }
        }
    }

    /// One, if there is any: else it would go past the cells.
    fn draw(&mut self) {
        let cell = &mut self.cells[self.draws.pop().expect("there is something to draw")];
        cell.stock -= i32::from(cell.stock > 0);
    }

    fn read(&mut self) {
        self.look = match self.look {
            Look::Sequence => {
                if self.tries == 0 {
                    self.before = self.added();
                }
                self.seen.0 = self.sequence;
                Look::Edges
            }
            Look::Edges => {
                self.seen.1 = self.edges;
                Look::Opened
            }
            Look::Opened => {
                self.seen.2 = self.opened;
                Look::SequenceAgain
            }
            Look::SequenceAgain => {
                let is_steady = self.seen.0.is_multiple_of(2) && self.sequence == self.seen.0;
                let error = self.seen.2 * BATCH;
                self.tries += 1;
                if is_steady || self.variant == Variant::NotLookedAgain {
                    self.judge(self.seen.1 - error, error)
                } else if self.tries < TRIES {
                    Look::Sequence
                } else if self.variant == Variant::OneStockTooLarge {
                    self.judge(self.seen.1 - error, error + 2 * BATCH)
                } else {
                    Look::Cell(0)
                }
            }
            Look::Cell(CELLS) => self.judge(self.sum, 0),
            Look::Cell(at) => {
                self.sum += self.cells[at].edge - self.cells[at].stock;
                Look::Cell(at + 1)
            }
            Look::Done => Look::Done,
        };
    }

    /// What was added only grows, so some moment of the reading must have had what the bound allows.
    fn judge(&mut self, value: i32, error: i32) -> Look {
        if value + error < self.before || value - error > self.added() {
            self.wrong = Some(OFF);
        }
        Look::Done
    }
}

#[test]
fn readings_are_within_their_bound() {
    must_find("as it is", &counter(Variant::AsItIs), &[]);
}

#[test]
fn planted_variants_of_the_reading_are_found() {
    must_find("not looked again", &counter(Variant::NotLookedAgain), &[OFF]);
    must_find("not announced", &counter(Variant::NotAnnounced), &[OFF]);
    must_find("one stock too large", &counter(Variant::OneStockTooLarge), &[OFF]);
    must_find("announced late", &counter(Variant::AnnouncedLate), &[OFF]);
}
