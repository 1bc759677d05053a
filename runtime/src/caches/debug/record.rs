//! The record of an object in a debug cache. It lies before the object. A program that runs over the end of the
//! previous object hits that one's red zone first, and then the mark.

use super::options::Options;
use machine::clock;
use machine::code::{self, Calls};
use machine::sync::{AtomicPtr, AtomicU32, Ordering};

/// Start of a record. It mixes in its address, so that a copy is not valid.
const MARK: usize = 0xc033_e5a1_0b1e_c700;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum State {
    /// Free, or in quarantine.
    Free = 1,
    /// The program has it.
    InUse = 2,
    /// A thread is changing its state.
    Busy = 3,
}

/// The record. With [`Options::TRACK`], traces of its allocation and free follow.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Record {
    mark: usize,
    state: AtomicU32,
    bytes: AtomicU32,
    next: AtomicPtr<Record>,
}

/// A call that allocated or freed an object.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Trace {
    pub calls: Calls,
    /// 0: never.
    pub at_ns: u64,
    pub thread: u32,
}

impl Trace {
    /// A trace of this moment.
    pub fn now(from: usize) -> Self {
        Trace { calls: code::calls(from), at_ns: clock::now_ns(), thread: code::thread_number() }
    }
}

impl Record {
    /// Bytes of a record with its traces.
    pub const fn bytes_for(options: Options) -> usize {
        size_of::<Record>() + if options.has(Options::TRACK) { size_of::<[Trace; 2]>() } else { 0 }
    }

    /// Begins the record of a busy object.
    ///
    /// # Safety
    /// For this and all that follow: an object of a debug cache lies there.
    pub unsafe fn begin(whole: *mut u8, options: Options) {
        // SAFETY: passed on; zeroes are valid.
        unsafe { whole.write_bytes(0, Self::bytes_for(options)) };
        // SAFETY: passed on.
        let record = unsafe { &mut *whole.cast::<Record>() };
        *record.state.get_mut() = State::Busy as u32;
        record.mark = MARK ^ whole as usize;
    }

    /// Ends the record.
    pub unsafe fn end(whole: *mut u8) {
        // SAFETY: passed on.
        unsafe { (&raw mut (*whole.cast::<Record>()).mark).write(0) };
    }

    pub unsafe fn of<'a>(whole: *mut u8) -> &'a Record {
        // SAFETY: passed on.
        unsafe { &*whole.cast() }
    }

    /// Whether the record is intact.
    pub fn is_marked(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        self.mark == MARK ^ (&raw const *self) as usize && (State::Free as u32..=State::Busy as u32).contains(&state)
    }

    /// The object's state now.
    pub fn state(&self) -> State {
        match self.state.load(Ordering::Relaxed) {
            1 => State::Free,
            2 => State::InUse,
            _ => State::Busy,
        }
    }

    /// Makes the object busy, if it is in state `before`.
    pub fn become_busy(&self, before: State) -> bool {
        // Of two threads that free at once, one succeeds. Acquire pairs with the release in `settle`.
        self.state.compare_exchange(before as u32, State::Busy as u32, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Bytes that the program asked for.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) as usize
    }

    /// Sets the bytes that the program asked for. The caller made it busy.
    pub fn set_bytes(&self, bytes: usize) {
        self.bytes.store(bytes as u32, Ordering::Relaxed);
    }

    /// Ends being busy, with a trace of the call.
    pub unsafe fn sign(&self, options: Options, state: State, from: usize) {
        if options.has(Options::TRACK) {
            let index = usize::from(state == State::Free);
            // SAFETY: passed on; the record is ours while it is busy.
            unsafe { self.traces().cast::<Trace>().add(index).write(Trace::now(from)) };
        }
        self.settle(state);
    }

    /// Ends being busy.
    pub fn settle(&self, state: State) {
        self.state.store(state as u32, Ordering::Release);
    }

    /// The trace of its allocation or free, if there is one.
    pub unsafe fn trace(&self, options: Options, of: State) -> Option<Trace> {
        let index = usize::from(of == State::Free);
        // SAFETY: passed on.
        let trace = options.has(Options::TRACK).then(|| unsafe { self.traces().cast::<Trace>().add(index).read() });
        trace.filter(|trace| trace.at_ns != 0)
    }

    /// The next object in quarantine, under its lock.
    pub fn next(&self) -> &AtomicPtr<Record> {
        &self.next
    }

    fn traces(&self) -> *mut [Trace; 2] {
        (&raw const *self).cast_mut().wrapping_add(1).cast()
    }
}
