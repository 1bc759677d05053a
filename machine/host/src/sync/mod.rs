//! Atomics, fences, and the ranked lock with contention accounting.
//!
//! The atomics are core's: the simulated machine puts its own, of the same shape, in their place.

mod contention;
mod lock;
mod site;
mod wait;

pub use contention::{Contention, ContentionReport, PLACES, Waited};
pub use core::hint::spin_loop;
pub use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
pub use core::sync::atomic::{compiler_fence, fence};
pub(crate) use lock::WAITERS;
pub use lock::{Acquired, Lock};
pub use site::Site;
#[doc(hidden)]
pub use site::full_name;
pub use wait::{wait, wake_all, wake_one};
