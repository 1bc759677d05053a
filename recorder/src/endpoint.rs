//! The endpoint: one thread that answers one request after the other, over HTTP/1.1, with what the recorder renders.
//!
//! Not a web server: it reads a request's head, of up to 8 KiB and for five seconds at most, answers, and closes. So somebody who is slow holds others up by
//! some seconds, and nobody can have it use memory.

use crate::builder::Error;
use crate::recorder::Recorder;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const MOST_BYTES: usize = 8 << 10;
const MOST_HEADERS: usize = 64;
/// For the whole of a request, and again for each piece of an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// After a connection could not be taken, as a rule because the process has no more file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// A port that is ours.
pub struct Endpoint(TcpListener);

impl Endpoint {
    pub fn bind(address: SocketAddr) -> Result<Self, Error> {
        TcpListener::bind(address).map(Endpoint).map_err(|why| Error::Listen(address, why))
    }

    /// Answers from now on, until the process ends.
    pub fn serve(self, recorder: Recorder) -> Result<(), Error> {
        let run = move || {
            for stream in self.0.incoming() {
                match stream {
                    // Whoever does not listen to the end has nothing from us.
                    Ok(stream) => drop(answer(stream, &recorder)),
                    Err(_) => thread::sleep(PAUSE),
                }
            }
        };
        thread::Builder::new().name("commensal-stat".to_owned()).spawn(run).map(drop).map_err(Error::Thread)
    }
}

/// What a request's head asks for.
#[derive(Debug, PartialEq)]
enum Asked {
    Metrics,
    /// The same, without a body.
    Head,
    /// Something else: the status that says so.
    Refused(&'static str),
}

fn answer(mut stream: TcpStream, recorder: &Recorder) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let asked = read_head(&mut stream)?;
    let (status, kind, text) = match asked {
        Asked::Refused(status) => (status, PLAIN, format!("{status}: GET /metrics is what there is\n")),
        Asked::Metrics | Asked::Head => ("200 OK", OPENMETRICS, recorder.render()),
    };
    let length = text.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    if asked != Asked::Head {
        stream.write_all(text.as_bytes())?;
    }
    stream.flush()
}

fn read_head(stream: &mut TcpStream) -> io::Result<Asked> {
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
            return Ok(Asked::Refused("408 Request Timeout"));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes[filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(Asked::Refused("408 Request Timeout")),
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
    let path = request.path.unwrap_or_default().split('?').next();
    Some(match (request.method, path) {
        (Some("GET"), Some("/" | "/metrics")) => Asked::Metrics,
        (Some("HEAD"), Some("/" | "/metrics")) => Asked::Head,
        (Some("GET" | "HEAD"), _) => Asked::Refused("404 Not Found"),
        _ => Asked::Refused("405 Method Not Allowed"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Builder;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("somebody listens");
        // In two pieces: a request may come so.
        let (first, rest) = request.split_at(request.len() / 2);
        stream.write_all(first.as_bytes()).and_then(|()| stream.flush()).expect("it is read");
        thread::sleep(Duration::from_millis(5));
        stream.write_all(rest.as_bytes()).expect("it is read");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it answers");
        text
    }

    #[test]
    fn requests_are_answered() {
        let recorder = Builder::new().build().expect("the usual settings are good");
        recorder.direct_counter("requests").increment(3);
        let endpoint = Endpoint::bind("127.0.0.1:0".parse().expect("it is one")).expect("a port is free");
        let address = endpoint.0.local_addr().expect("it has one");
        endpoint.serve(recorder.clone()).expect("a thread starts");
        let ask = |request: &str| ask(address, request);
        let found = ask("GET /metrics?x=1 HTTP/1.1\r\nHost: here\r\n\r\n");
        let (head, body) = found.split_once("\r\n\r\n").expect("head and body");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains(OPENMETRICS), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        assert_eq!(body, recorder.render());
        assert!(body.contains("\nrequests_total 3\n"), "{body}");
        assert!(ask("HEAD / HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(ask("GET /secrets HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(ask("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
        assert!(ask(&format!("GET /{}", "x".repeat(MOST_BYTES - 5))).starts_with("HTTP/1.1 431 "));
        // Somebody who goes away at once harms nobody.
        drop(TcpStream::connect(address));
        assert!(ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
    }
}
