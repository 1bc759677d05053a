//! A simulated machine: a deterministic engine with 1 to 1024 CPUs serves Commensal's runtime in place of a computer.
//!
//! It has the interface of the host machine, passes the same conformance bodies, and shares all of the host's sources
//! without assembly. So locks, identities, kicks, address space, the fallback's slots and the root are the very files
//! that are shipped. The layer below differs: system calls, atomics, the restartable operations, thread-local blocks
//! and the clock ask the [engine](simulation).
//!
//! | shared with the host | the simulated machine's own |
//! |---|---|
//! | `sync/{lock, order}.rs`, `thread/{identity, trap}.rs` | atomics, fences, system calls, `thread/block.rs` |
//! | `slot/{fallback, layout, number, words}.rs` | `slot/{restartable, section, given}.rs` |
//! | [`kick`], [`vm`], [`root`], [`sandbox`], [`fault`], [`code`] | [`clock`], [`process`], [`publication`] |
//!
//! While no simulation runs on its host thread, an operation has its plain meaning: atomics are core's, system calls
//! the host's, and each host thread has its own slot. So unit tests run on this machine unchanged.
//!
//! Plain accesses take effect at once. So memory must change its role by an operation, because a store that waits in a
//! buffer would come later. Dropping an atomic and system calls empty the buffer. The engine detects a plain write
//! under a waiting store, and ends the simulation.

#![allow(missing_docs)]

/// Declares state of the process, which each simulation finds fresh, and its names.
macro_rules! process_state {
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $value:expr;)*) => {
        $(
            #[unsafe(link_section = "commensal_state")]
            $(#[$attribute])*
            $visibility static $name: $type = $value;
        )*

        /// Address, size and name of each.
        pub(crate) fn names_of_state() -> impl Iterator<Item = (usize, usize, &'static str)> {
            [$(((&raw const $name).addr(), size_of::<$type>(), stringify!($name))),*].into_iter()
        }
    };
}
macro_rules! early_state {
    ($($state:tt)*) => { process_state! { $($state)* } };
}

pub mod clock;
#[path = "../../host/src/code.rs"]
pub mod code;
mod engine;
#[path = "../../host/src/fault.rs"]
pub mod fault;
pub mod file;
#[path = "../../host/src/kick.rs"]
pub mod kick;
pub mod probe;
pub mod process;
pub mod publication;
#[path = "../../host/src/root.rs"]
pub mod root;
#[path = "../../host/src/sandbox.rs"]
pub mod sandbox;
pub mod simulation;
pub mod slot;
pub mod stack;
pub mod sync;
mod syscall;
pub mod test_support;
pub mod thread;
#[path = "../../host/src/vm.rs"]
pub mod vm;
mod zero;
