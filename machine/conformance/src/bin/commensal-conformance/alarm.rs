//! The end of a case that does not come to its end. A timer's signal, not a thread: cases start with one.

use crate::arguments::Arguments;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Seconds beyond those that a case goes on by itself.
const GRACE: u32 = 600;
/// The same where hanging is what the planted bug does.
const GRACE_IF_PLANTED: u32 = 1;

static MESSAGE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(0);

extern "C" fn give_up(_: libc::c_int) {
    // SAFETY: the message was leaked for us; write and _exit may be called from handlers.
    unsafe {
        libc::write(1, MESSAGE.load(Ordering::Relaxed).cast(), LENGTH.load(Ordering::Relaxed));
        libc::_exit(3);
    }
}

/// Lets the process end with a message, and status 3, if it takes too long.
pub fn set(arguments: &Arguments) {
    let grace = if arguments.case.planted.is_some() { GRACE_IF_PLANTED } else { GRACE };
    let seconds = arguments.seconds.ceil() as u32 + grace;
    let text = format!("found: {}: no end within {seconds} s\nreplay: {}\n", arguments.case.name, arguments.replay());
    LENGTH.store(text.len(), Ordering::Relaxed);
    MESSAGE.store(String::leak(text).as_mut_ptr(), Ordering::Relaxed);
    // SAFETY: the handler calls only what handlers may.
    unsafe {
        libc::signal(libc::SIGALRM, give_up as extern "C" fn(libc::c_int) as libc::sighandler_t);
        libc::alarm(seconds);
    }
}

/// The case has ended.
pub fn cancel() {
    // SAFETY: no effects on memory.
    unsafe { libc::alarm(0) };
}
