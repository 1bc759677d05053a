//! Answers whoever scrapes: one text, made when it is asked for and at no other time, at `/metrics` over HTTP/1.1.
//!
//! Not a web server: it reads a request's head, answers, and closes. Each request has some seconds at most, and 8 KiB. Where several are answered at once,
//! each has a thread of its own meanwhile: somebody who says nothing, or asks and does not listen, holds up nobody else, and then goes. Where one is
//! answered after the other, such a one holds others up by these seconds, and nobody can have the process use memory.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Where the text is.
pub const PATH: &str = "/metrics";
/// What the text is.
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const PLAIN: &str = "text/plain; charset=utf-8";
/// What may be done there.
const ALLOWED: &str = "GET, HEAD";
/// For the whole of a request, and again for each piece of an answer.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });
/// After a connection could not be taken, as a rule because there are too many files.
const PAUSE: Duration = Duration::from_millis(100);
const MOST_BYTES: usize = 8 << 10;
const MOST_HEADERS: usize = 64;

/// Answers with what `text` makes, one request after the other, for ever. None of it: that is said, as an error of the server.
pub fn serve_in_turn(listener: &TcpListener, text: impl Fn() -> Option<String>) -> ! {
    loop {
        // Who hangs up in the middle is no reason for anything.
        let _ = answer(next(listener), &text);
    }
}

/// The same, so many requests at once; those beyond are closed without an answer.
pub fn serve_at_once(
    listener: &TcpListener,
    most: usize,
    text: impl Fn() -> Option<String> + Send + Sync + 'static,
) -> ! {
    let (text, open) = (Arc::new(text), Arc::new(AtomicUsize::new(0)));
    loop {
        let stream = next(listener);
        // Relaxed: only the number counts.
        if open.fetch_add(1, Ordering::Relaxed) < most {
            let (text, open) = (Arc::clone(&text), Arc::clone(&open));
            let serve_one = move || {
                let _ = answer(stream, &*text);
                open.fetch_sub(1, Ordering::Relaxed);
            };
            if thread::Builder::new().spawn(serve_one).is_ok() {
                continue;
            }
        }
        open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn next(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept() {
            Ok((stream, _)) => return stream,
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

fn answer(mut stream: TcpStream, text: &impl Fn() -> Option<String>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let (status, media_type, text, has_body) = match read_head(&mut stream)? {
        Asked::For { path, has_body } => match (path.as_str(), (path == PATH).then(text)) {
            (_, Some(Some(text))) => ("200 OK", OPENMETRICS, text, has_body),
            (_, Some(None)) => {
                ("500 Internal Server Error", PLAIN, "the metrics cannot be written\n".to_owned(), has_body)
            }
            ("/", None) => ("200 OK", PLAIN, format!("metrics are at {PATH}\n"), has_body),
            (_, None) => ("404 Not Found", PLAIN, format!("nothing is here; metrics are at {PATH}\n"), has_body),
        },
        Asked::Refused(status) => (status, PLAIN, format!("{status}; only {ALLOWED} of {PATH}\n"), true),
    };
    let length = text.len();
    // The standard wants to know what is allowed with 405, and lets it be said with all others.
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\nAllow: {ALLOWED}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    if has_body {
        stream.write_all(text.as_bytes())?;
    }
    stream.flush()
}

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
    use std::net::SocketAddr;

    const TEXT: &str = "requests_total 3\n# EOF\n";
    const LONG: usize = 64 << 20;

    /// Serves in its own thread, for ever.
    fn server(run: impl FnOnce(&TcpListener) + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        thread::spawn(move || run(&listener));
        at
    }

    fn start(at: SocketAddr, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // In two pieces: a request may come so.
        let (first, rest) = request.split_at(request.len() / 2);
        stream.write_all(first.as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(5));
        stream.write_all(rest.as_bytes()).unwrap();
        stream
    }

    /// What is answered to all that is said.
    fn said(at: SocketAddr, request: &str) -> String {
        let mut text = String::new();
        start(at, request).read_to_string(&mut text).unwrap();
        text
    }

    /// Head and body of what is answered to a request for this.
    fn ask(at: SocketAddr, what: &str) -> (String, String) {
        let text = said(at, &format!("{what} HTTP/1.1\r\nHost: here\r\n\r\n"));
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    fn answers_requests(at: SocketAddr) {
        let (head, body) = ask(at, "GET /metrics?name=x");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(format!("{head}\r\n").contains(&format!("Content-Length: {}\r\n", TEXT.len())), "{head}");
        let media_type = "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert!(head.contains(media_type) && body == TEXT, "{head} {body}");
        let (head, empty) = ask(at, "HEAD /metrics");
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains(media_type) && empty.is_empty(), "{head} {empty}");
        for (what, status, expected) in [
            ("GET /", "200", "metrics are at /metrics"),
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
        assert!(said(at, &format!("GET /{}", "x".repeat(MOST_BYTES - 5))).starts_with("HTTP/1.1 431 "));
        // Who goes away at once harms nobody.
        drop(TcpStream::connect(at));
        assert!(ask(at, "GET /").0.starts_with("HTTP/1.1 200 "));
    }

    #[test]
    fn requests_are_answered_in_turn() {
        answers_requests(server(|listener| serve_in_turn(listener, || Some(TEXT.to_owned()))));
    }

    #[test]
    fn requests_are_answered_at_once() {
        answers_requests(server(|listener| serve_at_once(listener, 10, || Some(TEXT.to_owned()))));
    }

    #[test]
    fn what_cannot_be_made_is_said() {
        let (head, body) = ask(server(|listener| serve_in_turn(listener, || None)), "GET /metrics");
        assert!(head.starts_with("HTTP/1.1 500 ") && head.contains("text/plain") && body.contains("cannot"), "{head}");
    }

    #[test]
    fn who_says_nothing_or_does_not_listen_holds_up_nobody() {
        const DEAF: usize = 2;
        let looked = Arc::new(AtomicUsize::new(0));
        let times = Arc::clone(&looked);
        // The first ones are told more than sockets have room for.
        let text = move || match times.fetch_add(1, Ordering::SeqCst) < DEAF {
            true => Some("x".repeat(LONG)),
            false => Some(TEXT.to_owned()),
        };
        let at = server(|listener| serve_at_once(listener, 100, text));
        let silent: Vec<TcpStream> = (0..20).map(|_| start(at, "")).collect();
        let unfinished = start(at, "GET /metrics HTTP/1.1\r\nHost: he");
        let deaf: Vec<TcpStream> = (0..DEAF).map(|_| start(at, "GET /metrics HTTP/1.1\r\n\r\n")).collect();
        let begun = Instant::now();
        while looked.load(Ordering::SeqCst) < DEAF {
            assert!(begun.elapsed() < Duration::from_secs(20), "who is silent holds up others");
            thread::sleep(Duration::from_millis(1));
        }
        let asking: Vec<_> = (0..4).map(|_| thread::spawn(move || ask(at, "GET /metrics"))).collect();
        for asking in asking {
            let (head, body) = asking.join().unwrap();
            assert!(head.starts_with("HTTP/1.1 200 ") && body == TEXT, "{head} {body}");
        }
        // Who goes on to say nothing is not waited for.
        let mut said = String::new();
        (&unfinished).read_to_string(&mut said).unwrap();
        assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
        drop((silent, deaf));
        assert!(ask(at, "GET /").0.starts_with("HTTP/1.1 200 "));
    }

    /// As long as somebody who does not listen has the one place there is, others are sent away; that is not for ever.
    #[test]
    fn there_are_so_many_at_once() {
        let at = server(|listener| serve_at_once(listener, 1, || Some("x".repeat(LONG))));
        let deaf = start(at, "GET /metrics HTTP/1.1\r\n\r\n");
        thread::sleep(PATIENCE / 10);
        let is_answered = || {
            let mut other = TcpStream::connect(at).unwrap();
            let mut heard = Vec::new();
            other.write_all(b"HEAD / HTTP/1.1\r\n\r\n").and_then(|()| other.read_to_end(&mut heard)).is_ok()
                && !heard.is_empty()
        };
        assert!(!is_answered(), "there is one place");
        let begun = Instant::now();
        while !is_answered() {
            assert!(begun.elapsed() < 20 * PATIENCE, "who does not listen is waited for, for ever");
            thread::sleep(PATIENCE / 10);
        }
        drop(deaf);
    }
}
