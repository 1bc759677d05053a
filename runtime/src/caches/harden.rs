//! Hardened size classes, for `harden:on`.
//!
//! ```text
//!   │ block as asked for │ slack │ tail │ block as asked for │ slack │ tail │
//!   └ an object of a span                 └ the next one
//! ```
//!
//! The *tail* is a word that holds the block's length, or that it is free, mixed with a secret and its own address. The
//! *slack* up to it is filled with bytes of that mixture. So a write beyond the end, by one byte or more, is found when
//! the block is freed; and a write before the beginning changes the tail of the neighbour, at which each free looks.
//! The tail says at once that a block was freed before.
//!
//! Freed memory is filled, waits in a quarantine, and is looked at before it is used again. Objects are handed out in
//! random order. `cpu_cache::shuffle` does both.
//!
//! The block's owner writes the tail, or the thread that frees it, which changes it by one compare-and-exchange.
//! Other threads read it, so it is atomic.

use super::heap::{Heap, heap};
use super::object_cache::{ObjectCache, Wanted};
use crate::central::size_class::{self, CLASSES};
use crate::central::{CacheRef, CacheState};
use crate::misuse::{self, Call, Damage, Found, Line, Object};
use crate::observe::page::Text;
use crate::page_heap::{PAGE, Span};
use core::fmt::Write;
use core::ops::Range;
use core::sync::atomic::{AtomicU8, AtomicU64};
use machine::process;
use machine::sync::Ordering::Relaxed;

/// Bytes of the tail.
const TAIL: usize = size_of::<u64>();
/// Fills freed blocks: no valid address, and an odd one.
const FILL: u8 = 0xdb;
/// The tail of a free block holds this in place of a length.
const FREE: u64 = 1 << 40;
/// The tail while a thread changes the block's state.
const BUSY: u64 = 2 << 40;

/// An object of a hardened cache.
#[derive(Clone, Copy)]
struct Hard {
    start: *mut u8,
    /// Bytes up to the tail.
    room: usize,
}

/// The meaning of a tail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    InUse(usize),
    Free,
    Busy,
    Nonsense,
}

impl Hard {
    fn tail(&self) -> &AtomicU64 {
        // SAFETY: the object is that long, and never unmapped while its span is in the cache.
        unsafe { &*self.start.add(self.room).cast::<AtomicU64>() }
    }

    fn seal(self) -> u64 {
        let mixed = (self.start as u64 ^ heap().secret()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    }

    fn says(self) -> Says {
        match self.tail().load(Relaxed) ^ self.seal() {
            FREE => Says::Free,
            BUSY => Says::Busy,
            bytes if bytes <= self.room as u64 => Says::InUse(bytes as usize),
            _ => Says::Nonsense,
        }
    }

    fn slack_byte(self) -> u8 {
        (self.seal() >> 56) as u8
    }

    /// The first byte from `from` on, below the tail, that is not as expected.
    fn first_change(self, from: usize, expected: u8) -> Option<usize> {
        // Core's atomics: at exit, other threads may still write, and the simulated machine spends no step on a byte.
        // SAFETY: within the object, which is never unmapped meanwhile, and aligned.
        let byte = |at: usize| unsafe { &*self.start.add(at).cast::<AtomicU8>() }.load(Relaxed);
        // SAFETY: as above.
        let word = |at: usize| unsafe { &*self.start.add(at).cast::<AtomicU64>() }.load(Relaxed);
        let (words, wide) = (from.next_multiple_of(8).min(self.room), u64::from_ne_bytes([expected; 8]));
        let changed = |bytes: Range<usize>| bytes.into_iter().find(|&at| byte(at) != expected);
        changed(from..words).or_else(|| {
            let at = (words..self.room).step_by(8).find(|&at| word(at) != wide)?;
            changed(at..at + 8)
        })
    }

    /// The damage to a block in use or free, if there is any; some(none): to its tail.
    fn damage(self) -> Option<Option<Damage>> {
        let (from, byte, is_free) = match self.says() {
            Says::InUse(bytes) => (bytes, self.slack_byte(), false),
            Says::Free => (0, FILL, true),
            Says::Busy => return None,
            Says::Nonsense => return Some(None),
        };
        self.first_change(from, byte).map(|at| Some(Damage { at, is_free }))
    }

    /// Reports an error in the block.
    #[cold]
    fn report(self, found: impl FnOnce(Object) -> Found) {
        let object = Object { start: self.start, bytes: self.room, cache: Text::NONE };
        misuse::report(found(object), Call::Free, self.start);
    }

    /// Makes a free object one in use.
    fn employ(self, bytes: usize) -> *mut u8 {
        if self.says() != Says::Free {
            self.report(Found::Overwritten);
        }
        if let Some(at) = self.first_change(0, FILL) {
            self.report(|object| Found::Damaged(Damage { at, is_free: true }, object));
        }
        self.tail().store(self.seal() ^ BUSY, Relaxed);
        // SAFETY: the memory is the object's, which is ours.
        unsafe { self.start.add(bytes).write_bytes(self.slack_byte(), self.room - bytes) };
        self.tail().store(self.seal() ^ bytes as u64, Relaxed);
        self.start
    }

    /// Makes an object in use a free one. False: it is not, which was reported.
    fn retire(self, before: Option<Hard>) -> bool {
        let busy = self.seal() ^ BUSY;
        let bytes = match self.says() {
            Says::InUse(bytes) => bytes,
            Says::Free | Says::Busy => {
                self.report(|object| Found::DoubleFree(Some(object)));
                return false;
            }
            Says::Nonsense => {
                self.report(Found::Overwritten);
                return false;
            }
        };
        if let Some(at) = self.first_change(bytes, self.slack_byte()) {
            self.report(|object| Found::Damaged(Damage { at, is_free: false }, object));
        }
        if before.is_some_and(|before| before.says() == Says::Nonsense) {
            self.report(Found::WrittenBefore);
        }
        // Of two threads that free it at once, one succeeds.
        let is_ours = self.tail().compare_exchange(self.seal() ^ bytes as u64, busy, Relaxed, Relaxed).is_ok();
        if is_ours {
            self.fill();
            self.tail().store(self.seal() ^ FREE, Relaxed);
        } else {
            self.report(|object| Found::DoubleFree(Some(object)));
        }
        is_ours
    }

    fn fill(self) {
        // SAFETY: the memory is the object's, which is ours.
        unsafe { self.start.write_bytes(FILL, self.room) };
    }
}

/// Makes a free object of raw memory.
unsafe fn carve_object(state: &CacheState, start: *mut u8) {
    let hard = Hard { start, room: CacheRef::of(state).object_bytes() - TAIL };
    hard.fill();
    hard.tail().store(hard.seal() ^ FREE, Relaxed);
}

/// The object of a span that begins at a block, and the one before it. None: none begins there, which was reported.
fn at(span: &Span, block: *mut u8, call: Call) -> Option<(Hard, Option<Hard>)> {
    let (start, room) = (span.object_at(block), span.object_bytes() - TAIL);
    if start != Some(block) {
        let of = start.map(|start| Object { start, bytes: room, cache: Text::NONE });
        misuse::report(Found::Interior(of), call, block);
        return None;
    }
    let before = block.wrapping_sub(span.object_bytes());
    Some((Hard { start: block, room }, (before >= span.start()).then_some(Hard { start: before, room })))
}

impl Heap {
    fn secret(&self) -> u64 {
        self.cold.secret.load(Relaxed)
    }

    /// Hardens all size classes. Earlier allocations stay as they are.
    pub(crate) fn harden(&self) {
        self.cold.secret.store(process::randomness() | 1, Relaxed);
        for class in 1..CLASSES {
            let (bytes, mut name) = (size_class::size(class), Line::new());
            let _ = write!(name, "malloc-{bytes}");
            // Aligned requests get a class whose size is a multiple of the alignment.
            let alignment = (1 << bytes.trailing_zeros()).min(PAGE);
            match ObjectCache::create_hardened(&Wanted::plain(name.as_bytes(), bytes + TAIL, alignment), carve_object) {
                Some(cache) => self.watch_class(class, cache),
                None => process::complain(b"commensal: no memory to harden a size class; it is not hardened\n"),
            }
        }
    }

    // ---- large blocks ----

    /// Notes the length of a large block, and fills the rest of its last page. Only blocks with a mapping of their own
    /// have that, between guard pages.
    pub(crate) fn seal_large(&self, start: *mut u8, bytes: usize) {
        if self.secret() != 0
            && let Some(room) = self.page_heap().note_length(start, bytes)
        {
            let hard = Hard { start, room };
            // SAFETY: the block is that long, and ours.
            unsafe { start.add(bytes).write_bytes(hard.slack_byte(), room - bytes) };
        }
    }

    /// Looks at the rest of a large block's last page, and forgets the length, which it returns if there was one.
    pub(crate) fn unseal_large(&self, start: *mut u8) -> Option<usize> {
        let (bytes, room) = self.page_heap().length(start)?;
        self.page_heap().forget_length(start);
        let hard = Hard { start, room };
        if let Some(at) = hard.first_change(bytes, hard.slack_byte()) {
            hard.report(|object| Found::Damaged(Damage { at, is_free: false }, object));
        }
        Some(bytes)
    }

    // ---- at exit ----

    /// Looks at all blocks, as the program ends. Other threads may still use some, so it looks twice.
    pub(crate) fn check_hardened(&self) {
        if self.secret() == 0 {
            return;
        }
        self.page_heap().for_each_span(|span| {
            let number = span.cache();
            let cache = self.central().cache(number);
            if !ObjectCache::of(cache).is_some_and(ObjectCache::is_hardened) {
                return;
            }
            for start in span.carved().take_while(|_| span.cache() == number) {
                let hard = Hard { start, room: span.object_bytes() - TAIL };
                if let Some(found) = hard.damage().filter(|&found| hard.damage() == Some(found)) {
                    hard.report(|object| {
                        found.map_or(Found::Overwritten(object), |damage| Found::Damaged(damage, object))
                    });
                }
            }
        });
    }

    // ---- blocks of size classes ----

    /// Bits that differ with each object and draw.
    fn random(&self, object: usize) -> usize {
        let mixed = (object as u64 ^ self.secret() ^ machine::clock::coarse()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 31).wrapping_mul(0xd6e8_feb8_6659_fd93) as usize >> 40
    }

    /// A block of the slot's allocation magazine.
    pub(super) fn take_hardened(&self, cache: CacheRef, bytes: usize) -> Option<*mut u8> {
        let start = self.cpu.take_shuffled(cache, |top| self.random(top as usize))?;
        Some(Hard { start, room: cache.object_bytes() - TAIL }.employ(bytes))
    }

    /// A block by any way left.
    pub(super) fn refill_hardened(&self, cache: CacheRef, bytes: usize) -> Option<*mut u8> {
        let start = self.cpu.refill_shuffled(cache, |top| self.random(top as usize))?;
        Some(Hard { start, room: cache.object_bytes() - TAIL }.employ(bytes))
    }

    pub(super) fn put_hardened(&self, cache: CacheRef, span: &Span, block: *mut u8) {
        if let Some((hard, before)) = at(span, block, Call::Free)
            && hard.retire(before)
        {
            self.cpu.put_shuffled(cache, block, self.random(block as usize));
        }
    }

    /// Bytes that were asked for. None: the block is free or damaged, which was reported.
    pub(crate) fn hardened_bytes(&self, span: &Span, block: *mut u8) -> Option<usize> {
        let hard = at(span, block, Call::Realloc)?.0;
        match hard.says() {
            Says::InUse(bytes) => return Some(bytes),
            Says::Free | Says::Busy => hard.report(Found::UsedAfterFree),
            Says::Nonsense => hard.report(Found::Overwritten),
        }
        None
    }
}
