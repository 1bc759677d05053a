//! Each case in a process of its own: a fork of this one, in which nobody has used the heap yet.
//!
//! So a case begins from nothing, a failing one can be shortened although it left its heap in ruins, and one that hangs is
//! ended by an alarm. For processes that `child::command` started: their only other thread is the harness's, which waits.

use std::io::{Read, Write, pipe};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, OnceLock};

/// Seconds after which a case is taken to hang.
const TOO_LONG: u32 = 60;

/// Runs `case` in a fork of this process; what it returned, or how it ended otherwise.
pub fn run(case: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let (mut reader, mut writer) = pipe().expect("a pipe can be had");
    // SAFETY: no other thread is in the middle of anything, so the child may do whatever the parent may.
    match unsafe { libc::fork() } {
        -1 => panic!("no fork: {}", std::io::Error::last_os_error()),
        0 => {
            drop(reader);
            // SAFETY: the alarm's signal ends the process.
            unsafe { libc::alarm(TOO_LONG) };
            let text = catching(case).err().unwrap_or_default();
            let written = writer.write_all(text.as_bytes());
            // SAFETY: nothing of the parent's is to be finished in the child.
            unsafe { libc::_exit((written.is_err() || !text.is_empty()) as i32) }
        }
        child => {
            drop(writer);
            let mut text = String::new();
            reader.read_to_string(&mut text).expect("the case writes text");
            let mut status = 0;
            // SAFETY: the child is ours.
            unsafe { libc::waitpid(child, &mut status, 0) };
            if status == 0 {
                Ok(())
            } else if text.is_empty() {
                Err(died(status))
            } else {
                Err(text)
            }
        }
    }
}

/// Runs `case`; if it panics, in any thread, that is an error whose text says where, and nothing is printed.
fn catching(case: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let first = Arc::new(OnceLock::new());
    let seen = first.clone();
    panic::set_hook(Box::new(move |panic| drop(seen.set(panic.to_string()))));
    let result = panic::catch_unwind(AssertUnwindSafe(case));
    result.unwrap_or_else(|_| Err(first.get().cloned().unwrap_or_default()))
}

fn died(status: i32) -> String {
    match libc::WTERMSIG(status) {
        libc::SIGALRM => format!("hung for {TOO_LONG} s"),
        signal => format!("died by signal {signal}"),
    }
}
