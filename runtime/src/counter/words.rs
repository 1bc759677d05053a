//! A set of lazy counters: one word says which thread owns them, or where their cells are.
//!
//! ```text
//!   state    NOBODY, or the owner's id (even), or the address of a block, tagged (odd)
//!   local    one word a counter: only the owner adds to it, by one instruction
//!   remote   half a word a counter: all other threads add to it, atomically;  bit 0: frozen
//! ```
//!
//! **One load decides.** The state changes from zero to an owner to a block, or at once to a block, and never back
//! while the set is shared. `local` and `remote` stay part of the sum for ever, so an upgrade moves nothing: a thread
//! that loaded the state before it adds to a word that still counts.
//!
//! **An upgrade** is one compare-and-swap of the state, from the value seen to a block that is ready. One upgrader
//! wins; the others return their blocks. Without memory the set stays unchanged, and the next occasion tries again.
//!
//! `remote` is half a word so that four counters fit a cache line. The set is upgraded when `remote` reaches a quarter
//! of its range. If there is no memory until it would overflow, the program ends with a message.
//!
//! **Limited additions** to a set that is not upgraded add to `remote`, also the owner's, from the value that was
//! judged. The first one after the upgrade freezes `remote` to them, so that earlier ones continue in the block.

use super::limit::{self, Limit};
use super::{DEFAULT_RANGE, NoMemory, Reading, policy, slots};
use crate::percpu::{Area, Block, CELL, LINES, OwnedBlock};
use core::cmp::Ordering as Order;
use core::ptr::{self, NonNull};
use machine::slot::{self, Mode};
use machine::sync::{AtomicI64, AtomicU32, AtomicU64, Ordering, compiler_fence, order_reads};
use machine::{process, thread};

/// The state of a set without additions. Zeroed memory is a valid set of one counter.
pub(super) const NOBODY: u64 = 0;
const FROZEN: u32 = 1;
/// The largest amount in a remote word.
const REMOTE_MOST: i64 = (1 << 30) - 1;
/// A remote word that reaches this has the set upgraded.
const REMOTE_NEAR: i64 = REMOTE_MOST / 4;

/// The head of a set of any size.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Head {
    state: AtomicU64,
    /// Additions by threads other than the owner, for the policy. Concurrent ones may be missed.
    remote_additions: AtomicU32,
    /// 0 in zeroed memory, which is a set of one.
    len: u32,
}

impl Head {
    pub(super) const fn new(state: u64, len: usize) -> Self {
        Head { state: AtomicU64::new(state), remote_additions: AtomicU32::new(0), len: len as u32 }
    }
}

/// A set of lazy counters whose size is known at run time: the C interface, and the inside of a
/// [`CounterSet`](super::CounterSet). [`LazyCounter`](super::LazyCounter) describes the methods. They panic if an index
/// is not below the length.
#[derive(Debug)]
#[repr(C)]
pub struct Counters<const RANGE: i32 = DEFAULT_RANGE> {
    head: Head,
    /// Three half words a counter: the local words of all counters, and then their remote words.
    words: [[AtomicU32; 3]],
}

#[cold]
fn no_room() -> ! {
    process::complain(
        b"commensal: a counter is about to overflow, and cannot be upgraded: there is no memory, \
          or the kernel wipes none in forks\n",
    );
    process::die()
}

/// Gives the block back that a set's state named, which names it no more.
/// Safety: it did.
#[cold]
unsafe fn give_back(block: Block) {
    // SAFETY: passed on.
    drop(unsafe { OwnedBlock::from_word(block.word()) });
}

#[inline(always)]
fn block_of(state: u64) -> Option<Block> {
    // SAFETY: `share_in` wrote the odd state.
    (!state.is_multiple_of(2)).then(|| unsafe { Block::of_word(state) })
}

impl Counters {
    /// Bytes of a set of `len` counters, aligned to 8. Zeroes are a set of one; [`Self::begin`] makes larger ones.
    #[doc(hidden)]
    pub const fn bytes(len: usize) -> usize {
        (size_of::<Head>() + len * (size_of::<AtomicI64>() + size_of::<AtomicU32>())).next_multiple_of(8)
    }

    /// Makes a set of `len` zero counters without an owner at `place`. False, without effect, if no row has that room.
    ///
    /// # Safety
    /// The caller owns that many bytes, and no set in use lies there.
    #[doc(hidden)]
    pub unsafe fn begin(place: *mut u8, len: usize) -> bool {
        let fits = (1..=LINES * 64 / CELL).contains(&len);
        if fits {
            // SAFETY: the caller owns the memory; a set's words are zero at first, except its length.
            unsafe {
                place.write_bytes(0, Self::bytes(len));
                (&raw mut (*place.cast::<Head>()).len).write(len as u32);
            }
        }
        fits
    }

    /// The set at `place`. Zeroed memory is a set of one.
    ///
    /// # Safety
    /// A set lies there, and stays there for as long as the reference is used.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn at<'a>(place: NonNull<u8>) -> &'a Self {
        // SAFETY: passed on.
        unsafe {
            let head = place.cast::<Head>();
            Self::of(head, head.as_ref().len.max(1) as usize)
        }
    }
}

/// The amount. On Intel processors since 2021, additions overlap only with an immediate amount: 0.25 ns, not 1.76.
#[derive(Clone, Copy)]
pub(super) enum Amount {
    /// 1, known to the compiler.
    One,
    Any(i64),
}

impl Amount {
    #[inline(always)]
    fn value(self) -> i64 {
        match self {
            Amount::One => 1,
            Amount::Any(amount) => amount,
        }
    }
}

impl<const RANGE: i32> Counters<RANGE> {
    /// Safety: a whole set of `len` counters and this range lies there, for as long as the reference is used.
    #[inline(always)]
    pub(super) unsafe fn of<'a>(head: NonNull<Head>, len: usize) -> &'a Self {
        // SAFETY: passed on.
        unsafe { &*(ptr::slice_from_raw_parts(head.as_ptr(), len) as *const Self) }
    }

    /// Ends the use of a set: returns its block, if it has one. The memory may then be reused, or begun again.
    ///
    /// # Safety
    /// No other thread uses the set now, and no thread uses it later.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn end(&self) {
        if let Some(block) = self.block() {
            // First, as in `rebind`.
            self.head.state.store(NOBODY, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            // SAFETY: the state named it.
            unsafe { give_back(block) };
        }
    }

    /// [`LazyCounter::rebind`](super::LazyCounter::rebind) for all counters of the set.
    ///
    /// # Safety
    /// No other thread uses the set at the same time.
    pub unsafe fn rebind(&self) {
        let block = self.block();
        if block.is_some() {
            for index in 0..self.len() {
                // Relaxed here and below: no other thread uses the set.
                self.local(index).store(self.sum(index), Ordering::Relaxed);
                self.remote(index).store(0, Ordering::Relaxed);
            }
        }
        self.head.remote_additions.store(0, Ordering::Relaxed);
        self.head.state.store(thread::id(), Ordering::Relaxed);
        // Last: a child that another thread forks in between loses one block; otherwise two sets could have one block.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the state named it.
        block.into_iter().for_each(|block| unsafe { give_back(block) });
    }

    /// The number of counters.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a set is never empty")]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    #[inline(always)]
    fn check(&self, index: usize) {
        assert!(index < self.len(), "no counter of this index");
    }

    #[inline]
    fn local(&self, index: usize) -> &AtomicI64 {
        self.check(index);
        // SAFETY: the words begin with the local ones, aligned to 8 behind the head.
        unsafe { &*self.words.as_ptr().cast::<AtomicI64>().add(index) }
    }

    #[inline]
    fn remote(&self, index: usize) -> &AtomicU32 {
        self.check(index);
        &self.words.as_flattened()[2 * self.len() + index]
    }

    #[inline(always)]
    fn state(&self) -> u64 {
        // Acquire pairs with the release in `share_in`: a thread that sees a block also sees its head and its zeroes.
        self.head.state.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(super) fn block(&self) -> Option<Block> {
        block_of(self.state())
    }

    /// Whether the set is upgraded: [`LazyCounter::is_shared`](super::LazyCounter::is_shared).
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.block().is_some()
    }

    #[inline(always)]
    fn add_to_local(&self, index: usize, amount: Amount) {
        const LOCAL: i32 = size_of::<Head>() as i32;
        self.check(index);
        let near = (&raw const *self).cast::<u8>().cast_mut().wrapping_add(index * size_of::<AtomicI64>());
        // SAFETY: the local word of that index (see `local`), to which only the owner adds.
        unsafe {
            match amount {
                Amount::One => slot::local_increment::<LOCAL>(near),
                Amount::Any(amount) => slot::local_add::<LOCAL>(near, amount),
            }
        }
    }

    /// [`LazyCounter::add`](super::LazyCounter::add) of the counter `index`.
    #[inline(always)]
    pub fn add(&self, index: usize, amount: i64) {
        self.add_some(index, if amount == 1 { Amount::One } else { Amount::Any(amount) });
    }

    /// [`add`](Self::add) for an amount that the compiler does not know: skips a test for 1.
    #[doc(hidden)]
    #[inline(always)]
    pub fn add_any(&self, index: usize, amount: i64) {
        self.add_some(index, Amount::Any(amount));
    }

    /// Two loads, a comparison and an addition, if the calling thread is the owner.
    #[inline(always)]
    fn add_some(&self, index: usize, amount: Amount) {
        if !self.add_fast(index, amount) {
            self.add_slow(index, amount.value());
        }
    }

    /// [`LazyCounter::try_add`](super::LazyCounter::try_add) of the counter `index`.
    ///
    /// # Errors
    /// As for a lazy counter.
    #[inline(always)]
    pub fn try_add(&self, index: usize, amount: i64) -> Result<(), NoMemory> {
        if self.add_fast(index, Amount::Any(amount)) { Ok(()) } else { self.try_add_slow(index, amount) }
    }

    /// Adds, if there is memory; returns whether that may have changed a reading, which it has not if the amount came
    /// from the slot's stock.
    #[inline]
    pub(crate) fn add_changes_reading(&self, index: usize, amount: i64) -> bool {
        if block_of(self.state()).is_some_and(|block| slots::draw(block, index, amount)) {
            return false;
        }
        // If a counter fails, the amount goes uncounted and the program goes on.
        let _ = self.try_add(index, amount);
        true
    }

    /// [`LazyCounter::sub`](super::LazyCounter::sub) of the counter `index`.
    #[inline(always)]
    pub fn sub(&self, index: usize, amount: i64) {
        self.add(index, amount.wrapping_neg());
    }

    #[inline(always)]
    fn add_fast(&self, index: usize, amount: Amount) -> bool {
        self.check(index);
        let state = self.state();
        if state == thread::id() {
            self.add_to_local(index, amount);
            return true;
        }
        others();
        block_of(state).is_some_and(|block| slots::draw(block, index, amount.value()))
    }

    #[cold]
    #[inline(never)]
    fn add_slow(&self, index: usize, amount: i64) {
        if self.try_add_slow(index, amount).is_err() {
            no_room()
        }
    }

    #[cold]
    fn try_add_slow(&self, index: usize, amount: i64) -> Result<(), NoMemory> {
        self.claim_if_free();
        let state = self.state();
        if state != thread::id() {
            return self.try_add_elsewhere(block_of(state), index, amount);
        }
        self.add_to_local(index, Amount::Any(amount));
        Ok(())
    }

    /// Makes the calling thread the owner of a set without one. The first thread wins.
    fn claim_if_free(&self) {
        if self.state() == NOBODY {
            // Relaxed: an owner publishes nothing. A thread that lost sees that at its next look.
            let _ = self.head.state.compare_exchange(NOBODY, thread::id(), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// [`LazyCounter::add_local`](super::LazyCounter::add_local) of the counter `index`.
    ///
    /// # Safety
    /// The calling thread owns the set, or the set is upgraded.
    #[inline(always)]
    pub unsafe fn add_local(&self, index: usize, amount: i64) {
        self.check(index);
        match self.block() {
            None => self.add_to_local(index, Amount::Any(amount)),
            block => self.add_beside(block, index, amount),
        }
    }

    /// [`LazyCounter::add_remote`](super::LazyCounter::add_remote) of the counter `index`.
    #[inline(always)]
    pub fn add_remote(&self, index: usize, amount: i64) {
        self.check(index);
        self.add_beside(self.block(), index, amount);
    }

    #[inline(always)]
    fn add_beside(&self, block: Option<Block>, index: usize, amount: i64) {
        if !block.is_some_and(|block| slots::draw(block, index, amount)) {
            self.add_elsewhere(block, index, amount);
        }
    }

    #[cold]
    #[inline(never)]
    fn add_elsewhere(&self, block: Option<Block>, index: usize, amount: i64) {
        if self.try_add_elsewhere(block, index, amount).is_err() {
            no_room()
        }
    }

    fn try_add_elsewhere(&self, block: Option<Block>, index: usize, amount: i64) -> Result<(), NoMemory> {
        if block.is_none() && matches!(self.change_remote(index, amount, None), Changed::Done) {
            self.count_remote(index);
            return Ok(());
        }
        if block.is_none() {
            // The remote word has no room for the amount.
            self.share()?;
        }
        slots::add_slow(block.or_else(|| self.block()).ok_or(NoMemory)?, index, amount);
        Ok(())
    }

    /// Adds to a remote word; with a limit, only if the part of the counter outside blocks stays within it.
    fn change_remote(&self, index: usize, amount: i64, limit: Option<i64>) -> Changed {
        let remote = self.remote(index);
        // Acquire, here and below: the local word is read later, or a subtraction from both might be seen in one only.
        let mut word = remote.load(Ordering::Acquire);
        loop {
            let new = i128::from(remote_amount(word)) + i128::from(amount);
            if limit.is_some() && word & FROZEN != 0 {
                return Changed::Frozen;
            }
            let present = remote_amount(word).wrapping_add(self.local(index).load(Ordering::Relaxed));
            if limit.is_some_and(|limit| i128::from(present) + i128::from(amount) > limit.into()) {
                return Changed::Refused;
            }
            if new.abs() > REMOTE_MOST.into() {
                return Changed::TooLarge;
            }
            // Release pairs with the acquires: a thread that sees this sees the owner's earlier local additions.
            let changed = word.wrapping_add((amount as u32) << 1);
            match remote.compare_exchange_weak(word, changed, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return Changed::Done,
                Err(seen) => word = seen,
            }
        }
    }

    /// Counts a remote addition. Upgrades the set if the policy says so or a remote word fills up, and memory allows.
    fn count_remote(&self, index: usize) {
        let counted = &self.head.remote_additions;
        let additions = counted.load(Ordering::Relaxed).saturating_add(1);
        counted.store(additions, Ordering::Relaxed);
        let filling = remote_amount(self.remote(index).load(Ordering::Relaxed)).abs() >= REMOTE_NEAR;
        if filling || policy::upgrades(slots_in_use(), additions) {
            let _ = self.share();
        }
    }

    /// [`LazyCounter::share`](super::LazyCounter::share) for all counters of the set.
    ///
    /// # Errors
    /// As for a lazy counter.
    pub fn share(&self) -> Result<(), NoMemory> {
        match self.block() {
            Some(_) => Ok(()),
            None => self.share_in(Area::of_process().ok_or(NoMemory)?, 0),
        }
    }

    /// [`share`](Self::share) with a block of the given area that has `more` cells after those of the counters.
    #[doc(hidden)]
    pub fn share_in(&self, area: &'static Area, more: usize) -> Result<(), NoMemory> {
        let mut ready: Option<OwnedBlock> = None;
        loop {
            let state = self.state();
            if block_of(state).is_some() {
                return Ok(());
            }
            let block = ready.take().or_else(|| area.take((self.len() + more) * CELL, RANGE)).ok_or(NoMemory)?;
            // Release pairs with the acquire in `state`. Relaxed on failure: the loop acquires later, or begins again.
            let word = block.word();
            if self.head.state.compare_exchange_weak(state, word, Ordering::Release, Ordering::Relaxed).is_ok() {
                block.into_word();
                return Ok(());
            }
            ready = Some(block);
        }
    }

    fn outside(&self, index: usize) -> i64 {
        let remote = remote_amount(self.remote(index).load(Ordering::Relaxed));
        self.local(index).load(Ordering::Relaxed).wrapping_add(remote)
    }

    /// Runs `look` until the state is the same before and after it, so that no upgrade happened meanwhile.
    fn settled<R>(&self, look: impl Fn(Option<Block>) -> R) -> R {
        loop {
            let state = self.state();
            let seen = look(block_of(state));
            // The reads of `look` come before this one.
            order_reads();
            if self.state() == state {
                return seen;
            }
        }
    }

    /// [`LazyCounter::read`](super::LazyCounter::read) of the counter `index`.
    pub fn read(&self, index: usize) -> Reading {
        self.settled(|block| {
            let outside = self.outside(index);
            block.map_or(Reading { value: outside, error: 0 }, |block| slots::read(block, index, outside))
        })
    }

    /// [`LazyCounter::read_positive`](super::LazyCounter::read_positive) of the counter `index`.
    pub fn read_positive(&self, index: usize) -> Reading {
        self.read(index).positive()
    }

    /// [`LazyCounter::sum`](super::LazyCounter::sum) of the counter `index`.
    pub fn sum(&self, index: usize) -> i64 {
        self.settled(|block| self.outside(index).wrapping_add(block.map_or(0, |block| slots::sum(block, index))))
    }

    /// [`LazyCounter::sum_positive`](super::LazyCounter::sum_positive) of the counter `index`.
    pub fn sum_positive(&self, index: usize) -> i64 {
        self.sum(index).max(0)
    }

    /// [`LazyCounter::compare`](super::LazyCounter::compare) of the counter `index`.
    pub fn compare(&self, index: usize, with: i64) -> Order {
        let Reading { value, error } = self.read(index);
        let (least, most) = (value.checked_sub_unsigned(error), value.checked_add_unsigned(error));
        match (least, most) {
            (Some(least), _) if with < least && most.is_some() => Order::Greater,
            (_, Some(most)) if with > most && least.is_some() => Order::Less,
            // Within the error, or the range of the reading exceeds 64 bits.
            _ => self.sum(index).cmp(&with),
        }
    }

    /// [`LazyCounter::limited_add`](super::LazyCounter::limited_add) of the counter `index`.
    pub fn limited_add(&self, index: usize, amount: i64, most: i64) -> bool {
        if amount <= 0 {
            self.add(index, amount);
            return true;
        }
        self.claim_if_free();
        if self.block().is_none() {
            match self.change_remote(index, amount, Some(most)) {
                Changed::Done => {
                    if self.state() != thread::id() {
                        self.count_remote(index);
                    }
                    return true;
                }
                // There was no block, so this covered everything. With a block, others may have made room there.
                Changed::Refused if self.block().is_none() => return false,
                Changed::Refused | Changed::Frozen => {}
                // Without memory the addition is refused: there is no room for the amount.
                Changed::TooLarge => drop(self.share()),
            }
        }
        let Some(block) = self.block() else { return false };
        // This changes the word, so additions that began before the upgrade notice it.
        if self.remote(index).load(Ordering::Relaxed) & FROZEN == 0 {
            self.remote(index).fetch_or(FROZEN, Ordering::Relaxed);
        }
        limit::add_within(block, index, amount, &Limit { most, outside: &|| self.outside(index) })
    }

    /// [`LazyCounter::set`](super::LazyCounter::set) of the counter `index`.
    pub fn set(&self, index: usize, value: i64) {
        self.add(index, value.wrapping_sub(self.sum(index)));
    }

    /// [`LazyCounter::reset`](super::LazyCounter::reset) of the counter `index`.
    pub fn reset(&self, index: usize) -> i64 {
        let sum = self.sum(index);
        self.add(index, sum.wrapping_neg());
        sum
    }

    /// For measurements: marks the first `slots` slots of an upgraded set as touched, as if threads had added there, up
    /// to the rows of its area. Values do not change.
    #[doc(hidden)]
    pub fn touch_slots(&self, slots: u32) {
        let Some(block) = self.block() else { return };
        for slot in 0..slots.min(block.area().rows() as u32) {
            block.touch(slot);
            // Writes the line with its own contents: a word that was never written would be read from the kernel's zero
            // page. Compilers turn other operations that change nothing into mere loads.
            let _ = block.left(0, slot).compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

enum Changed {
    Done,
    TooLarge,
    Refused,
    Frozen,
}

fn remote_amount(word: u32) -> i64 {
    (word as i32 >> 1).into()
}

/// How many slots the process uses, for the policy.
fn slots_in_use() -> u32 {
    slot::initialise();
    let owned = slot::mode() == Mode::PerThread;
    if owned && !Area::is_made() {
        // A thread's own slot needs fork notices: otherwise a child's slot looks like a dead thread's.
        return if thread::is_alone() { 1 } else { 2 };
    }
    crate::percpu::enter();
    slot::current();
    // If threads own slots, the first slot has no owner.
    slot::in_use().saturating_sub(u32::from(owned))
}

#[cold]
#[inline(always)]
fn others() {}
