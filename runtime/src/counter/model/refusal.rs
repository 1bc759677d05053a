//! Limited additions across the upgrade, while somebody takes back: refused only if there was no room at some moment of the call.
//!
//! The set has an owner who does nothing, so before the upgrade all is in the remote word; after it, in the block's shared word.

#![cfg(test)]

use super::{World, must_find};
use Step::*;
use std::vec::Vec;

/// What is done differently, in order to be found.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Variant {
    AsItIs,
    /// The remote word says no, and nobody looks for a block.
    RefusedByTheWord,
    /// A limited addition in the block leaves the remote word to those who began before.
    NotFrozen,
}

const OVER: &str = "the limit was passed";
const REFUSED: &str = "an addition was refused while there was room all the time";

const LIMIT: i32 = 2;

/// What a thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    Look,
    LoadRemote,
    Judge,
    ChangeRemote,
    LookAgain,
    Freeze,
    LoadDirect,
    JudgeDirect,
    ChangeDirect,
    Upgrade,
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Thread {
    /// Zero: it upgrades. Negative: it knows no limit.
    amount: i32,
    next: Step,
    remote: (i32, bool),
    direct: i32,
    /// Since it began.
    had_room: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Set {
    variant: Variant,
    upgraded: bool,
    /// The remote word, and whether it is frozen.
    remote: (i32, bool),
    direct: i32,
    wrong: Option<&'static str>,
    threads: Vec<Thread>,
}

fn set(variant: Variant, before: i32, amounts: &[i32]) -> Set {
    let thread = |&amount: &i32| Thread {
        amount,
        next: if amount == 0 { Upgrade } else { Look },
        remote: (0, false),
        direct: 0,
        had_room: true,
    };
    let threads = amounts.iter().map(thread).collect();
    Set { variant, upgraded: false, remote: (before, false), direct: 0, wrong: None, threads }
}

impl World for Set {
    fn steps(&self) -> Vec<Self> {
        let step = |me: usize| {
            let mut changed = self.clone();
            let mut thread = self.threads[me];
            if thread.next == Look {
                // Here its call begins.
                thread.had_room = self.sum() + thread.amount <= LIMIT;
            }
            changed.act(&mut thread);
            changed.threads[me] = thread;
            let sum = changed.sum();
            if sum > LIMIT {
                changed.wrong = Some(OVER);
            }
            let has_room = |thread: &Thread| sum + thread.amount <= LIMIT;
            changed.threads.iter_mut().for_each(|thread| thread.had_room &= thread.next == Look || has_room(thread));
            changed
        };
        (0..self.threads.len()).filter(|&me| self.threads[me].next != Done).map(step).collect()
    }

    fn wrong(&self, _: bool) -> Option<&'static str> {
        self.wrong
    }
}

impl Set {
    fn sum(&self) -> i32 {
        self.remote.0 + self.direct
    }

    fn act(&mut self, thread: &mut Thread) {
        let (amount, is_limited) = (thread.amount, thread.amount > 0);
        thread.next = match thread.next {
            Upgrade => {
                self.upgraded = true;
                Done
            }
            Look if !self.upgraded => LoadRemote,
            Look if is_limited && self.variant != Variant::NotFrozen => Freeze,
            Look => LoadDirect,
            LoadRemote => {
                thread.remote = self.remote;
                Judge
            }
            Judge if is_limited && thread.remote.1 => Look,
            Judge if is_limited && thread.remote.0 + amount > LIMIT => match self.variant {
                Variant::RefusedByTheWord => self.refuse(thread),
                _ => LookAgain,
            },
            Judge => ChangeRemote,
            ChangeRemote if self.remote != thread.remote => LoadRemote,
            ChangeRemote => {
                self.remote.0 += amount;
                Done
            }
            LookAgain if self.upgraded => Look,
            LookAgain => self.refuse(thread),
            Freeze => {
                self.remote.1 = true;
                LoadDirect
            }
            LoadDirect => {
                thread.direct = self.direct;
                if is_limited { JudgeDirect } else { ChangeDirect }
            }
            JudgeDirect if thread.direct + self.remote.0 + amount > LIMIT => self.refuse(thread),
            JudgeDirect => ChangeDirect,
            ChangeDirect if self.direct != thread.direct => LoadDirect,
            ChangeDirect => {
                self.direct += amount;
                Done
            }
            Done => Done,
        };
    }

    fn refuse(&mut self, thread: &Thread) -> Step {
        if thread.had_room {
            self.wrong = Some(REFUSED);
        }
        Done
    }
}

#[test]
fn nothing_is_refused_that_has_room() {
    for before in 0..=LIMIT {
        must_find("one takes back", &set(Variant::AsItIs, before, &[1, 2, 0, -2]), &[]);
        must_find("each takes back", &set(Variant::AsItIs, before, &[2, 1, 0, -1, -1]), &[]);
    }
}

#[test]
fn planted_variants_of_refusals_are_found() {
    must_find("refused by the word", &set(Variant::RefusedByTheWord, 0, &[1, 2, 0, -2]), &[REFUSED]);
    must_find("not frozen", &set(Variant::NotFrozen, 0, &[1, 2, 0]), &[OVER]);
}
