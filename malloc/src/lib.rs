//! libcommensal: the C library's memory functions, on Commensal's heap. Names, errno and the standards' corner cases; no logic.
#![no_std]

mod cxx;
mod stdlib;

/// Nothing in here unwinds; precompiled core refers to the symbol all the same.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[cfg(not(test))]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    runtime::heap::panicked(info)
}

#[link(name = "c")]
unsafe extern "C" {}
