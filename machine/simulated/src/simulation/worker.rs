//! Processes in which simulations run, so that a crash, a hang or a panic ends only that process.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};
use std::{fs::File, ptr};

/// A worker's progress. Zero at first.
#[derive(Debug)]
#[repr(C)]
pub struct Progress {
    /// Changes as long as the worker lives, except in a run that hangs.
    pub beats: u64,
    /// The number of its run.
    pub at: u64,
    /// Steps made.
    pub steps: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    pub output: Vec<u8>,
    /// Why it did not complete, if so: a signal ended it, it exited, or its heartbeat stopped for too long.
    pub death: Option<String>,
}

impl Exit {
    /// Why it died, or its output; none: nothing.
    pub fn what(self) -> Option<String> {
        let wrote = || (!self.output.is_empty()).then(|| String::from_utf8_lossy(&self.output).into_owned());
        self.death.clone().or_else(wrote)
    }
}

/// Sleep of the parent between two looks.
const LOOK: Duration = Duration::from_millis(2);
/// Most lines of standard error to show.
const LAST_LINES: usize = 12;

struct Shared(*mut Progress);

impl Shared {
    fn new() -> Self {
        // SAFETY: an anonymous mapping that replaces nothing.
        let at = unsafe {
            let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
            libc::mmap(ptr::null_mut(), size_of::<Progress>(), protection, flags, -1, 0)
        };
        assert_ne!(at, libc::MAP_FAILED, "a page for a worker's progress");
        Shared(at.cast())
    }

    fn read(&self) -> Progress {
        // SAFETY: the page exists as long as we do; its words may change meanwhile, each as a whole.
        unsafe { self.0.read_volatile() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the page is ours.
        unsafe { libc::munmap(self.0.cast(), size_of::<Progress>()) };
    }
}

fn file(name: &core::ffi::CStr) -> File {
    // SAFETY: makes a descriptor, which becomes the file's.
    unsafe {
        let descriptor = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        assert!(descriptor >= 0, "memory for what a worker says");
        OwnedFd::from_raw_fd(descriptor).into()
    }
}

fn contents(mut file: File) -> Vec<u8> {
    use std::io::Seek;
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("memory can be read");
    bytes
}

/// Does `work` in a child of this process, and keeps its output, even if it dies. If its heartbeat stops for longer
/// than `patience`, it is killed. `look` sees its progress now and then.
pub fn work(patience: Duration, mut look: impl FnMut(&Progress), work: impl FnOnce(*mut Progress, &mut File)) -> Exit {
    let (shared, mut output, errors) = (Shared::new(), file(c"output"), file(c"errors"));
    // SAFETY: the child is alone on its host thread, and leaves by _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "a worker could not be made");
    if child == 0 {
        // SAFETY: the child's own descriptors and limits; it must not outlive a parent that gives up.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::dup2(errors.as_raw_fd(), libc::STDERR_FILENO);
            libc::dup2(errors.as_raw_fd(), libc::STDOUT_FILENO);
            libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 });
        }
        std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(shared.0, &mut output)));
        let _ = output.flush();
        // SAFETY: the parent's work must not be finished here.
        unsafe { libc::_exit(if done.is_ok() { 0 } else { 101 }) };
    }
    let (mut beats, mut since) = (0, Instant::now());
    loop {
        let mut status = 0;
        // SAFETY: the child is ours.
        if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
            look(&shared.read());
            let is_done = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
            let death = (!is_done).then(|| last_lines(&String::from_utf8_lossy(&contents(errors)), status));
            return Exit { output: contents(output), death };
        }
        let progress = shared.read();
        if progress.beats != beats {
            (beats, since) = (progress.beats, Instant::now());
        }
        look(&progress);
        if since.elapsed() > patience {
            // SAFETY: the child is ours.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &mut status, 0);
            }
            return Exit { output: contents(output), death: Some("a thread goes on for ever without a step".into()) };
        }
        std::thread::sleep(LOOK);
    }
}

fn last_lines(text: &str, status: i32) -> String {
    let how = if libc::WIFSIGNALED(status) {
        format!("the process died of signal {}", libc::WTERMSIG(status))
    } else {
        format!("the process ended with status {}", libc::WEXITSTATUS(status))
    };
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    if last.is_empty() { how } else { format!("{how}:\n{last}") }
}
