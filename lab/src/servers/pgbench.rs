//! The load of PostgreSQL: pgbench, with as many connections as other servers get.
//!
//! With `--rate`, pgbench counts a transaction's latency from its scheduled start, and logs how late it began apart from
//! that. So its closed and open loops are like those of our own [client](super::client).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::driver::{CONNECTIONS, Driver, Took};
use super::served::Place;

/// So much longer than the measurement pgbench goes on: until then it is stopped, and its transactions have ended.
const SETTLING: Duration = Duration::from_millis(500);

/// Where the server is, and what is used of it.
pub struct Pgbench {
    program: PathBuf,
    /// That of the server's socket, where pgbench runs.
    folder: PathBuf,
    /// A script with a larger query, which every fourth transaction is.
    script: PathBuf,
}

impl Pgbench {
    /// The one that stands beside a server's executable.
    pub fn of(server: &Path, place: &Place) -> Self {
        let (program, script) = (server.with_file_name("pgbench"), place.prepared.join("report.sql"));
        Self { program, folder: place.folder.to_owned(), script }
    }

    fn command(&self, words: &[&str]) -> Command {
        let connections = CONNECTIONS.to_string();
        let mut command = Command::new(&self.program);
        command.arg("-h").arg(&self.folder).args(["-U", "postgres", "-n", "-c", &connections, "--random-seed", "1"]);
        command.args(["-b", "simple-update@3", "-f"]).arg(format!("{}@1", self.script.display())).args(words);
        command.arg("postgres").current_dir(&self.folder).stdin(Stdio::null());
        command
    }
}

impl Driver for Pgbench {
    fn is_answered(&mut self) -> Result<bool> {
        let words = ["-h".as_ref(), self.folder.as_os_str(), "-q".as_ref()];
        let program = self.program.with_file_name("pg_isready");
        Ok(Command::new(program).args(words).status().context("cannot run pg_isready")?.success())
    }

    /// The data is there since the server was prepared.
    fn fill(&mut self) -> Result<()> {
        Ok(())
    }

    fn closed(&mut self, transactions: u64) -> Result<Duration> {
        let each = transactions.div_ceil(CONNECTIONS as u64).max(1);
        let said = output(self.command(&["-t", &each.to_string()]))?;
        // By the rate, since it makes some more, for each connection to make the same number.
        Ok(Duration::from_secs_f64(transactions as f64 / rate_in(&said)?))
    }

    fn rate(&mut self, time: Duration) -> Result<f64> {
        rate_in(&output(self.command(&["-T", &whole(time).to_string()]))?)
    }

    /// A connection is a process of the server, which would end with it. So pgbench is stopped while something else is done.
    fn open(&mut self, rate: f64, time: Duration, then: &mut dyn FnMut() -> Result<()>) -> Result<Took> {
        let lasting = (whole(time + SETTLING) + 1).to_string();
        let words = ["-T", &lasting, "--rate", &format!("{rate:.3}"), "-l", "--log-prefix=transactions"];
        let mut child = self.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let start = SystemTime::now();
        thread::sleep(time + SETTLING);
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::STOP)?;
        let stopped = SystemTime::now();
        let done = then();
        let went_on = SystemTime::now();
        kill_process(pid, Signal::CONT)?;
        if done.is_err() {
            child.kill()?;
        }
        let said = child.wait_with_output()?;
        done?;
        check(&said)?;
        let log = fs::read_to_string(self.folder.join(format!("transactions.{}", pid.as_raw_nonzero())))
            .context("pgbench wrote no log")?;
        let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let latencies = latencies(&log, since(start) + time, [stopped, went_on].map(since))?;
        Ok(Took { wall: time, latencies })
    }
}

/// The latencies of all transactions that should have begun before `end`. Some went on after pgbench had been stopped, for a
/// time that is not theirs.
fn latencies(log: &str, end: Duration, [stopped, went_on]: [Duration; 2]) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    for line in log.lines() {
        // The client, the transaction, its latency in µs, the script, and when it ended, in s and µs.
        let fields: Vec<u64> = line.split(' ').map_while(|field| field.parse().ok()).collect();
        let [_, _, latency, _, seconds, micros, ..] = fields[..] else {
            anyhow::bail!("pgbench logged {line:?}; expected a transaction and its times");
        };
        let (latency, ended) =
            (Duration::from_micros(latency), Duration::from_secs(seconds) + Duration::from_micros(micros));
        if ended.saturating_sub(latency) < end {
            let waited = if ended > stopped { went_on.min(ended) - stopped } else { Duration::ZERO };
            latencies.push(latency.saturating_sub(waited));
        }
    }
    Ok(latencies)
}

/// Of its options in seconds, it takes whole ones.
fn whole(time: Duration) -> u64 {
    time.as_secs_f64().ceil() as u64
}

fn output(mut command: Command) -> Result<String> {
    let said = command.output().context("cannot run pgbench")?;
    check(&said)?;
    Ok(String::from_utf8_lossy(&said.stdout).into_owned())
}

fn check(said: &Output) -> Result<()> {
    let [text, errors] = [&said.stdout, &said.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    ensure!(said.status.success(), "pgbench failed ({}): {errors}", said.status);
    ensure!(text.contains("number of failed transactions: 0 "), "pgbench had failed transactions: {text}");
    Ok(())
}

/// Transactions in a second, in what it printed.
fn rate_in(said: &str) -> Result<f64> {
    let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    rate.with_context(|| format!("expected a rate from pgbench, got {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_has_latencies_from_the_schedule_without_the_stop() {
        let log =
            "0 1 1500 0 100 2000 20\n1 1 4000000 1 103 900000 0\n2 1 6100000 0 110 0 10\n3 1 100 0 104 500000 0\n";
        let seconds = |seconds: f64| Duration::from_secs_f64(seconds);
        let found = latencies(log, seconds(104.0), [104.5, 109.5].map(seconds)).unwrap();
        // The third began at 103.9 and ended at 110, of which it was stopped for five seconds. The last one is too late.
        assert_eq!(found, [0.0015, 4.0, 1.1].map(seconds));
        assert!(latencies("0 1 skipped 0 100 0\n", seconds(1.0), [seconds(1.0); 2]).is_err());
    }

    #[test]
    fn rate_is_read_from_what_pgbench_prints() {
        let said = "latency average = 1.9 ms\ntps = 8400.25 (without initial connection time)\n";
        assert_eq!(rate_in(said).unwrap(), 8400.25);
        assert!(rate_in("pgbench: error").is_err());
    }
}
