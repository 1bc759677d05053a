//! Limited additions after the upgrade: one cell, and three who add.
//!
//! The *holder* has the block's lock. It adds to `direct` if the bound has room for it, closes the cell if not and tries again, and at the
//! end puts stock into the cell. The *drawer* judges the bound and draws from the cell, in a section that a restart begins again. The
//! *handler* works without the lock: on the holder's own stack, so that the holder waits for it, as the code has it; or elsewhere.

#![cfg(test)]

use super::{World, must_find};
use Step::*;
use std::vec::Vec;

/// What is done differently, in order to be found.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Variant {
    AsItIs,
    /// A cell is settled as soon as it is marked.
    NoRestart,
    /// Stock is put into the cell, then the sum of edges raised.
    RaisedLast,
    /// The bound is not looked at again after it was raised.
    NotJudgedAgain,
    /// The holder refuses without closing the cell.
    NotClosed,
    /// The handler interrupts a third thread, and works without the lock all the same.
    HandlerElsewhere,
}

const OVER: &str = "the limit was passed";
const REFUSED: &str = "an addition was refused while there was room";
const LOST: &str = "the sum is not what was added";
const UNCHARGED: &str = "the sum of edges is less than the edge";

const HOLDER: usize = 0;
const DRAWER: usize = 1;
const HANDLER: usize = 2;
const THREADS: usize = 3;
/// What the holder puts into the cell.
const BATCH: i32 = 2;

/// What a thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    /// Every judgement begins here: `direct` first, then the sum of edges.
    LoadDirect,
    Judge,
    ChangeDirect,
    Mark,
    Restart,
    Settle,
    Lower,
    Raise,
    LoadDirectAgain,
    JudgeAgain,
    Put,
    LoadLeft,
    StoreLeft,
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Thread {
    next: Step,
    /// Additions of one each that are still to be made.
    todo: i32,
    direct: i32,
    stock: i32,
    closed: bool,
}

/// The only slot's pair, and what goes with it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Counter {
    variant: Variant,
    limit: i32,
    open: bool,
    marked: bool,
    stock: i32,
    edge: i32,
    edges: i32,
    direct: i32,
    complete: i32,
    wrong: Option<&'static str>,
    threads: [Thread; THREADS],
}

/// A counter with some stock, to which each thread wants to add `todo`.
fn counter(variant: Variant, limit: i32, stock: i32, todo: [i32; THREADS]) -> Counter {
    let thread =
        |todo| Thread { next: if todo > 0 { LoadDirect } else { Done }, todo, direct: 0, stock: 0, closed: false };
    let (open, marked, edge, edges) = (stock > 0, false, stock, stock);
    let threads = todo.map(thread);
    Counter { variant, limit, open, marked, stock, edge, edges, direct: 0, complete: 0, wrong: None, threads }
}

impl World for Counter {
    fn steps(&self) -> Vec<Self> {
        let ready = |&me: &usize| self.threads[me].next != Done && !(me == HOLDER && self.handler_is_in());
        let step = |me| {
            let (mut changed, mut thread) = (*self, self.threads[me]);
            match me {
                DRAWER => changed.draws(&mut thread),
                me => changed.adds(me, &mut thread),
            }
            changed.threads[me] = thread;
            if changed.complete > self.limit {
                changed.wrong = Some(OVER);
            } else if changed.edges < changed.edge {
                changed.wrong = Some(UNCHARGED);
            }
            changed
        };
        (0..THREADS).filter(ready).map(step).collect()
    }

    fn wrong(&self, at_end: bool) -> Option<&'static str> {
        let is_exact = self.direct + self.edge == self.complete + self.stock && self.edges == self.edge;
        self.wrong.or((at_end && !is_exact).then_some(LOST))
    }
}

impl Counter {
    /// Whether the holder's stack is the handler's.
    fn handler_is_in(&self) -> bool {
        let is_in = matches!(self.threads[HANDLER].next, Judge | ChangeDirect);
        is_in && self.variant != Variant::HandlerElsewhere
    }

    /// The holder, or the handler: that one goes no further than to `direct`.
    fn adds(&mut self, me: usize, thread: &mut Thread) {
        match thread.next {
            LoadDirect => {
                thread.direct = self.direct;
                thread.next = Judge;
            }
            Judge if thread.direct + self.edges < self.limit => thread.next = ChangeDirect,
            Judge if me == HANDLER => thread.next = Done,
            Judge if thread.closed || self.variant == Variant::NotClosed => {
                if self.complete < self.limit {
                    self.wrong = Some(REFUSED);
                }
                thread.next = Done;
            }
            Judge => thread.next = if self.open { Mark } else { LoadDirect },
            ChangeDirect if self.direct != thread.direct => thread.next = LoadDirect,
            ChangeDirect => {
                self.direct += 1;
                self.complete(thread, if me == HOLDER { Raise } else { LoadDirect });
            }
            _ => return self.moves(thread),
        }
        // Nothing to close is closed.
        thread.closed |= thread.next == LoadDirect && !self.open;
    }

    /// What only the lock's holder does.
    fn moves(&mut self, thread: &mut Thread) {
        thread.next = match thread.next {
            Mark => {
                self.marked = true;
                if self.variant == Variant::NoRestart { Settle } else { Restart }
            }
            Restart => {
                self.restart();
                Settle
            }
            Settle if self.marked => {
                thread.stock = self.stock;
                (self.open, self.marked, self.edge, self.stock) = (false, false, self.edge - self.stock, 0);
                Lower
            }
            // The mark was lost to a draw.
            Settle => Mark,
            Lower => {
                self.edges -= thread.stock;
                thread.closed = true;
                LoadDirect
            }
            Raise if self.stock >= BATCH => self.after(thread),
            Raise => {
                thread.stock = BATCH - self.stock;
                if self.variant == Variant::RaisedLast {
                    self.put(thread.stock);
                }
                self.edges += thread.stock;
                if self.variant == Variant::NotJudgedAgain { Put } else { LoadDirectAgain }
            }
            LoadDirectAgain => {
                thread.direct = self.direct;
                JudgeAgain
            }
            JudgeAgain if thread.direct + self.edges <= self.limit => Put,
            // As a draw in between, that makes the stock another one.
            Put if self.stock + thread.stock == BATCH => {
                self.put(thread.stock);
                self.after(thread)
            }
            _ => {
                self.edges -= thread.stock;
                self.after(thread)
            }
        };
    }

    fn after(&self, thread: &mut Thread) -> Step {
        thread.closed = false;
        if thread.todo > 0 { LoadDirect } else { Done }
    }

    fn put(&mut self, stock: i32) {
        self.restart();
        (self.open, self.stock, self.edge) = (true, self.stock + stock, self.edge + stock);
    }

    /// Whoever is in the section begins it again: by a kick, or because the thread that runs in the slot now put it aside.
    fn restart(&mut self) {
        let drawer = &mut self.threads[DRAWER].next;
        if *drawer == StoreLeft {
            *drawer = LoadLeft;
        }
    }

    fn draws(&mut self, thread: &mut Thread) {
        match thread.next {
            LoadDirect => {
                thread.direct = self.direct;
                thread.next = Judge;
            }
            Judge => thread.next = if thread.direct + self.edges <= self.limit { LoadLeft } else { Done },
            LoadLeft if self.open && !self.marked && self.stock > 0 => {
                thread.stock = self.stock;
                thread.next = StoreLeft;
            }
            StoreLeft => {
                (self.open, self.marked, self.stock) = (true, false, thread.stock - 1);
                self.complete(thread, LoadDirect);
            }
            // It would take the lock.
            _ => thread.next = Done,
        }
    }

    fn complete(&mut self, thread: &mut Thread, next: Step) {
        self.complete += 1;
        thread.todo -= 1;
        thread.next = if thread.todo > 0 || next == Raise { next } else { Done };
    }
}

#[test]
fn a_limit_is_kept_and_reached() {
    for limit in 2..5 {
        must_find("with stock", &counter(Variant::AsItIs, limit, 2, [2, 3, 2]), &[]);
        must_find("without stock", &counter(Variant::AsItIs, limit, 0, [3, 2, 1]), &[]);
    }
}

#[test]
fn planted_variants_of_the_stock_are_found() {
    must_find("no restart", &counter(Variant::NoRestart, 3, 2, [3, 3, 0]), &[OVER]);
    must_find("no restart, few additions", &counter(Variant::NoRestart, 4, 2, [3, 1, 0]), &[LOST]);
    must_find("raised last", &counter(Variant::RaisedLast, 4, 2, [3, 3, 2]), &[UNCHARGED, OVER]);
    must_find("not judged again", &counter(Variant::NotJudgedAgain, 4, 2, [3, 3, 2]), &[OVER]);
    must_find("not closed", &counter(Variant::NotClosed, 3, 2, [3, 3, 0]), &[REFUSED]);
    must_find("a handler elsewhere", &counter(Variant::HandlerElsewhere, 3, 0, [1, 2, 2]), &[OVER]);
}
