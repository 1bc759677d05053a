//! A process under the library: its page, and what the kernel knows of it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use commensal_runtime::observe::Resident;
use commensal_runtime::observe::figures::{Cache, Figures, Row};
use commensal_runtime::observe::page::AnyRow;
use procfs::process::{MMapPath, Process as OfKernel};
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};

use crate::folders;
use crate::left::{forget_old, has_nobody_left, written_at};
use crate::namespaces::{Namespaces, Number};
use crate::page::{Copied, Unread};
use crate::units;

/// The state of a process that has a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// It was killed, crashed, or ended in a way that the library does not see.
    Gone,
    /// It executes another program, which writes no page.
    Replaced,
    /// It is in a PID namespace that is invisible from here, so it is unknown whether it runs.
    Elsewhere,
}

impl State {
    /// Whether no process writes the page any more.
    pub fn has_ended(self) -> bool {
        matches!(self, State::Gone | State::Replaced)
    }

    /// One word for it.
    pub fn word(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Gone => "gone",
            State::Replaced => "replaced",
            State::Elsewhere => "elsewhere",
        }
    }
}

/// A process, read.
#[derive(Debug)]
pub struct Process {
    /// The kernel's number of it here; if it is invisible from here, in its own namespace.
    pub pid: u32,
    /// Its state.
    pub state: State,
    /// Its page.
    pub said: Copied,
    /// The file of the page.
    pub path: PathBuf,
    /// What the kernel knows of it now, if it runs.
    pub kernel: Option<Kernel>,
}

/// What the kernel knows of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Resident bytes, including files that it shares with others.
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
    fn of(number: Number, path: &Path) -> Result<Self> {
        let said = Copied::of(path, number.may_exist())?;
        let inside = said.page().process();
        let (pid, (state, kernel)) = match number {
            Number::Here(pid) => (pid, asked(pid, path, &said)),
            Number::Nobody => (inside, (State::Gone, None)),
            Number::Elsewhere => (inside, (State::Elsewhere, None)),
        };
        Ok(Process { pid, state, said, path: path.to_owned(), kernel })
    }

    /// The age of its page.
    pub fn age_ns(&self) -> u64 {
        now_ns().saturating_sub(self.said.snapshot().ended_ns())
    }

    /// The figures of the process.
    pub fn figures(&self) -> Figures {
        self.said.snapshot().figures()
    }

    /// The rows of a table that say something: a cache without spans that nobody used does not.
    pub fn rows(&self, table: usize) -> impl Iterator<Item = AnyRow<'_>> {
        let is_used = |row: &AnyRow<'_>| [row.get("spans"), row.get("peak")].iter().any(|value| *value != Some(0));
        self.said.snapshot().rows_in(table).filter(move |row| table != Cache::NUMBER || is_used(row))
    }

    /// The name of its program.
    pub fn name(&self) -> String {
        self.said.page().program().as_str().to_owned()
    }

    /// The memory that the kernel counts now, divided among the figures of the page.
    pub fn resident(&self) -> Option<String> {
        let bytes = self.kernel.as_ref()?.resident_bytes;
        Some(Resident { bytes, figures: &self.figures() }.to_string())
    }

    /// Whether it ended in an orderly way, but could not remove its page.
    fn has_withdrawn(&self) -> bool {
        self.said.page().has_ended()
    }
}

/// The state of the process whose page this is, and what the kernel knows of it.
fn asked(pid: u32, path: &Path, said: &Copied) -> (State, Option<Kernel>) {
    /// A process that wrote its page so recently exists, so its mappings need not be read.
    const FRESH_NS: u64 = 2_000_000_000;
    // Read after the page: a later time is from before the machine started.
    let (now, ended) = (now_ns(), said.snapshot().ended_ns());
    let known = OfKernel::new(pid as i32).and_then(|process| Ok((process.stat()?, process)));
    let Ok((status, process)) = known else { return (State::Gone, None) };
    // A process that began after the page was made has got the number again.
    let is_another = BEFORE_BOOT_NS + start_ns(status.starttime, clock_ns) > said.page().made_at_ns();
    if ended > now || is_another || is_over(status.state, status.num_threads) {
        return (State::Gone, None);
    }
    // Another user may put any file into a directory of that user.
    let owner = folders::owner(path);
    let is_own = owner == Some(geteuid().as_raw());
    if !is_own && process.status().map(|status| status.euid).ok() != owner {
        return (State::Gone, None);
    }
    // Without permission to read the mappings, the file's name decides. A process whose main thread has ended has none.
    let is_fresh = now.saturating_sub(ended) <= FRESH_NS;
    let has_maps = status.state != 'Z' && !(is_own && is_fresh);
    let maps = if has_maps { process.maps().ok() } else { None };
    if maps.is_some_and(|maps| !maps.into_iter().any(|map| matches!(map.pathname, MMapPath::Path(own) if own == path)))
    {
        return (State::Replaced, None);
    }
    let kernel = Kernel {
        resident_bytes: process.statm().map(|memory| memory.resident * procfs::page_size()).unwrap_or(0),
        threads: status.num_threads as u64,
        command: process.cmdline().map(|words| words.join(" ")).unwrap_or_default(),
    };
    (State::Running, Some(kernel))
}

/// Whether a process in this state has ended. One whose main thread has ended before others is in the state `Z`, too.
fn is_over(state: char, threads: i64) -> bool {
    state == 'X' || state == 'Z' && threads <= 1
}

/// When a process began, or a little earlier, on the machine's monotonic clock. The kernel says it on a clock that also
/// counts while the machine sleeps.
fn start_ns(ticks: u64, clock_ns: impl Fn(ClockId) -> u64) -> u64 {
    // In this order: time that passes in between makes the process older, which is the safe direction.
    let now = clock_ns(ClockId::Monotonic);
    let age = clock_ns(ClockId::Boottime).saturating_sub(ticks * (1_000_000_000 / procfs::ticks_per_second()));
    now.saturating_sub(age)
}

/// All processes with a readable page, by number; and why other pages cannot be read.
pub fn all() -> (Vec<Process>, Vec<anyhow::Error>) {
    all_in(&folders::all())
}

pub(crate) fn all_in(folders: &[PathBuf]) -> (Vec<Process>, Vec<anyhow::Error>) {
    let (mut found, mut unread, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    let namespaces = Namespaces::now();
    for page in folders.iter().flat_map(|folder| folders::pages(folder)) {
        let (number, path) = match page {
            Ok((name, path)) => (namespaces.number(name), path),
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        match Process::of(number, &path) {
            Ok(process) if process.has_withdrawn() => folders::remove_own(&path),
            Ok(process) => found.push(process),
            // It may have ended in between.
            Err(_) if fs::symlink_metadata(&path).is_err() => {}
            Err(error) => {
                let why = error.downcast_ref();
                if matches!(why, Some(Unread::NothingYet(_))) && has_nobody_left(number, &path) {
                    continue;
                }
                if matches!(why, Some(Unread::OtherVersion { .. })) && !number.may_exist() {
                    unread.push((written_at(&path), path));
                }
                errors.push(error);
            }
        }
    }
    let gone = found.iter().filter(|process| process.state.has_ended());
    forget_old(gone.map(|process| (made_at(process), &process.path)));
    forget_old(unread.iter().map(|(at, path)| (*at, path)));
    found.sort_by_key(|process| process.pid);
    (found, errors)
}

/// Counts processes that are gone, each once.
#[derive(Debug, Default)]
pub struct Gone {
    /// The ended ones so far. A page that is unreadable for a moment is not forgotten.
    known: HashSet<(u32, u64)>,
    many: u64,
}

impl Gone {
    /// When more are known, those without a page are forgotten.
    const MOST_KNOWN: usize = 10_000;

    /// The number so far, with these. A process that was seen to execute another program ended in an orderly way.
    pub fn with(&mut self, found: &[Process]) -> u64 {
        let of = |process: &Process| (process.pid, made_at(process));
        let ended = || found.iter().filter(|process| process.state.has_ended());
        for process in ended() {
            if self.known.insert(of(process)) && process.state == State::Gone {
                self.many += 1;
            }
        }
        if self.known.len() > Self::MOST_KNOWN {
            self.known = ended().map(of).collect();
        }
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

/// The process of a number; an error says why it has no readable page.
pub fn find(pid: u32) -> Result<Process> {
    find_in(&folders::all(), pid)
}

/// The process of a number, or all, and why pages cannot be read. A process without a page is left out.
pub fn look(pid: Option<u32>) -> (Vec<Process>, Vec<anyhow::Error>) {
    look_in(&folders::all(), pid)
}

fn look_in(folders: &[PathBuf], pid: Option<u32>) -> (Vec<Process>, Vec<anyhow::Error>) {
    let Some(pid) = pid else { return all_in(folders) };
    match find_in(folders, pid) {
        Ok(process) => (vec![process], Vec::new()),
        Err(error) if matches!(error.downcast_ref(), Some(Unread::NoPage(_))) => (Vec::new(), Vec::new()),
        Err(error) => (Vec::new(), vec![error]),
    }
}

fn find_in(folders: &[PathBuf], pid: u32) -> Result<Process> {
    let name = Namespaces::now().name(pid).to_string();
    let paths = folders.iter().map(|folder| folder.join(&name));
    let found: Vec<PathBuf> = paths.filter(|path| fs::symlink_metadata(path).is_ok()).collect();
    let read = found.iter().map(|path| Process::of(Number::Here(pid), path));
    let read = read.filter(|read| !read.as_ref().is_ok_and(Process::has_withdrawn));
    // Several users may have a page of this number. At most one of the processes runs.
    let best = read.max_by_key(|read| match read {
        Ok(process) => (process.state == State::Running, made_at(process)),
        Err(_) => (false, 0),
    });
    // In another namespace the page has another name.
    let elsewhere = || all_in(folders).0.into_iter().find(|process| process.pid == pid).map(Ok);
    best.or_else(elsewhere).unwrap_or_else(|| Err(no_page(pid).into()))
}

fn no_page(pid: u32) -> Unread {
    let what = if exists(pid) {
        format!("process {pid} has no statistics page, or is another user's")
    } else {
        format!("there is no process {pid}, and none that left a statistics page")
    };
    Unread::NoPage(format!("{what}; {}", hint_now("")))
}

/// [`hint`] of now: first the processes of a name, and of each kind first those that live.
pub fn hint_now(name: &str) -> String {
    let mut processes = all().0;
    processes.sort_by_key(|process| (process.name() != name, process.state.has_ended()));
    hint(&processes)
}

/// How a program gets a page.
pub const START: &str = "start one by `commensal run -- CMD`, or with COMMENSAL_CONF=observe:on";

/// The processes that have a page, and how to start one that has.
pub fn hint(processes: &[Process]) -> String {
    const MOST: usize = 8;
    let named = processes.iter().map(|process| format!("{} ({})", units::word(&process.name()), process.pid));
    let mut names: Vec<String> = named.take(MOST).collect();
    if processes.len() > MOST {
        names.push(format!("{} more", processes.len() - MOST));
    }
    match &names[..] {
        [] => format!("no process has one: {START}"),
        _ => format!("these have one: {}; {START}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{self, NOBODY, OTHER_USER, write};
    use std::cell::Cell;
    use std::os::unix::fs::chown;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn process_is_told_from_others_of_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id();
        let state = |made_at_ns, at_ns| {
            let path = write(folder.path(), pid, made_at_ns, at_ns);
            Process::of(Number::Here(pid), &path).unwrap().state
        };
        // Whatever was made before it began is another one's, also if that was a moment ago.
        assert_eq!(state(1, now_ns()), State::Gone);
        assert_eq!(state(now_ns(), now_ns()), State::Running);
        // Or before the machine started, when the clock was further on.
        assert_eq!(state(now_ns(), now_ns() + 3_600_000_000_000), State::Gone);
        // It has not mapped what it is said to have written long ago: it executes something else by now.
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(state(now_ns(), now_ns().saturating_sub(3_000_000_000)), State::Replaced);
        let running = write(folder.path(), pid, now_ns(), now_ns());
        let kernel = Process::of(Number::Here(pid), &running).unwrap().kernel.unwrap();
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

    /// A process that is said to have begun too late would be another one than the one that made its page.
    #[test]
    fn start_of_a_process_is_never_told_too_late() {
        const S: u64 = 1_000_000_000;
        // Between two looks at clocks a second passes.
        let now = Cell::new(10 * S);
        let clock = |_| now.replace(now.get() + S);
        assert!(start_ns(5 * procfs::ticks_per_second(), clock) <= 5 * S);
        // The machine has run for ten years, of which it slept for one.
        const YEAR: u64 = 365 * 24 * 3600;
        let clock = |clock| if clock == ClockId::Monotonic { 9 * YEAR * S } else { 10 * YEAR * S };
        assert_eq!(start_ns(8 * YEAR * procfs::ticks_per_second(), clock), 7 * YEAR * S);
    }

    #[test]
    fn process_without_its_main_thread_lives_while_others_run() {
        let ended = [('Z', 1), ('Z', 0), ('X', 1), ('X', 2)];
        assert!(ended.into_iter().all(|(state, threads)| is_over(state, threads)));
        assert!([('Z', 2), ('R', 1), ('S', 7)].into_iter().all(|(state, threads)| !is_over(state, threads)));
    }

    /// A user may put into his directory what he likes: pages of processes of others, and of his own that have none.
    #[test]
    fn page_in_a_directory_of_others_is_of_who_maps_it() {
        if !geteuid().is_root() {
            return eprintln!("left out: only root looks at directories of others");
        }
        let folder = tempfile::tempdir().unwrap();
        let (mut roots, mut theirs) = (Command::new("sleep"), Command::new("sleep"));
        let mut children = [roots.arg("1000"), theirs.arg("1000").uid(OTHER_USER).gid(OTHER_USER)]
            .map(|command| command.current_dir("/").spawn().unwrap());
        let states = |owner| {
            chown(folder.path(), Some(owner), None).unwrap();
            let state = |pid| {
                let path = write(folder.path(), pid, now_ns(), now_ns());
                Process::of(Number::Here(pid), &path).unwrap().state
            };
            [state(children[0].id()), state(children[1].id())]
        };
        let (own, others) = (states(0), states(OTHER_USER));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(own, [State::Running; 2]);
        assert_eq!(others, [State::Gone, State::Replaced]);
    }

    #[test]
    fn gone_process_is_counted_once() {
        let process = |pid, state| Process { state, ..sample::process(pid, 0) };
        let mut counted = Gone::default();
        assert_eq!(counted.with(&[process(1, State::Gone), process(2, State::Running)]), 1);
        // A page cannot be read for once.
        assert_eq!(counted.with(&[]), 1);
        assert_eq!(counted.with(&[process(1, State::Gone)]), 1);
        // Who executes something else has ended in an orderly way, whatever becomes of that.
        assert_eq!(counted.with(&[process(2, State::Replaced)]), 1);
        assert_eq!(counted.with(&[process(2, State::Gone)]), 1);
        // There may be ever so many.
        for number in 3..3 + 2 * Gone::MOST_KNOWN as u64 {
            counted.known.insert((number as u32, number));
        }
        assert_eq!(counted.with(&[process(1, State::Gone), process(3, State::Gone)]), 2);
        assert_eq!((counted.known.len(), counted.with(&[process(1, State::Gone), process(3, State::Gone)])), (2, 2));
    }

    #[test]
    fn lookup_by_number_reports_only_its_unreadable_page() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().to_owned()];
        let many = |pid| {
            let (found, errors) = look_in(&folders, pid);
            (found.len(), errors.len())
        };
        write(folder.path(), NOBODY, 1000, 2000);
        fs::write(folder.path().join(sample::name(NOBODY + 1)), "text").unwrap();
        assert_eq!(
            [None, Some(NOBODY), Some(NOBODY + 1), Some(NOBODY + 2)].map(many),
            [(1, 1), (1, 0), (0, 1), (0, 0)]
        );
    }

    #[test]
    fn page_number_of_two_users_means_the_running_process() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let own = std::process::id();
        let mut folders = [one.path().to_owned(), other.path().to_owned()];
        for _ in 0..2 {
            folders.reverse();
            write(&folders[0], own, 1000, 2000);
            fs::write(folders[1].join(sample::name(own)), "text").unwrap();
            assert_eq!(find_in(&folders, own).unwrap().state, State::Gone);
            write(&folders[1], own, now_ns(), now_ns());
            assert_eq!(find_in(&folders, own).unwrap().state, State::Running);
        }
        fs::remove_file(folders[0].join(sample::name(own))).unwrap();
        fs::write(folders[1].join(sample::name(own)), "text").unwrap();
        assert!(format!("{:#}", find_in(&folders, own).unwrap_err()).contains("is no statistics page"));
    }
}
