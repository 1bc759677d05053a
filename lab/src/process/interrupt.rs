//! Ctrl-C, and the other signals that end a program from outside, as something that can be polled for and asked.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// The first of these signals that arrived; clones watch the same.
#[derive(Clone)]
pub struct Interrupt {
    signal: Arc<AtomicUsize>,
    /// Readable once a signal has arrived; never read. The writing end is kept, since without one the pipe would be readable.
    pipe: Arc<(PipeReader, PipeWriter)>,
}

impl Interrupt {
    /// Starts to watch: from here on the signals do not end this process.
    pub fn register() -> io::Result<Self> {
        let this = Self::never()?;
        for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            signal_hook::flag::register_usize(number, Arc::clone(&this.signal), number as usize)?;
            // After the flag: whoever the pipe wakes finds it set. Actions run in the order in which they were registered.
            signal_hook::low_level::pipe::register(number, this.pipe.1.try_clone()?)?;
        }
        Ok(this)
    }

    /// Watches for nothing.
    pub fn never() -> io::Result<Self> {
        Ok(Self { signal: Arc::default(), pipe: Arc::new(io::pipe()?) })
    }

    /// Whether a signal has arrived. Relaxed: the number is all there is to see.
    pub fn seen(&self) -> bool {
        self.signal.load(Relaxed) != 0
    }

    /// Ends this process by the signal that arrived, if one did.
    pub fn obey(&self) {
        let signal = self.signal.load(Relaxed);
        if signal != 0 {
            // It fails only for unknown signals; then the caller's error ends the process.
            let _ = signal_hook::low_level::emulate_default_handler(signal as i32);
        }
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.0.as_fd()
    }
}
