//! The protocols of Commensal's runtime, as bodies that the simulated machine explores.
//!
//! A *protocol* is a small program on the runtime's public interface that reaches what is hard to get right: the upgrade of a heap or a counter,
//! arrays that change hands, draining, the page map, forks, signals, refused memory. It checks what must hold whatever happens: no block is given
//! twice, nothing is lost, sums agree. Each has *canaries*: the same body on a machine that is broken in one way must find that.
//!
//! Explore by `cargo test`, for longer by `cargo xtask explore --minutes N`; a finding prints the command that replays it.

#![allow(missing_docs)]

mod blocks;
mod caches;
mod cells;
mod counters;
mod deferred;
mod forks;
mod groups;
mod heaps;
mod limits;
mod locks;
mod protocol;
mod qsbr;
mod rcu;
pub mod schedules;
mod typesafe;
mod upkeep;

pub use protocol::{Canary, Protocol, find, replay_command};

pub fn protocols() -> impl Iterator<Item = &'static Protocol> {
    let files = [
        heaps::PROTOCOLS,
        caches::PROTOCOLS,
        groups::PROTOCOLS,
        limits::PROTOCOLS,
        counters::PROTOCOLS,
        forks::PROTOCOLS,
        locks::PROTOCOLS,
        rcu::PROTOCOLS,
        deferred::PROTOCOLS,
        cells::PROTOCOLS,
        qsbr::PROTOCOLS,
        typesafe::PROTOCOLS,
        upkeep::PROTOCOLS,
    ];
    files.into_iter().flatten()
}
