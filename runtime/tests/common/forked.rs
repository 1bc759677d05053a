//! Each case in a process of its own: a fork of this one, in which nobody has used the heap yet.
//!
//! So a case begins from nothing, a failing one can be shortened although it left its heap in ruins, and one that hangs is
//! ended by an alarm. For processes that `child::command` started: their only other thread is the harness's, which waits.

use super::PATIENCE;
use std::io::{PipeWriter, Read, Write, pipe};
use std::panic::{self, AssertUnwindSafe};

/// Runs `case` in a fork of this process; what it returned, or how it ended otherwise.
pub fn run(case: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let (mut reader, mut writer) = pipe().expect("a pipe can be had");
    // SAFETY: no other thread is in the middle of anything, so the child may do whatever the parent may.
    match unsafe { libc::fork() } {
        -1 => panic!("no fork: {}", std::io::Error::last_os_error()),
        0 => {
            drop(reader);
            // SAFETY: the alarm's signal ends the process.
            unsafe { libc::alarm(PATIENCE.as_secs() as u32) };
            let ended_well = case_tells(case, &mut writer);
            // SAFETY: nothing of the parent's is to be finished in the child.
            unsafe { libc::_exit(!ended_well as i32) }
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

/// Runs `case` and writes what is wrong, if anything is. A panic, in any thread, is written at once: it may be the last thing that
/// the process does, as from functions that C calls.
fn case_tells(case: impl FnOnce() -> Result<(), String>, writer: &mut PipeWriter) -> bool {
    let tell = |mut writer: &PipeWriter, why: &str| writer.write_all(why.as_bytes()).expect("the parent listens");
    let for_panics = writer.try_clone().expect("a pipe has two ends");
    panic::set_hook(Box::new(move |panic| tell(&for_panics, &format!("{panic}\n"))));
    match panic::catch_unwind(AssertUnwindSafe(case)) {
        Ok(Ok(())) => true,
        Ok(Err(why)) => {
            tell(writer, &why);
            false
        }
        Err(_) => false,
    }
}

fn died(status: i32) -> String {
    match libc::WTERMSIG(status) {
        libc::SIGALRM => format!("hung for {PATIENCE:?}"),
        signal => format!("died by signal {signal}"),
    }
}
