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
use core::marker::PhantomData;
use core::ptr::NonNull;
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
    len: u32,
}

impl Head {
    pub(super) const fn new(state: u64, len: usize) -> Self {
        Head { state: AtomicU64::new(state), remote_additions: AtomicU32::new(0), len: len as u32 }
    }
}

/// A set of lazy counters whose size is known at run time: the C interface, and the inside of a
/// [`CounterSet`](super::CounterSet). One word. Panics if an index is not below the length.
#[derive(Clone, Copy, Debug)]
pub struct Counters<'a, const RANGE: i32 = DEFAULT_RANGE> {
    head: NonNull<Head>,
    whole: PhantomData<&'a Head>,
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
///
/// # Safety
/// It did.
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

// SAFETY: like shared references to a set's words, which are atomics, and to its block.
unsafe impl<const RANGE: i32> Send for Counters<'_, RANGE> {}
// SAFETY: as above.
unsafe impl<const RANGE: i32> Sync for Counters<'_, RANGE> {}

impl<'a> Counters<'a> {
    /// Bytes of a set of `len` counters, aligned to 8. Zeroes are a set of one; [`Self::begin`] makes larger ones.
    pub const fn bytes(len: usize) -> usize {
        (size_of::<Head>() + len * (size_of::<AtomicI64>() + size_of::<AtomicU32>())).next_multiple_of(8)
    }

    /// Makes a set of `len` zero counters without an owner at `place`. False, without effect, if no row has that room.
    ///
    /// # Safety
    /// The caller owns that many bytes, and no set in use lies there.
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

    /// The set at `place`.
    ///
    /// # Safety
    /// A set lies there, and stays there for as long as the value is used.
    #[inline(always)]
    pub unsafe fn at(place: NonNull<u8>) -> Self {
        // SAFETY: passed on.
        unsafe { Self::of(place.cast()) }
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

impl<'a, const RANGE: i32> Counters<'a, RANGE> {
    /// # Safety
    /// The head of a whole set of this range lies there, for as long as the value is used.
    #[inline(always)]
    pub(super) unsafe fn of(head: NonNull<Head>) -> Self {
        Counters { head, whole: PhantomData }
    }

    /// Ends the use of a set: returns its block, if it has one. The memory may then be reused, or begun again.
    ///
    /// # Safety
    /// No other thread uses the set now, and no thread uses it later.
    #[inline]
    pub unsafe fn end(self) {
        if let Some(block) = self.block() {
            // First, as in `rebind`.
            self.head().state.store(NOBODY, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            // SAFETY: the state named it.
            unsafe { give_back(block) };
        }
    }

    /// See [`LazyCounter::rebind`](super::LazyCounter::rebind).
    ///
    /// # Safety
    /// No other thread uses the set at the same time.
    pub unsafe fn rebind(self) {
        let block = self.block();
        if block.is_some() {
            for index in 0..self.len() {
                // Relaxed here and below: no other thread uses the set.
                self.local(index).store(self.sum(index), Ordering::Relaxed);
                self.remote(index).store(0, Ordering::Relaxed);
            }
        }
        self.head().remote_additions.store(0, Ordering::Relaxed);
        self.head().state.store(thread::id(), Ordering::Relaxed);
        // Last: a child that another thread forks in between loses one block; otherwise two sets could have one block.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the state named it.
        block.into_iter().for_each(|block| unsafe { give_back(block) });
    }

    #[inline(always)]
    fn head(self) -> &'a Head {
        // SAFETY: by the contract of `at`.
        unsafe { self.head.as_ref() }
    }

    /// Number of counters. Zeroed memory has one.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a set is never empty")]
    pub fn len(self) -> usize {
        self.head().len.max(1) as usize
    }

    #[inline]
    fn local(self, index: usize) -> &'a AtomicI64 {
        assert!(index < self.len(), "no counter of this index");
        // SAFETY: the local words of all counters follow the head of a whole set.
        unsafe { self.head.add(1).cast::<AtomicI64>().add(index).as_ref() }
    }

    #[inline]
    fn remote(self, index: usize) -> &'a AtomicU32 {
        assert!(index < self.len(), "no counter of this index");
        // SAFETY: the remote words of all counters follow the local words.
        unsafe { self.head.add(1).cast::<AtomicI64>().add(self.len()).cast::<AtomicU32>().add(index).as_ref() }
    }

    #[inline(always)]
    fn state(self) -> u64 {
        // Acquire pairs with the release in `share_in`: a thread that sees a block also sees its head and its zeroes.
        self.head().state.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(super) fn block(self) -> Option<Block> {
        block_of(self.state())
    }

    /// Whether the set is upgraded.
    #[inline]
    pub fn is_shared(self) -> bool {
        self.block().is_some()
    }

    /// Adds to the owner's word. `index` must be below the length.
    #[inline(always)]
    unsafe fn add_to_local(self, index: usize, amount: Amount) {
        const LOCAL: i32 = size_of::<Head>() as i32;
        let near = self.head.as_ptr().cast::<u8>().wrapping_add(index * size_of::<AtomicI64>());
        // SAFETY: the local word of that index (see `local`), to which only the owner adds.
        unsafe {
            match amount {
                Amount::One => slot::local_increment::<LOCAL>(near),
                Amount::Any(amount) => slot::local_add::<LOCAL>(near, amount),
            }
        }
    }

    /// See [`LazyCounter::add`](super::LazyCounter::add).
    #[inline(always)]
    pub fn add(self, index: usize, amount: i64) {
        assert!(index < self.len(), "no counter of this index");
        // SAFETY: asserted.
        unsafe { self.add_in_range(index, Amount::Any(amount)) }
    }

    /// Two loads, a comparison and an addition, if the calling thread is the owner. `index` must be below the length.
    #[inline(always)]
    pub(super) unsafe fn add_in_range(self, index: usize, amount: Amount) {
        // SAFETY: passed on.
        if !unsafe { self.add_fast(index, amount) } {
            // SAFETY: passed on.
            unsafe { self.add_slow(index, amount.value()) }
        }
    }

    /// See [`LazyCounter::try_add`](super::LazyCounter::try_add). `index` must be below the length.
    #[inline(always)]
    pub(super) unsafe fn try_add_in_range(self, index: usize, amount: i64) -> Result<(), NoMemory> {
        // SAFETY: passed on.
        if unsafe { self.add_fast(index, Amount::Any(amount)) } {
            return Ok(());
        }
        // SAFETY: passed on.
        unsafe { self.try_add_slow(index, amount) }
    }

    /// `index` must be below the length.
    #[inline(always)]
    unsafe fn add_fast(self, index: usize, amount: Amount) -> bool {
        let state = self.state();
        if state == thread::id() {
            // SAFETY: passed on.
            unsafe { self.add_to_local(index, amount) };
            return true;
        }
        others();
        block_of(state).is_some_and(|block| slots::draw::<RANGE>(block, index, amount.value()))
    }

    /// `index` must be below the length.
    #[cold]
    #[inline(never)]
    unsafe fn add_slow(self, index: usize, amount: i64) {
        // SAFETY: passed on.
        if unsafe { self.try_add_slow(index, amount) }.is_err() {
            no_room()
        }
    }

    /// `index` must be below the length.
    #[cold]
    unsafe fn try_add_slow(self, index: usize, amount: i64) -> Result<(), NoMemory> {
        self.claim_if_free();
        let state = self.state();
        if state != thread::id() {
            return self.try_add_elsewhere(block_of(state), index, amount);
        }
        // SAFETY: passed on.
        unsafe { self.add_to_local(index, Amount::Any(amount)) };
        Ok(())
    }

    /// Makes the calling thread the owner of a set without one. The first thread wins.
    fn claim_if_free(self) {
        if self.state() == NOBODY {
            // Relaxed: an owner publishes nothing. A thread that lost sees that at its next look.
            let _ = self.head().state.compare_exchange(NOBODY, thread::id(), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// See [`LazyCounter::add_local`](super::LazyCounter::add_local).
    ///
    /// # Safety
    /// The calling thread owns the set, or the set is upgraded.
    #[inline(always)]
    pub unsafe fn add_local(self, index: usize, amount: i64) {
        assert!(index < self.len(), "no counter of this index");
        // SAFETY: asserted, and passed on.
        unsafe { self.add_local_in_range(index, amount) }
    }

    /// As `add_local`, and `index` must be below the length.
    #[inline(always)]
    pub(super) unsafe fn add_local_in_range(self, index: usize, amount: i64) {
        match self.block() {
            // SAFETY: passed on.
            None => unsafe { self.add_to_local(index, Amount::Any(amount)) },
            Some(block) if slots::draw::<RANGE>(block, index, amount) => {}
            block => self.add_elsewhere(block, index, amount),
        }
    }

    /// See [`LazyCounter::add_remote`](super::LazyCounter::add_remote).
    #[inline(always)]
    pub fn add_remote(self, index: usize, amount: i64) {
        assert!(index < self.len(), "no counter of this index");
        // SAFETY: asserted.
        unsafe { self.add_remote_in_range(index, amount) }
    }

    /// `index` must be below the length.
    #[inline(always)]
    pub(super) unsafe fn add_remote_in_range(self, index: usize, amount: i64) {
        match self.block() {
            Some(block) if slots::draw::<RANGE>(block, index, amount) => {}
            block => self.add_elsewhere(block, index, amount),
        }
    }

    #[cold]
    #[inline(never)]
    fn add_elsewhere(self, block: Option<Block>, index: usize, amount: i64) {
        if self.try_add_elsewhere(block, index, amount).is_err() {
            no_room()
        }
    }

    fn try_add_elsewhere(self, block: Option<Block>, index: usize, amount: i64) -> Result<(), NoMemory> {
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
    fn change_remote(self, index: usize, amount: i64, limit: Option<i64>) -> Changed {
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
    fn count_remote(self, index: usize) {
        let counted = &self.head().remote_additions;
        let additions = counted.load(Ordering::Relaxed).saturating_add(1);
        counted.store(additions, Ordering::Relaxed);
        let filling = remote_amount(self.remote(index).load(Ordering::Relaxed)).abs() >= REMOTE_NEAR;
        if filling || policy::upgrades(slots_in_use(), additions) {
            let _ = self.share();
        }
    }

    /// See [`LazyCounter::share`](super::LazyCounter::share).
    pub fn share(self) -> Result<(), NoMemory> {
        match self.block() {
            Some(_) => Ok(()),
            None => self.share_in(Area::of_process().ok_or(NoMemory)?, 0),
        }
    }

    pub(super) fn share_in(self, area: &'static Area, more: usize) -> Result<(), NoMemory> {
        let mut state = self.state();
        let mut block: Option<OwnedBlock> = None;
        while block_of(state).is_none() {
            let ready = match block.take() {
                Some(ready) => ready,
                None => area.take((self.len() + more) * CELL, RANGE).ok_or(NoMemory)?,
            };
            let word = ready.word();
            // Release pairs with the acquire in `state`. Relaxed on failure: the loop acquires later, or begins again.
            if self.head().state.compare_exchange_weak(state, word, Ordering::Release, Ordering::Relaxed).is_ok() {
                ready.into_word();
                return Ok(());
            }
            (block, state) = (Some(ready), self.state());
        }
        Ok(())
    }

    /// The part of a counter outside blocks.
    fn outside(self, index: usize) -> i64 {
        let remote = remote_amount(self.remote(index).load(Ordering::Relaxed));
        self.local(index).load(Ordering::Relaxed).wrapping_add(remote)
    }

    /// Runs `look` until the state is the same before and after it, so that no upgrade happened meanwhile.
    fn settled<R>(self, look: impl Fn(Option<Block>) -> R) -> R {
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

    /// See [`LazyCounter::read`](super::LazyCounter::read).
    pub fn read(self, index: usize) -> Reading {
        self.settled(|block| {
            let outside = self.outside(index);
            let (inside, error) = block.map_or((0, 0), |block| slots::read(block, index));
            Reading { value: outside.wrapping_add(inside), error }
        })
    }

    /// See [`LazyCounter::sum`](super::LazyCounter::sum).
    pub fn sum(self, index: usize) -> i64 {
        self.settled(|block| self.outside(index).wrapping_add(block.map_or(0, |block| slots::sum(block, index))))
    }

    /// See [`LazyCounter::compare`](super::LazyCounter::compare).
    pub fn compare(self, index: usize, with: i64) -> Order {
        let Reading { value, error } = self.read(index);
        let (least, most) = (value.checked_sub_unsigned(error), value.checked_add_unsigned(error));
        match (least, most) {
            (Some(least), _) if with < least && most.is_some() => Order::Greater,
            (_, Some(most)) if with > most && least.is_some() => Order::Less,
            // Within the error, or the range of the reading exceeds 64 bits.
            _ => self.sum(index).cmp(&with),
        }
    }

    /// See [`LazyCounter::limited_add`](super::LazyCounter::limited_add).
    pub fn limited_add(self, index: usize, amount: i64, most: i64) -> bool {
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
        limit::add_within::<RANGE>(block, index, amount, &Limit { most, outside: &|| self.outside(index) })
    }

    /// See [`LazyCounter::set`](super::LazyCounter::set).
    pub fn set(self, index: usize, value: i64) {
        self.add(index, value.wrapping_sub(self.sum(index)));
    }

    /// See [`LazyCounter::reset`](super::LazyCounter::reset).
    pub fn reset(self, index: usize) -> i64 {
        let sum = self.sum(index);
        self.add(index, sum.wrapping_neg());
        sum
    }

    /// For measurements: marks the first `slots` slots of an upgraded set as touched, as if threads had added there, up
    /// to the rows of its area. Values do not change.
    #[doc(hidden)]
    pub fn touch_slots(self, slots: u32) {
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
