//! Forks: a child that says what it found, within its time.
//!
//! Between the fork and its end, the child calls nothing that could wait for a thread that does not exist there. What it
//! found is static text, of which the pipe carries the address: the child is a copy.

use conformance::runner::Child;
use conformance::{Ended, Fork};
use std::time::{Duration, Instant};

unsafe extern "C" {
    /// The C library's fork without handlers.
    fn _Fork() -> libc::pid_t;
}

/// What goes through the pipe: a text's address and length, both zero if all was well.
type Message = [usize; 2];

/// Runs `child` in a fork child.
pub fn fork(kind: Fork, child: Child<'_>, limit: Duration) -> Ended {
    let mut pipe = [0; 2];
    // SAFETY: makes two descriptors.
    assert_eq!(unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) }, 0, "a pipe could not be made");
    let [reader, writer] = pipe;
    let process = match kind {
        // SAFETY: the child keeps to what is said above.
        Fork::Ordinary => unsafe { libc::fork() },
        // SAFETY: as above.
        Fork::Bare => unsafe { _Fork() },
    };
    assert!(process >= 0, "a child could not be made");
    if process == 0 {
        live(child, writer);
    }
    // SAFETY: closes our end, so that the pipe ends with the child.
    unsafe { libc::close(writer) };
    let ended = wait(process, reader, limit);
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(reader) };
    ended
}

fn live(child: Child<'_>, writer: libc::c_int) -> ! {
    // SAFETY: no effects on memory. A child that hangs must not outlive a parent that gives up, and keep its output open.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // SAFETY: a limit of this process, which may die on purpose, silently.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }) };
    let message: Message = match child() {
        Ok(()) => [0, 0],
        Err(what) => [what.as_ptr() as usize, what.len()],
    };
    // SAFETY: the message is as long as is said.
    unsafe {
        libc::write(writer, message.as_ptr().cast(), size_of::<Message>());
        libc::_exit(0)
    }
}

/// Waits for the child's message or its death, then for the latter.
fn wait(process: libc::pid_t, reader: libc::c_int, limit: Duration) -> Ended {
    let mut message: Message = [0; 2];
    let ready = poll(reader, limit);
    if !ready {
        // SAFETY: the child is ours.
        unsafe { libc::kill(process, libc::SIGKILL) };
    }
    // SAFETY: the message is as long as is said; the child is ours.
    let read = unsafe {
        let read = if ready { libc::read(reader, message.as_mut_ptr().cast(), size_of::<Message>()) } else { 0 };
        while libc::waitpid(process, std::ptr::null_mut(), 0) < 0 {}
        read
    };
    match (ready, read, message) {
        (false, ..) => Ended::Hung,
        (true, 0, _) => Ended::Died,
        (true, _, [0, _]) => Ended::Well,
        // SAFETY: a child's static text lies where ours does.
        (true, _, [at, length]) => Ended::Found(unsafe {
            String::from_utf8_lossy(std::slice::from_raw_parts(std::ptr::with_exposed_provenance(at), length))
                .into_owned()
        }),
    }
}

/// Whether there is something to read, or nobody left to write, before the time is over. Signals may interrupt.
fn poll(reader: libc::c_int, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now()).as_millis() as libc::c_int;
        let mut descriptor = libc::pollfd { fd: reader, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor.
        match unsafe { libc::poll(&mut descriptor, 1, left) } {
            0 => return false,
            ready if ready > 0 => return true,
            _ => {}
        }
    }
}
