//! A running server: its process and all that it started, what they cost and hold, and how they end.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use procfs::ProcError;
use procfs::process::{Process, Stat, all_processes};
use rustix::process::{Pid, Signal, kill_process};

/// How long a server may take to end.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(2);
/// Of what a server printed, so many lines are shown.
const SHOWN_LINES: usize = 8;
/// By convention, a program that ends itself because of a signal exits with this and the signal's number.
const BY_SIGNAL: i32 = 128;

/// A server; it is ended when this goes away.
pub struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts one. What it prints goes to a file.
    pub fn start(mut command: Command, log: &Path) -> Result<Self> {
        let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).spawn();
        Ok(Self { child: child.context("cannot start the server")?, log: log.to_owned() })
    }

    /// Fails if it has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("the server ended early ({status})"),
            None => Ok(()),
        }
    }

    /// What it printed last, for an error.
    pub fn last_lines(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
    }

    /// CPU time, of all its processes and of those that they waited for. The kernel gives it in ticks, mostly of 10 ms.
    pub fn cpu(&self) -> Result<Duration> {
        let ticks = |stat: &Stat| stat.utime + stat.stime + (stat.cutime + stat.cstime).max(0) as u64;
        let sum: u64 = self.tree()?.iter().map(|(_, stat)| ticks(stat)).sum();
        Ok(Duration::from_secs_f64(sum as f64 / procfs::ticks_per_second() as f64))
    }

    /// Memory of all its processes, in KiB: a page that several share is divided between them.
    pub fn pss_kb(&self) -> Result<f64> {
        let mut sum = 0;
        for (process, _) in self.tree()? {
            match process.smaps_rollup() {
                Ok(rollup) => {
                    sum += rollup
                        .memory_map_rollup
                        .into_iter()
                        .filter_map(|of| of.extension.map.get("Pss").copied())
                        .sum::<u64>();
                }
                // It ended meanwhile.
                Err(ProcError::NotFound(_)) => {}
                Err(ProcError::Io(error, _)) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error).context("cannot read how much memory the server has"),
            }
        }
        ensure!(sum > 0, "the kernel says that the server has no memory");
        Ok(sum as f64 / 1024.0)
    }

    /// Its process and all below.
    fn tree(&self) -> Result<Vec<(Process, Stat)>> {
        let all = all_processes().context("cannot read /proc")?.filter_map(|process| {
            let process = process.ok()?;
            let stat = process.stat().ok()?;
            Some((process, stat))
        });
        let mut others: Vec<(Process, Stat)> = all.collect();
        let (mut tree, mut pids) = (Vec::new(), HashSet::from([self.child.id() as i32]));
        loop {
            let of_tree =
                |(process, stat): &mut (Process, Stat)| pids.contains(&process.pid) || pids.contains(&stat.ppid);
            let found: Vec<_> = others.extract_if(.., of_tree).collect();
            if found.is_empty() {
                return Ok(tree);
            }
            pids.extend(found.iter().map(|(process, _)| process.pid));
            tree.extend(found);
        }
    }

    /// Asks it to end, and fails if it crashes or does not.
    pub fn stop(mut self) -> Result<()> {
        self.check()?;
        let status = self.end()?.with_context(|| format!("the server did not end in {} s", PATIENCE.as_secs()))?;
        let term = Signal::TERM.as_raw();
        let is_obedient = status.success() || status.signal() == Some(term) || status.code() == Some(BY_SIGNAL + term);
        ensure!(is_obedient, "the server was asked to end, and failed ({status}); it said:\n{}", self.last_lines());
        Ok(())
    }

    /// How it ended; none if it had to be killed.
    fn end(&mut self) -> Result<Option<ExitStatus>> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            thread::sleep(POLL);
        }
        Ok(None)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error is on its way already, and who started this process kills what is left.
        if let Ok(None) = self.child.try_wait() {
            let _ = self.end();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(script: &str) -> (tempfile::TempDir, Server) {
        let place = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let server = Server::start(command, &place.path().join("log")).unwrap();
        (place, server)
    }

    #[test]
    fn costs_of_children_are_in_the_tree() {
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
        let (_place, mut server) = server(&format!("sh -c '{busy}; echo done; sleep 600' & wait"));
        let start = Instant::now();
        while server.last_lines() != "done" {
            assert!(start.elapsed() < PATIENCE);
            thread::sleep(POLL);
        }
        server.check().unwrap();
        assert!(server.tree().unwrap().len() >= 2);
        assert!(server.cpu().unwrap() >= Duration::from_millis(10), "{:?}", server.cpu().unwrap());
        let (all, alone) = (server.pss_kb().unwrap(), Process::new(server.child.id() as i32).unwrap());
        let alone = alone.smaps_rollup().unwrap().memory_map_rollup.0[0].extension.map["Pss"] as f64 / 1024.0;
        assert!(all > alone, "{all} of all, {alone} of the first");
        server.tree().unwrap().iter().skip(1).for_each(|(process, _)| {
            let _ = kill_process(Pid::from_raw(process.pid).unwrap(), Signal::KILL);
        });
    }

    #[test]
    fn server_that_ends_early_or_badly_is_an_error() {
        let (_place, mut early) = server("echo no memory >&2; exit 3");
        early.child.wait().unwrap();
        let error = early.check().unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && early.last_lines() == "no memory", "{error}");
        let (_place, obedient) = server("exec sleep 600");
        obedient.stop().unwrap();
        let (_place, crashing) = server("trap 'kill -SEGV $$' TERM; echo ready; while :; do sleep 0.01; done");
        while crashing.last_lines() != "ready" {
            thread::sleep(POLL);
        }
        let error = crashing.stop().unwrap_err().to_string();
        assert!(error.contains("SIGSEGV") && error.contains("ready"), "{error}");
    }
}
