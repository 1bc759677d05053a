//! The lab's end of the starter: it writes what is to be started into shared memory, and waits.
//!
//! The starter is carried inside of this program and executed from memory. It leads a process group of its own, and so does
//! every program that it starts: Ctrl-C on the terminal reaches the lab only, which then ends what runs. A program that hangs is
//! killed with its group; what escaped from the group became a child of the starter when its parent died, and is found there.

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter, Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::ptr::{self, NonNull};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::protocol::{ADDRESS, MEMORY, Page, REPLIES, REQUESTS};
use super::{Cost, End, Interrupt, Program, Run};

const STARTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/starter"));
/// What the kernel lets arguments and environment have by default is 2 MiB; only what is used is ever there.
const MEMORY_BYTES: usize = 8 << 20;
/// How long processes that a program left behind may take to end by themselves.
const LEFT_RUNNING_LIMIT: Duration = Duration::from_secs(1);
/// What a program prints is in memory; a run of less than a second is not looked at while it prints.
const OUTPUT_LIMIT_BYTES: u64 = if cfg!(test) { 1 << 20 } else { 1 << 30 };
const OUTPUT_POLL: Duration = Duration::from_secs(1);
const LEFT_RUNNING_POLL: Duration = Duration::from_millis(5);

/// What the last run printed.
pub struct Printed<'a> {
    /// To standard output and to standard error. Each is a file in memory, rewound.
    pub files: [&'a mut File; 2],
}

/// A running starter.
pub struct Starter {
    process: Child,
    requests: PipeWriter,
    replies: PipeReader,
    memory: Memory,
    printed: [File; 2],
    input: File,
    interrupt: Interrupt,
}

impl Starter {
    /// Starts the starter. Its programs read from `input`, from the file's beginning each time, or nothing.
    pub fn new(input: Option<File>, interrupt: Interrupt) -> Result<Self> {
        let input = input.map_or_else(|| File::open("/dev/null"), Ok).context("cannot open /dev/null")?;
        Self::launch(input, interrupt).context("cannot start the process that starts programs")
    }

    fn launch(input: File, interrupt: Interrupt) -> Result<Self> {
        let program = File::from(above_all_numbers(executable_in_memory(c"starter")?.as_raw_fd())?);
        (&program).write_all(STARTER)?;
        let memory = Memory::new()?;
        let printed = [in_memory(c"stdout")?, in_memory(c"stderr")?];
        let (its_requests, requests) = io::pipe()?;
        let (replies, its_replies) = io::pipe()?;
        let its = [
            (above_all_numbers(its_requests.as_raw_fd())?, REQUESTS),
            (above_all_numbers(its_replies.as_raw_fd())?, REPLIES),
            (above_all_numbers(memory.file.as_raw_fd())?, MEMORY),
        ];
        let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
        command.env_clear().process_group(0);
        command.stdin(input.try_clone()?).stdout(printed[0].try_clone()?).stderr(printed[1].try_clone()?);
        let give = move || {
            for (descriptor, number) in &its {
                // SAFETY: it makes a number stand for an open file; the closure allocates nothing.
                if unsafe { libc::dup2(descriptor.as_raw_fd(), *number) } < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        };
        // SAFETY: `give` makes system calls only.
        unsafe { command.pre_exec(give) };
        let process = command.spawn()?;
        Ok(Self { process, requests, replies, memory, printed, input, interrupt })
    }

    /// Lets all that is started from now on run on one CPU only.
    pub fn pin(&self, cpu: usize) -> io::Result<()> {
        let mut one = CpuSet::new();
        one.set(cpu);
        Ok(sched_setaffinity(Some(self.id()), &one)?)
    }

    /// Runs a program to its end, or for as long as `limit` lets it. None if Ctrl-C came first.
    pub fn run(&mut self, program: &Program, limit: Duration) -> Result<Option<Run>> {
        for file in &mut self.printed {
            file.set_len(0)?;
            file.rewind()?;
        }
        self.input
            .rewind()
            .or_else(|error| if error.raw_os_error() == Some(libc::ESPIPE) { Ok(()) } else { Err(error) })?;
        self.memory.write(program)?;
        self.requests.write_all(&[0])?;
        let waited = self.wait(limit)?;
        if waited != Waited::Ended {
            self.stop();
        }
        self.replies.read_exact(&mut [0]).context("the process that starts programs was killed")?;
        let page = self.memory.page();
        if page.left_running != 0 {
            self.end_left_running()?;
        }
        let (end, left_running) = match waited {
            Waited::Interrupted => return Ok(None),
            Waited::TooLong => (End::TimedOut(limit), false),
            Waited::TooMuch => (End::PrintedTooMuch(OUTPUT_LIMIT_BYTES), false),
            Waited::Ended => (end_of(&page), page.left_running != 0),
        };
        Ok(Some(Run { end, cost: cost_of(&page), left_running }))
    }

    /// What the last run printed.
    pub fn printed(&mut self) -> Result<Printed<'_>> {
        let [output, errors] = &mut self.printed;
        output.rewind()?;
        errors.rewind()?;
        Ok(Printed { files: [output, errors] })
    }

    /// What the last run printed to standard output.
    pub fn text(&mut self) -> Result<String> {
        let mut text = Vec::new();
        self.printed()?.files[0].read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn wait(&self, limit: Duration) -> Result<Waited> {
        let start = Instant::now();
        let mut events = [PollFd::new(&self.replies, PollFlags::IN), PollFd::new(&self.interrupt, PollFlags::IN)];
        loop {
            let left = limit.saturating_sub(start.elapsed());
            let slice = left.min(OUTPUT_POLL);
            let slice = Timespec { tv_sec: slice.as_secs() as i64, tv_nsec: slice.subsec_nanos().into() };
            match poll(&mut events, Some(&slice)) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => bail!("cannot wait for a program ({error})"),
                Ok(0) if left <= OUTPUT_POLL => return Ok(Waited::TooLong),
                Ok(0) if self.has_printed_too_much()? => return Ok(Waited::TooMuch),
                Ok(0) => {}
                Ok(_) if !events[0].revents().is_empty() => return Ok(Waited::Ended),
                Ok(_) => return Ok(Waited::Interrupted),
            }
        }
    }

    /// Kills the program that runs, with its group, until the starter has seen its end.
    fn stop(&self) {
        while !self.has_replied() {
            if let Some(running) = Pid::from_raw(self.memory.page().running) {
                // It may just have ended, or have left its group.
                let _ = kill_process_group(running, Signal::KILL);
                let _ = kill_process(running, Signal::KILL);
            }
            thread::sleep(LEFT_RUNNING_POLL);
        }
    }

    fn has_printed_too_much(&self) -> Result<bool> {
        let [output, errors] = &self.printed;
        Ok(output.metadata()?.len().max(errors.metadata()?.len()) > OUTPUT_LIMIT_BYTES)
    }

    fn has_replied(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut events = [PollFd::new(&self.replies, PollFlags::IN)];
        matches!(poll(&mut events, Some(&now)), Ok(1))
    }

    /// Waits for a moment for what a program left behind, and then kills it: it would disturb the next one.
    fn end_left_running(&mut self) -> Result<()> {
        let start = Instant::now();
        loop {
            let children = self.children()?;
            if children.is_empty() {
                return Ok(());
            }
            if start.elapsed() > LEFT_RUNNING_LIMIT {
                for child in children {
                    // It may just have ended.
                    let _ = kill_process(child, Signal::KILL);
                }
            }
            thread::sleep(LEFT_RUNNING_POLL);
        }
    }

    /// The starter's children that have not ended.
    fn children(&self) -> Result<Vec<Pid>> {
        let mut children = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(number) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
            // What is gone meanwhile is no child any more.
            let Ok(stat) = fs::read_to_string(format!("/proc/{number}/stat")) else { continue };
            let mut words = stat.rsplit(") ").next().unwrap_or_default().split(' ');
            let (state, parent) = (words.next(), words.next());
            if state != Some("Z") && parent == Some(&*self.process.id().to_string()) {
                children.extend(Pid::from_raw(number));
            }
        }
        Ok(children)
    }

    fn id(&self) -> Pid {
        Pid::from_child(&self.process)
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        // It waits for a request; nothing of a program is left when `run` has returned.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[derive(PartialEq)]
enum Waited {
    Ended,
    TooLong,
    TooMuch,
    Interrupted,
}

fn end_of(page: &Page) -> End {
    let status = ExitStatus::from_raw(page.status);
    match (page.error, status.code(), status.signal()) {
        (0, Some(code), _) => End::Exited(code),
        (0, None, Some(signal)) => End::Killed(signal),
        (error, ..) => End::NotStarted(error),
    }
}

fn cost_of(page: &Page) -> Cost {
    let mean = |sum: u64| sum as f64 / page.times as f64;
    Cost {
        wall_s: mean(page.wall_ns) / 1e9,
        user_s: mean(page.user_us) / 1e6,
        system_s: mean(page.system_us) / 1e6,
        peak_kb: page.peak_kb as f64,
        page_faults: mean(page.minor_faults + page.major_faults),
        context_switches: mean(page.voluntary_switches + page.involuntary_switches),
    }
}

/// A file that exists in memory only.
fn in_memory(name: &std::ffi::CStr) -> io::Result<File> {
    Ok(memfd_create(name, MemfdFlags::CLOEXEC)?.into())
}

/// Likewise, and it may be executed. Kernels before 6.3 cannot be asked for that: there every one may.
fn executable_in_memory(name: &std::ffi::CStr) -> io::Result<File> {
    match memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::EXEC) {
        Err(rustix::io::Errno::INVAL) => in_memory(name),
        made => Ok(made?.into()),
    }
}

/// Another descriptor of the same file, above all that the starter's are moved to.
fn above_all_numbers(descriptor: i32) -> io::Result<OwnedFd> {
    // SAFETY: it duplicates an open descriptor.
    let copy = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, MEMORY + 1) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was just made, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// The memory that is shared with the starter, as it is mapped here.
struct Memory {
    file: File,
    start: NonNull<u8>,
}

impl Memory {
    fn new() -> Result<Self> {
        let file = in_memory(c"request")?;
        file.set_len(MEMORY_BYTES as u64)?;
        // SAFETY: a new mapping, wherever there is room.
        let start = unsafe {
            mmap(ptr::null_mut(), MEMORY_BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)?
        };
        let memory = Self { file, start: NonNull::new(start.cast()).context("mapped at null")? };
        memory.set_page(Page { bytes: MEMORY_BYTES as u64, ..Page::default() });
        Ok(memory)
    }

    /// Volatile: the starter writes it, and so does the kernel for it.
    fn page(&self) -> Page {
        // SAFETY: the memory begins with a page; any bits are one.
        unsafe { self.start.cast::<Page>().read_volatile() }
    }

    fn set_page(&self, page: Page) {
        // SAFETY: as above; the starter is not reading: no request is under way.
        unsafe { self.start.cast::<Page>().write_volatile(page) }
    }

    fn write(&mut self, program: &Program) -> Result<()> {
        let mut area = Area { memory: self, used: size_of::<Page>() };
        let path = area.string(program.path.as_os_str())?;
        let arguments: Vec<u64> = program.arguments.iter().map(|word| area.string(word)).collect::<Result<_>>()?;
        let arguments = area.list(&arguments)?;
        let mut environment = Vec::new();
        for (name, value) in &program.environment {
            let mut both = name.clone();
            both.push("=");
            both.push(value);
            environment.push(area.string(&both)?);
        }
        let environment = area.list(&environment)?;
        let directory = program.directory.as_deref().map_or(Ok(0), |directory| area.string(directory.as_os_str()))?;
        let (bytes, times) = (MEMORY_BYTES as u64, program.times.into());
        self.set_page(Page { bytes, path, arguments, environment, directory, times, ..Page::default() });
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and no reference into it is left.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), MEMORY_BYTES) };
        debug_assert!(unmapped.is_ok());
    }
}

/// The part of the memory behind the page, filled from its beginning.
struct Area<'a> {
    memory: &'a mut Memory,
    used: usize,
}

impl Area<'_> {
    /// Where the starter sees the string.
    fn string(&mut self, text: &OsStr) -> Result<u64> {
        let text = CString::new(text.as_bytes()).context("an argument or a variable contains a zero byte")?;
        self.bytes(text.as_bytes_with_nul())
    }

    /// Where the starter sees a list of pointers, with a null at its end.
    fn list(&mut self, pointers: &[u64]) -> Result<u64> {
        self.used = self.used.next_multiple_of(align_of::<u64>());
        let bytes: Vec<u8> = pointers.iter().chain(&[0]).flat_map(|pointer| pointer.to_ne_bytes()).collect();
        self.bytes(&bytes)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<u64> {
        let at = self.used;
        ensure!(at + bytes.len() <= MEMORY_BYTES, "arguments and environment have more than {MEMORY_BYTES} bytes");
        // SAFETY: there is room behind what is used, and the starter is not reading.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.memory.start.as_ptr().add(at), bytes.len()) };
        self.used = at + bytes.len();
        Ok((ADDRESS + at) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starter() -> Starter {
        Starter::new(None, Interrupt::never().unwrap()).unwrap()
    }

    /// Far more than a busy machine needs.
    const PATIENCE: Duration = Duration::from_secs(600);

    fn shell(script: &str) -> Program {
        Program::new("/bin/sh", ["sh", "-c", script])
    }

    fn ran(starter: &mut Starter, script: &str) -> (Run, [String; 2]) {
        let run = starter.run(&shell(script), PATIENCE).unwrap().unwrap();
        let mut printed = [String::new(), String::new()];
        for (file, text) in starter.printed().unwrap().files.into_iter().zip(&mut printed) {
            file.read_to_string(text).unwrap();
        }
        (run, printed)
    }

    #[test]
    fn a_run_tells_its_end_and_what_it_printed() {
        let mut starter = starter();
        let (run, printed) = ran(&mut starter, "echo a; echo b >&2; exit 3");
        assert_eq!(run.end, End::Exited(3));
        assert_eq!(printed, ["a\n", "b\n"]);
        let (run, printed) = ran(&mut starter, "kill -SEGV $$");
        assert_eq!(run.end, End::Killed(11));
        assert_eq!(printed, ["", ""], "the earlier output is gone");
        assert_eq!(run.end.to_string(), "was killed by signal 11 (SIGSEGV)");
    }

    #[test]
    fn what_cannot_be_started_is_told() {
        let mut starter = starter();
        let run = starter.run(&Program::new("/etc/passwd", ["x"]), PATIENCE).unwrap().unwrap();
        assert_eq!(run.end, End::NotStarted(libc::EACCES));
        let gone = Program { directory: Some("/no/such/place".into()), ..shell("true") };
        assert_eq!(starter.run(&gone, PATIENCE).unwrap().unwrap().end, End::NotStarted(libc::ENOENT));
    }

    #[test]
    fn costs_are_those_of_the_program() {
        let mut starter = starter();
        let (idle, _) = ran(&mut starter, "sleep 0.2");
        assert!(idle.cost.wall_s >= 0.2, "{idle:?}");
        let (busy, _) = ran(&mut starter, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done");
        assert!(busy.cost.user_s > 0.02 && busy.cost.user_s > idle.cost.user_s, "{busy:?} {idle:?}");
        assert!(idle.cost.page_faults > 50.0 && idle.cost.context_switches >= 1.0, "{idle:?}");
    }

    /// What `wait4` says starts at what the parent had: with this process as the parent, `true` would seem to have megabytes.
    #[test]
    fn the_peak_of_a_small_program_is_its_own() {
        let ballast = vec![1u8; 64 << 20];
        let mut starter = starter();
        let run = starter.run(&Program::new("/bin/true", ["true"]), PATIENCE).unwrap().unwrap();
        assert!(run.cost.peak_kb < 4000.0, "{run:?}");
        assert_eq!(ballast[4096], 1);
        let (large, _) = ran(&mut starter, "x=$(head -c 30000000 /dev/zero | tr '\\0' x); echo ${#x}");
        assert!(large.cost.peak_kb > 29_000.0, "{large:?}");
    }

    #[test]
    fn several_times_are_one_measurement() {
        let mut starter = starter();
        let program = Program { times: 20, ..Program::new("/bin/true", ["true"]) };
        let run = starter.run(&program, PATIENCE).unwrap().unwrap();
        assert_eq!(run.end, End::Exited(0));
        assert!(run.cost.page_faults > 10.0 && run.cost.page_faults < 2000.0, "{run:?}");
        let failing = Program { times: 20, ..shell("echo x; exit 1") };
        starter.run(&failing, PATIENCE).unwrap();
        let text = starter.text().unwrap();
        assert_eq!(text, "x\n", "the first failure ends it");
    }

    #[test]
    fn what_hangs_is_killed_with_all_that_it_started() {
        let mut starter = starter();
        let hanging = shell("setsid sleep 10077 & sleep 10078 & sleep 10079");
        let run = starter.run(&hanging, Duration::from_millis(300)).unwrap().unwrap();
        assert_eq!(run.end, End::TimedOut(Duration::from_millis(300)));
        assert_eq!(starter.children().unwrap(), []);
        assert_eq!(ran(&mut starter, "echo on").1[0], "on\n");
    }

    #[test]
    fn what_prints_without_end_is_ended() {
        let mut starter = starter();
        let run = starter.run(&shell("while :; do echo no end; done"), PATIENCE).unwrap().unwrap();
        assert_eq!(run.end, End::PrintedTooMuch(OUTPUT_LIMIT_BYTES));
    }

    #[test]
    fn what_is_left_running_is_ended_and_told() {
        let mut starter = starter();
        let (run, _) = ran(&mut starter, "setsid sleep 10077 & exit 0");
        assert!(run.left_running);
        assert_eq!(run.end, End::Exited(0));
        let (run, _) = ran(&mut starter, "true");
        assert!(!run.left_running);
        assert_eq!(starter.children().unwrap(), []);
    }

    #[test]
    fn arguments_environment_and_directory_arrive() {
        let mut starter = starter();
        let mut program =
            Program::new("/bin/sh", ["sh", "-c", "echo $0 $1; pwd; echo \"$GUEST\"; env | wc -l", "a b", "ü"]);
        program.environment = [("GUEST".into(), "x=y\nz".into())].into();
        program.directory = Some("/usr".into());
        starter.run(&program, PATIENCE).unwrap();
        let text = starter.text().unwrap();
        assert!(text.starts_with("a b ü\n/usr\nx=y\nz\n"), "{text}");
    }

    #[test]
    fn input_is_read_from_its_beginning_each_time() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one\ntwo\n").unwrap();
        let mut starter = Starter::new(Some(file), Interrupt::never().unwrap()).unwrap();
        assert_eq!(ran(&mut starter, "read x; echo $x").1[0], "one\n");
        assert_eq!(ran(&mut starter, "read x; echo $x").1[0], "one\n");
        let mut none = self::starter();
        assert_eq!(ran(&mut none, "wc -c").1[0].trim(), "0");
    }

    #[test]
    fn the_starter_ends_with_the_lab() {
        let starter = starter();
        let id = starter.id();
        drop(starter);
        assert!(kill_process(id, Signal::CONT).is_err());
    }

    #[test]
    fn too_much_is_refused() {
        let mut starter = starter();
        let huge = Program::new("/bin/true", ["x".repeat(MEMORY_BYTES)]);
        let error = starter.run(&huge, PATIENCE).unwrap_err();
        assert!(error.to_string().contains("more than"), "{error}");
        assert_eq!(ran(&mut starter, "echo on").1[0], "on\n");
    }
}
