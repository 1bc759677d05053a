//! What `commensal stat --prometheus` serves while a program runs under the library, by asking it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may take to write its statistics page.
const PATIENCE: Duration = Duration::from_secs(20);

/// A metric that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// As its samples are called.
    pub name: String,
    /// What it means.
    pub help: String,
}

/// Starts a program that waits, and the server, and asks it. Metrics of which there are no samples are not served: those of groups, for instance.
pub fn served(command: &Path) -> Result<Vec<Metric>, String> {
    let start = |words: &[&str], errors: Stdio| {
        let mut started = Command::new(command);
        started.args(words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(errors);
        started.spawn().map(Ended).map_err(|error| format!("{} cannot be started: {error}", command.display()))
    };
    let program = start(&["run", "--", "cat"], Stdio::inherit())?;
    let mut server = start(&["stat", "--prometheus", "0"], Stdio::piped())?;
    let served = ask(&mut server, program.0.id());
    drop(program);
    served
}

/// The metrics, as soon as the program has written what it knows of itself.
fn ask(server: &mut Ended, program: u32) -> Result<Vec<Metric>, String> {
    let mut said = String::new();
    let errors = server.0.stderr.take().ok_or("the server has no standard error")?;
    BufReader::new(errors).read_line(&mut said).map_err(|error| format!("stat --prometheus: {error}"))?;
    let address = said.split_once("http://").and_then(|(_, rest)| rest.split('/').next());
    let address = address.ok_or_else(|| format!("stat --prometheus said {said:?}; expected where it serves"))?;
    let by = Instant::now() + PATIENCE;
    let is_there = format!("{{pid=\"{program}\"");
    loop {
        let text = get(address).map_err(|error| format!("stat --prometheus at {address}: {error}"))?;
        if text.contains(&is_there) {
            return Ok(described(&text));
        }
        if Instant::now() > by {
            return Err(format!(
                "stat --prometheus says nothing of process {program}, which runs under the library; it said {text:?}"
            ));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn get(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The metrics that OpenMetrics text describes, in its order. Samples of counters are called as the counter and `_total`.
fn described(text: &str) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            metrics.push(Metric { name: name.to_owned(), help: help.to_owned() });
        } else if let Some(name) = line.strip_prefix("# TYPE ").and_then(|rest| rest.strip_suffix(" counter"))
            && let Some(last) = metrics.last_mut().filter(|metric| metric.name == name)
        {
            last.name += "_total";
        }
    }
    metrics
}

/// A process that ends with its owner.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself, with an error that was told.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_with_the_names_of_their_samples() {
        let text = "HTTP/1.0 200 OK\r\n\r\n# HELP c_kicks Kicks.\n# TYPE c_kicks counter\n# HELP c_use_bytes Bytes in use.\n\
                    # TYPE c_use_bytes gauge\n# UNIT c_use_bytes bytes\nc_use_bytes{pid=\"1\"} 5\n# EOF\n";
        let of = |name: &str, help: &str| Metric { name: name.to_owned(), help: help.to_owned() };
        assert_eq!(described(text), [of("c_kicks_total", "Kicks."), of("c_use_bytes", "Bytes in use.")]);
    }
}
