//! A process under Commensal: its page, and what the kernel knows of it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use procfs::process::{MMapPath, Process as OfKernel};
use runtime::observe::page::Figures;
use rustix::time::{ClockId, clock_gettime};

use crate::folders;
use crate::page::Copied;

/// Pages of processes that are no more, beyond which the oldest ones go.
const KEPT: usize = 32;

/// How a process is, of which there is a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// It was killed, crashed, or left without an orderly exit.
    Gone,
    /// It executes another program by now.
    Replaced,
}

impl State {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Gone => "gone",
            State::Replaced => "replaced",
        }
    }
}

/// A process, read.
#[derive(Debug)]
pub struct Process {
    /// The kernel's number of it.
    pub pid: u32,
    /// How it is.
    pub state: State,
    /// What it said of itself.
    pub said: Copied,
    /// What the kernel knows of one that runs.
    pub kernel: Option<Kernel>,
}

/// What the kernel knows of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Bytes of memory, files that it shares with others included.
    pub resident_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Program and arguments.
    pub command: String,
}

/// Nanoseconds on the machine's monotonic clock.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Process {
    fn of(pid: u32, path: &Path) -> Result<Self> {
        let said = Copied::of(path)?;
        let age_ns = now_ns().saturating_sub(said.snapshot().ended_ns());
        let (state, kernel) = asked(pid, path, age_ns);
        Ok(Process { pid, state, said, kernel })
    }

    /// How old its page is.
    pub fn age_ns(&self) -> u64 {
        now_ns().saturating_sub(self.said.snapshot().ended_ns())
    }

    /// The figures of the process.
    pub fn figures(&self) -> Figures {
        self.said.snapshot().figures()
    }

    /// What people call it.
    pub fn name(&self) -> String {
        self.said.page().program().as_str().to_owned()
    }
}

/// How a process is whose page this is, of such an age, and what the kernel knows of it.
fn asked(pid: u32, path: &Path, age_ns: u64) -> (State, Option<Kernel>) {
    /// Whoever wrote his page so short a time ago is there: long lists of mappings need not be looked through each time.
    const FRESH_NS: u64 = 2_000_000_000;
    let Ok(process) = OfKernel::new(pid as i32) else { return (State::Gone, None) };
    // Who may not look at mappings believes the file's name.
    let maps = (age_ns > FRESH_NS).then(|| process.maps().ok()).flatten();
    if maps.is_some_and(|maps| !maps.into_iter().any(|map| names(&map.pathname, path))) {
        return (State::Replaced, None);
    }
    let kernel = Kernel {
        resident_bytes: process.statm().map(|memory| memory.resident * procfs::page_size()).unwrap_or(0),
        threads: process.stat().map_or(0, |stat| stat.num_threads as u64),
        command: process.cmdline().map(|words| words.join(" ")).unwrap_or_default(),
    };
    (State::Running, Some(kernel))
}

fn names(mapped: &MMapPath, path: &Path) -> bool {
    // In another root directory the same file has a longer path here.
    matches!(mapped, MMapPath::Path(own) if path == own || path.ends_with(own.strip_prefix("/").unwrap_or(own)))
}

/// All processes that have a page that can be read, and why others could not be; by number.
pub fn all() -> (Vec<Process>, Vec<anyhow::Error>) {
    all_in(&folders::all())
}

fn all_in(folders: &[PathBuf]) -> (Vec<Process>, Vec<anyhow::Error>) {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for (pid, path) in folders.iter().flat_map(|folder| folders::pages(folder)) {
        match Process::of(pid, &path) {
            Ok(process) => found.push((process, path)),
            // It may have ended in between.
            Err(_) if !path.exists() => {}
            Err(error) => errors.push(error),
        }
    }
    forget_old(&mut found);
    let mut found: Vec<Process> = found.into_iter().map(|(process, _)| process).collect();
    found.sort_by_key(|process| process.pid);
    (found, errors)
}

/// Removes pages of processes that are no more, but for the last ones: somebody may want to know how they ended.
fn forget_old(found: &mut Vec<(Process, PathBuf)>) {
    let mut gone: Vec<u64> = found
        .iter()
        .filter(|(process, _)| process.state != State::Running)
        .map(|(process, _)| made_at(process))
        .collect();
    gone.sort_unstable_by(|a, b| b.cmp(a));
    let Some(&oldest) = gone.get(KEPT - 1) else { return };
    found.retain(|(process, path)| {
        let is_kept = process.state == State::Running || made_at(process) >= oldest;
        // What cannot be removed stays.
        is_kept || fs::remove_file(path).is_err()
    });
}

fn made_at(process: &Process) -> u64 {
    process.said.page().made_at_ns()
}

/// The process of a number; an error says why it says nothing of itself.
pub fn find(pid: u32) -> Result<Process> {
    let of_folders =
        || folders::all().into_iter().map(|folder| folder.join(pid.to_string())).find(|path| path.exists());
    match of_folders().or_else(|| mapped_by(pid)) {
        Some(path) => Process::of(pid, &path),
        None if !Path::new(&format!("/proc/{pid}")).exists() => {
            bail!("there is no process {pid}, and none that left a statistics page")
        }
        None => bail!(
            "process {pid} has no statistics page: it does not run under `commensal run`, or its COMMENSAL_CONF does not say observe:on, or it is another user's"
        ),
    }
}

/// The page that a process has mapped, in whatever directory it found: one of its own root, which another one has elsewhere.
fn mapped_by(pid: u32) -> Option<PathBuf> {
    let maps = OfKernel::new(pid as i32).ok()?.maps().ok()?;
    let is_page = |path: &PathBuf| {
        let folder = path.parent().and_then(|folder| folder.file_name()).and_then(|name| name.to_str()).unwrap_or("");
        folder.starts_with("commensal")
            && path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()).is_some()
    };
    let paths = maps.into_iter().filter_map(|map| match map.pathname {
        MMapPath::Path(path) => Some(path),
        _ => None,
    });
    paths
        .filter(is_page)
        .map(|path| PathBuf::from(format!("/proc/{pid}/root")).join(path.strip_prefix("/").unwrap_or(&path)))
        .next()
}
