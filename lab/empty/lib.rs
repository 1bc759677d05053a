//! A library that does nothing when it is preloaded.
//!
//! It is made as the real one is: `no_std`, no unwinder, the C library as its only dependency, the same linker flags (lab/build.rs).
//! So what start-up costs with it is what any preloaded library costs, before it does anything.
#![no_std]

use core::ffi::c_int;
use core::panic::PanicInfo;

#[link(name = "c")]
unsafe extern "C" {
    safe fn getpid() -> c_int;
    safe fn abort() -> !;
}

/// Never called. It makes the linker keep the dependency on the C library.
#[unsafe(no_mangle)]
pub extern "C" fn commensal_lab_empty() -> c_int {
    getpid()
}

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    abort()
}
