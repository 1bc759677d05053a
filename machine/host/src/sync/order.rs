//! Orders of memory that x86 keeps by itself, by name.
//!
//! The runtime is written for machines that keep few orders. Where x86 gives one for free, it uses release and acquire,
//! or one of these. Where an order costs an instruction here, too, it uses `fence(SeqCst)` or
//! [`crate::kick::fence_all`].
//!
//! [`compiler_fence`] is for a thread's own signal handlers and for fork children. On every machine these find each
//! thread between two instructions: a fork returns when all stores through the old page tables are done.

use super::{Ordering, compiler_fence, fence};

/// What was loaded before this comes before all that follows.
///
/// Also: if a thread stored something, fenced, and loaded a word, and we have loaded a later value of that word, we see
/// what it stored. Where a store reaches some CPUs before others, that takes a full fence.
#[inline(always)]
pub fn order_reads() {
    let reaches_all_at_once = cfg!(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"));
    fence(if reaches_all_at_once { Ordering::Acquire } else { Ordering::SeqCst });
}

/// What was loaded or stored before this comes before all that is stored after it.
#[inline(always)]
pub fn order_writes() {
    fence(Ordering::Release);
}

/// A full fence for what comes before the last read-modify-write or `SeqCst` store, which was one on x86.
#[inline(always)]
pub fn order_after_change() {
    if cfg!(target_arch = "x86_64") {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}
