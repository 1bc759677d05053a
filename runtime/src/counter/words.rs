//! A set of lazy counters: one word says who owns them, or where their cells are.
//!
//! ```text
//!   state    NOBODY, or the owner's id (even), or the address of a block, tagged (odd)
//!   local    one word a counter: added to by the owner alone, by one instruction
//!   remote   half a word a counter: added to by everybody else, atomically;  bit 0: frozen
//! ```
//!
//! **One load decides.** The state changes from NOBODY to an owner to a block, or at once to a block, and never back
//! while the set is shared. `local` and `remote` stay part of the sum for ever, so an upgrade moves nothing: a thread
//! that loaded the state before it adds to a word that still counts.
//!
//! **An upgrade** is one compare-and-swap of the state, from the value seen to a block that is ready. One upgrader
//! wins; the others return their blocks. Without memory the set stays as it was, and the next occasion tries again.
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

/// The state of a set that nobody added to yet: so zeroed memory is a valid set, but for its length.
pub(super) const NOBODY: u64 = 0;
const FROZEN: u32 = 1;
/// The largest amount that a remote word holds.
const REMOTE_MOST: i64 = (1 << 30) - 1;
/// From here on a remote word has the set upgraded.
const REMOTE_NEAR: i64 = REMOTE_MOST / 4;

/// What sets of any size begin with.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Head {
    state: AtomicU64,
    /// Additions that were not the owner's, for the policy: of several at once some may not be counted.
    remote_additions: AtomicU32,
    len: u32,
}

impl Head {
    pub(super) const fn new(state: u64, len: usize) -> Self {
        Head { state: AtomicU64::new(state), remote_additions: AtomicU32::new(0), len: len as u32 }
    }
}

/// A set of lazy counters whose size is known at run time: the C interface, and the inside of a
/// [`CounterSet`](super::CounterSet). One word.
///
/// Panics where an index is not below the length.
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
    // SAFETY: an odd state is what `share_in` wrote.
    (!state.is_multiple_of(2)).then(|| unsafe { Block::of_word(state) })
}

// SAFETY: as shared references to the words of a set, which are atomics, and to its block.
unsafe impl<const RANGE: i32> Send for Counters<'_, RANGE> {}
// SAFETY: as above.
unsafe impl<const RANGE: i32> Sync for Counters<'_, RANGE> {}

impl<'a> Counters<'a> {
    /// Bytes of a set of `len` counters, aligned to 8. Zeroes are a set of one; [`Self::begin`] makes larger ones.
    pub const fn bytes(len: usize) -> usize {
        (size_of::<Head>() + len * (size_of::<AtomicI64>() + size_of::<AtomicU32>())).next_multiple_of(8)
    }

    /// Makes a set of `len` counters, all zero and without an owner, at `place`. Returns false, and does nothing, if
    /// `len` is zero or exceeds a row's room.
    ///
    /// # Safety
    /// As many bytes are the caller's, and in no use as a set that was not ended.
    pub unsafe fn begin(place: *mut u8, len: usize) -> bool {
        let fits = (1..=LINES * 64 / CELL).contains(&len);
        if fits {
            // SAFETY: the memory is the caller's; a set's words are zero at first, but for its length.
            unsafe {
                place.write_bytes(0, Self::bytes(len));
                (&raw mut (*place.cast::<Head>()).len).write(len as u32);
            }
        }
        fits
    }

    /// The set that lies at `place`.
    ///
    /// # Safety
    /// It does, and stays there, for as long as the value is used.
    #[inline(always)]
    pub unsafe fn at(place: NonNull<u8>) -> Self {
        // SAFETY: passed on.
        unsafe { Self::of(place.cast()) }
    }
}

/// The amount. Processors that do not wait for the last addition (Intel's since 2021) do so only if the amount is part
/// of the instruction, as far as we saw: 0.25 ns instead of 1.76.
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

    /// Ends the use of a set: returns its block, if it has one. Its memory may be reused, or begun again.
    ///
    /// # Safety
    /// Nobody uses it at the same time, or afterwards.
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

    /// Makes the set the calling thread's, and lazy again. See [`LazyCounter::rebind`](super::LazyCounter::rebind).
    ///
    /// # Safety
    /// Nobody else uses it at the same time.
    pub unsafe fn rebind(self) {
        let block = self.block();
        if block.is_some() {
            for index in 0..self.len() {
                // Relaxed here and below: nobody else is there.
                self.local(index).store(self.sum(index), Ordering::Relaxed);
                self.remote(index).store(0, Ordering::Relaxed);
            }
        }
        self.head().remote_additions.store(0, Ordering::Relaxed);
        self.head().state.store(thread::id(), Ordering::Relaxed);
        // Last: a child that another thread forks in between has one block less, instead of two sets with one block.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the state named it.
        block.into_iter().for_each(|block| unsafe { give_back(block) });
    }

    #[inline(always)]
    fn head(self) -> &'a Head {
        // SAFETY: by contract of `at`.
        unsafe { self.head.as_ref() }
    }

    /// Number of counters: zeroed memory is one.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a set is never empty")]
    pub fn len(self) -> usize {
        self.head().len.max(1) as usize
    }

    #[inline]
    fn local(self, index: usize) -> &'a AtomicI64 {
        assert!(index < self.len(), "no counter of this index");
        // SAFETY: as many local words lie behind the head of a whole set.
        unsafe { self.head.add(1).cast::<AtomicI64>().add(index).as_ref() }
    }

    #[inline]
    fn remote(self, index: usize) -> &'a AtomicU32 {
        assert!(index < self.len(), "no counter of this index");
        // SAFETY: and as many remote words behind those.
        unsafe { self.head.add(1).cast::<AtomicI64>().add(self.len()).cast::<AtomicU32>().add(index).as_ref() }
    }

    #[inline(always)]
    fn state(self) -> u64 {
        // Acquire pairs with the release in `share_in`: who sees a block also sees its head, and that it is zero.
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

    /// The owner's addition.
    ///
    /// # Safety
    /// `index` is below the length.
    #[inline(always)]
    unsafe fn add_to_local(self, index: usize, amount: Amount) {
        const LOCAL: i32 = size_of::<Head>() as i32;
        let near = self.head.as_ptr().cast::<u8>().wrapping_add(index * size_of::<AtomicI64>());
        // SAFETY: the local word of that index (see `local`), which the owner alone adds to.
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

    /// Two loads, a comparison and an addition, where the calling thread is the owner.
    ///
    /// # Safety
    /// `index` is below the length.
    #[inline(always)]
    pub(super) unsafe fn add_in_range(self, index: usize, amount: Amount) {
        // SAFETY: passed on.
        if !unsafe { self.add_fast(index, amount) } {
            // SAFETY: passed on.
            unsafe { self.add_slow(index, amount.value()) }
        }
    }

    /// See [`LazyCounter::try_add`](super::LazyCounter::try_add).
    ///
    /// # Safety
    /// `index` is below the length.
    #[inline(always)]
    pub(super) unsafe fn try_add_in_range(self, index: usize, amount: i64) -> Result<(), NoMemory> {
        // SAFETY: passed on.
        if unsafe { self.add_fast(index, Amount::Any(amount)) } {
            return Ok(());
        }
        // SAFETY: passed on.
        unsafe { self.try_add_slow(index, amount) }
    }

    /// # Safety
    /// `index` is below the length.
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

    /// # Safety
    /// `index` is below the length.
    #[cold]
    #[inline(never)]
    unsafe fn add_slow(self, index: usize, amount: i64) {
        // SAFETY: passed on.
        if unsafe { self.try_add_slow(index, amount) }.is_err() {
            no_room()
        }
    }

    /// # Safety
    /// `index` is below the length.
    #[cold]
    unsafe fn try_add_slow(self, index: usize, amount: i64) -> Result<(), NoMemory> {
        if self.state() == NOBODY {
            self.claim();
        }
        match self.state() {
            // SAFETY: passed on.
            state if state == thread::id() => unsafe { self.add_to_local(index, Amount::Any(amount)) },
            state => return self.try_add_elsewhere(block_of(state), index, amount),
        }
        Ok(())
    }

    /// Makes a set that is nobody's the calling thread's; whoever is first has it.
    fn claim(self) {
        // Relaxed: an owner publishes nothing. Who was not the first finds out at the next look.
        let _ = self.head().state.compare_exchange(NOBODY, thread::id(), Ordering::Relaxed, Ordering::Relaxed);
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

    /// # Safety
    /// As above, and `index` is below the length.
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

    /// # Safety
    /// `index` is below the length.
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
        let block = match block {
            Some(block) => block,
            None => match self.change_remote(index, amount, None) {
                Changed::Done => {
                    self.count_remote(index);
                    return Ok(());
                }
                // The remote word has no room for it.
                _ => {
                    self.share()?;
                    self.block().ok_or(NoMemory)?
                }
            },
        };
        slots::add_slow(block, index, amount);
        Ok(())
    }

    /// Adds to a remote word; with a limit, only if the counter, as far as it is in no block, stays within it.
    fn change_remote(self, index: usize, amount: i64, limit: Option<i64>) -> Changed {
        let remote = self.remote(index);
        // Acquire, here and below: the local word is read later, lest a subtraction from both is seen in one only.
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
            // Release pairs with the acquires: whoever sees this sees what the owner added to its local word before.
            let changed = word.wrapping_add((amount as u32) << 1);
            match remote.compare_exchange_weak(word, changed, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return Changed::Done,
                Err(seen) => word = seen,
            }
        }
    }

    /// Counts a remote addition, and upgrades the set if the policy says so, or if a remote word fills up. Without
    /// memory the next one tries again.
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

    /// What of a counter is in no block.
    fn outside(self, index: usize) -> i64 {
        let remote = remote_amount(self.remote(index).load(Ordering::Relaxed));
        self.local(index).load(Ordering::Relaxed).wrapping_add(remote)
    }

    /// Reads by one look at the state: what was seen of a set that is being upgraded meanwhile is forgotten.
    fn settled<R>(self, look: impl Fn(Option<Block>) -> R) -> R {
        loop {
            let state = self.state();
            let seen = look(block_of(state));
            // What was looked at was looked at before this.
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
            // Inside of the bound, or what was read may lie beyond the ends of 64 bits.
            _ => self.sum(index).cmp(&with),
        }
    }

    /// See [`LazyCounter::limited_add`](super::LazyCounter::limited_add).
    pub fn limited_add(self, index: usize, amount: i64, most: i64) -> bool {
        if amount <= 0 {
            self.add(index, amount);
            return true;
        }
        if self.state() == NOBODY {
            self.claim();
        }
        if self.block().is_none() {
            match self.change_remote(index, amount, Some(most)) {
                Changed::Done => {
                    if self.state() != thread::id() {
                        self.count_remote(index);
                    }
                    return true;
                }
                // There is no block yet, so what was judged was all. With one, others may have made room there.
                Changed::Refused if self.block().is_none() => return false,
                Changed::Refused | Changed::Frozen => {}
                // Without memory the answer is no: there is nowhere to put it.
                Changed::TooLarge => drop(self.share()),
            }
        }
        let Some(block) = self.block() else { return false };
        // Whoever began before the upgrade finds the word changed, if only by this.
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

    /// For measurements: marks the first `slots` slots of an upgraded set as touched, as if threads had added there; at
    /// most as many as its area has rows. No value changes.
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

/// What came of a change of a remote word.
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
        // A thread's own slot is usable only where forks are noticed: a child's would look like a dead thread's.
        return if thread::is_alone() { 1 } else { 2 };
    }
    crate::percpu::enter();
    slot::current();
    // Where threads own slots, nobody owns the first.
    slot::in_use().saturating_sub(u32::from(owned))
}

#[cold]
#[inline(always)]
fn others() {}
