//! A server for whoever scrapes: it looks at the pages when it is asked, and at no other time, and answers over HTTP/1.1:
//! at `/metrics` with all figures, and at `/debug/pprof/heap?pid=NUMBER` with the heap profile of a process.
//!
//! Not a web server, which would bring its own pool of threads: that of `tiny_http` lets silent clients hold up others.
//! This one reads a request's head, answers, and closes. Each request has a thread, some seconds at most for its head of
//! 8 KiB, and as many for the answer. So a client that says nothing, or asks and does not listen, holds up nobody else.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use crate::openmetrics::{self, Scrape};
use crate::process::{Gone, Process};

/// Where the text is.
pub const PATH: &str = "/metrics";
/// Where heap profiles are, as pprof asks for them.
pub const PROFILES: &str = "/debug/pprof/heap";
/// What the text is.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const BYTES: &str = "application/octet-stream";
const PLAIN: &str = "text/plain; charset=utf-8";
/// What may be done there.
const ALLOWED: &str = "GET, HEAD";
/// Several servers may scrape, and people look.
const MOST_CONNECTIONS: usize = 100;
/// For the whole of a request, and again for the whole of an answer.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 3 } else { 5 });
/// After a connection could not be taken, as a rule because there are too many files.
const PAUSE: Duration = Duration::from_millis(100);
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

/// Serves what `look` finds, with why other pages could not be read, and what `profile` gets of a process, until this
/// process ends. `ready` is told where.
pub fn serve(
    at: SocketAddr, look: impl Fn() -> (Vec<Process>, Vec<anyhow::Error>) + Send + Sync + 'static,
    profile: impl Fn(u32) -> Result<Vec<u8>> + Send + Sync + 'static, ready: impl FnOnce(SocketAddr),
) -> Result<Infallible> {
    let listener = TcpListener::bind(at)
        .with_context(|| format!("cannot serve at {at}; another program may have the port, so take another one"))?;
    ready(listener.local_addr().unwrap_or(at));
    let gone = Mutex::new(Gone::default());
    let look = Arc::new(look);
    let only = Arc::clone(&look);
    let text = move || {
        // Who looked first counts first: else one that is forgotten meanwhile would count twice.
        let mut known = gone.lock().unwrap_or_else(PoisonError::into_inner);
        let (processes, unreadable) = look();
        let gone = known.with(&processes);
        drop(known);
        openmetrics::text(Scrape { processes, gone, unreadable: unreadable.len() as u64 })
    };
    let profile = move |query: &str| {
        let given = query.split('&').find_map(|pair| pair.strip_prefix("pid="));
        let pid = match given {
            Some(pid) => pid.parse().with_context(|| format!("pid is {pid:?}; expected the number of a process"))?,
            None => only_one(&only().0)?,
        };
        profile(pid)
    };
    answer_all(&listener, MOST_CONNECTIONS, move |path, query| match path {
        PATH => Answer::new("200 OK", OPENMETRICS, text()),
        PROFILES => match profile(query) {
            Ok(profile) => Answer::new("200 OK", BYTES, profile),
            Err(why) => Answer::new("404 Not Found", PLAIN, format!("{why:#}\n")),
        },
        "/" => Answer::new("200 OK", PLAIN, format!("{PLACES}\n")),
        _ => Answer::new("404 Not Found", PLAIN, format!("nothing is here; {PLACES}\n")),
    })
}

const PLACES: &str = "metrics are at /metrics, heap profiles at /debug/pprof/heap?pid=NUMBER";

fn only_one(processes: &[Process]) -> Result<u32> {
    let running = processes.iter().filter(|process| process.kernel.is_some()).map(|process| process.pid);
    let running: Vec<u32> = running.collect();
    match running[..] {
        [pid] => Ok(pid),
        _ => bail!("{} processes run under the library: {running:?}; say which one by ?pid=NUMBER", running.len()),
    }
}

/// Status, media type and body.
struct Answer(&'static str, &'static str, Vec<u8>);

impl Answer {
    fn new(status: &'static str, media_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Answer(status, media_type, body.into())
    }
}

/// Answers with what `make` makes of a path and a query, `most` requests at once, for ever; those beyond are closed
/// without an answer.
fn answer_all(listener: &TcpListener, most: usize, make: impl Fn(&str, &str) -> Answer + Send + Sync + 'static) -> ! {
    // Whoever is answered has a copy of the answer's maker until then, also if it panics.
    let make = Arc::new(make);
    loop {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(PAUSE);
            continue;
        };
        if Arc::strong_count(&make) <= most {
            let make = Arc::clone(&make);
            // Where there can be no more threads it is closed as well.
            let _ = thread::Builder::new().spawn(move || answer(&stream, &*make));
        }
    }
}

fn answer(stream: &TcpStream, make: &impl Fn(&str, &str) -> Answer) -> io::Result<()> {
    let (Answer(status, media_type, body), has_body) = match read_head(&mut Timed::new(stream))? {
        Ok((target, has_body)) => {
            let (path, query) = target.split_once('?').unwrap_or((&target, ""));
            (make(path, query), has_body)
        }
        Err(status) => (Answer::new(status, PLAIN, format!("{status}; only {ALLOWED}; {PLACES}\n")), true),
    };
    let length = body.len();
    // The standard wants to know what is allowed with 405, and lets it be said with all others.
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\nAllow: {ALLOWED}\r\nConnection: close\r\n\r\n"
    );
    let mut answer = Timed::new(stream);
    answer.write_all(head.as_bytes())?;
    if has_body { answer.write_all(&body) } else { Ok(()) }
}

/// A stream until a moment, however little of it is read or written at once.
struct Timed<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl<'a> Timed<'a> {
    fn new(stream: &'a TcpStream) -> Self {
        Timed { stream, end: Instant::now() + PATIENCE }
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(left) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(bytes)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A path with its query, and whether the answer has a body; or the status for any other request.
type Asked = std::result::Result<(String, bool), &'static str>;

fn read_head(stream: &mut impl Read) -> io::Result<Asked> {
    let (mut bytes, mut filled) = ([0; MOST_BYTES], 0);
    loop {
        if let Some(understood) = understand(&bytes[..filled]) {
            return Ok(understood);
        }
        if filled == MOST_BYTES {
            return Ok(Err("431 Request Header Fields Too Large"));
        }
        match stream.read(&mut bytes[filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(Err("408 Request Timeout")),
            Err(why) => return Err(why),
        }
    }
}

/// None: there is more to come of the head.
fn understand(bytes: &[u8]) -> Option<Asked> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(_) => return Some(Err("400 Bad Request")),
    }
    let path = request.path.unwrap_or("").to_owned();
    Some(match request.method {
        Some("GET") => Ok((path, true)),
        Some("HEAD") => Ok((path, false)),
        _ => Err("405 Method Not Allowed"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    const TEXT: &str = "requests_total 3\n# EOF\n";
    const LONG: usize = 64 << 20;

    /// Answers to requests for metrics.
    fn places(text: impl Fn() -> String + Send + Sync + 'static) -> impl Fn(&str, &str) -> Answer + Send + Sync {
        move |path, _| match path {
            PATH => Answer::new("200 OK", OPENMETRICS, text()),
            "/" => Answer::new("200 OK", PLAIN, PLACES),
            _ => Answer::new("404 Not Found", PLAIN, PLACES),
        }
    }

    /// Serves in its own thread, for ever.
    fn server(run: impl FnOnce(&TcpListener) + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        thread::spawn(move || run(&listener));
        at
    }

    fn start(at: SocketAddr, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(200 * PATIENCE)).unwrap();
        // In two pieces: a request may come so. Who is closed on before that finds out when he reads.
        let (first, rest) = request.split_at(request.len() / 2);
        let _ = stream.write_all(first.as_bytes());
        thread::sleep(Duration::from_millis(5));
        let _ = stream.write_all(rest.as_bytes());
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

    #[test]
    fn requests_are_answered() {
        let at = server(|listener| answer_all(listener, 10, places(|| TEXT.to_owned())));
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
            ("POST /metrics", "405", "only GET, HEAD"),
            ("DELETE /", "405", "only GET, HEAD"),
            ("nonsense", "400", "only GET, HEAD"),
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
    fn silent_or_deaf_client_does_not_delay_others() {
        const DEAF: usize = 2;
        let looked = Arc::new(AtomicUsize::new(0));
        let times = Arc::clone(&looked);
        // The first ones are told more than sockets have room for.
        let text = move || match times.fetch_add(1, Ordering::SeqCst) < DEAF {
            true => "x".repeat(LONG),
            false => TEXT.to_owned(),
        };
        let at = server(|listener| answer_all(listener, 100, places(text)));
        let silent: Vec<TcpStream> = (0..20).map(|_| start(at, "")).collect();
        let unfinished = start(at, "GET /metrics HTTP/1.1\r\nHost: he");
        let deaf: Vec<TcpStream> = (0..DEAF).map(|_| start(at, "GET /metrics HTTP/1.1\r\n\r\n")).collect();
        let begun = Instant::now();
        while looked.load(Ordering::SeqCst) < DEAF {
            assert!(begun.elapsed() < 200 * PATIENCE, "who is silent holds up others");
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

    #[test]
    fn request_beyond_the_most_is_closed_on_until_there_is_room() {
        let ((begin, begun), (finish, finished)) = (mpsc::channel(), mpsc::channel());
        let finished = Mutex::new(finished);
        let text = move || {
            begin.send(()).unwrap();
            finished.lock().unwrap().recv().unwrap();
            TEXT.to_owned()
        };
        let at = server(|listener| answer_all(listener, 1, places(text)));
        let first = start(at, "GET /metrics HTTP/1.1\r\n\r\n");
        begun.recv().unwrap();
        let heard = || {
            let (mut other, mut heard) = (TcpStream::connect(at).unwrap(), String::new());
            let _ = other.write_all(b"HEAD / HTTP/1.1\r\n\r\n").and_then(|()| other.read_to_string(&mut heard));
            heard
        };
        assert_eq!(heard(), "", "there is one place");
        finish.send(()).unwrap();
        assert!(io::read_to_string(first).unwrap().ends_with(TEXT));
        while heard().is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Who takes a little of the answer now and then goes as well.
    #[test]
    fn answer_to_a_slow_reader_is_cut_off_in_time() {
        let at = server(|listener| answer_all(listener, 1, places(|| "x".repeat(LONG))));
        let mut slow = start(at, "GET /metrics HTTP/1.1\r\n\r\n");
        let mut heard = vec![0; 128 << 10];
        let mut total = 0;
        loop {
            match slow.read(&mut heard) {
                Ok(0) | Err(_) => break,
                Ok(count) => total += count,
            }
            thread::sleep(PATIENCE / 60);
        }
        assert!(total < LONG, "{total}");
    }

    #[test]
    fn bare_port_binds_to_the_loopback_address() {
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

    #[test]
    fn processes_are_served() {
        let (send, receive) = std::sync::mpsc::channel();
        let look = || (vec![sample::process(7, 0)], vec![anyhow!("cut off"), anyhow!("damaged")]);
        let profile = |pid| if pid == 7 { Ok(b"profile".to_vec()) } else { bail!("no process {pid}") };
        thread::spawn(move || serve(address("0").unwrap(), look, profile, move |at| send.send(at).unwrap()));
        let at = receive.recv().unwrap();
        assert!(at.ip().is_loopback() && at.port() != 0, "{at}");
        let said = said(at, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(said.starts_with("HTTP/1.1 200 ") && said.ends_with("# EOF\n"), "{said}");
        assert!(said.contains("\ncommensal_in_use_bytes{pid=\"7\",program=\"sample\"} "), "{said}");
        assert!(said.contains("\ncommensal_unreadable_pages 2\n"), "{said}");
        for (what, status, expected) in [
            ("?pid=7", "200", "profile"),
            ("?seconds=1&pid=7", "200", "profile"),
            ("?pid=8", "404", "no process 8"),
            ("?pid=x", "404", "pid is \"x\"; expected the number of a process"),
        ] {
            let (head, body) = ask(at, &format!("GET /debug/pprof/heap{what}"));
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")) && body.contains(expected), "{head} {body}");
        }
    }

    #[test]
    fn port_in_use_is_named() {
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = other.local_addr().unwrap();
        let said =
            format!("{:#}", serve(at, Default::default, |_| bail!("none"), |_| panic!("it is taken")).unwrap_err());
        assert!(said.starts_with(&format!("cannot serve at {at}; another program may have the port")), "{said}");
        assert!(said.contains("in use"), "{said}");
    }
}
