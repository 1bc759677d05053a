//! libcommensal: the C library's memory functions on Commensal's heap, and the functions of `commensal.h`. It has
//! names, errno and the standards' corner cases; no logic.
//!
//! `cargo xtask header` generates a section of the header from each file of the latter, with its comments, so they
//! address C programmers. The files of `malloc/header` state the common rules of all functions, and those of each
//! section. A comment has only the exceptions. The macros are there too.
#![no_std]
// Rust 1.88 takes labels in naked functions for those of inline assembly, which a compiler may copy.
#![allow(named_asm_labels)]

mod cache;
mod counter;
mod counters;
mod cxx;
mod group;
mod limit;
mod loaded;
mod locks;
mod names;
mod process;
mod profile;
mod rcu;
mod rcu_reader;
mod sandbox;
mod stdlib;
mod upkeep;
mod version;

/// The library's version, which the command reads from the file.
#[allow(non_upper_case_globals, reason = "a symbol for C")]
#[unsafe(no_mangle)]
pub static commensal_version: [u8; env!("CARGO_PKG_VERSION").len() + 1] = {
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let mut text = [0; env!("CARGO_PKG_VERSION").len() + 1];
    text.split_at_mut(version.len()).0.copy_from_slice(version);
    text
};

/// Runs when the loader has initialised the C library, so that its environment is readable.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = {
    extern "C" fn start() {
        loaded::stay();
        commensal_runtime::heap::conf::apply_environment();
    }
    start
};

/// Runs when the program returns from `main` or calls `exit`.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = {
    extern "C" fn end() {
        commensal_runtime::heap::examine_at_exit();
    }
    end
};

// Nothing here unwinds, but the precompiled core refers to the symbol. Hidden: a Rust program that the library is
// preloaded into unwinds by its own. Weak: so does a program that it is linked into.
core::arch::global_asm!(
    ".pushsection .text.rust_eh_personality,\"ax\",@progbits",
    ".weak rust_eh_personality",
    ".hidden rust_eh_personality",
    ".type rust_eh_personality,@function",
    "rust_eh_personality: ud2",
    ".size rust_eh_personality, . - rust_eh_personality",
    ".popsection",
);

// The library is linked without the compiler's start files, and needs only this of them: an address by which the C
// library knows whose functions to call at exit and in a fork. Weak: programs that it is linked into have one.
core::arch::global_asm!(
    ".pushsection .rodata.__dso_handle,\"a\",@progbits",
    ".weak __dso_handle",
    ".hidden __dso_handle",
    ".type __dso_handle,@object",
    "__dso_handle: .byte 0",
    ".size __dso_handle, . - __dso_handle",
    ".popsection",
);

// Never called. When the command is built too, its hash maps turn on allocations in a crate that the runtime also uses,
// and the compiler then demands a global allocator of this library.
#[global_allocator]
static UNUSED: commensal_runtime::Commensal = commensal_runtime::Commensal;

#[cfg(not(test))]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    commensal_runtime::heap::panicked(info)
}

#[link(name = "c")]
unsafe extern "C" {}
