//! What is written down of an object that is watched. It lies before the object: a program that runs over the end of
//! the one before hits first that one's red zone, and then the mark.

use super::options::Options;
use machine::clock;
use machine::code::{self, Calls};
use machine::sync::{AtomicPtr, AtomicU32, Ordering};

/// What begins a record, together with its address, so that a copy of one is none.
const MARK: usize = 0xc033_e5a1_0b1e_c700;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum State {
    /// Nobody's, or the quarantine's.
    Free = 1,
    /// The program's.
    InUse = 2,
    /// Somebody is making one of the others of it.
    Busy = 3,
}

/// The record; behind it, the traces of who allocated the object and who freed it, where owners are tracked.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Record {
    mark: usize,
    state: AtomicU32,
    bytes: AtomicU32,
    /// The next one in quarantine, under its lock.
    next: AtomicPtr<Record>,
}

/// Who did something to an object.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Trace {
    pub calls: Calls,
    /// When; 0: never.
    pub at_ns: u64,
    pub thread: u32,
}

impl Trace {
    /// The present moment.
    pub fn now(from: usize) -> Self {
        Trace { calls: code::calls(from), at_ns: clock::now_ns(), thread: code::thread_number() }
    }
}

impl Record {
    /// Bytes that it takes, with its traces.
    pub const fn bytes_for(options: Options) -> usize {
        size_of::<Record>() + if options.has(Options::TRACK) { size_of::<[Trace; 2]>() } else { 0 }
    }

    /// Begins one of an object that is busy.
    ///
    /// # Safety
    /// For this and for what follows: an object of a cache that watches lies there.
    pub unsafe fn begin(whole: *mut u8, options: Options) {
        // SAFETY: passed on; zeroes are valid.
        unsafe { whole.write_bytes(0, Self::bytes_for(options)) };
        // SAFETY: passed on.
        let record = unsafe { &mut *whole.cast::<Record>() };
        *record.state.get_mut() = State::Busy as u32;
        record.mark = MARK ^ whole as usize;
    }

    /// Ends it.
    pub unsafe fn end(whole: *mut u8) {
        // SAFETY: passed on.
        unsafe { (&raw mut (*whole.cast::<Record>()).mark).write(0) };
    }

    pub unsafe fn of<'a>(whole: *mut u8) -> &'a Record {
        // SAFETY: passed on.
        unsafe { &*whole.cast() }
    }

    /// Whether nobody wrote over it.
    pub fn is_marked(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        self.mark == MARK ^ (&raw const *self) as usize && (State::Free as u32..=State::Busy as u32).contains(&state)
    }

    /// What the object is, at some moment.
    pub fn state(&self) -> State {
        match self.state.load(Ordering::Relaxed) {
            1 => State::Free,
            2 => State::InUse,
            _ => State::Busy,
        }
    }

    /// Becomes busy, if the object is what it should be.
    pub fn become_busy(&self, before: State) -> bool {
        // Of two who free an object at the same time, one finds it so. Acquire pairs with the release in `sign`: who
        // makes something else of the object finds it as it was left.
        self.state.compare_exchange(before as u32, State::Busy as u32, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Bytes that were asked for.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) as usize
    }

    /// Says how many bytes were asked for; by whoever made it busy.
    pub fn set_bytes(&self, bytes: usize) {
        self.bytes.store(bytes as u32, Ordering::Relaxed);
    }

    /// Ceases to be busy, and tells by whom.
    pub unsafe fn sign(&self, options: Options, state: State, from: usize) {
        if options.has(Options::TRACK) {
            let index = usize::from(state == State::Free);
            // SAFETY: passed on; the record is ours while it is busy.
            unsafe { self.traces().cast::<Trace>().add(index).write(Trace::now(from)) };
        }
        self.settle(state);
    }

    /// Ceases to be busy.
    pub fn settle(&self, state: State) {
        self.state.store(state as u32, Ordering::Release);
    }

    /// Who allocated it, and who freed it, if that was ever done, and written down.
    pub unsafe fn trace(&self, options: Options, of: State) -> Option<Trace> {
        let index = usize::from(of == State::Free);
        // SAFETY: passed on.
        let trace = options.has(Options::TRACK).then(|| unsafe { self.traces().cast::<Trace>().add(index).read() });
        trace.filter(|trace| trace.at_ns != 0)
    }

    /// The next one in quarantine, under its lock.
    pub fn next(&self) -> &AtomicPtr<Record> {
        &self.next
    }

    fn traces(&self) -> *mut [Trace; 2] {
        (&raw const *self).cast_mut().wrapping_add(1).cast()
    }
}
