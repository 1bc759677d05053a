//! The root: the one place where mutable state hangs.
//!
//! The runtime keeps the state of its heap in one *region* of address space, and this module keeps the region's
//! address. The second address is that of an *area* for per-CPU blocks, which programs with another heap use, too. A
//! few static zeroes, the *domain*, hold what must work even where nothing can be reserved. Before the runtime has made
//! its region, the address is that of a zeroed stand-in. There every array of every slot reads as "empty and full", so
//! the first operation takes the slow path, which makes the region.
//!
//! ```text
//!   base ──▶ stand-in, all zero, BOOTSTRAP_BYTES of .bss that nobody touches twice
//!        └─▶ the region, once `install` has been called
//! ```
//!
//! Runs at the same time: readers on every CPU; of those who install, one succeeds.

use crate::sync::{AtomicPtr, AtomicU32, Ordering, spin_loop};
use crate::{process, slot, thread, vm};
use core::cell::UnsafeCell;

/// Size of the stand-in: a runtime may read (never write) any offset below this before it has installed its region.
pub const BOOTSTRAP_BYTES: usize = slot::AREAS + slot::MAX * slot::AREA + vm::PAGE;

/// Zeroes. Not aligned to pages: the rest of `.bss` then shares a page with `.data`, which the loader touches anyway.
#[repr(C, align(64))]
struct Zeroes<const BYTES: usize>(UnsafeCell<[u8; BYTES]>);

// SAFETY: only its address is given away; whoever writes there says what is safe.
unsafe impl<const BYTES: usize> Sync for Zeroes<BYTES> {}

/// Only ever read (`base`'s contract): the kernel backs whole pages with its shared zero page.
static BOOTSTRAP: Zeroes<BOOTSTRAP_BYTES> = Zeroes(UnsafeCell::new([0; BOOTSTRAP_BYTES]));

process_state! {
    /// The process of which a thread makes the region; 0: nobody does.
    static MAKING: AtomicU32 = AtomicU32::new(0);
    #[doc(hidden)]
    pub static BASE: AtomicPtr<u8> = AtomicPtr::new(BOOTSTRAP.0.get().cast());
    static AREA: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
    static DOMAIN: Zeroes<DOMAIN_BYTES> = Zeroes(UnsafeCell::new([0; DOMAIN_BYTES]));
}

/// The address of the runtime's region, or of the zeroed stand-in that must not be written.
#[inline(always)]
pub fn base() -> *mut u8 {
    // Acquire pairs with the release in `install`: who sees the new base also sees the region's contents, and, because
    // `slot` reads its own state after this load, also the slot mode that was chosen before (see `slot::initialise`).
    BASE.load(Ordering::Acquire)
}

/// Whether `install` has been called.
#[inline]
pub fn is_installed() -> bool {
    BASE.load(Ordering::Relaxed) != BOOTSTRAP.0.get().cast()
}

/// The address of the runtime's area of per-CPU blocks; null before there is one.
#[inline]
pub fn area() -> *mut u8 {
    // Acquire pairs with the release in `offer_area`, as above.
    AREA.load(Ordering::Acquire)
}

/// Makes the region by `make` and publishes it, once. Returns false if `make` fails; the next call tries again. A
/// signal handler that allocates waits until this is done. A fork child does not wait for a thread of the parent: what
/// that thread has made so far is lost there.
#[cold]
pub fn install(make: impl FnOnce() -> Option<*mut u8>) -> bool {
    thread::without_signals(|| {
        // Here, where no handler forks any more: the child would have the parent's.
        let process = process::id();
        // Acquire pairs with the release below: a second try sees what the first one left.
        let mut expected = 0;
        while let Err(other) = MAKING.compare_exchange(expected, process, Ordering::Acquire, Ordering::Relaxed) {
            expected = if other == process { 0 } else { other };
            spin_loop();
        }
        if !is_installed()
            && let Some(base) = make()
        {
            BASE.store(base, Ordering::Release);
        }
        MAKING.store(0, Ordering::Release);
        is_installed()
    })
}

/// Bytes of the [`domain`].
pub const DOMAIN_BYTES: usize = 4096;

/// Memory of the process, all zero at first, aligned to 64, for what must work before anything could be reserved.
#[inline(always)]
pub fn domain() -> *mut u8 {
    DOMAIN.0.get().cast()
}

/// Publishes an area that is ready. Returns false if there is one already; this one is still the caller's then. Does
/// not wait: other threads run already, and may fork in the middle.
pub fn offer_area(area: *mut u8) -> bool {
    // Release as above; Relaxed on failure: the caller loads anew.
    AREA.compare_exchange(core::ptr::null_mut(), area, Ordering::Release, Ordering::Relaxed).is_ok()
}
