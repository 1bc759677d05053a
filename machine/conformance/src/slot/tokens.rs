//! Tokens: what the tests move through arrays. Each knows who owns it, and there must never be two who think they do.
//!
//! ```text
//!              popped                     will_push
//!   IN_ARRAY ─────────▶ held by a thread ───────────▶ IN_ARRAY ─▶ push
//!                         ▲          pick_loose         │ push refused
//!                         └──────────────────── LOOSE ◀─┘
//! ```
//!
//! The owner is exchanged before a token goes into an array and after it came out, so a token that is in two arrays, or
//! comes out twice, is found by whoever gets it second. One that vanished is found by the accounting at the end.

use super::region::{Array, Region};
use crate::case::{Findings, Outcome};
use machine::sync::{AtomicU32, Ordering};

const IN_ARRAY: u32 = 0;
const LOOSE: u32 = 1;
/// Interrupts hold tokens under one name: they end before another begins on the same thread, and never keep any.
pub const INTERRUPT: u32 = 2;
const FIRST_THREAD: u32 = 3;

pub fn holder(number: usize) -> u32 {
    FIRST_THREAD + number as u32
}

pub struct Tokens {
    owners: Vec<AtomicU32>,
    findings: Findings,
}

impl Tokens {
    pub fn new(count: usize) -> Self {
        Tokens { owners: (0..count).map(|_| AtomicU32::new(LOOSE)).collect(), findings: Findings::new() }
    }

    pub fn count(&self) -> usize {
        self.owners.len()
    }

    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// A pointer for a token: never null. Bits 16 to 23 are zero, and belong to whoever passes the pointer on.
    pub fn pointer(token: usize) -> *mut u8 {
        let number = token + 1;
        core::ptr::without_provenance_mut(number & 0xffff | (number >> 16) << 24)
    }

    fn token(&self, pointer: *mut u8) -> Option<usize> {
        let pointer = pointer as usize;
        let number = pointer & 0xffff | (pointer >> 24) << 16;
        (1..=self.owners.len()).contains(&number).then(|| number - 1)
    }

    /// A pop gave `pointer`: the token, now held by `holder`.
    pub fn popped(&self, pointer: *mut u8, holder: u32) -> Option<usize> {
        let Some(token) = self.token(pointer) else {
            self.findings.add("a pop gave what is no token: pointer, popper", [pointer as u64, holder as u64, 0]);
            return None;
        };
        // AcqRel here and below: who gets the token next is ordered behind us.
        let before = self.owners[token].swap(holder, Ordering::AcqRel);
        if before == IN_ARRAY {
            return Some(token);
        }
        self.findings
            .add("a token was popped twice: token, holder, popper", [token as u64, before as u64, holder as u64]);
        None
    }

    /// `holder` is about to push a token: what to push.
    pub fn will_push(&self, token: usize, holder: u32) -> *mut u8 {
        let before = self.owners[token].swap(IN_ARRAY, Ordering::AcqRel);
        let numbers = [token as u64, before as u64, holder as u64];
        self.findings.demand(before == holder, "a token was popped while held: token, popper, holder", numbers);
        Self::pointer(token)
    }

    /// The push was refused: the token is anybody's.
    pub fn not_pushed(&self, token: usize) {
        let before = self.owners[token].swap(LOOSE, Ordering::AcqRel);
        let numbers = [token as u64, before as u64, 0];
        self.findings.demand(before == IN_ARRAY, "a refused push was done all the same: token, popper", numbers);
    }

    pub fn drop_loose(&self, token: usize, holder: u32) {
        self.will_push(token, holder);
        self.not_pushed(token);
    }

    /// `holder` takes a loose token, if the given one is.
    pub fn pick_loose(&self, token: usize, holder: u32) -> bool {
        self.owners[token].compare_exchange(LOOSE, holder, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Fills a private array with loose tokens from `next` on.
    pub fn fill(&self, region: &Region, array: &mut Array, next: &mut usize) {
        while *next < self.count() && array.push(region, Self::pointer(*next)) {
            self.owners[*next].store(IN_ARRAY, Ordering::Relaxed);
            *next += 1;
        }
    }

    /// Nobody runs: each token is in one of the arrays if and only if its owner says so.
    pub fn account(&self, region: &Region, arrays: impl Iterator<Item = Array>) -> Outcome {
        self.findings.outcome()?;
        let mut seen = vec![false; self.count()];
        for pointer in arrays.flat_map(|array| region.pointers(array)) {
            let token = self.token(pointer).ok_or_else(|| format!("an array holds {pointer:?}, which is no token"))?;
            if std::mem::replace(&mut seen[token], true) {
                return Err(format!("token {token} is in arrays twice"));
            }
        }
        let owners = self.owners.iter().map(|owner| owner.load(Ordering::Relaxed));
        for (token, (owner, seen)) in owners.zip(&seen).enumerate() {
            match (owner, seen) {
                (IN_ARRAY, false) => return Err(format!("token {token} was lost: it was pushed, and is in no array")),
                (IN_ARRAY, true) | (_, false) => {}
                (_, true) => return Err(format!("token {token} is in an array, and held by {owner}")),
            }
        }
        Ok(())
    }
}
