//! Interrupting a thread.

use crate::engine;

/// Sets what threads do when [`interrupt`] interrupts them. Returns false if the program uses that signal. Here none
/// does, but outside simulations no thread can be interrupted.
pub fn on_interrupt(handler: fn()) -> bool {
    engine::here().is_some_and(|here| {
        here.with(|engine| engine.on_kick(handler));
        true
    })
}

/// Interrupts a thread of this process, by the kernel's number; it does what [`on_interrupt`] said, at any step.
pub fn interrupt(number: u32) {
    if let Some(here) = engine::here() {
        here.step(engine::Access::System { number: crate::syscall::TGKILL });
        here.with(|engine| engine.kick_thread(number));
    }
}

/// Whether the calling thread may be in a signal handler: here that is known.
pub fn may_be_in_handler() -> bool {
    engine::here().is_some_and(|here| here.with(|engine| engine.is_in_handler()))
}
