//! A Redis server on the arm's allocator, driven by redis-benchmark on the system's. It listens on
//! a socket file, keeps nothing on disk, and is killed at the end of the run.
//!
//! The time of a run is what all requests took together, so that less is better here too; the table
//! prints the rate.

use std::fs;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::Workload;
use crate::arm::Arm;
use crate::process::{Run, peak_memory_kb};

const COMMANDS: [&str; 6] = ["set", "get", "lpush", "lpop", "hset", "zadd"];
const REQUESTS_EACH: u32 = 200_000;
const START_LIMIT: Duration = Duration::from_secs(10);

/// How many requests one run makes.
pub const REQUESTS: u32 = REQUESTS_EACH * COMMANDS.len() as u32;

/// Debian's server is linked with jemalloc, so that preloading nothing would measure that. The C
/// library itself, preloaded, comes first in the search for malloc.
const GLIBC: &str = "libc.so.6";

/// Where the server listens.
pub struct Redis {
    socket: PathBuf,
}

impl Redis {
    pub fn prepare(scratch: &Path) -> Result<Redis> {
        for (program, package) in [("redis-server", "redis-server"), ("redis-benchmark", "redis-tools")] {
            let installed = Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
            ensure!(installed, "no {program} in the path; Debian's package {package} brings it");
        }
        Ok(Redis { socket: scratch.join("redis.sock") })
    }

    fn start(&self, arm: &Arm) -> Result<Server> {
        let mut command = arm.command("redis-server");
        if arm.library.is_none() {
            command.env("LD_PRELOAD", GLIBC);
        }
        // The background thread would be the linked jemalloc's, whoever serves malloc.
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--jemalloc-bg-thread", "no"]);
        command.arg("--unixsocket").arg(&self.socket).stdout(Stdio::null());
        // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
        unsafe { command.pre_exec(|| prctl::set_pdeathsig(Signal::SIGKILL).map_err(Into::into)) };
        let server = Server(command.spawn()?);
        let start = Instant::now();
        while UnixStream::connect(&self.socket).is_err() {
            ensure!(start.elapsed() < START_LIMIT, "the server isn't up after {START_LIMIT:?}");
            thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// Seconds for all requests of one benchmark.
    fn benchmark(&self) -> Result<f64> {
        let output = Command::new("redis-benchmark")
            .env_remove("LD_PRELOAD")
            .arg("-s")
            .arg(&self.socket)
            .args(["--csv", "-P", "16", "-d", "64", "-r", "100000", "-n", &REQUESTS_EACH.to_string()])
            .args(["-t", &COMMANDS.join(",")])
            .output()?;
        ensure!(output.status.success(), "redis-benchmark failed with {}", output.status);
        seconds(&String::from_utf8(output.stdout)?)
    }
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

impl Workload for Redis {
    fn run(&self, arm: &Arm) -> Result<Run> {
        let mut server = self.start(arm)?;
        let measured = self.benchmark();
        if let Some(status) = server.0.try_wait()? {
            bail!("the server ended by itself, with {status}");
        }
        let peak_kb = peak_memory_kb(server.pid())?;
        drop(server);
        fs::remove_file(&self.socket)?;
        Ok(Run { seconds: measured?, peak_kb, output: String::new() })
    }

    fn estimate_ms(&self) -> u64 {
        3000
    }
}

/// A running server; dropping it kills it.
struct Server(Child);

impl Server {
    fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id().try_into().expect("process ids are positive"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, and then there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
