//! restart: a push that is held up between reading its word and committing must begin again.
//!
//! Two threads run on different CPUs. The owner pushes onto an array whose memory was returned, so the push takes a
//! page fault in its middle. For a huge page that takes tens of microseconds, and the kernel does not abort the push
//! for it. In that time the drainer takes the array away. If it fences instead of restarting, the push commits
//! afterwards, to an array that the owner has lost.
//!
//! ```text
//!   owner      install the array │ push: read word … page fault …… commit │ say whether it was done
//!   drainer                        wait a little │ exchange, restart, look │ compare notes
//! ```

use super::Operations;
use super::region::{Array, DRAINING, Region};
use super::tokens::Tokens;
use crate::case::{Findings, Outcome, demand};
use crate::runner::{Job, Placement, Runner, random, stay};
use machine::slot::Stored;
use machine::sync::{AtomicU32, AtomicUsize, Ordering};
use machine::{thread, vm};

/// The array's memory: a huge page, if the system has them.
const MEMORY: usize = 2 << 20;
/// The drainer's longest wait in nanoseconds: about as long as the fault. Half of its waits are much shorter.
const LONGEST_WAIT_NS: u64 = 1 << 16;

pub fn held_up(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let region = Region::new(1, MEMORY)?;
    // SAFETY: the memory is the region's only array's.
    unsafe { vm::advise_huge(region.memory(0), MEMORY, vm::Huge::Prefer) };
    let game = Game {
        region: &region,
        array: region.array(0, 1),
        operations,
        runner,
        findings: Findings::new(),
        turn: AtomicUsize::new(0),
        slot: AtomicU32::new(0),
        pushed: AtomicUsize::new(0),
    };
    let (owner, drainer): (Job<'_>, Job<'_>) = (Box::new(|| game.own()), Box::new(|| game.drain()));
    runner.run(Placement::Apart, vec![owner, drainer], None);
    game.findings.outcome()
}

/// Whose turn it is: rounds take four turns each.
const PREPARE: usize = 0;
const INSTALL: usize = 1;
const PUSH: usize = 2;
const COMPARE: usize = 3;
const OVER: usize = usize::MAX;

struct Game<'a> {
    region: &'a Region,
    array: Array,
    operations: &'a Operations,
    runner: &'a dyn Runner,
    findings: Findings,
    turn: AtomicUsize,
    slot: AtomicU32,
    pushed: AtomicUsize,
}

impl Game<'_> {
    const TAKES: usize = 0;
    const GIVES: usize = 1;

    fn own(&self) {
        thread::enter();
        while self.wait_for(INSTALL) {
            let word = self.array.give_word();
            let slot = self.install(word);
            self.slot.store(slot, Ordering::Relaxed);
            self.next(PUSH);
            let pushed = (self.operations.push)(self.region.base(), Self::TAKES, Tokens::pointer(0));
            self.pushed.store(1 + pushed as usize, Ordering::Release);
        }
    }

    fn install(&self, word: usize) -> u32 {
        loop {
            let slot = (self.operations.current)().unwrap_or(0);
            let stored = (self.operations.compare_store)(self.region.base(), slot, Self::GIVES, 0, word);
            if stored == Stored::Done {
                return slot;
            }
            self.runner.pause();
        }
    }

    fn drain(&self) {
        thread::enter();
        let mut random = random(self.runner, 0);
        while self.runner.goes_on() && self.findings.none() {
            // SAFETY: the array is nobody's now; zeroes are an empty one.
            unsafe { vm::decommit(self.region.memory(0), MEMORY) };
            self.next(INSTALL);
            self.wait_for(PUSH);
            // Powers of two, so that short waits are as frequent as long ones.
            let wait = LONGEST_WAIT_NS >> random.u32(0..16);
            stay(random.u64(0..=wait));
            self.take_away();
            self.next(PREPARE);
        }
        self.next(OVER);
    }

    fn take_away(&self) {
        let slot = self.slot.load(Ordering::Relaxed);
        let old = self.exchange(slot, DRAINING);
        let restarted = (self.operations.restart)(slot);
        demand!(self.findings, restarted.is_ok(), "a restart was refused");
        let ours = (self.operations.load)(self.region.base(), slot, Self::GIVES) == DRAINING;
        let pushed = self.await_push();
        self.next(COMPARE);
        let now = self.exchange(slot, 0);
        // An array that is ours stays ours, and holds what was pushed before; one that is not was pushed onto after.
        let (empty, full) = (self.array.give_word(), self.array.give_word() + 8);
        let numbers = [old as u64, pushed as u64, now as u64];
        if ours {
            let what = "an operation that was in flight committed after the restart: word before, done, word after";
            self.findings.demand(now == DRAINING, what, numbers);
            let what = "an array taken away is not as its word said: word, push done, word after";
            self.findings.demand(if pushed { old == full } else { old == empty }, what, numbers);
        } else {
            let what = "a word changed by nobody: word before, push done, word after";
            self.findings.demand(pushed && now == full && old == empty, what, numbers);
        }
        let held = Array::of_give_word(full).is_some_and(|array| !array.is_empty(self.region));
        self.findings.demand(!pushed || held, "a push that was done left nothing", numbers);
    }

    fn await_push(&self) -> bool {
        loop {
            match self.pushed.swap(0, Ordering::Acquire) {
                0 => self.runner.pause(),
                answer => return answer == 2,
            }
        }
    }

    fn exchange(&self, slot: u32, value: usize) -> usize {
        (self.operations.exchange)(self.region.base(), slot, Self::GIVES, value)
    }

    fn next(&self, turn: usize) {
        // Release pairs with the acquire below: a turn sees what was done before it.
        self.turn.store(turn, Ordering::Release);
    }

    /// False: there will be no more turns.
    fn wait_for(&self, turn: usize) -> bool {
        loop {
            match self.turn.load(Ordering::Acquire) {
                now if now == turn => return true,
                OVER => return false,
                _ => self.runner.pause(),
            }
        }
    }
}
