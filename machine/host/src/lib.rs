//! The host machine: the operations that Commensal's runtime needs, on Linux and x86-64.
//!
//! This package and the simulated machine have the same interface; `machine/conformance` specifies each operation once
//! and tests both. The runtime says `use machine::…`, and Cargo.toml decides which package that is.
//!
//! Nothing here allocates or calls a C function that could. System calls are made directly, so only
//! [`process::set_error`] changes `errno`, and an interposed `mmap` of another library is not entered.
#![no_std]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::missing_panics_doc, clippy::missing_safety_doc)]

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("commensal-host speaks Linux on x86-64 only; found another target");

#[cfg(test)]
extern crate std;

/// Declares state of the process. The simulated machine resets it for each simulation.
macro_rules! process_state {
    ($($state:item)*) => { $($state)* };
}

/// Process state that the library's start writes: in `.data`, on a page that the loader has touched already.
macro_rules! early_state {
    ($($(#[$text:meta])* static $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$text])* #[unsafe(link_section = ".data")] static $name: $type = $value;)*
    };
}

pub mod clock;
pub mod code;
pub mod fault;
pub mod file;
pub mod kick;
pub mod probe;
pub mod process;
pub mod publication;
pub mod root;
pub mod sandbox;
pub mod slot;
pub mod stack;
pub mod sync;
mod syscall;
pub mod test_support;
pub mod thread;
pub mod vm;
mod zero;
