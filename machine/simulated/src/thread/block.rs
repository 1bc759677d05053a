//! The thread's block of memory, and the C library's knowledge of threads.

use super::identity::{self, Block};
use crate::engine::{self, Access};
use std::sync::atomic::AtomicU64;

/// A block's memory at the thread's start.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Zeroes([AtomicU64; size_of::<Block>() / 8]);

thread_local! {
    /// The block of a host thread while no simulation runs on it.
    static PLAIN: Zeroes = const { Zeroes([const { AtomicU64::new(0) }; size_of::<Block>() / 8]) };
}

/// The calling thread's block.
#[inline]
pub fn block() -> &'static Block {
    let block: *const Zeroes = match engine::here() {
        Some(here) => here.with(|engine| &raw const *engine.thread().block),
        None => PLAIN.with(|plain| &raw const *plain),
    };
    // SAFETY: zeroes are a block, and no reference outlives the thread.
    unsafe { &*block.cast() }
}

/// As on the host, but ids are given from the lowest on, so that the dead ones' come again soon.
#[inline]
pub fn id() -> u64 {
    match engine::here() {
        Some(here) => here.with(|engine| engine.thread().pointer),
        None => PLAIN.with(|plain| (&raw const *plain).addr() as u64),
    }
}

pub fn descend() -> bool {
    change(-1)
}

pub fn ascend() -> bool {
    change(1)
}

/// Handlers come before the instruction.
fn change(amount: i32) -> bool {
    if let Some(here) = engine::here() {
        here.step(Access::Own);
    }
    let level = identity::level() + amount;
    identity::set_level(level);
    level < 0
}

pub fn is_alone() -> bool {
    engine::here().is_some_and(|here| here.with(|engine| !engine.had_threads))
}

pub fn on_fork_in_child(child: extern "C" fn()) -> bool {
    if let Some(here) = engine::here() {
        here.with(|engine| engine.fork_handlers.push(child));
        return true;
    }
    // SAFETY: the function lives as long as the process.
    unsafe { libc::pthread_atfork(None, None, Some(child)) == 0 }
}

/// Registers a function to run before an ordinary `fork`. A simulated one runs none: the runtime has no threads there.
pub fn before_fork(prepare: extern "C" fn()) -> bool {
    // SAFETY: the function lives as long as the process.
    engine::here().is_some() || unsafe { libc::pthread_atfork(Some(prepare), None, None) == 0 }
}
