//! Atomics and fences as the simulated CPUs see them, and the ranked lock with contention accounting, which is the host's.

mod atomic;
#[path = "../../../host/src/sync/lock.rs"]
mod lock;
#[path = "../../../host/src/sync/wait.rs"]
mod wait;

pub use atomic::{
    AtomicBool, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, compiler_fence, fence,
    spin_loop,
};
pub use core::sync::atomic::Ordering;
pub(crate) use lock::WAITERS;
pub use lock::{Acquired, Contention, ContentionReport, Lock};
pub use wait::{wait, wake_all, wake_one};
