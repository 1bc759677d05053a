//! Threads: identity, forks, and whether the process has one thread.

mod block;
#[path = "../../../host/src/thread/identity.rs"]
mod identity;
mod interrupt;
mod spawn;
#[path = "../../../host/src/thread/trap.rs"]
#[allow(dead_code, reason = "the host asks more about its signals")]
mod trap;

pub(crate) use block::Zeroes;
pub use block::{ascend, before_fork, descend, id, is_alone, on_fork_in_child};
pub(crate) use identity::names_of_state;
pub use identity::{
    FIRST_GENERATION, declare_forked, enter, forget_number, forked, generation, holds_locks, identity, level, local,
    notice_forks, region, set_level, set_local, set_region, when_forked, without_signals,
};
pub(crate) use identity::{fallback_slot, held_ranks, is_alive, is_gone, lock_identity, set_held_ranks, slotless, tid};
pub use interrupt::{interrupt, may_be_in_handler, on_interrupt};
pub use spawn::{Work, prepare_to_spawn, spawn};
pub use trap::{After, Fault, on_fault};
