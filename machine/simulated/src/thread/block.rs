//! The thread's block of memory, and what else the C library knows of threads.

use super::identity::{self, Block};
use crate::engine::{self, Access};
use std::cell::UnsafeCell;

/// Memory for a block, as a thread finds it at its start.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Zeroes([u64; size_of::<Block>() / 8]);

thread_local! {
    /// That of a host thread while no simulation runs on it.
    static PLAIN: UnsafeCell<Zeroes> = const { UnsafeCell::new(Zeroes([0; size_of::<Block>() / 8])) };
}

/// The calling thread's block.
#[inline]
pub fn block() -> *mut Block {
    match engine::here() {
        Some(here) => here.with(|engine| engine.thread_block()).cast(),
        None => PLAIN.with(UnsafeCell::get).cast(),
    }
}

/// The thread's id: even, not zero, and different from those of all other living threads of the process. The thread
/// that forks keeps it in the child. A later thread may get the id of one that died or vanished in a fork; its actions
/// happened before.
///
/// Here ids are given from the lowest on, so that the dead ones' come again soon.
#[inline]
pub fn id() -> u64 {
    match engine::here() {
        Some(here) => here.with(|engine| engine.thread_pointer()),
        None => PLAIN.with(UnsafeCell::get) as u64,
    }
}

/// One [`level`](super::level) down, by one instruction; whether it is negative then.
pub fn descend() -> bool {
    change(-1)
}

/// One [`level`](super::level) up, by one instruction; whether it is still negative.
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

/// Whether the process has had one thread only, all its life.
pub fn is_alone() -> bool {
    engine::here().is_some_and(|here| here.with(|engine| engine.is_alone()))
}

/// Registers what runs in the child of an ordinary `fork`, before the child can have a second thread.
pub fn on_fork_in_child(child: extern "C" fn()) -> bool {
    match engine::here() {
        Some(here) => here.with(|engine| engine.on_fork(child)),
        // SAFETY: the function lives as long as the process.
        None => unsafe { libc::pthread_atfork(None, None, Some(child)) == 0 },
    }
}

/// Registers what runs before an ordinary `fork`. A simulated one runs nothing: it has no threads of the runtime's own.
pub fn before_fork(prepare: extern "C" fn()) -> bool {
    // SAFETY: the function lives as long as the process.
    engine::here().is_some() || unsafe { libc::pthread_atfork(Some(prepare), None, None) == 0 }
}
