//! Hardened size classes, for `harden:on`.
//!
//! ```text
//!   │ block as asked for │ slack │ tail │ block as asked for │ slack │ tail │
//!   └ an object of a span                 └ the next one
//! ```
//!
//! The *tail* is a word that holds the block's length, or that it is free, mixed with a secret and its own address. The
//! *slack* up to it is filled with bytes of that mixture. So a write beyond the end, by one byte or more, is found when
//! the block is freed. A write before the beginning changes the tail of the neighbour, at which a free looks if in
//! the same line. The tail says at once that a block was freed before. No other memory has a right tail, so it also
//! proves that a hardened block begins there.
//!
//! Freed memory is filled, waits in a quarantine, and is looked at before it is used again. Objects are handed out in
//! random order. `cpu_cache::shuffle` does both.
//!
//! A class serves blocks that are a word shorter, so that objects have the classes' sizes and alignments.
//!
//! Runs at the same time: the block's owner, or the thread that frees it, writes the tail; other threads read it. Two
//! threads that free a block at the same moment may both succeed. Its second use finds that.

use super::heap::{HARDENED, Heap, heap};
use super::object_cache::{ObjectCache, Wanted};
use super::sharing::enter;
use crate::central::size_class::{self, SMALL};
use crate::central::{CacheRef, CacheState};
use crate::misuse::{self, Call, Damage, Found, Line, Object};
use crate::observe::page::Text;
use crate::page_heap::{PAGE, Span};
use core::fmt::Write;
use core::ops::Range;
use core::slice;
use core::sync::atomic::{AtomicU8, AtomicU64};
use machine::process;
use machine::sync::Ordering::Relaxed;

/// Bytes of the tail.
pub(super) const TAIL: usize = size_of::<u64>();
/// Fills freed blocks: no valid address, and an odd one.
const FILL: u64 = u64::from_ne_bytes([0xdb; 8]);
/// The first and the last byte of a tail are no zero and no character of ASCII, as most bytes are that run over.
const ENDS: u64 = 0x80 << 56 | 0x80;
/// The unit of lengths in tails, above the first byte.
const LENGTH: u64 = 1 << 8;
/// The tail of a free block holds this in place of a length.
const FREE: u64 = 1 << 40;
/// The tail while a thread changes the block's state.
const BUSY: u64 = 2 << 40;
/// The tail of a block that was never handed out, and so is not filled.
const FRESH: u64 = 3 << 40;

/// Bytes of each part of a free block that is looked at before its use.
const GLANCE: usize = 64;
/// The longest block that is filled as a whole.
const MOST_FILLED: usize = 8 << 10;
const LINE: usize = 64;
/// Words that are compared at once.
const LANES: usize = 4;

/// An object of a hardened cache.
#[derive(Clone, Copy)]
struct Hard {
    start: *mut u8,
    /// Bytes up to the tail.
    room: usize,
    /// Mixed into the tail.
    seal: u64,
}

/// The meaning of a tail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    InUse(usize),
    Free,
    Busy,
    Fresh,
    Nonsense,
}

impl Hard {
    /// The object that begins at an address. `room` is a multiple of 8.
    #[inline(always)]
    fn at(start: *mut u8, room: usize) -> Self {
        let mixed = (start as u64 ^ heap().secret()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Hard { start, room, seal: mixed ^ mixed >> 29 | ENDS }
    }

    fn word(self, at: usize) -> &'static AtomicU64 {
        // Core's atomics: at exit, other threads may still write, and the simulated machine spends no step on a word.
        // SAFETY: within the object, which is never unmapped meanwhile, and aligned.
        unsafe { &*self.start.add(at).cast::<AtomicU64>() }
    }

    fn tail(self) -> &'static AtomicU64 {
        self.word(self.room)
    }

    fn tail_address(self) -> *mut u8 {
        self.start.wrapping_add(self.room)
    }

    #[inline(always)]
    fn says(self) -> Says {
        match self.tail().load(Relaxed) ^ self.seal {
            FREE => Says::Free,
            BUSY => Says::Busy,
            FRESH => Says::Fresh,
            length if length % LENGTH == 0 && length / LENGTH <= self.room as u64 => {
                Says::InUse((length / LENGTH) as usize)
            }
            _ => Says::Nonsense,
        }
    }

    fn say(self, what: u64) {
        self.tail().store(self.seal ^ what, Relaxed);
    }

    /// Eight bytes of slack. None is zero or a character of ASCII, as most bytes are that run over.
    fn slack(self) -> u64 {
        self.seal.rotate_left(24) | u64::from_ne_bytes([0x80; 8])
    }

    /// The bits of the first word with slack that are the slack's.
    fn slack_bits(bytes: usize) -> u64 {
        u64::MAX << (bytes % 8 * 8)
    }

    /// Fills the slack behind so many bytes.
    #[inline(always)]
    fn fill_slack(self, bytes: usize) {
        let (first, bits, wide) = (bytes / 8 * 8, Self::slack_bits(bytes), self.slack());
        if bytes < self.room {
            let word = self.word(first);
            word.store(word.load(Relaxed) & !bits | wide & bits, Relaxed);
            (first + 8..self.room).step_by(8).for_each(|at| self.word(at).store(wide, Relaxed));
        }
    }

    /// Whether the slack behind so many bytes is as it was filled.
    #[inline(always)]
    fn has_slack(self, bytes: usize) -> bool {
        let (first, wide) = (bytes / 8 * 8, self.slack());
        bytes == self.room
            || (self.word(first).load(Relaxed) ^ wide) & Self::slack_bits(bytes) == 0
                && self.holds(first + 8..self.room, wide)
    }

    /// The parts that are looked at before a free object is used: its beginning, and a place that the secret tells.
    #[inline(always)]
    fn glances(self) -> [Range<usize>; 2] {
        if self.room <= 2 * GLANCE {
            return [0..self.room, 0..0];
        }
        let hidden = ((self.seal >> 48) as usize * (self.room - GLANCE)) >> 16;
        let hidden = GLANCE + hidden / LINE * LINE;
        [0..GLANCE, hidden..(hidden + GLANCE).min(self.room)]
    }

    /// The parts that are filled while an object is free.
    #[inline(always)]
    fn filled(self) -> [Range<usize>; 2] {
        if self.room <= MOST_FILLED { [0..self.room, 0..0] } else { self.glances() }
    }

    /// Whether all words of a part hold `wide`. The caller owns them.
    #[inline(always)]
    fn holds(self, part: Range<usize>, wide: u64) -> bool {
        // SAFETY: within the object, and aligned. The compiler makes vectors of it.
        let words = unsafe { slice::from_raw_parts(self.start.add(part.start).cast::<u64>(), part.len() / 8) };
        let (lines, rest) = words.as_chunks::<LANES>();
        let mut changed = [0; LANES];
        for line in lines {
            changed.iter_mut().zip(line).for_each(|(changed, word)| *changed |= word ^ wide);
        }
        changed.into_iter().chain(rest.iter().map(|word| word ^ wide)).fold(0, |all, word| all | word) == 0
    }

    /// The first byte of a part that has changed.
    #[cold]
    fn first_change(self, part: Range<usize>, wide: u64) -> Option<usize> {
        let expected = wide.to_ne_bytes();
        // SAFETY: as for words.
        let byte = |at: usize| unsafe { &*self.start.add(at).cast::<AtomicU8>() }.load(Relaxed);
        let before = part.start..part.start.next_multiple_of(8).min(part.end);
        let mut words = (before.end..part.end).step_by(8);
        let word = words.find(|&at| self.word(at).load(Relaxed) != wide).map_or(0..0, |at| at..at + 8);
        before.chain(word).find(|&at| byte(at) != expected[at % 8])
    }

    /// The damage to a block in use or free, if there is any; some(none): to its tail.
    fn damage(self) -> Option<Option<Damage>> {
        let (at, is_free) = match self.says() {
            Says::InUse(bytes) => (self.first_change(bytes..self.room, self.slack()), false),
            Says::Free => (self.filled().into_iter().find_map(|part| self.first_change(part, FILL)), true),
            Says::Busy | Says::Fresh => return None,
            Says::Nonsense => return Some(None),
        };
        Some(Some(Damage { at: at?, is_free }))
    }

    /// Reports an error in the block.
    #[cold]
    fn report(self, found: impl FnOnce(Object) -> Found) {
        let object = Object { start: self.start, bytes: self.room, cache: Text::NONE };
        misuse::report(found(object), Call::Free, self.start);
    }

    #[cold]
    fn report_damage(self) {
        if let Some(damage) = self.damage() {
            self.report(|object| damage.map_or(Found::Overwritten(object), |damage| Found::Damaged(damage, object)));
        }
    }

    /// Makes a free object one in use.
    #[inline(always)]
    fn employ(self, bytes: usize) -> *mut u8 {
        match self.says() {
            Says::Fresh => {}
            Says::Free if self.glances().into_iter().all(|part| self.holds(part, FILL)) => {}
            _ => self.report_unfit(),
        }
        self.say(BUSY);
        self.fill_slack(bytes);
        self.say(bytes as u64 * LENGTH);
        self.start
    }

    /// Reports that a free object is not as it should be. One in use was freed by two threads at the same moment.
    #[cold]
    fn report_unfit(self) {
        match self.says() {
            Says::InUse(_) | Says::Busy => self.report(|object| Found::DoubleFree(Some(object))),
            _ => self.report_damage(),
        }
    }

    /// Makes an object in use, of so many bytes, a free one.
    #[inline(always)]
    fn retire(self, bytes: usize, before: Option<Hard>) {
        if !self.has_slack(bytes) {
            self.report_damage();
        }
        if before.is_some_and(|before| before.says() == Says::Nonsense) {
            self.report(Found::WrittenBefore);
        }
        self.say(BUSY);
        for part in self.filled() {
            // SAFETY: the memory is the object's, which is ours.
            unsafe { self.start.add(part.start).write_bytes(FILL as u8, part.len()) };
        }
        self.say(FREE);
    }
}

/// Makes a free object of raw memory.
unsafe fn carve_object(state: &CacheState, start: *mut u8) {
    Hard::at(start, CacheRef::of(state).object_bytes() - TAIL).say(FRESH);
}

/// Looks at a free object whose span leaves the cache.
unsafe fn end_object(state: &CacheState, start: *mut u8) {
    Hard::at(start, CacheRef::of(state).object_bytes() - TAIL).report_damage();
}

/// The object that begins at a block. None: none does, which was reported.
fn at(span: &Span, block: *mut u8, call: Call) -> Option<Hard> {
    let (start, bytes) = (span.object_at(block), span.object_bytes() - TAIL);
    if start != Some(block) {
        let object = start.map(|start| Object { start, bytes, cache: Text::NONE });
        misuse::report(Found::Interior(object), call, block);
        return None;
    }
    Some(Hard::at(block, bytes))
}

impl Heap {
    fn secret(&self) -> u64 {
        self.cold.secret.load(Relaxed)
    }

    /// Hardens all size classes. Earlier allocations stay as they are.
    pub(crate) fn harden(&self) {
        if self.has_middle() {
            // Their magazines are where the words of hardened objects lead.
            return process::complain(b"commensal: too late for harden:on; set it before the program starts\n");
        }
        self.cold.secret.store(process::randomness() | 1, Relaxed);
        self.page_heap().keep_blocks();
        self.page_heap().guard_spans();
        self.serve_classes_by((1..SMALL).filter_map(|class| {
            let (bytes, mut name) = (size_class::size(class), Line::new());
            let _ = write!(name, "malloc-{bytes}");
            // Aligned requests get a class whose size is a multiple of the alignment.
            let alignment = (1 << bytes.trailing_zeros()).min(PAGE);
            let wanted = Wanted::plain(name.as_bytes(), bytes, alignment);
            let class_word = (HARDENED + class) as u8;
            let cache = ObjectCache::create_hardened(&wanted, class_word, carve_object, end_object);
            if cache.is_none() {
                process::complain(b"commensal: no memory to harden a size class; it is not hardened\n");
            }
            Some((class, cache?))
        }));
    }

    /// Bytes to look up the class of a request. A hardened block needs a tail as well.
    #[inline]
    pub(crate) fn with_tail(&self, bytes: usize) -> usize {
        if self.is_hardened() { bytes + TAIL } else { bytes }
    }

    // ---- large blocks ----

    /// Notes the length of a large block, and fills the rest of its last page. Only blocks with a mapping of their own
    /// have that, between guard pages.
    pub(crate) fn seal_large(&self, start: *mut u8, bytes: usize) {
        if self.is_hardened()
            && let Some(room) = self.page_heap().note_length(start, bytes)
        {
            Hard::at(start, room).fill_slack(bytes);
        }
    }

    /// Looks at the rest of a large block's last page, and forgets the length, which it returns if there was one.
    pub(crate) fn unseal_large(&self, start: *mut u8) -> Option<usize> {
        let (bytes, room) = self.page_heap().length(start)?;
        self.page_heap().forget_length(start);
        let hard = Hard::at(start, room);
        if let Some(at) = hard.first_change(bytes..room, hard.slack()) {
            hard.report(|object| Found::Damaged(Damage { at, is_free: false }, object));
        }
        Some(bytes)
    }

    // ---- at exit ----

    /// Looks at all blocks, as the program ends. Other threads may still use some, so it looks twice.
    pub(crate) fn check_hardened(&self) {
        if !self.is_hardened() {
            return;
        }
        self.page_heap().for_each_span(|span, number| {
            let cache = self.central().cache(number);
            if !ObjectCache::of(cache).is_some_and(ObjectCache::is_hardened) {
                return;
            }
            for start in span.carved().take_while(|_| span.cache() == number) {
                let hard = Hard::at(start, span.object_bytes() - TAIL);
                if hard.damage().is_some_and(|found| hard.damage() == Some(found)) {
                    hard.report_damage();
                }
            }
        });
    }

    // ---- blocks of size classes ----

    #[inline(always)]
    pub(crate) fn is_hardened(&self) -> bool {
        self.secret() != 0
    }

    /// A block of the slot's allocation magazine.
    #[inline(always)]
    pub(super) fn take_hardened(&self, cache: CacheRef, object_bytes: usize, bytes: usize) -> Option<*mut u8> {
        let start = self.cpu.take_ahead(cache, object_bytes - TAIL)?;
        Some(Hard::at(start, object_bytes - TAIL).employ(bytes))
    }

    /// A block by any way left.
    #[cold]
    pub(super) fn refill_hardened(&self, cache: CacheRef, bytes: usize) -> Option<*mut u8> {
        let start = self.cpu.refill_shuffled(cache, self.secret() ^ machine::clock::coarse())?;
        Some(Hard::at(start, cache.object_bytes() - TAIL).employ(bytes))
    }

    /// Frees a block of a hardened class. False: it is none.
    #[inline(never)]
    pub(crate) fn free_hardened(&self, block: *mut u8) -> bool {
        let word = self.class_word(block);
        let Some(class) = word.checked_sub(HARDENED) else { return false };
        let Some(cache) = self.in_place_of(class).map(ObjectCache::cache) else { return false };
        let size = size_class::size(class);
        let hard = Hard::at(block, size - TAIL);
        // Whether the tail would lie in a span of the class, and be aligned.
        let has_tail = self.class_word(hard.tail_address()) == word && (block as usize).is_multiple_of(TAIL);
        // A tail for this address proves that a hardened object begins here, because only this module knows the secret.
        let Says::InUse(bytes) = (if has_tail { hard.says() } else { Says::Nonsense }) else {
            return self.refuse_hardened(block);
        };
        // The tail before the block, if it costs no line of memory more. Otherwise its own block's free looks at it.
        let is_near = !(block as usize).is_multiple_of(LINE);
        hard.retire(bytes, is_near.then(|| Hard::at(block.wrapping_sub(size), hard.room)));
        // SAFETY: its owner gave the block up, and we made it a free object.
        if !unsafe { self.cpu.put_quarantined(cache, block) } {
            self.begin_quarantine(cache, block);
        }
        true
    }

    /// Reports that a hardened block is not in use. False: it is none.
    #[cold]
    fn refuse_hardened(&self, block: *mut u8) -> bool {
        let Some(span) = self.page_heap().span_of(block) else { return false };
        if !ObjectCache::of(self.central().cache(span.cache())).is_some_and(ObjectCache::is_hardened) {
            return false;
        }
        if let Some(hard) = at(span, block, Call::Free) {
            match hard.says() {
                Says::Nonsense => hard.report(Found::Overwritten),
                _ => hard.report(|object| Found::DoubleFree(Some(object))),
            }
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn begin_quarantine(&self, cache: CacheRef, block: *mut u8) {
        enter();
        self.cpu.begin_quarantine(cache, block);
    }

    /// Bytes that were asked for. None: the block is free or damaged, which was reported.
    pub(crate) fn hardened_bytes(&self, span: &Span, block: *mut u8) -> Option<usize> {
        let hard = at(span, block, Call::Realloc)?;
        match hard.says() {
            Says::InUse(bytes) => return Some(bytes),
            Says::Free | Says::Busy | Says::Fresh => hard.report(Found::UsedAfterFree),
            Says::Nonsense => hard.report(Found::Overwritten),
        }
        None
    }
}
