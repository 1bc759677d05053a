//! A Redis server on the arm's allocator, driven by redis-benchmark on the system's. It listens on a socket file, keeps nothing on
//! disk, and is killed at the end of the run.
//!
//! To the lab, server and client are one program: this one, told to drive them. It prints what counts: what all requests took
//! together, and the server's peak memory.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use commensal_lab::blocks::Subject;
use commensal_lab::metric::{PEAK, WALL};
use commensal_lab::process::{Program, Run};
use nix::sys::prctl;
use nix::sys::signal::Signal;

/// Tells this program to drive a server instead of measuring.
pub const WORD: &str = "drive-redis";

const COMMANDS: [&str; 6] = ["set", "get", "lpush", "lpop", "hset", "zadd"];
const REQUESTS_EACH: u32 = 200_000;
const START_LIMIT: Duration = Duration::from_secs(10);

/// Debian's server is linked with jemalloc, so that preloading nothing would measure that. The C
/// library itself, preloaded, comes first in the search for malloc.
const GLIBC: &str = "libc.so.6";

/// This program, which drives the server.
pub fn prepare(scratch: &Path) -> Result<Subject> {
    for (program, package) in [("redis-server", "redis-server"), ("redis-benchmark", "redis-tools")] {
        let installed = Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
        ensure!(installed, "no {program} in the path; Debian's package {package} brings it");
    }
    let words = ["bench".into(), WORD.into(), scratch.join("redis.sock").into_os_string()];
    let program = Program::new(env::current_exe()?, words);
    let read = |_: &Run, printed: &str| printed.split_whitespace().map(|word| word.parse().ok()).collect();
    Ok(Subject { metrics: vec![WALL, PEAK], read, prints_the_same: false, ..Subject::of_program("redis", program) })
}

/// Runs a server under the allocator that this process was given, and prints seconds and kB.
pub fn drive(socket: &Path) -> Result<bool> {
    // Left behind by a run that was killed.
    let _ = fs::remove_file(socket);
    let preload = env::var_os("LD_PRELOAD").unwrap_or_else(|| GLIBC.into());
    let mut server = start(socket, preload)?;
    let seconds = benchmark(socket)?;
    if let Some(status) = server.0.try_wait()? {
        bail!("the server ended by itself, with {status}");
    }
    println!("{seconds} {}", peak_memory_kb(server.0.id())?);
    Ok(true)
}

fn start(socket: &Path, preload: OsString) -> Result<Server> {
    let mut command = Command::new("redis-server");
    // The background thread would be the linked jemalloc's, whoever serves malloc.
    command.args(["--port", "0", "--save", "", "--appendonly", "no", "--jemalloc-bg-thread", "no"]);
    command.arg("--unixsocket").arg(socket).env("LD_PRELOAD", preload).stdout(Stdio::null());
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(|| prctl::set_pdeathsig(Signal::SIGKILL).map_err(Into::into)) };
    let server = Server(command.spawn()?);
    let start = Instant::now();
    while UnixStream::connect(socket).is_err() {
        ensure!(start.elapsed() < START_LIMIT, "the server isn't up after {START_LIMIT:?}");
        thread::sleep(Duration::from_millis(5));
    }
    Ok(server)
}

/// Seconds for all requests of one benchmark.
fn benchmark(socket: &Path) -> Result<f64> {
    let output = Command::new("redis-benchmark")
        .env_remove("LD_PRELOAD")
        .arg("-s")
        .arg(socket)
        .args(["--csv", "-P", "16", "-d", "64", "-r", "100000", "-n", &REQUESTS_EACH.to_string()])
        .args(["-t", &COMMANDS.join(",")])
        .output()?;
    ensure!(output.status.success(), "redis-benchmark failed with {}", output.status);
    seconds(&String::from_utf8(output.stdout)?)
}

/// The kernel's high mark of a process that still has its memory.
fn peak_memory_kb(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    kb.with_context(|| format!("no VmHWM in /proc/{process}/status"))
}

/// The sum over the lines `"SET","123456.78",…`, whose second field is requests a second. The
/// first line is a heading.
fn seconds(csv: &str) -> Result<f64> {
    let rates: Vec<f64> = csv
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(1).and_then(|rate| rate.trim_matches('"').parse().ok()))
        .collect::<Option<_>>()
        .with_context(|| format!("not the output expected of redis-benchmark: {csv}"))?;
    if rates.len() != COMMANDS.len() {
        bail!("redis-benchmark reported {} of {} commands", rates.len(), COMMANDS.len());
    }
    Ok(rates.iter().map(|rate| f64::from(REQUESTS_EACH) / rate).sum())
}

/// A running server; dropping it kills it.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, and then there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
