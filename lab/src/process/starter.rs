//! The lab's end of the starter: it executes one for each measurement, and waits for what it says.
//!
//! The starter is carried inside of this program and executed from memory. It leads a process group of its own, and so does
//! every program that it starts: Ctrl-C on the terminal reaches the lab only, which then ends what runs. A program that hangs is
//! killed with its group; what escaped from the group became a child of the starter when its parent died, and is found there.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::protocol::{GO, REPLY, Reply};
use super::{Cost, End, Interrupt, Program, Run};

const STARTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/starter"));
/// How long processes that a program left behind may take to end by themselves.
const LEFT_RUNNING_LIMIT: Duration = Duration::from_secs(1);
/// What a program prints is in memory; a run of less than a second is not looked at while it prints.
const OUTPUT_LIMIT_BYTES: u64 = if cfg!(test) { 1 << 20 } else { 1 << 30 };
const OUTPUT_POLL: Duration = Duration::from_secs(1);
const LEFT_RUNNING_POLL: Duration = Duration::from_millis(5);

/// What starts programs.
pub struct Starter {
    program: OwnedFd,
    printed: [File; 2],
    input: File,
    cpu: Option<CpuSet>,
    interrupt: Interrupt,
}

impl Starter {
    /// Its programs read from `input`, from the file's beginning each time, or nothing.
    pub fn new(input: Option<File>, interrupt: Interrupt) -> Result<Self> {
        let input = input.map_or_else(|| File::open("/dev/null"), Ok).context("cannot open /dev/null")?;
        let in_memory = || -> io::Result<_> {
            let mut program = executable_in_memory(c"starter")?;
            program.write_all(STARTER)?;
            Ok((above_reply(program)?, [in_memory(c"stdout")?, in_memory(c"stderr")?]))
        };
        let (program, printed) = in_memory().context("cannot make files in memory")?;
        Ok(Self { program, printed, input, cpu: None, interrupt })
    }

    /// Lets all that is started from now on run on one CPU only.
    pub fn pin(&mut self, cpu: usize) {
        let mut one = CpuSet::new();
        one.set(cpu);
        self.cpu = Some(one);
    }

    /// Runs a program to its end, or for as long as `limit` lets it. None if Ctrl-C came first.
    pub fn run(&mut self, program: &Program, limit: Duration) -> Result<Option<Run>> {
        ensure!(program.counters.is_empty() || program.times == 1, "a program that is counted runs once");
        for file in &mut self.printed {
            file.set_len(0)?;
            file.rewind()?;
        }
        self.input
            .rewind()
            .or_else(|error| if error.raw_os_error() == Some(libc::ESPIPE) { Ok(()) } else { Err(error) })?;
        let mut running = self.launch(program).context("cannot start the process that starts programs")?;
        let waited = self.wait(&running, limit)?;
        if waited != Waited::Ended {
            running.stop()?;
        }
        let reply = running.reply().context("the process that starts programs was killed")?;
        if reply.left_running != 0 {
            running.end_left_running()?;
        }
        let (end, left_running) = match waited {
            Waited::Interrupted => return Ok(None),
            Waited::TooLong => (End::TimedOut(limit), false),
            Waited::TooMuch => (End::PrintedTooMuch(OUTPUT_LIMIT_BYTES), false),
            Waited::Ended => (end_of(&reply), reply.left_running != 0),
        };
        let counts = program.counters.iter().zip(&mut running.counters).map(|(counter, open)| counter.count(open));
        let counted = counts.collect::<io::Result<_>>().context("cannot read a counter")?;
        Ok(Some(Run { end, cost: cost_of(&reply, program.times), counted, left_running }))
    }

    fn launch(&self, program: &Program) -> io::Result<Running> {
        let (replies, reply) = UnixStream::pair()?;
        let (reply, cpu) = (above_reply(reply)?, self.cpu);
        let mut command = Command::new(format!("/proc/self/fd/{}", self.program.as_raw_fd()));
        command.arg0(program.times.to_string()).arg(program.directory.as_deref().unwrap_or(Path::new(".")));
        command.arg(&program.path).args(&program.arguments).env_clear().envs(&program.environment).process_group(0);
        command
            .stdin(self.input.try_clone()?)
            .stdout(self.printed[0].try_clone()?)
            .stderr(self.printed[1].try_clone()?);
        let prepare = move || {
            cpu.map_or(Ok(()), |cpu| sched_setaffinity(None, &cpu))?;
            // SAFETY: it makes a number stand for an open file.
            if unsafe { libc::dup2(reply.as_raw_fd(), REPLY) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        };
        // SAFETY: `prepare` makes system calls only.
        unsafe { command.pre_exec(prepare) };
        let mut running = Running { starter: command.spawn()?, replies, counters: Vec::new() };
        let opened = program.counters.iter().map(|counter| counter.open(running.starter.id()));
        running.counters = opened.collect::<io::Result<_>>()?;
        running.replies.write_all(&[GO])?;
        Ok(running)
    }

    /// What the last run printed to standard output and to standard error: files in memory, rewound.
    pub fn printed(&mut self) -> Result<&mut [File; 2]> {
        for file in &mut self.printed {
            file.rewind()?;
        }
        Ok(&mut self.printed)
    }

    /// What the last run printed to standard output.
    pub fn text(&mut self) -> Result<String> {
        let mut text = Vec::new();
        self.printed()?[0].read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn wait(&self, running: &Running, limit: Duration) -> Result<Waited> {
        let start = Instant::now();
        let mut events = [PollFd::new(&running.replies, PollFlags::IN), PollFd::new(&self.interrupt, PollFlags::IN)];
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

    fn has_printed_too_much(&self) -> Result<bool> {
        let [output, errors] = &self.printed;
        Ok(output.metadata()?.len().max(errors.metadata()?.len()) > OUTPUT_LIMIT_BYTES)
    }
}

/// A starter, which ends with this: nothing of a program is left by then.
struct Running {
    starter: Child,
    replies: UnixStream,
    counters: Vec<perf_event::Counter>,
}

impl Running {
    fn reply(&mut self) -> io::Result<Reply> {
        let mut bytes = [0; size_of::<Reply>()];
        self.replies.read_exact(&mut bytes)?;
        // SAFETY: the starter wrote one, which is words, and any bits are some.
        Ok(unsafe { bytes.as_ptr().cast::<Reply>().read_unaligned() })
    }

    fn has_replied(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut events = [PollFd::new(&self.replies, PollFlags::IN)];
        matches!(poll(&mut events, Some(&now)), Ok(1))
    }

    /// Kills the program that runs, with its group, until the starter has seen its end.
    fn stop(&self) -> Result<()> {
        while !self.has_replied() {
            self.kill_children()?;
            thread::sleep(LEFT_RUNNING_POLL);
        }
        Ok(())
    }

    /// Waits for a moment for what a program left behind, and then kills it: it would disturb the next one.
    fn end_left_running(&self) -> Result<()> {
        let start = Instant::now();
        while !self.children()?.is_empty() {
            if start.elapsed() > LEFT_RUNNING_LIMIT {
                self.kill_children()?;
            }
            thread::sleep(LEFT_RUNNING_POLL);
        }
        Ok(())
    }

    fn kill_children(&self) -> Result<()> {
        for child in self.children()? {
            // It may just have ended, or lead no group.
            let _ = kill_process_group(child, Signal::KILL);
            let _ = kill_process(child, Signal::KILL);
        }
        Ok(())
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
            if state != Some("Z") && parent == Some(&*self.starter.id().to_string()) {
                children.extend(Pid::from_raw(number));
            }
        }
        Ok(children)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.starter.kill();
        let _ = self.starter.wait();
    }
}

#[derive(PartialEq)]
enum Waited {
    Ended,
    TooLong,
    TooMuch,
    Interrupted,
}

fn end_of(reply: &Reply) -> End {
    let status = ExitStatus::from_raw(reply.status as i32);
    match (reply.error, status.code(), status.signal()) {
        (0, Some(code), _) => End::Exited(code),
        (0, None, Some(signal)) => End::Killed(signal),
        (error, ..) => End::NotStarted(error as i32),
    }
}

fn cost_of(reply: &Reply, times: u32) -> Cost {
    let mean = |sum: u64| sum as f64 / f64::from(times);
    Cost {
        wall_s: mean(reply.wall_ns) / 1e9,
        user_s: mean(reply.user_us) / 1e6,
        system_s: mean(reply.system_us) / 1e6,
        peak_kb: reply.peak_kb as f64,
        page_faults: mean(reply.page_faults),
        context_switches: mean(reply.context_switches),
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

/// The same file, by a number that the starter's own is not.
fn above_reply(file: impl Into<OwnedFd>) -> io::Result<OwnedFd> {
    Ok(fcntl_dupfd_cloexec(file.into(), REPLY + 1)?)
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

    /// Whether a process sleeps for so many seconds.
    fn runs(seconds: &str) -> bool {
        let words = format!("sleep\0{seconds}\0");
        let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path().join("cmdline"));
        processes.filter_map(|path| fs::read_to_string(path).ok()).any(|line| line == words)
    }

    fn ran(starter: &mut Starter, script: &str) -> (Run, [String; 2]) {
        let run = starter.run(&shell(script), PATIENCE).unwrap().unwrap();
        let mut printed = [String::new(), String::new()];
        for (file, text) in starter.printed().unwrap().iter_mut().zip(&mut printed) {
            file.read_to_string(text).unwrap();
        }
        (run, printed)
    }

    #[test]
    fn run_tells_its_end_and_output() {
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
    fn program_that_cannot_be_started_is_told() {
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
    fn peak_of_a_small_program_excludes_its_parent() {
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
    fn hanging_program_is_killed_with_its_children() {
        let mut starter = starter();
        let hanging = shell("setsid sleep 10077 & sleep 10078 & sleep 10079");
        let run = starter.run(&hanging, Duration::from_millis(300)).unwrap().unwrap();
        assert_eq!(run.end, End::TimedOut(Duration::from_millis(300)));
        assert!(!runs("10077") && !runs("10078") && !runs("10079"));
        assert_eq!(ran(&mut starter, "echo on").1[0], "on\n");
    }

    #[test]
    fn program_that_prints_without_end_is_ended() {
        let mut starter = starter();
        let run = starter.run(&shell("while :; do echo no end; done"), PATIENCE).unwrap().unwrap();
        assert_eq!(run.end, End::PrintedTooMuch(OUTPUT_LIMIT_BYTES));
    }

    #[test]
    fn process_left_running_is_ended_and_told() {
        let mut starter = starter();
        let (run, _) = ran(&mut starter, "setsid sleep 10076 & exit 0");
        assert!(run.left_running);
        assert_eq!(run.end, End::Exited(0));
        let (run, _) = ran(&mut starter, "true");
        assert!(!run.left_running && !runs("10076"));
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
}
