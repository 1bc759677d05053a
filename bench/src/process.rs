//! Runs a program to its end and says how long it took and how much memory it had at its peak.
//!
//! The peak is read in the moment before the program gives up its memory, when ptrace stops it at
//! its exit. `wait4` is no substitute: the peak that it reports starts at what the *parent* had
//! when it forked, which is more than a small program ever has. Between its start and its exit a
//! traced program runs at full speed, as only its main thread's exit is traced.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, alarm};
use serde::Serialize;

/// A program that runs for longer hangs: none is meant to take more than a few seconds.
const LIMIT_SECONDS: u32 = 60;

/// What one run gave.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// From just before the fork to when the exit status was there.
    pub seconds: f64,
    /// The most memory that was resident at one time.
    pub peak_kb: u64,
    /// What it printed, without the spaces around it; at most what a pipe holds.
    pub output: String,
}

/// Runs `command` until it ends with status 0. Anything else is an error, and so is a run over the
/// time limit.
pub fn run(command: &mut Command) -> Result<Run> {
    command.stdout(Stdio::piped());
    let to_be_traced = || {
        // The alarm survives exec, and its signal ends the program.
        alarm::set(LIMIT_SECONDS);
        ptrace::traceme().map_err(Into::into)
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(to_be_traced) };

    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("{:?} didn't start", command.get_program()))?;
    let pid = Pid::from_raw(child.id().try_into().expect("process ids are positive"));
    let peak_kb = follow(pid)?;
    let seconds = start.elapsed().as_secs_f64();

    let mut output = String::new();
    child.stdout.take().expect("it is piped").read_to_string(&mut output)?;
    Ok(Run { seconds, peak_kb, output: output.trim().to_owned() })
}

/// Lets a traced child run to its end. Returns its peak memory in kB.
fn follow(pid: Pid) -> Result<u64> {
    let mut peak_kb = 0;
    let mut started = false;
    loop {
        match waitpid(pid, Some(WaitPidFlag::__WALL))? {
            WaitStatus::Stopped(_, Signal::SIGTRAP) if !started => {
                // The stop after exec: the first chance to ask for the one at the exit.
                started = true;
                ptrace::setoptions(pid, Options::PTRACE_O_TRACEEXIT | Options::PTRACE_O_EXITKILL)?;
                ptrace::cont(pid, None)?;
            }
            WaitStatus::Stopped(_, signal) => ptrace::cont(pid, signal)?,
            WaitStatus::PtraceEvent(..) => {
                peak_kb = peak_memory_kb(pid)?;
                ptrace::cont(pid, None)?;
            }
            WaitStatus::Exited(_, 0) => return Ok(peak_kb),
            WaitStatus::Exited(_, status) => bail!("exit status {status}"),
            WaitStatus::Signaled(_, Signal::SIGALRM, _) => {
                bail!("still running after {LIMIT_SECONDS} s")
            }
            WaitStatus::Signaled(_, signal, _) => bail!("ended by {signal}"),
            other => bail!("an unexpected wait status: {other:?}"),
        }
    }
}

/// The kernel's high mark of a process that still has its memory.
pub fn peak_memory_kb(pid: Pid) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .with_context(|| format!("no VmHWM in /proc/{pid}/status"))
}

/// This process on one CPU, and with it those that it spawns, until dropped.
pub struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// The last one: the first serves more interrupts on most machines.
    pub fn to_last_cpu() -> Result<Pinned> {
        let this = Pid::from_raw(0);
        let before = sched_getaffinity(this)?;
        let last = (0..CpuSet::count()).rev().find(|&cpu| before.is_set(cpu) == Ok(true));
        let mut one = CpuSet::new();
        one.set(last.context("this process may run on no CPU")?)?;
        sched_setaffinity(this, &one)?;
        Ok(Pinned { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        sched_setaffinity(Pid::from_raw(0), &self.before).expect("we ran there before");
    }
}
