//! Answers whoever scrapes: one text, made when it is asked for and at no other time, at `/metrics` over HTTP/1.1.
//!
//! Not a web server, which would bring its own pool of threads: that of `tiny_http` lets silent clients hold up others. This one reads a
//! request's head, answers, and closes. Each request has a thread, some seconds at most for its head of 8 KiB, and as many for the answer. So a
//! client that says nothing, or asks and does not listen, holds up nobody else.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Where the text is.
pub const PATH: &str = "/metrics";
/// What the text is.
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const PLAIN: &str = "text/plain; charset=utf-8";
/// What may be done there.
const ALLOWED: &str = "GET, HEAD";
/// For the whole of a request, and again for the whole of an answer.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 3 } else { 5 });
/// After a connection could not be taken, as a rule because there are too many files.
const PAUSE: Duration = Duration::from_millis(100);
/// What comes after a request's head is read for so long, and so many bytes of it, and thrown away: who is still sending would lose the answer.
const DRAINED: Duration = Duration::from_secs(1);
const MOST_DRAINED: usize = 1 << 20;
const MOST_BYTES: usize = 8 << 10;
const MOST_HEADERS: usize = 64;

/// Answers with what `text` makes, `most` requests at once, for ever; those beyond are closed without an answer. Where `text` makes
/// nothing, the answer is an error of the server.
pub fn serve(listener: &TcpListener, most: usize, text: impl Fn() -> Option<String> + Send + Sync + 'static) -> ! {
    // Whoever is answered has a copy of the text's maker until then, also if it panics.
    let text = Arc::new(text);
    loop {
        let stream = next(listener);
        if Arc::strong_count(&text) <= most {
            let text = Arc::clone(&text);
            let serve_one = move || {
                let _ = answer(stream, &*text);
            };
            // Where there can be no more threads it is closed as well.
            let _ = thread::Builder::new().spawn(serve_one);
        }
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
    let (asked, has_more) = read_head(&mut stream)?;
    let (status, media_type, text, has_body) = match asked {
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
    let end = Instant::now() + PATIENCE;
    write_until(end, &mut stream, head.as_bytes())?;
    if has_body {
        write_until(end, &mut stream, text.as_bytes())?;
    }
    if has_more {
        // Whoever is closed on while he sends is told that the connection is broken, and may not have read the answer by then.
        stream.shutdown(Shutdown::Write)?;
        drain(&mut stream)?;
    }
    Ok(())
}

/// Writes all of it by a time, however little of it is taken at once.
fn write_until(end: Instant, stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut left = bytes;
    while !left.is_empty() {
        stream.set_write_timeout(Some(time_until(end)?))?;
        match stream.write(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => left = &left[count..],
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

/// Reads what else there is, until there is no more, or enough was read.
fn drain(stream: &mut TcpStream) -> io::Result<()> {
    let (end, mut bytes, mut drained) = (Instant::now() + DRAINED, [0; MOST_BYTES], 0);
    while drained < MOST_DRAINED {
        stream.set_read_timeout(Some(time_until(end)?))?;
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => drained += count,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

/// How long it is until then; an error: it is over.
fn time_until(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
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

/// What is asked, and whether more may come than its head.
fn read_head(stream: &mut TcpStream) -> io::Result<(Asked, bool)> {
    const TIMEOUT: Asked = Asked::Refused("408 Request Timeout");
    let end = Instant::now() + PATIENCE;
    let (mut bytes, mut filled) = ([0; MOST_BYTES], 0);
    loop {
        if let Some(understood) = understand(&bytes[..filled]) {
            return Ok(understood);
        }
        if filled == MOST_BYTES {
            return Ok((Asked::Refused("431 Request Header Fields Too Large"), true));
        }
        let Ok(left) = time_until(end) else { return Ok((TIMEOUT, false)) };
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes[filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok((TIMEOUT, false)),
            Err(why) => return Err(why),
        }
    }
}

/// None: there is more to come of the head.
fn understand(bytes: &[u8]) -> Option<(Asked, bool)> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(length)) => length,
        Err(_) => return Some((Asked::Refused("400 Bad Request"), true)),
    };
    let path = request.path.unwrap_or("").split('?').next().unwrap_or("").to_owned();
    let asked = match request.method {
        Some("GET") => Asked::For { path, has_body: true },
        Some("HEAD") => Asked::For { path, has_body: false },
        _ => Asked::Refused("405 Method Not Allowed"),
    };
    let announces_more = |header: &httparse::Header<'_>| {
        header.name.eq_ignore_ascii_case("Transfer-Encoding")
            || header.name.eq_ignore_ascii_case("Content-Length") && header.value != b"0"
    };
    Some((asked, bytes.len() > length || request.headers.iter().any(announces_more)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, mpsc};

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
        let at = server(|listener| serve(listener, 10, || Some(TEXT.to_owned())));
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
    fn text_that_cannot_be_made_is_answered_with_500() {
        let (head, body) = ask(server(|listener| serve(listener, 1, || None)), "GET /metrics");
        assert!(head.starts_with("HTTP/1.1 500 ") && head.contains("text/plain") && body.contains("cannot"), "{head}");
    }

    #[test]
    fn silent_or_deaf_client_does_not_delay_others() {
        const DEAF: usize = 2;
        let looked = Arc::new(AtomicUsize::new(0));
        let times = Arc::clone(&looked);
        // The first ones are told more than sockets have room for.
        let text = move || match times.fetch_add(1, Ordering::SeqCst) < DEAF {
            true => Some("x".repeat(LONG)),
            false => Some(TEXT.to_owned()),
        };
        let at = server(|listener| serve(listener, 100, text));
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
            finished.lock().unwrap().recv().ok().map(|()| TEXT.to_owned())
        };
        let at = server(|listener| serve(listener, 1, text));
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
        let at = server(|listener| serve(listener, 1, || Some("x".repeat(LONG))));
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
    fn client_that_sends_a_body_reads_the_answer() {
        let at = server(|listener| serve(listener, 10, || Some(TEXT.to_owned())));
        let body = "x".repeat(100_000);
        let ask = |head: &str, body: &str| said(at, &format!("{head}\r\n\r\n{body}"));
        for (head, status) in [
            ("POST /metrics HTTP/1.1\r\nContent-Length: 100000", "405"),
            ("GET /metrics HTTP/1.1\r\ncontent-length: 100000", "200"),
            ("GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked", "200"),
            ("GET /metrics HTTP/1.1", "200"),
            ("nonsense", "400"),
        ] {
            let answer = ask(head, &body);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {answer}");
        }
        assert!(ask(&format!("GET /{body}"), "").starts_with("HTTP/1.1 431 "));
        // What was announced may come when the answer is written.
        let mut late = start(at, "GET /metrics HTTP/1.1\r\nContent-Length: 200\r\n\r\n");
        for piece in [&body[..100]; 2] {
            thread::sleep(DRAINED / 10);
            late.write_all(piece.as_bytes()).unwrap();
        }
        let mut answer = String::new();
        late.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }

    /// Who goes on to send is not listened to for ever.
    #[test]
    fn client_that_sends_without_end_is_closed() {
        let at = server(|listener| serve(listener, 10, || Some(TEXT.to_owned())));
        let mut endless = start(at, "POST / HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n");
        let begun = Instant::now();
        while endless.write_all(&[0; 100]).is_ok() {
            assert!(begun.elapsed() < 600 * DRAINED, "it is read for ever");
            thread::sleep(Duration::from_millis(10));
        }
        assert!(ask(at, "GET /").0.starts_with("HTTP/1.1 200 "));
    }

    #[test]
    fn text_that_panics_gives_up_its_place() {
        let times = AtomicUsize::new(0);
        let text = move || match times.fetch_add(1, Ordering::SeqCst) {
            0 => panic!("a test's"),
            _ => Some(TEXT.to_owned()),
        };
        let at = server(|listener| serve(listener, 1, text));
        assert_eq!(said(at, "GET /metrics HTTP/1.1\r\n\r\n"), "");
        let begun = Instant::now();
        loop {
            let mut answer = String::new();
            let _ = start(at, "GET /metrics HTTP/1.1\r\n\r\n").read_to_string(&mut answer);
            if answer.starts_with("HTTP/1.1 200 ") {
                break;
            }
            assert!(begun.elapsed() < 200 * PATIENCE, "nobody is answered any more");
            thread::sleep(Duration::from_millis(10));
        }
    }
}
