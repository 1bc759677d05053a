//! A process under Commensal: its page, and what the kernel knows of it.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use procfs::process::{MMapPath, Process as OfKernel};
use runtime::observe::page::Figures;
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};

use crate::folders;
use crate::page::{Copied, NothingYet};

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

/// In tests the machine has run for longer than any page is old, and need not have.
const BEFORE_BOOT_NS: u64 = if cfg!(test) { 1_000_000_000_000_000 } else { 0 };

/// Nanoseconds on the machine's monotonic clock.
pub fn now_ns() -> u64 {
    BEFORE_BOOT_NS + clock_ns(ClockId::Monotonic)
}

fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Process {
    fn of(pid: u32, path: &Path) -> Result<Self> {
        let said = Copied::of(path, exists(pid))?;
        let (state, kernel) = asked(pid, path, &said);
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

/// How a process is whose page this is, and what the kernel knows of it.
fn asked(pid: u32, path: &Path, said: &Copied) -> (State, Option<Kernel>) {
    /// Whoever wrote his page so short a time ago is there: long lists of mappings need not be looked through each time.
    const FRESH_NS: u64 = 2_000_000_000;
    let known = OfKernel::new(pid as i32).and_then(|process| Ok((process.stat()?, process)));
    let Ok((status, process)) = known else { return (State::Gone, None) };
    // One that nobody has waited for is no more; and who began after the page was made has been given the number again.
    if matches!(status.state, 'Z' | 'X') || start_ns(status.starttime) > said.page().made_at_ns() {
        return (State::Gone, None);
    }
    // Who may not look at mappings believes the file's name.
    let is_fresh = now_ns().saturating_sub(said.snapshot().ended_ns()) <= FRESH_NS;
    let maps = if is_fresh { None } else { process.maps().ok() };
    if maps.is_some_and(|maps| !maps.into_iter().any(|map| names(&map.pathname, path))) {
        return (State::Replaced, None);
    }
    let kernel = Kernel {
        resident_bytes: process.statm().map(|memory| memory.resident * procfs::page_size()).unwrap_or(0),
        threads: status.num_threads as u64,
        command: process.cmdline().map(|words| words.join(" ")).unwrap_or_default(),
    };
    (State::Running, Some(kernel))
}

/// When a process began, or a little earlier, on the machine's monotonic clock; the kernel tells it on one that also counts while the machine sleeps.
fn start_ns(ticks: u64) -> u64 {
    let age_ns = clock_ns(ClockId::Boottime).saturating_sub(ticks * 1_000_000_000 / procfs::ticks_per_second());
    now_ns().saturating_sub(age_ns)
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
            Err(_) if fs::symlink_metadata(&path).is_err() => {}
            Err(error) if error.is::<NothingYet>() && has_nobody_left(pid, &path) => {}
            Err(error) => errors.push(error),
        }
    }
    forget_old(&found);
    let mut found: Vec<Process> = found.into_iter().map(|(process, _)| process).collect();
    found.sort_by_key(|process| process.pid);
    (found, errors)
}

/// Whether a page in which nothing was written will stay so, as its process is no more: such a page says nothing, and goes.
fn has_nobody_left(pid: u32, path: &Path) -> bool {
    /// Who shares the directory and not the processes' numbers may be making one.
    const LONG: Duration = Duration::from_secs(10);
    let is_old = fs::symlink_metadata(path)
        .and_then(|page| page.modified())
        .is_ok_and(|written| written.elapsed().is_ok_and(|age| age > LONG));
    let is_left = is_old && !exists(pid);
    if is_left && is_ours(path) {
        // What cannot be removed stays.
        let _ = fs::remove_file(path);
    }
    is_left
}

/// Whether a page is this user's, to remove.
fn is_ours(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|page| page.uid() == geteuid().as_raw())
}

/// Removes pages of processes that are no more, but for the last ones: somebody may want to know how they ended. Who found them is still told of all. Those of other users are
/// theirs to remove: their directories may be something else a moment later.
fn forget_old(found: &[(Process, PathBuf)]) {
    let mut gone: Vec<&(Process, PathBuf)> =
        found.iter().filter(|(process, path)| process.state != State::Running && is_ours(path)).collect();
    gone.sort_by_key(|(process, _)| Reverse(made_at(process)));
    for (_, path) in gone.into_iter().skip(KEPT) {
        // What cannot be removed stays.
        let _ = fs::remove_file(path);
    }
}

/// Processes that were seen to be no more, each counted once.
#[derive(Debug, Default)]
pub struct Gone {
    /// Those whose pages were there when somebody looked last.
    known: HashSet<(u32, u64)>,
    many: u64,
}

impl Gone {
    /// How many there were up to now, with these.
    pub fn with(&mut self, found: &[Process]) -> u64 {
        let gone = found.iter().filter(|process| process.state != State::Running);
        let seen: HashSet<(u32, u64)> = gone.map(|process| (process.pid, made_at(process))).collect();
        self.many += seen.difference(&self.known).count() as u64;
        self.known = seen;
        self.many
    }
}

fn made_at(process: &Process) -> u64 {
    process.said.page().made_at_ns()
}

/// Whether there is a process of this number.
pub fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// The process of a number; an error says why it says nothing of itself.
pub fn find(pid: u32) -> Result<Process> {
    find_in(&folders::all(), pid)
}

fn find_in(folders: &[PathBuf], pid: u32) -> Result<Process> {
    let paths = folders.iter().map(|folder| folder.join(pid.to_string()));
    let mut found: Vec<PathBuf> = paths.filter(|path| fs::symlink_metadata(path).is_ok()).collect();
    if found.is_empty() {
        found.extend(mapped_by(pid));
    }
    // Of several users there may be one each, of which one process runs at most.
    let read = found.iter().map(|path| Process::of(pid, path));
    let best = read.max_by_key(|read| match read {
        Ok(process) => (process.state == State::Running, made_at(process)),
        Err(_) => (false, 0),
    });
    match best {
        Some(read) => read,
        None if !exists(pid) => bail!(
            "there is no process {pid}, and none that left a statistics page; `commensal stat` lists those that have one"
        ),
        None => bail!(
            "process {pid} has no statistics page: it does not run under `commensal run`, or its COMMENSAL_CONF does not say observe:on, or it has not lived and done enough yet, or it is another user's; `commensal stat` lists those that have one"
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use std::process::Command;

    /// A number that no process has: the kernel gives none beyond 4194304.
    const NOBODY: u32 = 5_000_000;

    fn write(folder: &Path, pid: u32, made_at_ns: u64, at_ns: u64) -> PathBuf {
        let path = folder.join(pid.to_string());
        fs::write(&path, sample::page_made_at(made_at_ns, pid, at_ns, 0)).unwrap();
        path
    }

    #[test]
    fn pages_of_the_last_ones_that_went_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        // The oldest have the highest numbers, and one is no page.
        for number in 0..40 {
            write(folder.path(), NOBODY + number, 1000 - u64::from(number), 2000);
        }
        fs::write(folder.path().join("7000000"), "text").unwrap();
        let own = std::process::id();
        write(folder.path(), own, now_ns(), now_ns());
        let look = || {
            let (found, errors) = all_in(&[folder.path().to_owned()]);
            let gone = found.iter().filter(|process| process.state == State::Gone).map(|process| process.pid);
            (gone.collect::<Vec<u32>>(), found, errors)
        };
        let mut counted = Gone::default();
        // All are told of once.
        let (gone, found, _) = look();
        assert_eq!((gone, counted.with(&found)), ((NOBODY..NOBODY + 40).collect(), 40));
        let (gone, found, errors) = look();
        assert_eq!((gone, counted.with(&found)), ((NOBODY..NOBODY + 32).collect(), 40));
        assert!(found.iter().any(|process| process.pid == own && process.state == State::Running));
        assert_eq!(errors.len(), 1, "{errors:?}");
        // Nothing else went.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 34);
        // A newer one takes the place of one of them, and one may have the number of another; a page that somebody removed was of one all the same.
        write(folder.path(), NOBODY + 39, 3000, 3000);
        write(folder.path(), NOBODY, 4000, 4000);
        fs::remove_file(folder.path().join((NOBODY + 1).to_string())).unwrap();
        assert_eq!(counted.with(&look().1), 42);
        assert_eq!(counted.with(&look().1), 42);
    }

    /// Children that were killed before they said anything leave such pages, by the hundred.
    #[test]
    fn pages_in_which_nobody_wrote_go() {
        let folder = tempfile::tempdir().unwrap();
        let own = std::process::id();
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(60);
        for (pid, written) in [(NOBODY, long_ago), (NOBODY + 1, std::time::SystemTime::now()), (own, long_ago)] {
            let path = folder.path().join(pid.to_string());
            let mut page = sample::page(pid, 1000, 0);
            // There is no current copy.
            page[12] = 0;
            fs::write(&path, page).unwrap();
            fs::File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
        }
        let (found, errors) = all_in(&[folder.path().to_owned()]);
        assert!(found.is_empty(), "{found:?}");
        assert_eq!(errors.len(), 2, "{errors:?}");
        let mut left: Vec<u32> = folders::pages(folder.path()).into_iter().map(|(pid, _)| pid).collect();
        left.sort();
        assert_eq!(left, [own.min(NOBODY), NOBODY + 1]);
    }

    #[test]
    fn a_process_is_told_from_others_of_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id();
        let state = |made_at_ns, at_ns| {
            let path = write(folder.path(), pid, made_at_ns, at_ns);
            Process::of(pid, &path).unwrap().state
        };
        // Whatever was made before it began is another one's, also if that was a moment ago.
        assert_eq!(state(1, now_ns()), State::Gone);
        assert_eq!(state(now_ns(), now_ns()), State::Running);
        // It has not mapped what it is said to have written long ago: it executes something else by now.
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(state(now_ns(), now_ns().saturating_sub(3_000_000_000)), State::Replaced);
        let running = write(folder.path(), pid, now_ns(), now_ns());
        let kernel = Process::of(pid, &running).unwrap().kernel.unwrap();
        assert_eq!((kernel.threads, kernel.command.as_str()), (1, "sleep 1000"));
        assert!(kernel.resident_bytes > 0);
        // Killed, and not waited for; then waited for.
        child.kill().unwrap();
        while !fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ") {
            std::thread::yield_now();
        }
        assert_eq!(state(now_ns(), now_ns()), State::Gone);
        child.wait().unwrap();
        assert_eq!(state(now_ns(), now_ns()), State::Gone);
    }

    #[test]
    fn of_two_users_pages_of_one_number_the_one_that_runs_is_meant() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let own = std::process::id();
        let mut folders = [one.path().to_owned(), other.path().to_owned()];
        for _ in 0..2 {
            folders.reverse();
            write(&folders[0], own, 1000, 2000);
            fs::write(folders[1].join(own.to_string()), "text").unwrap();
            assert_eq!(find_in(&folders, own).unwrap().state, State::Gone);
            write(&folders[1], own, now_ns(), now_ns());
            assert_eq!(find_in(&folders, own).unwrap().state, State::Running);
        }
        fs::remove_file(folders[0].join(own.to_string())).unwrap();
        fs::write(folders[1].join(own.to_string()), "text").unwrap();
        assert!(format!("{:#}", find_in(&folders, own).unwrap_err()).contains("is no statistics page"));
    }

    #[test]
    fn who_says_nothing_is_told_from_who_is_not_there() {
        let said = |pid| format!("{:#}", find_in(&[], pid).unwrap_err());
        assert!(said(NOBODY).starts_with("there is no process 5000000"), "{}", said(NOBODY));
        assert!(said(std::process::id()).contains("has no statistics page"), "{}", said(std::process::id()));
    }
}
