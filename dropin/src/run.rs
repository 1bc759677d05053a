//! One command, bounded in time: what it printed and how it ended.
//!
//! A command starts from an empty environment, so that it does the same everywhere, and in a process group of
//! its own, which is killed as a whole when the time is up: a hang is a failure like any other. Output goes to
//! files, so nothing blocks when a process outlives its parent.

use crate::subject::{Library, Mode};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Folders in which a command looks for programs.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Lines of standard error that a report shows.
const REPORTED_LINES: usize = 15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    Signalled(i32),
    /// Not within its time; it was killed.
    TimedOut,
}

/// A command to run; cheap to copy into variants.
#[derive(Clone, Debug)]
pub struct Run {
    words: Vec<OsString>,
    variables: Vec<(String, String)>,
    folder: Option<PathBuf>,
    limit: Duration,
}

impl Run {
    /// Time for a command; far more than any needs, as machines are slow at times.
    pub const LIMIT: Duration = Duration::from_secs(600);

    pub fn new(program: impl Into<OsString>) -> Run {
        let variables = vec![("PATH".into(), SEARCH_PATH.into()), ("LC_ALL".into(), "C".into())];
        Run { words: vec![program.into()], variables, folder: None, limit: Run::LIMIT }
    }

    pub fn args<I: IntoIterator<Item: Into<OsString>>>(mut self, words: I) -> Run {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Run {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.into(), value.into()));
        self
    }

    pub fn folder(mut self, folder: &Path) -> Run {
        self.folder = Some(folder.to_owned());
        self
    }

    pub fn limit(mut self, limit: Duration) -> Run {
        self.limit = limit;
        self
    }

    /// Runs it with `library` in `mode` and waits for its end.
    pub fn with(mut self, library: &Library, mode: Mode) -> Outcome {
        for (name, value) in library.environment(mode) {
            self = self.env(&name, &value);
        }
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        // Relaxed: each value is given out once, whatever the order.
        let name = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let files = ["out", "err"].map(|kind| crate::scratch("output").join(format!("{name}.{kind}")));
        let begin = Instant::now();
        let mut child = self.start(&files);
        let end = wait(&mut child, begin + self.limit);
        let took = begin.elapsed();
        let [stdout, stderr] = files.map(|file| {
            let bytes = std::fs::read(&file).expect("a command's output can be read");
            std::fs::remove_file(&file).expect("a command's output can be removed");
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Outcome { end, stdout, stderr, mode, took, replay: self.replay() }
    }

    fn start(&self, files: &[PathBuf; 2]) -> Child {
        let [stdout, stderr] = files.each_ref().map(|file| File::create(file).expect("a file can be made"));
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).env_clear().envs(self.variables.iter().cloned());
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.process_group(0).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        command.spawn().unwrap_or_else(|error| panic!("cannot start {}: {error}", self.replay()))
    }

    fn replay(&self) -> String {
        let mut line = match &self.folder {
            Some(folder) => format!("cd {} && env -i", quoted(&folder.to_string_lossy())),
            None => "env -i".to_owned(),
        };
        for (name, value) in &self.variables {
            write!(line, " {name}={}", quoted(value)).expect("a string takes any text");
        }
        for word in &self.words {
            write!(line, " {}", quoted(&word.to_string_lossy())).expect("a string takes any text");
        }
        line
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=,:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Polls, since a wait with a time limit does not exist.
fn wait(child: &mut Child, deadline: Instant) -> End {
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return end_of(status);
        }
        if Instant::now() > deadline {
            kill_group(child);
            return End::TimedOut;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn end_of(status: ExitStatus) -> End {
    status.signal().map_or_else(|| End::Exited(status.code().expect("no signal, so a status")), End::Signalled)
}

/// The child was not waited for, so its id still means it and its group.
fn kill_group(child: &mut Child) {
    let script = format!("kill -s KILL -- -{}", child.id());
    let killed = Command::new("/bin/sh").args(["-c", &script]).status().expect("sh runs");
    assert!(killed.success(), "cannot kill the process group {} of a test that hangs", child.id());
    child.wait().expect("a killed child can be waited for");
}

#[derive(Clone, Debug)]
pub struct Outcome {
    pub end: End,
    pub stdout: String,
    pub stderr: String,
    pub mode: Mode,
    pub took: Duration,
    /// The command line that does it again.
    pub replay: String,
}

impl Outcome {
    /// The outcome if it ended as expected, else a report.
    ///
    /// # Errors
    /// The report of a process that ended otherwise or that ran without its preloaded library.
    pub fn ending(self, expected: End) -> Result<Outcome, String> {
        if self.end != expected {
            return Err(self.report(&format!("expected {expected:?}")));
        }
        if self.stderr.contains("cannot be preloaded") {
            return Err(self.report("the library was not loaded"));
        }
        Ok(self)
    }

    /// The line by which the library ended the process: the only one, which begins with `commensal:`, and then SIGABRT.
    ///
    /// # Errors
    /// The report of a process that ended otherwise, or said something else.
    pub fn last_words(self) -> Result<String, String> {
        const SIGABRT: i32 = 6;
        let outcome = self.ending(End::Signalled(SIGABRT))?;
        match outcome.stderr.lines().collect::<Vec<_>>()[..] {
            [line] if line.starts_with("commensal:") => Ok(line.to_owned()),
            _ => Err(outcome.report("expected one line that begins with `commensal:`")),
        }
    }

    /// What happened, why it is wrong, and how to see it again.
    pub fn report(&self, wrong: &str) -> String {
        let lines: Vec<&str> = self.stderr.lines().collect();
        let tail = lines[lines.len().saturating_sub(REPORTED_LINES)..].join("\n    ");
        format!(
            "{wrong}, found {:?} in mode {:?} after {:.1} s\n  replay: {}\n  end of standard error:\n    {tail}\n",
            self.end,
            self.mode,
            self.took.as_secs_f64(),
            self.replay,
        )
    }
}
