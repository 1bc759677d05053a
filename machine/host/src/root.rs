//! The root: the one place where mutable state hangs.
//!
//! The runtime keeps the state of its heap in one *region* of address space; this module keeps the region's address. A
//! second address leads to an *area* for per-CPU blocks, which programs with another heap use, too. A few static
//! zeroes, the *domain*, hold state that must work before any reservation. Until `install`, the address is that of a
//! zeroed stand-in, which is never written. There each magazine word reads as "empty and full". So the first operation
//! takes the slow path, which makes the region.
//!
//! Runs at the same time: readers on each CPU; of several threads and handlers that install, one succeeds.

use crate::sync::{AtomicPtr, Ordering};
use crate::{slot, vm};
use core::cell::UnsafeCell;

/// Bytes of the stand-in. A runtime may read, but not write, below this offset before it installs its region.
pub const BOOTSTRAP_BYTES: usize = slot::AREAS + slot::MAX * slot::AREA + vm::PAGE;

/// Zeroes. Not page-aligned: the rest of `.bss` then shares a page with `.data`, which the loader touches anyway.
#[repr(C, align(64))]
struct Zeroes<const BYTES: usize>(UnsafeCell<[u8; BYTES]>);

// SAFETY: only its address is given away; the writers argue their own safety.
unsafe impl<const BYTES: usize> Sync for Zeroes<BYTES> {}

/// Only read (`base`'s contract), so the kernel backs whole pages with its zero page.
static BOOTSTRAP: Zeroes<BOOTSTRAP_BYTES> = Zeroes(UnsafeCell::new([0; BOOTSTRAP_BYTES]));

process_state! {
    #[doc(hidden)]
    pub static BASE: AtomicPtr<u8> = AtomicPtr::new(BOOTSTRAP.0.get().cast());
    static AREA: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
    static DOMAIN: Zeroes<DOMAIN_BYTES> = Zeroes(UnsafeCell::new([0; DOMAIN_BYTES]));
}

/// Address of the runtime's region, or of the zeroed stand-in, which must not be written.
#[inline(always)]
pub fn base() -> *mut u8 {
    // Acquire pairs with the release in `install`: a thread that sees the new base sees the region's contents. Because
    // `slot` reads its state after this load, it also sees the slot mode chosen before (see `slot::initialise`).
    BASE.load(Ordering::Acquire)
}

/// Whether `install` has succeeded.
#[inline]
pub fn is_installed() -> bool {
    BASE.load(Ordering::Relaxed) != BOOTSTRAP.0.get().cast()
}

/// Address of the runtime's area of per-CPU blocks; null: none yet.
#[inline]
pub fn area() -> *mut u8 {
    // Acquire pairs with the release in `offer_area`, as above.
    AREA.load(Ordering::Acquire)
}

/// Publishes a region that is ready. False: there is one already. Waits for nobody and blocks no signals, so the first
/// allocation of a program that has forbidden itself such calls needs none.
#[cold]
pub fn install(region: *mut u8) -> bool {
    // Release pairs with the acquire in `base`. Relaxed on failure: the caller loads anew.
    BASE.compare_exchange(BOOTSTRAP.0.get().cast(), region, Ordering::Release, Ordering::Relaxed).is_ok()
}

/// Bytes of the [`domain`].
pub const DOMAIN_BYTES: usize = 4096;

/// Zeroed memory of the process, aligned to 64, which works before any reservation.
#[inline(always)]
pub fn domain() -> *mut u8 {
    DOMAIN.0.get().cast()
}

/// Publishes an area. False: there is one already. Does not wait: other threads may fork in the middle.
pub fn offer_area(area: *mut u8) -> bool {
    // Release as above; Relaxed on failure: the caller loads anew.
    AREA.compare_exchange(core::ptr::null_mut(), area, Ordering::Release, Ordering::Relaxed).is_ok()
}
