//! Interrupting a thread.

use crate::engine;

/// Sets the work of threads that [`interrupt`] interrupts. False outside of simulations: none can be.
pub fn on_interrupt(handler: &'static fn()) -> bool {
    engine::here().is_some_and(|here| {
        here.with(|engine| engine.kick_handler = Some(Box::new(*handler)));
        true
    })
}

/// Interrupts a thread of this process, by its kernel number, at any step. It runs the work of [`on_interrupt`].
pub fn interrupt(number: u32) {
    if let Some(here) = engine::here() {
        here.step(engine::Access::System { number: crate::syscall::TGKILL });
        here.with(|engine| engine.kick_thread(number));
    }
}

/// Whether the calling thread is in a signal handler.
pub fn may_be_in_handler() -> bool {
    engine::here().is_some_and(|here| here.with(|engine| engine.thread().in_handler))
}
