//! Gives the program the SIGPIPE disposition that the command was started with.
//!
//! Rust's start-up ignores SIGPIPE and `exec` sets it back to the default, so that a program whose parent had ignored the
//! signal would be killed by it. The disposition is read before `main`, and restored before `exec` if it was "ignored".
//! Nothing else needs this: other dispositions and the signal mask pass through `exec` unchanged.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Written once, before `main`, when there is one thread: no ordering is needed.
static WAS_IGNORED: AtomicBool = AtomicBool::new(false);

// SAFETY: the loader calls every address in this section once, with the C calling convention; `record` is such a function,
// and it uses nothing of Rust's runtime, which is not set up yet.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    // SAFETY: an all-zero `sigaction` is a valid value, and with a null new action the call only writes the old one.
    let ignored = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    };
    WAS_IGNORED.store(ignored, Relaxed);
}

/// Lets `command` start with SIGPIPE as this process found it.
pub fn pass_on(command: &mut Command) {
    if WAS_IGNORED.load(Relaxed) {
        // SAFETY: `signal` is async-signal-safe, and the closure touches no memory.
        unsafe { command.pre_exec(ignore) };
    }
}

fn ignore() -> std::io::Result<()> {
    // SAFETY: ignoring a signal installs no handler.
    let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    if before == libc::SIG_ERR { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}
