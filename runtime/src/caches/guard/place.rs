//! A place for a guarded block: its state, and what reports tell of it.
//!
//! ```text
//!   state    number of the last change │ 2 bits: free, busy, in use        zero: never used
//!
//!   free ──▶ busy ──▶ in use ──▶ busy ──▶ free
//!        claim    begin      retire   end
//! ```
//!
//! Runs at the same time: any thread, in signal handlers too. The thread that makes a place busy owns it until the next
//! change, and writes all else. In a fork child, a place that another thread owned stays busy. Reports read without a
//! lock: a place that is used again meanwhile is told as half of each block.

use crate::page_heap::PAGE;
use core::ops::Range;
use machine::code;
use machine::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use machine::vm::Closed;

/// Most calls of a stack.
const DEPTH: usize = 24;
/// Bytes of a page that are not the block's. Neither zero nor a character, as most bytes are that run over.
const FILL: u8 = 0x9d;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Free,
    Busy,
    InUse,
}

const STATES: [State; 3] = [State::Free, State::Busy, State::InUse];

/// All-zero memory: never used.
#[derive(Debug)]
#[repr(C)]
pub struct Place {
    state: AtomicU64,
    start: AtomicUsize,
    bytes: AtomicUsize,
    /// The profile's, as of a large block.
    pub tag: AtomicUsize,
    closed: AtomicU32,
    pub allocated: Trace,
    pub freed: Trace,
}

/// The thread that allocated or freed a block, and its calls.
#[derive(Debug)]
#[repr(C)]
pub struct Trace {
    pub thread: AtomicU32,
    calls: [AtomicUsize; DEPTH],
}

impl Trace {
    fn note(&self, calls: &[usize]) {
        self.thread.store(code::thread_number(), Ordering::Relaxed);
        let calls = calls.iter().copied().chain(core::iter::repeat(0));
        self.calls.iter().zip(calls).for_each(|(place, call)| place.store(call, Ordering::Relaxed));
    }

    pub fn calls(&self) -> impl Iterator<Item = usize> {
        self.calls.iter().map(|call| call.load(Ordering::Relaxed)).take_while(|&call| call != 0)
    }
}

impl Place {
    pub fn state(&self) -> State {
        STATES[(self.state.load(Ordering::Relaxed) % 4) as usize]
    }

    /// The number of the last change of a free place.
    pub fn free_since(&self) -> Option<u64> {
        let state = self.state.load(Ordering::Relaxed);
        (state % 4 == State::Free as u64).then_some(state / 4)
    }

    pub fn was_used(&self) -> bool {
        self.state.load(Ordering::Relaxed) != 0
    }

    /// Makes it busy, if it is in a state. False: it is not.
    pub fn claim(&self, from: State) -> bool {
        let old = self.state.load(Ordering::Relaxed);
        let new = old - old % 4 + State::Busy as u64;
        // Acquire pairs with the release in `change`: the owner finds the place as the last one left it.
        old % 4 == from as u64 && self.state.compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Ends the caller's ownership, by a change with a number.
    pub fn change(&self, to: State, number: u64) {
        self.state.store(number * 4 + to as u64, Ordering::Release);
    }

    pub fn closed(&self) -> Closed {
        if self.closed.load(Ordering::Relaxed) == 0 { Closed::Marked } else { Closed::Protected }
    }

    pub fn set_closed(&self, closed: Closed) {
        self.closed.store(closed as u32, Ordering::Relaxed);
    }

    pub fn start(&self) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(self.start.load(Ordering::Relaxed))
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn range(&self) -> Range<usize> {
        let start = self.start.load(Ordering::Relaxed);
        start..start + self.bytes()
    }

    /// Bytes of the block in use that begins at an address.
    pub fn bytes_at(&self, block: *mut u8) -> Option<usize> {
        (self.state() == State::InUse && self.start() == block).then(|| self.bytes())
    }

    fn page(&self) -> *mut u8 {
        self.start().map_addr(|start| start / PAGE * PAGE)
    }

    /// Notes a block in the place's open page, and fills the rest of that.
    pub fn begin(&self, start: *mut u8, bytes: usize, calls: &[usize]) {
        self.start.store(start.expose_provenance(), Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.tag.store(0, Ordering::Relaxed);
        self.allocated.note(calls);
        let before = start.addr() % PAGE;
        // SAFETY: the page is the caller's, and open.
        unsafe {
            self.page().write_bytes(FILL, before);
            start.add(bytes).write_bytes(FILL, PAGE - before - bytes);
        }
    }

    /// Notes the calls that free the block.
    pub fn end(&self, calls: &[usize]) {
        self.freed.note(calls);
    }

    /// The changed byte nearest to the block in the rest of its page, seen from the block's start.
    pub fn damage(&self) -> Option<isize> {
        let (page, before) = (self.page(), self.start().addr() % PAGE);
        // SAFETY: the page is open, and the caller's; the program may write to it only by mistake.
        let is_changed = |at: &usize| unsafe { page.add(*at).read() } != FILL;
        let at = (before + self.bytes()..PAGE).find(is_changed).or_else(|| (0..before).rev().find(is_changed))?;
        Some(at as isize - before as isize)
    }
}
