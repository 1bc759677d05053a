//! Tests that need a process of their own: the test binary runs itself again for a single test, with a case to act out.
//!
//! Whatever hangs is ended after a while and reported.

use super::{PATIENCE, random, seconds};
use commensal_runtime::heap;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const CASE: &str = "COMMENSAL_TEST_CASE";
/// Makes the C library register no restartable sequences, so that the machine is in fallback mode.
pub const FALLBACK: (&str, &str) = ("GLIBC_TUNABLES", "glibc.pthread.rseq=0");

/// The case that this process was started to act out; none in the process that cargo started.
pub fn case() -> Option<String> {
    std::env::var(CASE).ok()
}

/// The name of the running test, for whoever is on the thread that the harness made for it.
pub fn test() -> String {
    thread::current().name().expect("the harness names its threads").to_owned()
}

/// A command that runs the test again, as its process's only one, to act out `case`.
pub fn command(case: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test binary has a path"));
    command.args([&*test(), "--exact", "--nocapture", "--test-threads=1"]).env(CASE, case).env("RUST_BACKTRACE", "0");
    command.env_remove("COMMENSAL_CONF").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// How a child ended, and what it wrote.
#[derive(Debug)]
pub struct Outcome {
    /// By which it can be had again.
    command: String,
    /// None if it had to be killed.
    pub status: Option<ExitStatus>,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    pub fn expect_success(&self) {
        assert!(self.has_succeeded(), "{}", self.report());
    }

    pub fn has_succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// The process must have died, and said this.
    pub fn expect_death(&self, says: &str) {
        assert!(!self.has_succeeded() && self.stderr.contains(says), "expected {says:?}: {}", self.report());
    }

    /// The process must have been aborted, and have said this in one line.
    pub fn expect_abort(&self, says: &str) {
        self.expect_death(says);
        let signal = self.status.and_then(|status| status.signal());
        let is_one_line = self.stderr.lines().count() == 1 && self.stderr.starts_with("commensal: ");
        assert!(signal == Some(libc::SIGABRT) && is_one_line, "expected one line: {}", self.report());
    }

    pub fn report(&self) -> String {
        let end = self.status.map_or("hung and was killed".to_string(), |status| status.to_string());
        format!("{end}: {}\n--- stdout\n{}\n--- stderr\n{}", self.command, self.stdout.trim(), self.stderr.trim())
    }
}

pub fn run(command: &mut Command) -> Outcome {
    // None of the longer tests usually takes as long.
    let limit = PATIENCE + Duration::from_secs_f64(seconds(10.0));
    let mut child = command.spawn().expect("the test binary starts");
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let status = wait(&mut child, limit);
    let command = format!("{command:?}");
    Outcome { command, status, stdout: stdout.join().expect("text"), stderr: stderr.join().expect("text") }
}

/// Has the kernel refuse membarrier to the process that `command` makes, as in some containers.
pub fn refuse_membarrier(command: &mut Command) -> &mut Command {
    let refuse = || {
        let statement = |code: u32, k: u32, skip: u8| libc::sock_filter { code: code as u16, jt: 0, jf: skip, k };
        let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        // The number of the call is the first word of what a filter sees.
        let mut filter = [
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_membarrier as u32, 1),
            statement(libc::BPF_RET | libc::BPF_K, refusal, 0),
            statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the kernel copies the program, which is as long as is said.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
        };
        if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: the closure makes two system calls.
    unsafe { command.pre_exec(refuse) }
}

/// What puts a process into each of the machine's modes: concurrency ids, and fallback mode.
pub const MODES: [Option<(&str, &str)>; 2] = [None, Some(FALLBACK)];

/// Runs the test again for `case`, which must end well, in both modes. `seed` is passed on.
pub fn run_in_both_modes(case: &str, seed: u64) {
    for variable in MODES {
        let outcome = run(command(case).envs(variable).env("COMMENSAL_TEST_SEED", seed.to_string()));
        outcome.expect_success();
        println!("mode {variable:?}: {}", outcome.stderr.trim());
    }
}

/// Acts the test out in a process of its own.
pub fn alone(act: impl FnOnce()) {
    match case() {
        Some(_) => act(),
        None => run(&mut command("act")).expect_success(),
    }
}

/// Acts the test out in processes of its own, in both modes.
pub fn in_both_modes(act: impl FnOnce()) {
    act_out(0.0, |_, _| act());
}

/// The same, with the seed, and the moment when it is to end.
pub fn act_out(usual_seconds: f64, act: impl FnOnce(u64, Instant)) {
    let (seed, duration) = (random::seed(), Duration::from_secs_f64(seconds(usual_seconds)));
    if case().is_none() {
        return run_in_both_modes("act", seed);
    }
    let _replay = Replay(seed);
    act(seed, Instant::now() + duration);
}

/// Acts the test out in a process that is prepared so, with a seed.
pub fn act_out_prepared(
    prepare: impl FnOnce(&mut Command) -> &mut Command, act: impl FnOnce(u64) -> Result<(), String>,
) {
    if case().is_some() {
        let seed = random::seed();
        let _replay = Replay(seed);
        return act(seed).unwrap_or_else(|found| panic!("{found}"));
    }
    let outcome = run(prepare(&mut command("act")));
    outcome.expect_success();
    println!("{}", outcome.stdout.trim());
}

/// Acts the test out in a process of its own in each of these modes, with these settings.
pub fn with_settings(conf: &str, modes: &[Option<(&str, &str)>], act: impl FnOnce()) {
    if case().is_some() {
        heap::conf::apply_environment();
        return act();
    }
    for &variable in modes {
        let outcome = run(command("act").env("COMMENSAL_CONF", conf).envs(variable));
        outcome.expect_success();
        println!("{}", outcome.stdout);
    }
}

struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", random::replay(self.0));
        }
    }
}

fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let started = Instant::now();
    let mut nap = Duration::from_micros(200);
    while started.elapsed() < limit {
        if let Some(status) = child.try_wait().expect("the child is ours") {
            return Some(status);
        }
        thread::sleep(nap);
        nap = (nap * 3 / 2).min(Duration::from_millis(20));
    }
    child.kill().and_then(|()| child.wait()).expect("the child is ours");
    None
}

fn collect(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = Vec::new();
        // A stream that ends badly has ended all the same.
        let _ = stream.expect("the stream is piped").read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
}
