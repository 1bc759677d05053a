//! Forks: a child that says what it found, within its time.
//!
//! Between the fork and its end, the child calls nothing that could wait for a thread that it does not have. It reports
//! static text by its address, through a pipe: the child is a copy, so the address is valid here.

use conformance::runner::Child;
use conformance::{Ended, Fork};
use std::io::{PipeWriter, Read, Write};

unsafe extern "C" {
    /// The C library's fork without handlers.
    fn _Fork() -> libc::pid_t;
}

/// What goes through the pipe: a text's address and length, both zero if all was well.
type Message = [[u8; size_of::<usize>()]; 2];

/// Runs `child` in a fork child, which may take so many seconds.
pub fn fork(kind: Fork, child: Child<'_>, limit: u32) -> Ended {
    let (mut reader, writer) = std::io::pipe().expect("a pipe can be made");
    let process = match kind {
        // SAFETY: the child keeps to what is said above.
        Fork::Ordinary => unsafe { libc::fork() },
        // SAFETY: as above.
        Fork::Bare => unsafe { _Fork() },
    };
    assert!(process >= 0, "a child could not be made");
    if process == 0 {
        live(child, writer, limit);
    }
    // So that the pipe ends with the child.
    drop(writer);
    let mut message = Message::default();
    let said = reader.read_exact(message.as_flattened_mut());
    let mut status = 0;
    // SAFETY: the child is ours. Signals may interrupt.
    while unsafe { libc::waitpid(process, &mut status, 0) } < 0 {}
    match (said, message.map(usize::from_ne_bytes)) {
        (Err(_), _) if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGALRM => Ended::Hung,
        (Err(_), _) => Ended::Died,
        (Ok(()), [0, _]) => Ended::Well,
        // SAFETY: a child's static text lies where ours does.
        (Ok(()), [at, length]) => Ended::Found(unsafe {
            String::from_utf8_lossy(std::slice::from_raw_parts(std::ptr::with_exposed_provenance(at), length))
                .into_owned()
        }),
    }
}

fn live(child: Child<'_>, mut writer: PipeWriter, limit: u32) -> ! {
    // SAFETY: no effects on memory. A child that hangs ends by itself, and must not outlive a parent that gives up.
    unsafe {
        libc::alarm(limit);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
    // SAFETY: a limit of this process, which may die on purpose, silently.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }) };
    let message: Message = match child() {
        Ok(()) => Message::default(),
        Err(what) => [what.as_ptr().expose_provenance(), what.len()].map(usize::to_ne_bytes),
    };
    let written = writer.write_all(message.as_flattened());
    // SAFETY: nothing of the parent's is to be finished here.
    unsafe { libc::_exit(written.is_err().into()) }
}
