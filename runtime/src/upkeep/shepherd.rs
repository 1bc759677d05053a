//! The state of the shepherd; `thread` is the code that it runs.

use machine::clock;
use machine::sync::{AtomicU32, AtomicU64, Ordering, fence, wake_one};
use machine::thread::{self, FIRST_GENERATION};

pub(super) const NONE: u32 = 0;
pub(super) const AWAKE: u32 = 1;
pub(super) const IDLE: u32 = 2;
/// It finishes, and another one may be created.
pub(super) const ENDING: u32 = 3;
/// The bits of the state; above them is the generation.
pub(super) const STATE: u32 = 3;

/// An upper bound of the time for its last instructions.
pub(super) const MOMENT_NS: u64 = 10_000_000;

/// The shepherd's state. All zeroes: there is none.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Shepherd {
    /// The generation, times four, plus the state.
    pub(super) state: AtomicU32,
    /// Changes to wake it up.
    pub(super) bell: AtomicU32,
    /// When it can be created, in nanoseconds of the clock.
    pub(super) not_before_ns: AtomicU64,
    /// The first thread that wanted it, below the generation of the process.
    first: AtomicU64,
    /// When it ended, except for its last instructions.
    pub(super) ended_ns: AtomicU64,
}

/// Bits of an identity that are compared.
const IDENTITY: u32 = 40;

pub(super) fn marked(state: u32) -> u32 {
    thread::generation() << 2 | state
}

impl Shepherd {
    pub(super) fn state(&self) -> u32 {
        let word = self.state.load(Ordering::Relaxed);
        if word & !STATE == marked(0) { word & STATE } else { NONE }
    }

    pub(super) fn is_there(&self) -> bool {
        matches!(self.state(), AWAKE | IDLE)
    }

    /// Whether forks allow its creation. The C library's locks are in order in a child that has created a thread. After
    /// `_Fork` or the bare system call, vanished threads may hold them. So a child needs two threads first.
    pub(super) fn is_possible_in_child(&self) -> bool {
        let generation = thread::generation();
        if generation == FIRST_GENERATION {
            return true;
        }
        let mine = u64::from(generation) << IDENTITY | (thread::identity() & ((1 << IDENTITY) - 1));
        // Relaxed: a thread that misses another one asks again.
        let first = self.first.load(Ordering::Relaxed);
        if first >> IDENTITY != u64::from(generation) {
            self.first.store(mine, Ordering::Relaxed);
        }
        first >> IDENTITY == u64::from(generation) && first != mine
    }

    /// Wakes it if it is idle. The caller has left work for it before.
    pub(super) fn rouse(&self) {
        // Pairs with the fence in `rest`: if ours is first, it sees the work; otherwise we see that it is idle.
        fence(Ordering::SeqCst);
        if self.state() == IDLE
            && self.state.compare_exchange(marked(IDLE), marked(AWAKE), Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.ring();
        }
    }

    /// Makes it look at once.
    pub(super) fn ring(&self) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        wake_one(&self.bell);
    }

    /// Whether it is about to end, also for the kernel, or has just ended.
    pub(super) fn is_going(&self) -> bool {
        self.state() == ENDING || clock::now_ns().saturating_sub(self.ended_ns.load(Ordering::Relaxed)) < MOMENT_NS
    }
}
