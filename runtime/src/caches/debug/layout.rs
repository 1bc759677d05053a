//! The options of debug caches, the memory of an object, and the errors found in it.
//!
//! An object's record lies before it. A program that runs over the end of the previous object hits that one's red zone
//! first, and then the record's mark.

use crate::settings::Key;
use core::{fmt, slice};
use machine::clock;
use machine::code::{self, Calls};
use machine::sync::{AtomicPtr, AtomicU32, Ordering};

// ---- options and errors ----

const DEBUG: Key = Key::of("cache.NAME.debug");

/// A debug cache's options: bits in the order of the words of `cache.NAME.debug`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options(u8);

impl Options {
    pub const NONE: Self = Options(0);
    /// Bytes before and behind each object that the program must not write.
    pub const REDZONE: Self = Options(1);
    /// A fill for unused objects, which must not change, and for new ones.
    pub const POISON: Self = Options(2);
    /// Traces of the calls that allocated an object and freed it last.
    pub const TRACK: Self = Options(4);
    /// Freed objects stay unused for a while.
    pub const QUARANTINE: Self = Options(8);

    pub fn of(name: &[u8]) -> Self {
        Options(DEBUG.of_cache(name) as u8)
    }

    pub const fn has(self, one: Self) -> bool {
        self.0 & one.0 != 0
    }

    pub fn without(self, one: Self) -> Self {
        Options(self.0 & !one.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    /// Offset of the first one in the object.
    pub first: isize,
    pub found: u8,
    pub expected: u8,
    pub count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Before(Damage),
    Behind(Damage),
    Inside(Damage),
    Record,
    Twice,
    AfterFree,
    OtherCache,
    Interior(*mut u8),
}

impl fmt::Display for Damage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { first, found, expected, count } = *self;
        write!(out, "byte {first} is {found:#04x}, expected {expected:#04x}")?;
        if count > 1 { write!(out, ", {count} bytes in all") } else { Ok(()) }
    }
}

// ---- records ----

/// Start of a record. It mixes in its address, so that a copy is not valid.
const MARK: usize = 0xc033_e5a1_0b1e_c700;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum State {
    /// Free, or in quarantine.
    Free = 1,
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
    /// The next object in quarantine, under its lock.
    pub next: AtomicPtr<Record>,
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
    pub fn now(from: usize) -> Self {
        Trace { calls: code::calls(from), at_ns: clock::now_ns(), thread: code::thread_number() }
    }
}

impl Record {
    pub const fn bytes_for(options: Options) -> usize {
        size_of::<Record>() + if options.has(Options::TRACK) { size_of::<[Trace; 2]>() } else { 0 }
    }

    /// Begins the record of a busy object.
    /// Safety: for this and all that follow: an object of a debug cache lies there.
    pub unsafe fn begin(whole: *mut u8, options: Options) {
        // SAFETY: passed on; zeroes are valid.
        unsafe { whole.write_bytes(0, Self::bytes_for(options)) };
        // SAFETY: passed on.
        let record = unsafe { &mut *whole.cast::<Record>() };
        *record.state.get_mut() = State::Busy as u32;
        record.mark = MARK ^ whole as usize;
    }

    pub unsafe fn end(whole: *mut u8) {
        // SAFETY: passed on.
        unsafe { (&raw mut (*whole.cast::<Record>()).mark).write(0) };
    }

    pub unsafe fn of<'a>(whole: *mut u8) -> &'a Record {
        // SAFETY: passed on.
        unsafe { &*whole.cast() }
    }

    pub fn is_marked(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        self.mark == MARK ^ (&raw const *self) as usize && (State::Free as u32..=State::Busy as u32).contains(&state)
    }

    pub fn state(&self) -> State {
        match self.state.load(Ordering::Relaxed) {
            1 => State::Free,
            2 => State::InUse,
            _ => State::Busy,
        }
    }

    pub fn become_busy(&self, before: State) -> bool {
        // Of two threads that free at once, one succeeds. Acquire pairs with the release in `settle`.
        self.state.compare_exchange(before as u32, State::Busy as u32, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) as usize
    }

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

    pub fn settle(&self, state: State) {
        self.state.store(state as u32, Ordering::Release);
    }

    pub unsafe fn trace(&self, options: Options, of: State) -> Option<Trace> {
        let index = usize::from(of == State::Free);
        // SAFETY: passed on.
        let trace = options.has(Options::TRACK).then(|| unsafe { self.traces().cast::<Trace>().add(index).read() });
        trace.filter(|trace| trace.at_ns != 0)
    }

    fn traces(&self) -> *mut [Trace; 2] {
        (&raw const *self).cast_mut().wrapping_add(1).cast()
    }
}

// ---- layouts ----

/// Fills red zones of objects in use.
pub(super) const ZONE: u8 = 0xbb;
/// Fills new objects: an odd pointer, a large number, no valid address.
pub(super) const UNSET: u8 = 0x5a;
pub(super) const FREED: u8 = 0x6b;

const ZONE_BYTES: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub options: Options,
    pub lead: usize,
    pub bytes: usize,
    /// Bytes of all parts.
    pub whole: usize,
}

impl Layout {
    pub const NONE: Self = Layout { options: Options::NONE, lead: 0, bytes: 0, whole: 0 };

    /// The layout for objects of at most so many bytes, aligned so.
    pub fn of(options: Options, bytes: usize, alignment: usize) -> Self {
        let zone = if options.has(Options::REDZONE) { ZONE_BYTES } else { 0 };
        let alignment = alignment.max(align_of::<Record>());
        let lead = (Record::bytes_for(options) + zone).next_multiple_of(alignment);
        Layout { options, lead, bytes, whole: (lead + bytes + zone).next_multiple_of(alignment) }
    }

    pub fn object(self, whole: *mut u8) -> *mut u8 {
        whole.wrapping_add(self.lead)
    }

    pub fn unused_byte(self) -> u8 {
        if self.options.has(Options::POISON) { FREED } else { ZONE }
    }

    /// The record, unless the program has overwritten it.
    /// Safety: for all that follow: `whole` is an object of this layout.
    pub unsafe fn record_of<'a>(self, whole: *mut u8) -> Option<&'a Record> {
        // SAFETY: passed on.
        let record = unsafe { Record::of(whole) };
        (record.is_marked() && record.bytes() <= self.bytes).then_some(record)
    }

    pub unsafe fn fill_before(self, whole: *mut u8) {
        let record = Record::bytes_for(self.options);
        // SAFETY: passed on.
        unsafe { whole.add(record).write_bytes(ZONE, self.lead - record) };
    }

    /// Fills the object from byte `first` on, and the red zone behind it.
    pub unsafe fn fill_from(self, whole: *mut u8, first: usize, with: u8) {
        // SAFETY: passed on.
        unsafe { self.object(whole).add(first).write_bytes(with, self.whole - self.lead - first) };
    }

    pub unsafe fn damage_around(self, whole: *mut u8, bytes: usize) -> Option<Found> {
        if !self.options.has(Options::REDZONE) {
            return None;
        }
        let record = Record::bytes_for(self.options);
        // SAFETY: passed on.
        unsafe {
            let before = changed(self.object(whole), record as isize - self.lead as isize, self.lead - record, ZONE);
            before.map(Found::Before).or_else(|| {
                let bytes_behind = self.whole - self.lead - bytes;
                changed(self.object(whole), bytes as isize, bytes_behind, ZONE).map(Found::Behind)
            })
        }
    }

    pub unsafe fn damage_within(self, whole: *mut u8) -> Option<Found> {
        // SAFETY: passed on.
        unsafe { changed(self.object(whole), 0, self.whole - self.lead, FREED) }.map(Found::Inside)
    }
}

/// Damage in bytes from an offset on, which should all be `expected`.
unsafe fn changed(object: *mut u8, offset: isize, bytes: usize, expected: u8) -> Option<Damage> {
    // SAFETY: passed on.
    let bytes = unsafe { slice::from_raw_parts(object.offset(offset), bytes) };
    let first = bytes.iter().position(|&byte| byte != expected)?;
    let count = bytes.iter().filter(|&&byte| byte != expected).count();
    Some(Damage { first: offset + first as isize, found: bytes[first], expected, count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_option_is_the_bit_of_its_word() {
        let all = ["redzone", "poison", "track", "quarantine"].map(|word| DEBUG.parse(word));
        let bits =
            [Options::REDZONE, Options::POISON, Options::TRACK, Options::QUARANTINE].map(|one| Some(one.0.into()));
        assert_eq!(all, bits);
    }

    #[test]
    fn objects_lie_where_they_were_wanted_with_room_around() {
        for options in ["redzone", "poison", "track", "redzone+track", "all"] {
            let options = Options(DEBUG.parse(options).expect("options") as u8);
            for (bytes, alignment) in [(1, 1), (13, 8), (100, 16), (4096, 4096), (128 << 10, 64 << 10)] {
                let layout = Layout::of(options, bytes, alignment);
                let zone = if options.has(Options::REDZONE) { 16 } else { 0 };
                assert!(layout.lead.is_multiple_of(alignment) && layout.whole.is_multiple_of(alignment));
                assert!(layout.lead >= Record::bytes_for(options) + zone && layout.whole >= layout.lead + bytes + zone);
            }
        }
    }
}
