//! One run of one server, in a process of its own. It starts the server under the arm that was handed on to it, and has the
//! C library's malloc itself.

use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::client::{Address, Client};
use super::driver::Driver;
use super::pgbench::Pgbench;
use super::process::Server;
use super::served::{Asked, Place, Served};
use crate::metric::{FASTER, LESS, Metric};

/// What is read off each run, in its order.
pub const METRICS: [Metric; 8] = [
    Metric::new("request_ns", "ns", "time per request", FASTER, 1.0),
    Metric::new("cpu_ns", "ns", "CPU time per request", LESS, 1.0),
    Metric::new("p50_ns", "ns", "median latency", FASTER, 1.0),
    Metric::new("p99_ns", "ns", "99 % latency", FASTER, 1.0),
    Metric::new("p999_ns", "ns", "99.9 % latency", FASTER, 1.0),
    Metric::new("loaded_kb", "kB", "memory under load", LESS, 1.0),
    Metric::new("idle_kb", "kB", "memory when idle", LESS, 1.0),
    Metric::new("start_s", "s", "start", FASTER, 1e-6),
];
/// The parts of all requests that the latencies among the metrics are of.
const LATENCIES: [f64; 3] = [0.5, 0.99, 0.999];
/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_micros(500);
/// The socket in the folder where the server and this process run: a longer path may not fit into an address.
const SOCKET: &str = "socket";

/// Runs a server as the words say, and returns the figures: the rate that it reaches, or those of the [metrics](METRICS).
///
/// The words are `NAME PREPARED VALUES rate SECONDS` or `NAME PREPARED VALUES run REQUESTS RATE SECONDS IDLE`.
pub fn drive(words: &[&str]) -> Result<Vec<f64>> {
    let [name, prepared, values, ref task @ ..] = *words else { bail!("expected NAME PREPARED VALUES …") };
    let served = Served::find(name).with_context(|| format!("{name} is no server of the lab"))?;
    let values = number(values)? as usize;
    let numbers = task.iter().skip(1).map(|word| number(word)).collect::<Result<Vec<f64>>>()?;
    let seconds = Duration::from_secs_f64;
    let folder = tempfile::Builder::new().prefix("run-").tempdir_in(prepared)?;
    let run =
        |measure: &dyn Fn(&mut Run) -> Result<Vec<f64>>| Run::of(served, prepared, folder.path(), values, measure);
    match (task.first(), &numbers[..]) {
        (Some(&"rate"), &[time]) => run(&|run| run.rate(seconds(time))),
        (Some(&"run"), &[requests, rate, time, idle]) => {
            run(&|run| run.figures(requests as u64, rate, seconds(time), seconds(idle)))
        }
        _ => bail!("expected rate SECONDS or run REQUESTS RATE SECONDS IDLE after NAME PREPARED VALUES"),
    }
}

fn number(word: &str) -> Result<f64> {
    let number = word.parse().ok().filter(|number: &f64| *number > 0.0 && *number <= 1e9);
    number.with_context(|| format!("{word}: expected a number above 0, at most 1e9"))
}

/// A server that answers, and what drives it.
struct Run {
    server: Server,
    driver: Box<dyn Driver>,
    start: Duration,
}

impl Run {
    /// Starts the server in a folder of its own, has it measured, and ends it.
    fn of(
        served: &Served, prepared: &str, folder: &Path, values: usize, measure: &dyn Fn(&mut Run) -> Result<Vec<f64>>,
    ) -> Result<Vec<f64>> {
        std::env::set_current_dir(folder).with_context(|| format!("cannot go to {}", folder.display()))?;
        let port = if served.listens_on_port { free_port()? } else { 0 };
        let place = Place { prepared: prepared.as_ref(), folder, socket: SOCKET, port };
        let fresh = served.script("fresh", &place)?.command().output()?;
        ensure!(fresh.status.success(), "cannot get ready: {}", String::from_utf8_lossy(&fresh.stderr));
        let driver: Box<dyn Driver> = match served.asked {
            Asked::By(load) => {
                let address = if served.listens_on_port { Address::Port(port) } else { Address::Unix(SOCKET.into()) };
                Box::new(Client::new(address, load(values)))
            }
            Asked::ByPgbench => Box::new(Pgbench::of(&served.file().map_err(|missing| anyhow!("{missing}"))?, &place)),
        };
        let start = Instant::now();
        let server = Server::start(served.script("serve", &place)?.command(), &folder.join("server.log"))?;
        let mut run = Run { server, driver, start: Duration::ZERO };
        let measured = run.until_it_answers(start).and_then(|()| measure(&mut run));
        match measured {
            Ok(figures) => run.server.stop().map(|()| figures),
            Err(error) => Err(run.explained(&error)),
        }
    }

    fn until_it_answers(&mut self, start: Instant) -> Result<()> {
        while !self.driver.is_answered()? {
            self.server.check()?;
            ensure!(start.elapsed() < PATIENCE, "the server does not answer after {} s", PATIENCE.as_secs());
            thread::sleep(POLL);
        }
        self.start = start.elapsed();
        self.driver.fill()
    }

    /// The rate of the second of two loops: a server that has just started is slow at first.
    fn rate(&mut self, time: Duration) -> Result<Vec<f64>> {
        self.driver.rate(time)?;
        Ok(vec![self.driver.rate(time)?])
    }

    /// The figures, in the order of [metrics](METRICS).
    fn figures(&mut self, requests: u64, rate: f64, time: Duration, idle: Duration) -> Result<Vec<f64>> {
        let before = self.server.cpu()?;
        let wall = self.driver.closed(requests)?;
        let cpu = self.server.cpu()? - before;
        let (mut memory, server) = (Vec::new(), &mut self.server);
        let mut took = self.driver.open(rate, time, &mut || {
            memory.push(server.pss_kb()?);
            thread::sleep(idle);
            memory.push(server.pss_kb()?);
            server.check()
        })?;
        let each = |time: Duration| time.as_secs_f64() * 1e9 / requests as f64;
        let latency = |part| took.quantile(part).map(|latency| latency.as_nanos() as f64);
        let latencies: Option<Vec<f64>> = LATENCIES.into_iter().map(latency).collect();
        let latencies = latencies.context("no request was due; the rate is too low")?;
        Ok([&[each(wall), each(cpu)], &latencies[..], &memory, &[self.start.as_secs_f64()]].concat())
    }

    /// An error with what is known of the server.
    fn explained(&mut self, error: &anyhow::Error) -> anyhow::Error {
        let end = self.server.check().err().map_or(String::new(), |end| format!("; {end}"));
        let said = self.server.last_lines();
        let said = if said.is_empty() { said } else { format!("\nThe server's last lines:\n{said}") };
        anyhow!("{error:#}{end}{said}")
    }
}

/// A port that is free now. Another program could take it before the server does; then the server fails, and says so.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("cannot find a free port")?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_words_are_named() {
        for (words, named) in [
            ("redis", "expected NAME PREPARED VALUES"),
            ("teapot /tmp 10 rate 1", "teapot is no server"),
            ("redis /tmp many rate 1", "many: expected a number"),
            ("redis /tmp 10 rate 0", "0: expected a number above 0"),
            ("redis /tmp 10 run 10", "expected rate SECONDS or run REQUESTS"),
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            let error = drive(&words).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
