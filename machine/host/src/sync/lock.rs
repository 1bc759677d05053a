//! A lock: one 32-bit word, which accounts for contention and knows its holder. A thread tries, spins, then sleeps.
//!
//! ```text
//!   bit 31     a thread may be asleep on the word
//!   bits 0-30  identity of the holder, 0 = free
//! ```
//!
//! An allocator needs the holder in forks: a thread takes over a lock whose holder vanished in a fork. The caller then
//! learns that the protected data may be half-changed.
//!
//! **No deadlock, even in signal handlers.** A thread counts the locks that it holds, by rank, and waits only for a
//! lock whose rank is above them all. So ranks rise along any chain of threads that wait for each other, and no chain
//! closes. A handler above its own thread's allocation gets a free lock; for a held one it gets
//! [`Acquired::WouldDeadlock`].
//!
//! A lock also counts while a thread waits for it, because a woken thread has the only wake-up, which others depend on.
//! And it counts until the releasing thread has woken a sleeper, because a handler in between might wait for a lock
//! that the sleeper holds. Detecting a thread that meets its own lock is not enough: a handler above the holder of B
//! may wait for A, whose holder waits for B.
//!
//! Accounting follows Linux's lock-contention tracing. It takes a timestamp only after the first try failed, and
//! updates counters after acquisition. So an uncontended pass costs only the atomic exchange.
//! How long locks are held is measured only on demand, see `hold`.
//!
//! Without handlers, ranks only rise; [`ContentionReport::out_of_order`](super::ContentionReport::out_of_order) counts
//! the exceptions. Runs at the same time: any number of threads.

use super::contention::Contention;
use super::hold;
use super::site::Site;
use super::wait::{wait, wake_one};
use super::{AtomicU32, Ordering, compiler_fence, spin_loop};
use crate::{clock, slot, thread};

/// Set in the lock word while a thread may be asleep on it.
pub(crate) const WAITERS: u32 = 1 << 31;
const SPINS: u32 = 128;
/// Most spins between two looks.
const LONGEST_PAUSE: u32 = 64;
/// Longest sleep, because no thread may wake a sleeper in a fork child.
const A_SECOND: u64 = 1_000_000_000;

/// The result of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The lock is ours, and its data is in order.
    Clean,
    /// The lock is ours, but its last holder vanished in a fork while it held it.
    Abandoned,
    /// The lock is *not* ours: it is held, and this thread holds one of its rank or above further up its stack.
    WouldDeadlock,
}

/// A lock of a rank, 0 to 7; a thread takes locks in rising rank. All-zero memory is a free lock.
#[derive(Debug)]
#[repr(transparent)]
pub struct Lock<const RANK: u8> {
    word: AtomicU32,
}

impl<const RANK: u8> Lock<RANK> {
    /// Bit offset of this rank's count in [`thread::held_ranks`].
    const COUNTER: u32 = {
        assert!(RANK < 8);
        RANK as u32 * 8
    };

    /// A free lock.
    pub const fn new() -> Self {
        Lock { word: AtomicU32::new(0) }
    }

    /// Takes the lock if it is free. Call [`thread::enter`] before.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        Self::count_held();
        let taken = self.exchange(0, thread::lock_identity());
        if !taken {
            Self::uncount_held();
        }
        taken
    }

    /// Takes the lock if its holder vanished in a fork; its data may be half-changed. Call [`thread::enter`] before.
    #[cold]
    pub fn try_inherit(&self) -> bool {
        // As in `acquire`: the vanished holder may be this very thread, before its own handler forked.
        if !Self::is_in_order() {
            return false;
        }
        let word = self.word.load(Ordering::Relaxed);
        let holder = word & !WAITERS;
        if holder == 0 || !thread::is_gone(holder) {
            return false;
        }
        Self::count_held();
        let taken = self.exchange(word, thread::lock_identity() | (word & WAITERS));
        if !taken {
            Self::uncount_held();
        }
        taken
    }

    /// Takes the lock, and waits for it unless that might be for ever. Records a wait under `site`.
    #[inline]
    pub fn acquire(&self, contention: &Contention, site: Site) -> Acquired {
        let acquired = if self.try_in_order() { Acquired::Clean } else { self.acquire_slow(contention, site) };
        if acquired != Acquired::WouldDeadlock {
            self.measure_hold(contention, site);
        }
        acquired
    }

    /// Begins to measure a hold, if holds are measured; for a lock that was not taken by [`Self::acquire`].
    #[inline]
    pub fn measure_hold(&self, contention: &Contention, site: Site) {
        if hold::is_on() {
            hold::begin(self.word.as_ptr().cast(), contention, site);
        }
    }

    /// Takes the lock if it is free, and the thread holds none of its rank or above; for a fast path of the caller's
    /// own, before [`Self::acquire`].
    #[inline]
    pub fn try_in_order(&self) -> bool {
        Self::is_in_order() && self.try_acquire()
    }

    #[inline]
    fn is_in_order() -> bool {
        thread::held_ranks() >> Self::COUNTER == 0
    }

    #[cold]
    fn acquire_slow(&self, contention: &Contention, site: Site) -> Acquired {
        if !Self::is_in_order() {
            contention.count_out_of_order();
            return if self.try_acquire() { Acquired::Clean } else { Acquired::WouldDeadlock };
        }
        let start = clock::now_ns();
        Self::count_held();
        let outcome = self.wait_for_it();
        contention.record(site, clock::now_ns() - start);
        outcome
    }

    fn wait_for_it(&self) -> Acquired {
        let (mut spins, mut pause) = (0, 1);
        // After a sleep, other threads may sleep too, so we leave the mark for our own release.
        let mut mark = 0;
        loop {
            // A signal handler may have forked, and this may be the child, where the holder does not exist.
            if thread::enter() {
                slot::claim();
                thread::forked();
            }
            let me = thread::lock_identity();
            let word = self.word.load(Ordering::Relaxed);
            let holder = word & !WAITERS;
            if holder == 0 || thread::is_gone(holder) {
                // A vanished holder released nothing; the fork itself gives us its writes.
                if self.exchange(word, me | mark | (word & WAITERS)) {
                    return if holder == 0 { Acquired::Clean } else { Acquired::Abandoned };
                }
            } else if spins < SPINS {
                // Frequent looks take the line from the holder: pause longer as the wait goes on.
                (0..pause).for_each(|_| spin_loop());
                (spins, pause) = (spins + pause, (2 * pause).min(LONGEST_PAUSE));
            } else if word & WAITERS != 0
                || self.word.compare_exchange(word, word | WAITERS, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                mark = WAITERS;
                wait(&self.word, word | WAITERS, A_SECOND);
            }
        }
    }

    #[inline]
    fn exchange(&self, word: u32, ours: u32) -> bool {
        // Acquire pairs with the release in `release`: the last holder's writes are visible. Relaxed on failure.
        self.word.compare_exchange(word, ours, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Counts the lock before it is ours; [`Self::uncount_held`] removes it after it was. So a handler in between finds
    /// too much counted, never too little. It leaves the count unchanged, so the plain addition loses nothing.
    #[inline]
    fn count_held() {
        thread::set_held_ranks(thread::held_ranks() + (1 << Self::COUNTER));
        compiler_fence(Ordering::SeqCst);
    }

    #[inline]
    fn uncount_held() {
        compiler_fence(Ordering::SeqCst);
        thread::set_held_ranks(thread::held_ranks() - (1 << Self::COUNTER));
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// The calling thread holds it.
    #[inline]
    pub unsafe fn release(&self) {
        if hold::is_on() {
            hold::end(self.word.as_ptr().cast());
        }
        // Release pairs with the acquires above. Exchange, not store: if a waiter set its mark before this, we see it
        // and wake a sleeper. If it does afterwards, the word is free, and the kernel refuses the sleep.
        let word = self.word.swap(0, Ordering::Release);
        debug_assert!(
            word & !WAITERS == thread::lock_identity() || thread::is_gone(word & !WAITERS),
            "a lock released by another than its holder"
        );
        if word & WAITERS != 0 {
            wake_one(&self.word);
        }
        Self::uncount_held();
    }

    /// Whether a thread holds the lock; stale by the time it is read.
    pub fn is_held(&self) -> bool {
        self.word.load(Ordering::Relaxed) & !WAITERS != 0
    }

    /// Whether the calling thread holds the lock. Only signal handlers need this. Call [`thread::enter`] before.
    pub fn is_mine(&self) -> bool {
        self.word.load(Ordering::Relaxed) & !WAITERS == thread::lock_identity()
    }
}

impl<const RANK: u8> Default for Lock<RANK> {
    fn default() -> Self {
        Self::new()
    }
}
