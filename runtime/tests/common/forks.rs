//! Ways to fork, and what becomes of the children.
//!
//! In `_Fork` and the bare system call nobody tells the C library, so their children use nothing of it that may be locked: no memory of its
//! allocator, no output; what they found is their exit status.

use std::thread;
use std::time::{Duration, Instant};

pub const FINE: i32 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Fork,
    WithoutHandlers,
    Bare,
}

impl Way {
    pub const ALL: [Way; 3] = [Way::Fork, Way::WithoutHandlers, Way::Bare];

    /// Forks. The child dies with the thread that forked: one that hangs would keep the test's output open.
    pub fn fork(self) -> libc::pid_t {
        unsafe extern "C" {
            fn _Fork() -> libc::pid_t;
        }
        // SAFETY: the child uses nothing that another thread may have had locked but what is under test.
        unsafe {
            let child = match self {
                Way::Fork => libc::fork(),
                Way::WithoutHandlers => _Fork(),
                Way::Bare => libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t,
            };
            if child == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            }
            child
        }
    }

    /// Forks; the child does `work` and exits with what it found.
    pub fn fork_and(self, work: impl FnOnce() -> Result<(), i32>) -> libc::pid_t {
        let child = self.fork();
        if child == 0 {
            let status = work().err().unwrap_or(FINE);
            // SAFETY: nothing of the parent's is to be finished in the child.
            unsafe { libc::_exit(status) };
        }
        child
    }
}

/// The exit status of a child; none if it died, or was ended because it took longer than `patience`.
pub fn wait_for(child: libc::pid_t, patience: Duration) -> Option<i32> {
    let (started, mut status) = (Instant::now(), 0);
    // SAFETY: the child is ours; the status is a local.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        if started.elapsed() > patience {
            // SAFETY: the child is ours, and not waited for yet.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &mut status, 0);
            }
            return None;
        }
        thread::sleep(Duration::from_micros(50));
    }
    libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status))
}
