//! Faults: accesses to memory that has none for them, as the thread learns by SIGSEGV.
//!
//! The handler exists only once it is asked for. It takes the place of the program's own action, and hands on to that.
//! A handler that the program installs later takes its place, and then decides alone.

use crate::{process, syscall};
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::mem::transmute;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

const SIGNAL: c_int = 11;
const WITH_INFORMATION: c_int = 4;
pub(super) const ON_STACK: c_int = 0x0800_0000;
pub(super) const RESTART: c_int = 0x1000_0000;
const NEST: c_int = 0x4000_0000;
const ONCE: c_int = 0x8000_0000_u32 as c_int;
const DEFAULT: usize = 0;
const IGNORE: usize = 1;
/// The actions that are not handlers.
pub(super) const NOBODYS: [usize; 2] = [DEFAULT, IGNORE];

/// `struct sigaction` of the C library.
#[repr(C)]
pub(super) struct Action {
    pub handler: usize,
    pub mask: [u64; 16],
    pub flags: c_int,
    pub restorer: usize,
}

unsafe extern "C" {
    pub(super) fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int;
}

/// An access that faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The first address that could not be reached.
    pub address: usize,
    /// The instruction.
    pub code: usize,
    /// Whether it would have written.
    pub is_write: bool,
}

/// What follows a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The access is tried again: its cause is gone.
    Repeat,
    /// The program's own action is taken, which is mostly its end.
    HandOn,
}

/// The start of `siginfo_t`.
#[repr(C)]
struct Information {
    signal: c_int,
    error: c_int,
    code: c_int,
    address: usize,
}

type Look = fn(Fault) -> After;

// Core's atomics: they order nothing, and a signal's action is the real process's on each machine.
static LOOK: AtomicPtr<Look> = AtomicPtr::new(null_mut());
static IS_SET: AtomicBool = AtomicBool::new(false);
static BEFORE: Before = Before(UnsafeCell::new(Action { handler: DEFAULT, mask: [0; 16], flags: 0, restorer: 0 }));

/// The program's own action.
struct Before(UnsafeCell<Action>);

// SAFETY: written once, before the handler that reads it exists.
unsafe impl Sync for Before {}

/// Has `look` called at each fault of any thread, on the thread's signal stack if it has one. Only the first call sets
/// the handler. False: there is none.
///
/// `look` does what a handler may, and takes no lock that the interrupted code may hold.
pub fn on_fault(look: &'static Look) -> bool {
    LOOK.store((&raw const *look).cast_mut(), Ordering::Relaxed);
    if IS_SET.swap(true, Ordering::Relaxed) {
        return true;
    }
    // SAFETY: asks for the action; no handler reads it yet.
    let before = unsafe {
        if sigaction(SIGNAL, null(), BEFORE.0.get()) != 0 {
            return false;
        }
        &*BEFORE.0.get()
    };
    let flags = WITH_INFORMATION | ON_STACK | before.flags & (NEST | RESTART);
    let handler = faulted as extern "C" fn(c_int, *const Information, *const usize) as usize;
    // SAFETY: the handler lives as long as the process.
    unsafe { sigaction(SIGNAL, &Action { handler, flags, ..*before }, null_mut()) == 0 }
}

/// Whether an action for the signal is ours, and the program has no handler behind it.
pub(super) fn is_only_ours(handler: usize) -> bool {
    let ours = faulted as extern "C" fn(c_int, *const Information, *const usize) as usize;
    // SAFETY: it does not change any more.
    handler == ours && NOBODYS.contains(unsafe { &(*BEFORE.0.get()).handler })
}

extern "C" fn faulted(signal: c_int, information: *const Information, context: *const usize) {
    /// Of registers in `ucontext_t`, by words.
    const REGISTERS: usize = 5;
    const CODE: usize = REGISTERS + 16;
    const ERROR: usize = REGISTERS + 19;
    const OF_WRITE: usize = 2;
    // SAFETY: the kernel hands both in.
    let (about, code, error) = unsafe { (&*information, *context.add(CODE), *context.add(ERROR)) };
    let is_fault = about.code > 0;
    let look = || {
        // SAFETY: what `on_fault` was given.
        let look = unsafe { LOOK.load(Ordering::Relaxed).as_ref() };
        look.map(|look| look(Fault { address: about.address, code, is_write: error & OF_WRITE != 0 }))
    };
    let after = if is_fault { process::keeping_errno(look) } else { None };
    if after != Some(After::Repeat) {
        hand_on(signal, information, context, is_fault);
    }
}

/// Does what would be done without our handler.
fn hand_on(signal: c_int, information: *const Information, context: *const usize, is_fault: bool) {
    // SAFETY: it does not change any more.
    let before = unsafe { &*BEFORE.0.get() };
    if before.handler == IGNORE && !is_fault {
        return;
    }
    if NOBODYS.contains(&before.handler) || before.flags & ONCE != 0 {
        let default = Action { handler: DEFAULT, flags: 0, ..*before };
        // The access faults again after the return. A signal that was sent must be sent again.
        // SAFETY: sets no handler; interrupts this thread.
        unsafe {
            sigaction(signal, &default, null_mut());
            if NOBODYS.contains(&before.handler) {
                if !is_fault {
                    let arguments = [process::id() as usize, crate::thread::tid() as usize, signal as usize];
                    let _ = syscall::call(syscall::TGKILL, arguments);
                }
                return;
            }
        }
    }
    // SAFETY: the program's handler has the type that its flags say.
    unsafe {
        if before.flags & WITH_INFORMATION != 0 {
            type Handler = unsafe extern "C" fn(c_int, *const Information, *const usize);
            transmute::<usize, Handler>(before.handler)(signal, information, context);
        } else {
            transmute::<usize, unsafe extern "C" fn(c_int)>(before.handler)(signal);
        }
    }
}
