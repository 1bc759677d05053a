//! A lock: one 32-bit word, tried first, then spun on, then slept on; it accounts for contention and knows its holder.
//!
//! ```text
//!   bit 31     somebody may be asleep on the word
//!   bits 0-30  identity of the holder, 0 = free
//! ```
//!
//! Knowing the holder buys two things that an allocator needs. A lock whose holder vanished in a fork is taken over, and
//! the caller is told that what it protects may be half-changed. A thread that meets its own lock (a signal handler
//! that allocates in the middle of an allocation) is told so instead of waiting for ever.
//!
//! Accounting follows Linux's lock-contention tracing: no timestamp unless the first try failed, and the counters are
//! updated after the lock was acquired, so an uncontended pass costs nothing but the atomic exchange.
//!
//! In debug builds each acquisition checks that ranks only rise. Runs at the same time: any number of threads.

use super::{AtomicU32, AtomicU64, Ordering};
use crate::{clock, syscall, thread};

/// Set in the lock word while somebody may be asleep on it.
pub(crate) const WAITERS: u32 = 1 << 31;
const SPINS: u32 = 128;
const FUTEX_WAIT_PRIVATE: usize = 128;
const FUTEX_WAKE_PRIVATE: usize = 129;

/// How an acquisition ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The lock is ours and what it protects is in order.
    Clean,
    /// The lock is ours, but its last holder vanished in a fork while it held it.
    Abandoned,
    /// The lock is *not* ours twice: this very thread holds it further up its stack.
    Reentered,
}

/// What waiting for a group of locks cost.
#[derive(Debug)]
#[repr(C)]
pub struct Contention {
    contended: AtomicU64,
    total_wait_ns: AtomicU64,
    max_wait_ns: AtomicU64,
}

/// A reading of [`Contention`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentionReport {
    /// Acquisitions that did not succeed at once.
    pub contended: u64,
    /// Nanoseconds waited, all together.
    pub total_wait_ns: u64,
    /// The longest single wait in nanoseconds.
    pub max_wait_ns: u64,
}

impl Contention {
    /// Nothing waited yet.
    pub const fn new() -> Self {
        Contention { contended: AtomicU64::new(0), total_wait_ns: AtomicU64::new(0), max_wait_ns: AtomicU64::new(0) }
    }

    /// The three counters; each exact, together only at rest.
    pub fn report(&self) -> ContentionReport {
        ContentionReport {
            contended: self.contended.load(Ordering::Relaxed),
            total_wait_ns: self.total_wait_ns.load(Ordering::Relaxed),
            max_wait_ns: self.max_wait_ns.load(Ordering::Relaxed),
        }
    }

    fn record(&self, wait_ns: u64) {
        // Relaxed: statistics, ordered with nothing.
        self.contended.fetch_add(1, Ordering::Relaxed);
        self.total_wait_ns.fetch_add(wait_ns, Ordering::Relaxed);
        self.max_wait_ns.fetch_max(wait_ns, Ordering::Relaxed);
    }
}

impl Default for Contention {
    fn default() -> Self {
        Self::new()
    }
}

/// A lock of a rank; a thread takes locks in rising rank only. All-zero memory is a free lock.
#[derive(Debug)]
#[repr(transparent)]
pub struct Lock<const RANK: u8> {
    word: AtomicU32,
}

impl<const RANK: u8> Lock<RANK> {
    /// A free lock.
    pub const fn new() -> Self {
        Lock { word: AtomicU32::new(0) }
    }

    /// Takes the lock if it is free. The calling thread must have [`thread::enter`]ed.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        // Acquire pairs with the release in `release`: what the last holder wrote is visible to us. Relaxed on failure:
        // nothing is read then.
        let taken =
            self.word.compare_exchange(0, thread::lock_identity(), Ordering::Acquire, Ordering::Relaxed).is_ok();
        if taken {
            self.note_held();
        }
        taken
    }

    /// Takes the lock, waiting for it as long as it takes. Only [`Acquired::Reentered`] leaves the caller without it.
    #[inline]
    pub fn acquire(&self, contention: &Contention) -> Acquired {
        if self.try_acquire() { Acquired::Clean } else { self.wait(contention) }
    }

    #[cold]
    fn wait(&self, contention: &Contention) -> Acquired {
        let me = thread::lock_identity();
        if self.word.load(Ordering::Relaxed) & !WAITERS == me {
            return Acquired::Reentered;
        }
        let start = clock::now_ns();
        let outcome = self.wait_for(me);
        contention.record(clock::now_ns() - start);
        self.note_held();
        outcome
    }

    fn wait_for(&self, me: u32) -> Acquired {
        let mut spins = 0;
        // Once we have slept, others may sleep too and we cannot know: we leave the mark for our own release.
        let mut mark = 0;
        loop {
            let word = self.word.load(Ordering::Relaxed);
            let holder = word & !WAITERS;
            if holder == 0 || thread::is_gone(holder) {
                // Acquire as in `try_acquire`. A holder that is gone released nothing: what it wrote before the fork is
                // ours by the fork itself.
                let ours = me | mark | (word & WAITERS);
                if self.word.compare_exchange_weak(word, ours, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return if holder == 0 { Acquired::Clean } else { Acquired::Abandoned };
                }
            } else if spins < SPINS {
                spins += 1;
                core::hint::spin_loop();
            } else if word & WAITERS != 0
                || self.word.compare_exchange(word, word | WAITERS, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                mark = WAITERS;
                self.sleep_while(word | WAITERS);
            }
        }
    }

    /// Gives the lock back.
    ///
    /// # Safety
    /// The calling thread holds it.
    #[inline]
    pub unsafe fn release(&self) {
        self.note_released();
        // Release pairs with the acquires above. The exchange, not a store: a waiter's mark set just before is either
        // seen here and its owner woken, or set after and then set on a free word, which the kernel's check refuses.
        let word = self.word.swap(0, Ordering::Release);
        debug_assert!(
            word & !WAITERS == thread::lock_identity() || thread::is_gone(word & !WAITERS),
            "a lock released by another than its holder"
        );
        if word & WAITERS != 0 {
            self.wake_one();
        }
    }

    /// Whether anybody holds the lock right now; stale by the time it is read.
    pub fn is_held(&self) -> bool {
        self.word.load(Ordering::Relaxed) & !WAITERS != 0
    }

    fn sleep_while(&self, word: u32) {
        let arguments = [&raw const self.word as usize, FUTEX_WAIT_PRIVATE, word as usize, 0, 0, 0];
        // SAFETY: the kernel reads the word, which lives as long as we do. Whatever it answers, we look again.
        let _ = unsafe { syscall::call(syscall::FUTEX, arguments) };
    }

    #[cold]
    fn wake_one(&self) {
        // SAFETY: wakes by address; the memory of a runtime's locks is never unmapped.
        let _ =
            unsafe { syscall::call(syscall::FUTEX, [&raw const self.word as usize, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0]) };
    }

    #[inline]
    fn note_held(&self) {
        if cfg!(debug_assertions) {
            // SAFETY: the word is this thread's own.
            let held = unsafe { &mut *thread::held_ranks() };
            assert!(*held >> RANK == 0, "lock of rank {RANK} taken while holding ranks {held:#b}: ranks must rise");
            *held |= 1 << RANK;
        }
    }

    #[inline]
    fn note_released(&self) {
        if cfg!(debug_assertions) {
            // SAFETY: the word is this thread's own.
            unsafe { *thread::held_ranks() &= !(1 << RANK) };
        }
    }
}

impl<const RANK: u8> Default for Lock<RANK> {
    fn default() -> Self {
        Self::new()
    }
}
