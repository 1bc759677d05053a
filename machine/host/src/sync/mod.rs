//! Atomics, fences, and the ranked lock with contention accounting. The atomics are core's; the simulated machine
//! replaces them with its own of the same shape.

mod contention;
mod hold;
mod lock;
mod order;
mod prefetch;
mod site;
mod wait;

pub use contention::{Contention, ContentionReport, PLACES, Waited};
pub use core::hint::spin_loop;
pub use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
pub use core::sync::atomic::{compiler_fence, fence};
pub use hold::measure_holds;
pub(crate) use lock::WAITERS;
pub use lock::{Acquired, Lock};
pub use order::{KEEPS_ORDER, order_after_change, order_reads, order_writes};
pub use prefetch::prefetchw;
pub use site::Site;
#[doc(hidden)]
pub use site::full_name;
pub use wait::{wait, wake_all, wake_one};

/// Longest time until other CPUs see a store: two ticks of the slowest clock interrupt. A CPU keeps no store back on
/// purpose, and an interrupt, a context switch or the hypervisor empties its buffer. FreeBSD's `smr` relies on the same
/// in its lazy form (`SMR_LAZY_GRACE`); the model is that of Morrison and Afek, "Temporally Bounding TSO for Fence-Free
/// Asymmetric Synchronization" (ASPLOS 2015).
pub(crate) const STORES_TAKE_NS: u64 = 20_000_000;

/// Orders later accesses after a time in which all CPUs have emptied their store buffers.
#[inline]
pub(crate) fn empty_all_buffers() {
    fence(Ordering::SeqCst);
}
