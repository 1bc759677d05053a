//! A lock: one 32-bit word, tried first, then spun on, then slept on; it accounts for contention and knows its holder.
//!
//! ```text
//!   bit 31     somebody may be asleep on the word
//!   bits 0-30  identity of the holder, 0 = free
//! ```
//!
//! Knowing the holder buys what an allocator needs in forks: a lock whose holder vanished in one is taken over, and the
//! caller is told that what it protects may be half-changed.
//!
//! **No deadlock, even in signal handlers.** A thread counts the locks that it holds, by rank, and waits only for a
//! lock whose rank is above them all. So ranks rise along any chain of threads that wait for each other, and no chain
//! closes. A handler that allocates in the middle of its own thread's allocation finds ranks in its way: it gets the
//! lock if that is free, and [`Acquired::WouldDeadlock`] otherwise. A lock also counts while a thread waits for it: a
//! woken thread has the only wake-up, and others wait for what it does. And it counts until the releasing thread has
//! woken a sleeper: a handler in between might wait for what the sleeper holds. It is not enough to detect a thread
//! that meets its own lock: a handler above the holder of B that waits for A, whose holder waits for B, hangs as well.
//!
//! Accounting follows Linux's lock-contention tracing: it takes a timestamp only after the first try failed, and
//! updates the counters after the lock was acquired. So an uncontended pass costs only the atomic exchange. The
//! waiter's site is a constant, which only the slow path looks at.
//!
//! Without handlers, ranks only rise; [`ContentionReport::out_of_order`](super::ContentionReport::out_of_order) counts
//! the exceptions. Runs at the same time: any number of threads.

use super::contention::Contention;
use super::site::Site;
use super::wait::{wait, wake_one};
use super::{AtomicU32, Ordering, compiler_fence, spin_loop};
use crate::{clock, slot, thread};

/// Set in the lock word while somebody may be asleep on it.
pub(crate) const WAITERS: u32 = 1 << 31;
const SPINS: u32 = 128;
/// Of those, between two looks.
const LONGEST_PAUSE: u32 = 64;
/// What a sleeper sleeps at most: it may be in a child that nobody wakes.
const A_SECOND: u64 = 1_000_000_000;

/// How an acquisition ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The lock is ours and what it protects is in order.
    Clean,
    /// The lock is ours, but its last holder vanished in a fork while it held it.
    Abandoned,
    /// The lock is *not* ours: somebody has it, and this thread holds one of its rank or above further up its stack.
    WouldDeadlock,
}

/// A lock of a rank, 0 to 7; a thread takes locks in rising rank. All-zero memory is a free lock.
#[derive(Debug)]
#[repr(transparent)]
pub struct Lock<const RANK: u8> {
    word: AtomicU32,
}

impl<const RANK: u8> Lock<RANK> {
    /// Where the count of held locks of this rank begins in [`thread::held_ranks`].
    const COUNTER: u32 = {
        assert!(RANK < 8);
        RANK as u32 * 8
    };

    /// A free lock.
    pub const fn new() -> Self {
        Lock { word: AtomicU32::new(0) }
    }

    /// Takes the lock if it is free. The calling thread must have [`thread::enter`]ed.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        Self::count_held();
        let taken = self.exchange(0, thread::lock_identity());
        if !taken {
            Self::uncount_held();
        }
        taken
    }

    /// Takes the lock if its holder vanished in a fork; what it protects may be half-changed. Does not wait. The
    /// calling thread must have [`thread::enter`]ed.
    #[cold]
    pub fn try_inherit(&self) -> bool {
        // As in `acquire`: the vanished holder may be this very thread, as it was before its own handler forked.
        if thread::held_ranks() >> Self::COUNTER != 0 {
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

    /// Takes the lock, and waits for it unless that might be for ever. A wait is recorded under `site`, which is
    /// `here!()`, or the site of the caller for which the lock is taken.
    #[inline]
    pub fn acquire(&self, contention: &Contention, site: Site) -> Acquired {
        let in_order = thread::held_ranks() >> Self::COUNTER == 0;
        if in_order && self.try_acquire() { Acquired::Clean } else { self.acquire_slow(contention, site, in_order) }
    }

    #[cold]
    fn acquire_slow(&self, contention: &Contention, site: Site, in_order: bool) -> Acquired {
        if !in_order {
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
        // Once we have slept, others may sleep too and we cannot know: we leave the mark for our own release.
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
                // A holder that is gone released nothing: what it wrote before the fork is ours by the fork itself.
                if self.exchange(word, me | mark | (word & WAITERS)) {
                    return if holder == 0 { Acquired::Clean } else { Acquired::Abandoned };
                }
            } else if spins < SPINS {
                // Looking often takes the line from the holder, which needs it: the more waiters, the longer.
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

    /// Makes the lock ours if its word is still `word`.
    #[inline]
    fn exchange(&self, word: u32, ours: u32) -> bool {
        // Acquire pairs with the release in `release`: what the last holder wrote is visible to us. Relaxed on failure:
        // nothing is read then.
        self.word.compare_exchange(word, ours, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Counts the lock before it is ours; [`Self::uncount_held`] forgets it after it was. So a handler in between finds
    /// too much counted, never too little. It leaves the count as it was, so the plain addition loses nothing.
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

    /// Gives the lock back.
    ///
    /// # Safety
    /// The calling thread holds it.
    #[inline]
    pub unsafe fn release(&self) {
        // Release pairs with the acquires above. The exchange, not a store: a waiter's mark set just before is either
        // seen here and its owner woken, or set after and then set on a free word, which the kernel's check refuses.
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

    /// Whether anybody holds the lock right now; stale by the time it is read.
    pub fn is_held(&self) -> bool {
        self.word.load(Ordering::Relaxed) & !WAITERS != 0
    }

    /// Whether the calling thread holds the lock. Only a signal handler needs to ask, because it may have interrupted
    /// the holder. The thread must have [`thread::enter`]ed.
    pub fn is_mine(&self) -> bool {
        self.word.load(Ordering::Relaxed) & !WAITERS == thread::lock_identity()
    }
}

impl<const RANK: u8> Default for Lock<RANK> {
    fn default() -> Self {
        Self::new()
    }
}
