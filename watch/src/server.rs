//! A server for whoever scrapes: it looks at the pages when it is asked, and at no other time.
//!
//! Not a web server: it reads a request's head, answers, and closes. Each connection has a thread of its own, for some seconds at most: somebody who says
//! nothing, or asks and does not listen, holds up nobody else, and then goes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use crate::openmetrics;
use crate::process::Process;

/// Where the text is.
pub const PATH: &str = "/metrics";
/// What may be done there.
const ALLOWED: &str = "GET, HEAD";
/// For the whole of a request, and again for each piece of an answer.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });
/// After a connection could not be taken, as a rule because there are too many files.
const PAUSE: Duration = Duration::from_millis(100);
const MOST_CONNECTIONS: usize = 100;
const MOST_BYTES: usize = 8 << 10;
const MOST_HEADERS: usize = 64;

/// The address in a text: an address and a port, or a port of this machine alone.
pub fn address(text: &str) -> Result<SocketAddr> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    let found = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| {
        anyhow!("{text:?} is no address; expected one such as 127.0.0.1:9464, or a port of this machine such as 9464")
    })
}

/// Serves what `look` finds, until the process ends. `ready` is told where.
pub fn serve(
    at: SocketAddr,
    look: impl Fn() -> Vec<Process> + Send + Sync + 'static,
    ready: impl FnOnce(SocketAddr),
) -> Result<()> {
    let listener = TcpListener::bind(at)
        .with_context(|| format!("cannot serve at {at}; another program may have the port, so take another one"))?;
    ready(listener.local_addr().unwrap_or(at));
    let (look, open) = (Arc::new(look), Arc::new(AtomicUsize::new(0)));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            thread::sleep(PAUSE);
            continue;
        };
        // Relaxed: only the number counts. Beyond the most, the connection is closed at once.
        if open.fetch_add(1, Ordering::Relaxed) < MOST_CONNECTIONS {
            let (look, open) = (Arc::clone(&look), Arc::clone(&open));
            let serve_one = move || {
                // Who hangs up in the middle is no reason for anything.
                let _ = answer(stream, &*look);
                open.fetch_sub(1, Ordering::Relaxed);
            };
            if thread::Builder::new().spawn(serve_one).is_ok() {
                continue;
            }
        }
        open.fetch_sub(1, Ordering::Relaxed);
    }
    Ok(())
}

fn answer(mut stream: TcpStream, look: &impl Fn() -> Vec<Process>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let (status, media_type, text, has_body) = match read_head(&mut stream)? {
        Asked::For { path, has_body } => match path.as_str() {
            PATH => match openmetrics::text(look()) {
                Ok(text) => ("200 OK", openmetrics::MEDIA_TYPE, text, has_body),
                Err(_) => {
                    ("500 Internal Server Error", PLAIN, "what was found cannot be written\n".to_owned(), has_body)
                }
            },
            "/" => ("200 OK", PLAIN, format!("commensal: metrics of processes are at {PATH}\n"), has_body),
            _ => ("404 Not Found", PLAIN, format!("nothing is here; metrics are at {PATH}\n"), has_body),
        },
        Asked::Refused(status) => (status, PLAIN, format!("{status}; only {ALLOWED} of {PATH}\n"), true),
    };
    let length = text.len();
    // The standard wants it with 405, and allows it with all others.
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\nAllow: {ALLOWED}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    if has_body {
        stream.write_all(text.as_bytes())?;
    }
    stream.flush()
}

const PLAIN: &str = "text/plain; charset=utf-8";

/// What a request's head asks for.
#[derive(Debug, PartialEq)]
enum Asked {
    For {
        path: String,
        has_body: bool,
    },
    /// Something else: the status that says so.
    Refused(&'static str),
}

fn read_head(stream: &mut TcpStream) -> io::Result<Asked> {
    const TIMEOUT: Asked = Asked::Refused("408 Request Timeout");
    let end = Instant::now() + PATIENCE;
    let (mut bytes, mut filled) = ([0; MOST_BYTES], 0);
    loop {
        if let Some(asked) = understand(&bytes[..filled]) {
            return Ok(asked);
        }
        if filled == MOST_BYTES {
            return Ok(Asked::Refused("431 Request Header Fields Too Large"));
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(TIMEOUT);
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes[filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(TIMEOUT),
            Err(why) => return Err(why),
        }
    }
}

/// None: there is more to come.
fn understand(head: &[u8]) -> Option<Asked> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(_) => return Some(Asked::Refused("400 Bad Request")),
    }
    let path = request.path.unwrap_or("").split('?').next().unwrap_or("").to_owned();
    Some(match request.method {
        Some("GET") => Asked::For { path, has_body: true },
        Some("HEAD") => Asked::For { path, has_body: false },
        _ => Asked::Refused("405 Method Not Allowed"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_port_is_one_of_this_machine_alone() {
        let read = |text| address(text).map(|address| address.to_string()).map_err(|error| error.to_string());
        for (text, expected) in [
            ("9464", "127.0.0.1:9464"),
            (":9464", "127.0.0.1:9464"),
            ("0.0.0.0:1", "0.0.0.0:1"),
            ("[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(expected));
        }
        for text in ["", "x", "1.2.3.4", "70000", "1.2.3.4:70000"] {
            assert!(read(text).unwrap_err().contains("is no address"), "{text}");
        }
    }

    /// Serves one process and, in its own thread, for ever.
    fn server(look: impl Fn() -> Vec<Process> + Send + Sync + 'static) -> SocketAddr {
        let (send, receive) = std::sync::mpsc::channel();
        thread::spawn(move || serve(address("0").unwrap(), look, move |at| send.send(at).unwrap()));
        receive.recv().unwrap()
    }

    fn start(at: SocketAddr, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Head and body of what is answered to a request for this.
    fn ask(at: SocketAddr, what: &str) -> (String, String) {
        let mut stream = start(at, &format!("{what} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"));
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    #[test]
    fn metrics_are_at_one_place_and_are_only_read() {
        let at = server(|| vec![sample::process(7, 0)]);
        assert!(at.ip().is_loopback() && at.port() != 0, "{at}");
        let (head, body) = ask(at, "GET /metrics?name=x");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        let length = format!("Content-Length: {}\r\n", body.len());
        assert!(format!("{head}\r\n").contains(&length), "{head}");
        let media_type = "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert!(head.contains(media_type), "{head}");
        assert!(body.contains("commensal_in_use_bytes{pid=\"7\",program=\"sample\"} ") && body.ends_with("# EOF\n"));
        let (head, empty) = ask(at, "HEAD /metrics");
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains(media_type), "{head}");
        assert_eq!(empty, "");
        for (what, status, expected) in [
            ("GET /", "200", "metrics of processes are at /metrics"),
            ("GET /metrics/7", "404", "metrics are at /metrics"),
            ("GET /secrets", "404", "metrics are at /metrics"),
            ("POST /metrics", "405", "only GET, HEAD of /metrics"),
            ("DELETE /", "405", "only GET, HEAD of /metrics"),
            ("nonsense", "400", "only GET, HEAD of /metrics"),
        ] {
            let (head, body) = ask(at, what);
            assert!(
                head.starts_with(&format!("HTTP/1.1 {status} ")) && body.contains(expected),
                "{what}: {head} {body}"
            );
            assert!(head.contains("Allow: GET, HEAD"), "{what}: {head}");
        }
    }

    #[test]
    fn who_says_nothing_or_does_not_listen_holds_up_nobody() {
        const DEAF: usize = 2;
        let looked = Arc::new(AtomicUsize::new(0));
        let times = Arc::clone(&looked);
        // The first ones are told more than sockets have room for.
        let at = server(move || {
            let many = if times.fetch_add(1, Ordering::SeqCst) < DEAF { 2500 } else { 1 };
            (1..=many).map(|pid| sample::process(pid, 0)).collect()
        });
        let silent: Vec<TcpStream> = (0..20).map(|_| start(at, "")).collect();
        let unfinished = start(at, "GET /metrics HTTP/1.1\r\nHost: he");
        let deaf: Vec<TcpStream> =
            (0..DEAF).map(|_| start(at, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")).collect();
        let begun = Instant::now();
        while looked.load(Ordering::SeqCst) < DEAF {
            assert!(begun.elapsed() < Duration::from_secs(20), "who is silent holds up others");
            thread::sleep(Duration::from_millis(1));
        }
        let asking: Vec<_> = (0..4).map(|_| thread::spawn(move || ask(at, "GET /metrics"))).collect();
        for asking in asking {
            let (head, body) = asking.join().unwrap();
            assert!(head.starts_with("HTTP/1.1 200 ") && body.ends_with("# EOF\n"), "{head}");
        }
        // Who goes on to say nothing is not waited for.
        let mut said = String::new();
        (&unfinished).read_to_string(&mut said).unwrap();
        assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
        // Who goes away in the middle ends nothing.
        drop((silent, unfinished, deaf));
        assert!(ask(at, "GET /").0.starts_with("HTTP/1.1 200 "));
    }

    #[test]
    fn a_port_that_somebody_has_is_named() {
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = other.local_addr().unwrap();
        let said = format!("{:#}", serve(at, Vec::new, |_| panic!("it is taken")).unwrap_err());
        assert!(said.starts_with(&format!("cannot serve at {at}; another program may have the port")), "{said}");
        assert!(said.contains("in use"), "{said}");
    }
}
