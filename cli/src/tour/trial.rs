//! One command, run to its end with its output in a file; and the watch for Ctrl-C, which ends it early.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::Failure;

/// A job takes about a second; one that takes this long hangs, and that is a difference to report.
const LIMIT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Runs `command`, appends its output and how it ended to `record`, and says how long it took.
pub fn run(command: &mut Command, record: &Path, interrupt: &Interrupt) -> io::Result<Duration> {
    let mut output = File::create(record)?;
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
    // A group of its own: whoever ends it early ends what it started, too.
    command.process_group(0);
    let start = Instant::now();
    let mut child = command.spawn()?;
    let ended = wait(&mut child, start, interrupt)?;
    let took = start.elapsed();
    match ended {
        Some(status) => writeln!(output, "[{status}]")?,
        None => writeln!(output, "[did not end within {} s]", LIMIT.as_secs())?,
    }
    Ok(took)
}

/// How the child ended; `None` if it had to be killed.
fn wait(child: &mut Child, start: Instant, interrupt: &Interrupt) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > LIMIT || interrupt.seen() {
            kill_process_group(Pid::from_child(child), Signal::KILL)?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// The first of Ctrl-C and SIGTERM that arrived; clones watch the same.
#[derive(Clone)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Starts to watch.
    pub fn register() -> io::Result<Self> {
        let seen = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_usize(signal, Arc::clone(&seen), signal as usize)?;
        }
        Ok(Self(seen))
    }

    /// An error if a signal arrived, so that `?` leaves through every destructor; nobody reads its text.
    pub fn check(&self) -> Result<(), Failure> {
        if self.seen() { Err(Failure::ours("interrupted")) } else { Ok(()) }
    }

    /// Ends this process by the signal that arrived, if one did.
    pub fn obey(&self) {
        let signal = self.0.load(Relaxed);
        if signal != 0 {
            // It fails only for unknown signals; then the caller's error ends the process.
            let _ = signal_hook::low_level::emulate_default_handler(signal as i32);
        }
    }

    /// Relaxed: the number is all there is to see.
    fn seen(&self) -> bool {
        self.0.load(Relaxed) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(script: &str, interrupt: &Interrupt) -> String {
        let record = tempfile::NamedTempFile::new().unwrap();
        run(Command::new("sh").args(["-c", script]), record.path(), interrupt).unwrap();
        std::fs::read_to_string(record.path()).unwrap()
    }

    #[test]
    fn both_outputs_and_the_end_are_recorded() {
        let calm = Interrupt(Arc::default());
        assert_eq!(recorded("echo a; echo b >&2; exit 3", &calm), "a\nb\n[exit status: 3]\n");
        assert!(recorded("kill -SEGV $$", &calm).contains("signal: 11"));
    }

    #[test]
    fn an_interrupt_ends_the_job_and_the_tour() {
        let interrupted = Interrupt(Arc::new(AtomicUsize::new(SIGINT as usize)));
        assert!(recorded("sleep 60", &interrupted).contains("did not end"));
        assert!(interrupted.check().is_err());
    }
}
