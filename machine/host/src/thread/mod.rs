//! Threads: identity, forks, and whether the process has one thread.
//!
//! Each thread has a small block in the static TLS area, which one addition reaches and which never allocates. An
//! [`identity`](identity()) names a lock's holder in *this* process, an [`id`] the owner of data, also after a fork.

mod block;
mod identity;
mod interrupt;
mod spawn;
mod trap;

pub(crate) use block::block_offset;
pub use block::{ascend, before_fork, descend, id, is_alone, on_fork_in_child};
pub use identity::{
    FIRST_GENERATION, declare_forked, enter, forget_number, forked, generation, holds_locks, identity, level, local,
    notice_forks, region, set_level, set_local, set_region, when_forked, without_signals,
};
pub(crate) use identity::{fallback_slot, held_ranks, is_alive, is_gone, lock_identity, set_held_ranks, slotless, tid};
pub use interrupt::{interrupt, may_be_in_handler, on_interrupt};
pub use spawn::{Work, prepare_to_spawn, spawn};
pub use trap::{After, Fault, on_fault};
