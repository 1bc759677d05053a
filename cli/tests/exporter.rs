//! What is served to whoever scrapes.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Stdio;

use common::watched::{NAME, Place, Watched, eventually};

/// A server, until it is dropped; where it is, and what it said before.
struct Server(Watched, String, String);

impl Server {
    fn start(place: &Place, args: &[&str]) -> Self {
        let mut command = place.command(&["exporter", "--listen"]);
        // What a shell runs in the background ignores interrupts, and so would this.
        let heed_interrupts = || {
            // SAFETY: no handler is installed.
            unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
            Ok(())
        };
        // SAFETY: `signal` is async-signal-safe, and the closure touches no memory.
        unsafe { command.pre_exec(heed_interrupts) };
        let mut server = Watched::start(command.args(args).stderr(Stdio::piped()));
        let mut said = BufReader::new(server.0.stderr.as_mut().unwrap());
        let (mut before, mut line) = (String::new(), String::new());
        loop {
            assert!(said.read_line(&mut line).unwrap() > 0, "it ended: {before}");
            let at = line
                .strip_prefix("commensal: serving http://")
                .and_then(|line| line.strip_suffix("/metrics and /debug/pprof/heap until interrupted\n"));
            if let Some(at) = at {
                return Server(server, at.to_owned(), before);
            }
            before.push_str(&line);
            line.clear();
        }
    }

    fn port(&self) -> &str {
        self.1.rsplit_once(':').unwrap().1
    }

    fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", self.port())).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        body.to_owned()
    }
}

fn has(metrics: &str, sample: &str) -> bool {
    metrics.lines().any(|line| line.starts_with(sample))
}

#[test]
fn scrapes_are_served_until_the_command_is_interrupted() {
    let place = Place::new();
    let mut one = place.start(4, 0, 20);
    let other = place.start(1, 0, 20);
    let in_use = |pid: u32| format!("commensal_in_use_bytes{{pid=\"{pid}\",program=\"{NAME}\"}} ");
    let mut all = Server::start(&place, &["0"]);
    assert!(all.1.starts_with("127.0.0.1:"), "a port is one of this machine alone: {}", all.1);
    let metrics = all.metrics();
    assert!(has(&metrics, &in_use(one.pid())) && has(&metrics, &in_use(other.pid())), "{metrics}");
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    // One alone; and from everywhere, as it was told.
    let single = Server::start(&place, &["0.0.0.0:0", &one.pid().to_string()]);
    assert!(single.1.starts_with("0.0.0.0:"), "{}", single.1);
    let warned = format!("commensal: every computer that reaches {} can read", single.1);
    assert!(single.2.starts_with(&warned) && all.2.is_empty(), "{:?} and {:?}", single.2, all.2);
    let metrics = single.metrics();
    assert!(has(&metrics, "commensal_processes 1") && has(&metrics, &in_use(one.pid())), "{metrics}");
    assert!(!has(&metrics, &in_use(other.pid())), "{metrics}");
    // It may go, and then is shown no more.
    one.kill();
    let metrics = single.metrics();
    assert!(has(&metrics, "commensal_processes 0") && has(&metrics, "commensal_gone_processes_total 1"), "{metrics}");
    assert!(!has(&metrics, &in_use(one.pid())) && has(&all.metrics(), &in_use(other.pid())), "{metrics}");
    let pid = rustix::process::Pid::from_child(&all.0.0);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(all.0.0.wait().unwrap().signal(), Some(2));
}

#[test]
fn process_that_executes_something_else_is_replaced() {
    let place = Place::new();
    let mut child = Watched::start(&mut place.command(&["run", "--", "env", "-i", "sleep", "1000"]));
    let pid = child.pid();
    let state = || place.page(pid).exists().then(|| place.json(pid)["state"].clone());
    let replaced = eventually("it is replaced", || state().filter(|state| state != "running"));
    assert_eq!(replaced, "replaced");
    let server = Server::start(&place, &["0", &pid.to_string()]);
    let none_is_gone = || has(&server.metrics(), "commensal_gone_processes_total 0");
    assert!(none_is_gone());
    child.kill();
    assert_eq!(place.json(pid)["state"], "gone");
    assert!(none_is_gone(), "it has ended in an orderly way before");
}
