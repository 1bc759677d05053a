//! The upgrade: threads that add, threads that upgrade, one that reads, two that add within a limit.
//!
//! Additions are powers of two, so a sum says which of them are in it.

#![cfg(test)]

use super::{World, must_find};
use Step::*;
use std::vec::Vec;

/// What is done differently, in order to be found.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Variant {
    AsItIs,
    /// The upgrader moves the local word's count into the block.
    CountMoved,
    /// An owner decides by one look at the state how to add, and by another one where.
    ModeLoadedTwice,
    /// Upgraders store the state, whatever it is.
    BothPublish,
    /// A loser keeps its block.
    LoserKeeps,
    /// A loser's block goes back before the loser looks at the state again.
    GivenBackEarly,
    /// A reader adds up by one look at the state.
    LooksOnce,
    /// Limited additions of before the upgrade go on in the remote word.
    NotFrozen,
    /// A limited addition that finds the remote word frozen is refused.
    FrozenRefuses,
}

const LOST: &str = "the sum is not what was added";
const LEAKED: &str = "a block is in use that no state names";
const GIVEN_BACK: &str = "a block is used that was given back";
const TWO_WINNERS: &str = "not exactly one upgrader won";
const TOO_LITTLE: &str = "a reader missed what was complete before it began";
const TOO_MUCH: &str = "a reader saw what nobody had begun to add";
const LEFT_OUT: &str = "a reader left out a word that held something";
const OVER: &str = "the limit was passed";
const REFUSED: &str = "an addition was refused while there was room";

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum State {
    Nobody,
    Owner(usize),
    Block(usize),
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Block {
    in_use: bool,
    direct: u32,
}

/// A remote word.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Remote {
    amount: u32,
    frozen: bool,
}

/// What a thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    Begin,
    Look,
    Claim,
    LoadLocal,
    StoreLocal,
    LoadRemote,
    ChangeRemote,
    AddInBlock,
    Take,
    Publish,
    GiveBack,
    MoveLocal,
    ClearLocal,
    SumLocal,
    SumRemote,
    SumBlock,
    LookAgain,
    JudgeLazy,
    Freeze,
    LoadDirect,
    JudgeLocal,
    JudgeRemote,
    ChangeDirect,
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Role {
    Adds,
    Upgrades,
    Reads,
    AddsWithin(u32),
}

/// A thread: what it does next, and its registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Thread {
    role: Role,
    next: Step,
    /// What it adds, last one first; zero: nothing.
    amounts: [u32; 2],
    state: State,
    remote: Remote,
    word: u32,
    sum: u32,
    /// The block that an upgrader has ready.
    block: Option<usize>,
    /// What was complete when a reader began.
    before: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Set<const THREADS: usize> {
    variant: Variant,
    state: State,
    local: u32,
    remote: Remote,
    blocks: [Block; 2],
    begun: u32,
    complete: u32,
    winners: u32,
    no_memory: bool,
    wrong: Option<&'static str>,
    threads: [Thread; THREADS],
}

const fn thread(role: Role, amounts: [u32; 2]) -> Thread {
    let (state, remote) = (State::Nobody, Remote { amount: 0, frozen: false });
    Thread { role, next: Begin, amounts, state, remote, word: 0, sum: 0, block: None, before: 0 }
}

fn set<const THREADS: usize>(variant: Variant, state: State, threads: [Thread; THREADS]) -> Set<THREADS> {
    let (remote, blocks) = (Remote::default(), [Block::default(); 2]);
    let (local, begun, complete, winners) = (0, 0, 0, 0);
    Set { variant, state, local, remote, blocks, begun, complete, winners, no_memory: false, wrong: None, threads }
}

impl<const THREADS: usize> World for Set<THREADS> {
    fn steps(&self) -> Vec<Self> {
        let mut next = Vec::new();
        for me in (0..THREADS).filter(|&me| self.threads[me].next != Done) {
            let mut changed = *self;
            let mut thread = self.threads[me];
            match thread.role {
                Role::Adds => changed.adds(me, &mut thread),
                Role::Upgrades => changed.upgrades(&mut thread),
                Role::Reads => changed.reads(&mut thread),
                Role::AddsWithin(limit) => changed.adds_within(limit, &mut thread),
            }
            changed.threads[me] = thread;
            next.push(changed);
            if self.threads[me].next == Take {
                // There may be no memory for it.
                let mut without = Set { no_memory: true, ..*self };
                without.threads[me].next = Done;
                next.push(without);
            }
        }
        next
    }

    fn wrong(&self, at_end: bool) -> Option<&'static str> {
        let named = |block| self.state == State::Block(block);
        let inside: u32 = (0..2).filter(|&block| named(block)).map(|block| self.blocks[block].direct).sum();
        let upgraders = self.threads.iter().filter(|thread| thread.role == Role::Upgrades).count();
        let may_lose_all = self.no_memory || upgraders == 0;
        if self.wrong.is_some() || !at_end {
            self.wrong
        } else if self.winners != 1 && !(self.winners == 0 && may_lose_all) {
            Some(TWO_WINNERS)
        } else if (0..2).any(|block| self.blocks[block].in_use && !named(block)) {
            Some(LEAKED)
        } else {
            (self.local + self.remote.amount + inside != self.complete).then_some(LOST)
        }
    }
}

impl<const THREADS: usize> Set<THREADS> {
    fn adds(&mut self, me: usize, thread: &mut Thread) {
        let amount = thread.amounts[0];
        match thread.next {
            Begin => self.begin(thread),
            Claim => {
                if self.state == State::Nobody {
                    self.state = State::Owner(me);
                }
                return thread.next = Look;
            }
            LoadLocal => {
                if self.variant == Variant::ModeLoadedTwice {
                    thread.state = self.state;
                }
                thread.word = *self.word(thread.state);
                return thread.next = StoreLocal;
            }
            StoreLocal => {
                *self.word(thread.state) = thread.word + amount;
                return self.complete(thread);
            }
            LoadRemote => {
                thread.remote = self.remote;
                return thread.next = ChangeRemote;
            }
            ChangeRemote => return self.change_remote(thread, ChangeRemote),
            AddInBlock => {
                *self.word(thread.state) += amount;
                return self.complete(thread);
            }
            _ => {}
        }
        thread.state = self.state;
        thread.next = match thread.state {
            State::Nobody => Claim,
            State::Owner(owner) if owner == me => LoadLocal,
            State::Owner(_) => LoadRemote,
            State::Block(_) => AddInBlock,
        };
    }

    fn upgrades(&mut self, thread: &mut Thread) {
        match thread.next {
            Take => {
                let ready = (0..2).find(|&block| !self.blocks[block].in_use).expect("as many as upgraders");
                self.blocks[ready].in_use = true;
                thread.block = Some(ready);
                thread.next = Publish;
            }
            Publish if self.state == thread.state || self.variant == Variant::BothPublish => {
                self.state = State::Block(thread.block.expect("taken"));
                self.winners += 1;
                thread.next = if self.variant == Variant::CountMoved { MoveLocal } else { Done };
            }
            Publish => {
                if self.variant == Variant::GivenBackEarly {
                    self.blocks[thread.block.expect("taken")] = Block::default();
                }
                thread.next = Look;
            }
            MoveLocal => {
                *self.word(self.state) += self.local;
                thread.next = ClearLocal;
            }
            ClearLocal => {
                self.local = 0;
                thread.next = Done;
            }
            GiveBack => {
                self.blocks[thread.block.expect("taken")] = Block::default();
                thread.next = Done;
            }
            _ => {
                thread.state = self.state;
                thread.next = match (thread.state, thread.block) {
                    (State::Block(_), Some(_)) if self.variant != Variant::LoserKeeps => GiveBack,
                    (State::Block(_), _) => Done,
                    (_, Some(_)) => Publish,
                    (_, None) => Take,
                };
            }
        }
    }

    fn reads(&mut self, thread: &mut Thread) {
        match thread.next {
            SumLocal => {
                thread.sum = self.local;
                thread.next = SumRemote;
            }
            SumRemote => {
                thread.sum += self.remote.amount;
                thread.next = if matches!(thread.state, State::Block(_)) { SumBlock } else { LookAgain };
            }
            SumBlock => {
                thread.sum += *self.word(thread.state);
                thread.next = LookAgain;
            }
            LookAgain if self.state == thread.state || self.variant == Variant::LooksOnce => {
                self.judge_reader(thread);
                thread.next = Done;
            }
            Begin => {
                thread.before = self.complete;
                thread.state = self.state;
                thread.next = SumLocal;
            }
            _ => {
                thread.state = self.state;
                thread.next = SumLocal;
            }
        }
    }

    fn judge_reader(&mut self, thread: &Thread) {
        let missed = |block: &Block| self.state != thread.state && block.in_use && block.direct != 0;
        let left_out = matches!(self.state, State::Block(block) if missed(&self.blocks[block]));
        if thread.sum & thread.before != thread.before {
            self.wrong = Some(TOO_LITTLE);
        } else if thread.sum & !self.begun != 0 {
            self.wrong = Some(TOO_MUCH);
        } else if left_out {
            self.wrong = Some(LEFT_OUT);
        }
    }

    fn adds_within(&mut self, limit: u32, thread: &mut Thread) {
        let amount = thread.amounts[0];
        match thread.next {
            LoadRemote => {
                thread.remote = self.remote;
                thread.next = JudgeLazy;
            }
            JudgeLazy if thread.remote.frozen && self.variant == Variant::FrozenRefuses => self.refused(limit, thread),
            JudgeLazy if thread.remote.frozen => thread.next = Look,
            JudgeLazy if thread.remote.amount + self.local + amount > limit => self.refused(limit, thread),
            JudgeLazy => thread.next = ChangeRemote,
            ChangeRemote => self.change_remote(thread, JudgeLazy),
            Freeze => {
                self.remote.frozen = self.variant != Variant::NotFrozen;
                thread.next = LoadDirect;
            }
            LoadDirect => {
                thread.word = *self.word(thread.state);
                thread.next = JudgeLocal;
            }
            JudgeLocal => {
                thread.sum = thread.word + self.local;
                thread.next = JudgeRemote;
            }
            JudgeRemote if thread.sum + self.remote.amount + amount > limit => self.refused(limit, thread),
            JudgeRemote => thread.next = ChangeDirect,
            ChangeDirect if *self.word(thread.state) == thread.word => {
                *self.word(thread.state) += amount;
                self.complete(thread);
            }
            ChangeDirect => thread.next = LoadDirect,
            _ => {
                thread.state = self.state;
                thread.next = if matches!(thread.state, State::Block(_)) { Freeze } else { LoadRemote };
            }
        }
        if self.complete > limit {
            self.wrong = Some(OVER);
        }
    }

    fn refused(&mut self, limit: u32, thread: &mut Thread) {
        // Nothing is taken back here, so if there is room now there was room all the time.
        if self.complete + thread.amounts[0] <= limit {
            self.wrong = Some(REFUSED);
        }
        thread.next = Done;
    }

    /// The local word, or that of a block.
    fn word(&mut self, state: State) -> &mut u32 {
        let State::Block(block) = state else { return &mut self.local };
        if !self.blocks[block].in_use {
            self.wrong = Some(GIVEN_BACK);
        }
        &mut self.blocks[block].direct
    }

    fn change_remote(&mut self, thread: &mut Thread, otherwise: Step) {
        if self.remote == thread.remote {
            self.remote.amount += thread.amounts[0];
            self.complete(thread);
        } else {
            thread.remote = self.remote;
            thread.next = otherwise;
        }
    }

    fn begin(&mut self, thread: &Thread) {
        self.begun += thread.amounts[0];
    }

    fn complete(&mut self, thread: &mut Thread) {
        self.complete += thread.amounts[0];
        thread.amounts = [thread.amounts[1], 0];
        thread.next = if thread.amounts[0] == 0 { Done } else { Begin };
    }
}

const UPGRADER: Thread = thread(Role::Upgrades, [0, 0]);

fn owner_and_other() -> [Thread; 2] {
    [thread(Role::Adds, [1, 2]), thread(Role::Adds, [4, 0])]
}

/// Two who add, one of them perhaps the owner, and two who upgrade.
fn two_upgraders(variant: Variant, state: State) -> Set<4> {
    let [owner, other] = owner_and_other();
    set(variant, state, [owner, other, UPGRADER, UPGRADER])
}

/// One who adds and becomes the owner, and two who upgrade.
fn one_owner(variant: Variant) -> Set<3> {
    set(variant, State::Nobody, [thread(Role::Adds, [1, 0]), UPGRADER, UPGRADER])
}

/// Two who add, one who upgrades, and one who reads.
fn one_reader(variant: Variant, state: State) -> Set<4> {
    let [owner, other] = owner_and_other();
    set(variant, state, [owner, other, UPGRADER, thread(Role::Reads, [0, 0])])
}

/// Two who add within a limit that has room for all but one of what they add, and one who upgrades.
fn limited(variant: Variant, limit: u32) -> Set<3> {
    let adds = thread(Role::AddsWithin(limit), [1, 1]);
    set(variant, State::Nobody, [adds, adds, UPGRADER])
}

#[test]
fn an_upgrade_loses_and_leaks_nothing() {
    for state in [State::Nobody, State::Owner(0)] {
        must_find("two upgraders", &two_upgraders(Variant::AsItIs, state), &[]);
        must_find("a reader", &one_reader(Variant::AsItIs, state), &[]);
    }
    (0..=4).for_each(|limit| must_find("limited additions", &limited(Variant::AsItIs, limit), &[]));
}

#[test]
fn planted_variants_of_the_upgrade_are_found() {
    let owner = State::Owner(0);
    must_find("the count is moved", &two_upgraders(Variant::CountMoved, owner), &[LOST]);
    must_find("the mode is loaded twice", &two_upgraders(Variant::ModeLoadedTwice, owner), &[LOST]);
    must_find("both publish", &two_upgraders(Variant::BothPublish, owner), &[TWO_WINNERS]);
    must_find("the loser keeps its block", &two_upgraders(Variant::LoserKeeps, owner), &[LEAKED]);
    must_find("given back too early", &one_owner(Variant::GivenBackEarly), &[GIVEN_BACK, LOST]);
    must_find("remote is not frozen", &limited(Variant::NotFrozen, 3), &[OVER]);
    must_find("a frozen word refuses", &limited(Variant::FrozenRefuses, 3), &[REFUSED]);
}

/// What the second look buys: without it a reader still misses nothing that was complete when it began, but it may not have looked at all
/// at a word that others add to.
#[test]
fn planted_variants_that_readers_notice_are_found() {
    let owner = State::Owner(0);
    must_find("a reader looks once", &one_reader(Variant::LooksOnce, owner), &[LEFT_OUT]);
    must_find("the count is moved", &one_reader(Variant::CountMoved, owner), &[LOST, TOO_LITTLE, TOO_MUCH]);
}
