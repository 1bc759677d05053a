//! Memory orders that x86 keeps by itself, by name.
//!
//! The runtime is written for weak machines. If x86 gives an order for free, it uses release and acquire, or one of
//! these. If an order costs an instruction on x86 too, it uses `fence(SeqCst)` or [`crate::kick::fence_all`].
//!
//! [`compiler_fence`] is for a thread's own signal handlers and for fork children. On all machines these find each
//! thread between two instructions: a fork returns when all stores through the old page tables are done.

use super::{Ordering, compiler_fence, fence};

/// Whether all threads see each thread's stores in its order, and its loads keep theirs, without fences.
pub const KEEPS_ORDER: bool = cfg!(target_arch = "x86_64");

/// Orders earlier loads before all later accesses.
///
/// Also: a thread stored a value, fenced, and loaded a word. If we have loaded a later value of that word, we see its
/// store. On machines where a store reaches some CPUs before others, this takes a full fence.
#[inline(always)]
pub fn order_reads() {
    let reaches_all_at_once = cfg!(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"));
    fence(if reaches_all_at_once { Ordering::Acquire } else { Ordering::SeqCst });
}

/// Orders earlier loads and stores before all later stores.
#[inline(always)]
pub fn order_writes() {
    fence(Ordering::Release);
}

/// A full fence after a read-modify-write or `SeqCst` store, which on x86 was already one.
#[inline(always)]
pub fn order_after_change() {
    if cfg!(target_arch = "x86_64") {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}
