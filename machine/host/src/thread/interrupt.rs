//! Interrupting a thread, and checking whether this code may have interrupted one.

use super::trap::{self, Action, NOBODYS, ON_STACK, RESTART, sigaction};
use crate::sync::{AtomicPtr, Ordering};
use crate::{process, syscall};
use core::ffi::c_int;
use core::ptr::{null, null_mut};

/// A signal that is ignored by default, so a stray one does no harm.
const SIGNAL: c_int = 23;
/// Signals for a thread's own fault, and abort's. Their handlers do not run at arbitrary moments.
const OF_FAULTS: [usize; 5] = [4, 6, 7, 8, 11];

static HANDLER: AtomicPtr<fn()> = AtomicPtr::new(null_mut());

extern "C" fn be_interrupted(_: c_int) {
    // SAFETY: null, or what `on_interrupt` was given.
    if let Some(handler) = unsafe { HANDLER.load(Ordering::Relaxed).as_ref() } {
        process::keeping_errno(handler);
    }
}

/// Sets the work of threads that [`interrupt`] interrupts. False: the program uses that signal (SIGURG).
pub fn on_interrupt(handler: &'static fn()) -> bool {
    let ours = be_interrupted as extern "C" fn(c_int) as usize;
    let mut old = Action { handler: 0, mask: [0; 16], flags: 0, restorer: 0 };
    // SAFETY: asks for the action.
    if unsafe { sigaction(SIGNAL, null(), &mut old) } != 0 || !(NOBODYS.contains(&old.handler) || old.handler == ours) {
        return false;
    }
    HANDLER.store((&raw const *handler).cast_mut(), Ordering::Relaxed);
    let new = Action { handler: ours, flags: RESTART | ON_STACK, ..old };
    // SAFETY: the handler lives as long as the process, and does what a handler may.
    old.handler == ours || unsafe { sigaction(SIGNAL, &new, null_mut()) } == 0
}

/// Interrupts a thread, by its kernel number, between any two instructions. It runs the work of [`on_interrupt`].
pub fn interrupt(number: u32) {
    let arguments = [process::id() as usize, number as usize, SIGNAL as usize];
    // SAFETY: a thread of ours, or none; the caller has set a handler for the signal.
    let _ = unsafe { syscall::call(syscall::TGKILL, arguments) };
}

/// Whether the calling thread may be in a signal handler. It may be if it runs on the signal stack, or if a signal with
/// a handler is blocked, as during the handler. If a handler has asked to be nested, the answer is always yes, except
/// for handlers of faults. A thread that blocks such a signal itself looks as if it were in the handler. A handler is
/// missed if it has unblocked its own signal or removed itself. About 5 µs.
pub fn may_be_in_handler() -> bool {
    is_on_signal_stack() || {
        let blocked = blocked_signals();
        (1..=64).any(|signal| {
            let (has_handler, may_nest) = kernel_action(signal);
            has_handler && ((may_nest && !OF_FAULTS.contains(&signal)) || blocked >> (signal - 1) & 1 == 1)
        })
    }
}

fn blocked_signals() -> u64 {
    let mut blocked = u64::MAX;
    // SAFETY: the kernel writes one set of signals.
    let _ = unsafe { syscall::call(syscall::RT_SIGPROCMASK, [0, 0, (&raw mut blocked) as usize, 8]) };
    blocked
}

fn is_on_signal_stack() -> bool {
    const ON_IT: usize = 1;
    // Address, flags, size.
    let mut stack = [0_usize; 3];
    // SAFETY: the kernel writes the thread's stack for signals.
    let _ = unsafe { syscall::call(syscall::SIGALTSTACK, [0, stack.as_mut_ptr() as usize]) };
    stack[1] as u32 as usize & ON_IT != 0
}

/// Whether a signal has, or had once, a handler, and whether the signal may interrupt that handler.
fn kernel_action(signal: usize) -> (bool, bool) {
    const ONCE: usize = 0x8000_0000;
    const NESTS: usize = 0x4000_0000;
    // The kernel's own structure: handler, flags, restorer, mask.
    let mut action = [0_usize; 4];
    let arguments = [signal, 0, action.as_mut_ptr() as usize, 8];
    // SAFETY: the kernel writes the action.
    let _ = unsafe { syscall::call(syscall::RT_SIGACTION, arguments) };
    let [handler, flags, ..] = action;
    let is_programs = !NOBODYS.contains(&handler) && !trap::is_only_ours(handler);
    (is_programs || flags & ONCE != 0, flags & NESTS != 0)
}
