//! malloc's entry points as pop and push.
//!
//! `take_body!` finds the take word by a size, `put_body!` by the pointer's bits above 16. A region's header gets
//! tables that map sizes and pointers to any word. Each pointer that is pushed gets its word's index into those bits,
//! which tokens leave free.
//!
//! ```text
//!   base ─▶ 1024 zeroes │ TABLE: byte n = n │ MAP: byte n = n │ MASK
//! ```

use conformance::Outcome;
use conformance::slot::Operations;
use core::ffi::c_void;
use machine::root;
use std::cell::Cell;

const TABLE: usize = 1024;
const MAP: usize = 1280;
const MASK: usize = 1536;
/// Words whose index fits.
const INDICES: usize = 256;
const STEP: usize = 16;
const INDEX_SHIFT: u32 = 16;

/// A pop from word `bytes / 16`.
#[unsafe(naked)]
extern "C-unwind" fn take_by_size(bytes: usize) -> *mut c_void {
    machine::take_body!(limit: STEP * (INDICES - 1), table: TABLE, slow: take_slow)
}

/// A push beside the word that bits 16 to 23 say.
#[unsafe(naked)]
unsafe extern "C" fn put_by_address(object: *mut c_void) {
    machine::put_body!(map: MAP, mask: MASK, slow: put_slow)
}

extern "C-unwind" fn take_slow(_: usize) -> *mut c_void {
    core::ptr::null_mut()
}

thread_local! {
    /// Whether the last push went the slow way.
    static REFUSED: Cell<bool> = const { Cell::new(false) };
}

unsafe extern "C" fn put_slow(_: *mut c_void) {
    REFUSED.set(true);
}

/// The machine's operations with the entry points for pop and push.
pub const OPERATIONS: Operations = Operations { pop: take, push: put, ..Operations::MACHINE };

/// Runs a body that makes one region, which is installed at the root when the first operation on it needs that.
pub fn installed(body: impl FnOnce() -> Outcome) -> Outcome {
    let outcome = body()?;
    if root::is_installed() { Ok(outcome) } else { Err("the entry points were never called".into()) }
}

/// The entry points find their region at the root.
fn install(base: *mut u8) {
    if root::base() == base {
        return;
    }
    machine::thread::enter();
    root::install(|| {
        for number in 0..INDICES {
            // SAFETY: bytes of the header, which nobody else uses.
            unsafe {
                base.add(TABLE + number).write(number as u8);
                base.add(MAP + number).write(number as u8);
            }
        }
        // SAFETY: as above.
        unsafe { base.add(MASK).cast::<usize>().write(INDICES - 1) };
        Some(base)
    });
    assert!(root::base() == base, "entry points work on one region in a process");
}

/// # Safety
/// As for `slot::pop`.
unsafe fn take(base: *mut u8, index: usize) -> *mut u8 {
    debug_assert!(index < INDICES);
    install(base);
    let object = take_by_size(index * STEP);
    // The tokens' own bits.
    object.cast::<u8>().map_addr(|address| address & !((INDICES - 1) << INDEX_SHIFT))
}

/// # Safety
/// As for `slot::push`.
unsafe fn put(base: *mut u8, index: usize, object: *mut u8) -> bool {
    debug_assert!(index < INDICES);
    install(base);
    // A handler that interrupts us puts the flag back.
    let outer = REFUSED.replace(false);
    // SAFETY: passed on.
    unsafe { put_by_address(object.map_addr(|address| address | index << INDEX_SHIFT).cast()) };
    !REFUSED.replace(outer)
}
