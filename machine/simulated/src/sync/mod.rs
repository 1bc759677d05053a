//! Atomics and fences as the simulated CPUs see them, and the host's ranked lock with contention accounting.

mod atomic;
#[path = "../../../host/src/sync/contention.rs"]
mod contention;
#[path = "../../../host/src/sync/hold.rs"]
mod hold;
#[path = "../../../host/src/sync/lock.rs"]
mod lock;
#[path = "../../../host/src/sync/order.rs"]
mod order;
#[path = "../../../host/src/sync/prefetch.rs"]
mod prefetch;
#[path = "../../../host/src/sync/site.rs"]
mod site;
#[path = "../../../host/src/sync/wait.rs"]
mod wait;

pub use atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, compiler_fence, fence,
    spin_loop,
};
pub(crate) use atomic::{STORES_TAKE_NS, empty_all_buffers};
pub use contention::{Contention, ContentionReport, PLACES, Waited};
pub use core::sync::atomic::Ordering;
pub use hold::measure_holds;
pub(crate) use hold::names_of_state;
pub(crate) use lock::WAITERS;
pub use lock::{Acquired, Lock};
pub use order::{KEEPS_ORDER, order_after_change, order_reads, order_writes};
pub use prefetch::prefetchw;
pub use site::Site;
#[doc(hidden)]
pub use site::full_name;
pub use wait::{wait, wake_all, wake_one};
