//! The client: one thread, some connections that do not block, one request at a time on each.
//!
//! In a *closed loop* each connection sends its next request when it has its answer. In an *open loop* requests have a
//! schedule. A request waits while all connections are busy, and its latency counts from the moment when it should have been
//! sent. So a server that stalls for a second is late for all requests of that second, not for the few that it had received.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::driver::{CONNECTIONS, Driver, Took};
use super::load::Load;

/// A server that sends nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(30);
const BUFFER_BYTES: usize = 1 << 16;

/// Where a server listens.
#[derive(Clone, Debug)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A port of the loopback interface.
    Port(u16),
}

/// When requests are sent.
enum Pace {
    /// So many, each as soon as a connection is free.
    Count(u64),
    /// Likewise, for so long.
    Lasting(Duration),
    /// So many in a second, for so long.
    Rate(f64, Duration),
}

/// What requests a loop sends.
#[derive(Clone, Copy)]
enum Kind {
    /// Those that fill the server with data, until there are no more.
    Fill,
    /// The load.
    Load,
}

/// Connections to a server, and what is asked of it.
pub struct Client {
    address: Address,
    load: Box<dyn Load>,
    /// None until the server listens.
    connections: Vec<Connection>,
    buffer: Vec<u8>,
}

struct Connection {
    stream: Stream,
    request: Vec<u8>,
    /// Bytes of the request that are sent.
    sent: usize,
    received: Vec<u8>,
    /// When the request should have been sent.
    due: Instant,
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// What a pace says.
enum Next {
    /// Send a request, which is due since then.
    Send(Instant),
    Wait(Instant),
    Done,
}

impl Pace {
    fn next(&self, start: Instant, now: Instant, sent: u64) -> Next {
        match *self {
            Pace::Count(count) if sent < count => Next::Send(now),
            Pace::Lasting(time) if now < start + time => Next::Send(now),
            Pace::Rate(rate, time) => {
                let at = sent as f64 / rate;
                let due = start + Duration::from_secs_f64(at);
                match at < time.as_secs_f64() {
                    true if due <= now => Next::Send(due),
                    true => Next::Wait(due),
                    false => Next::Done,
                }
            }
            _ => Next::Done,
        }
    }
}

impl Driver for Client {
    fn is_answered(&mut self) -> Result<bool> {
        let connect = || (0..CONNECTIONS).map(|_| Connection::open(&self.address)).collect::<std::io::Result<_>>();
        // It does not listen yet, or never will: then it ends, which is an error elsewhere.
        let Ok(connections) = connect() else { return Ok(false) };
        self.connections = connections;
        self.greet().map(|()| true)
    }

    fn fill(&mut self) -> Result<()> {
        self.run(Kind::Fill, &Pace::Count(u64::MAX)).map(drop)
    }

    fn rate(&mut self, time: Duration) -> Result<f64> {
        let took = self.run(Kind::Load, &Pace::Lasting(time))?;
        Ok(took.latencies.len() as f64 / took.wall.as_secs_f64())
    }

    fn closed(&mut self, requests: u64) -> Result<Duration> {
        self.run(Kind::Load, &Pace::Count(requests)).map(|took| took.wall)
    }

    fn open(&mut self, rate: f64, time: Duration, then: &mut dyn FnMut() -> Result<()>) -> Result<Took> {
        let took = self.run(Kind::Load, &Pace::Rate(rate, time))?;
        then().map(|()| took)
    }
}

impl Client {
    /// One that has not connected yet.
    pub fn new(address: Address, load: Box<dyn Load>) -> Self {
        Self { address, load, connections: Vec::new(), buffer: vec![0; BUFFER_BYTES] }
    }

    /// Asks whether the server works, on one connection.
    fn greet(&mut self) -> Result<()> {
        self.connections[0].request.clear();
        self.load.greet(0, &mut self.connections[0].request);
        self.connections[0].begin(Instant::now())?;
        while !self.answered(0)? {
            self.wait(&[0], None)?;
        }
        Ok(())
    }

    /// Sends requests at a pace, and reads and checks all answers.
    fn run(&mut self, kind: Kind, pace: &Pace) -> Result<Took> {
        let mut idle: VecDeque<usize> = (0..self.connections.len()).collect();
        let mut busy: Vec<usize> = Vec::new();
        let (start, mut sent, mut latencies) = (Instant::now(), 0, Vec::new());
        loop {
            let mut until = None;
            while let Some(at) = idle.pop_front() {
                let due = match pace.next(start, Instant::now(), sent) {
                    Next::Send(due) => due,
                    Next::Wait(due) => {
                        until = Some(due);
                        idle.push_front(at);
                        break;
                    }
                    Next::Done => continue,
                };
                let connection = &mut self.connections[at];
                connection.request.clear();
                match kind {
                    Kind::Load => self.load.request(at, &mut connection.request),
                    // A connection that has nothing left to fill stays out.
                    Kind::Fill if !self.load.fill(at, &mut connection.request) => continue,
                    Kind::Fill => {}
                }
                connection.begin(due)?;
                sent += 1;
                busy.push(at);
            }
            if busy.is_empty() && until.is_none() {
                return Ok(Took { wall: start.elapsed(), latencies });
            }
            for at in self.wait(&busy, until)? {
                if self.answered(at)? {
                    latencies.push(self.connections[at].due.elapsed());
                    busy.retain(|other| *other != at);
                    idle.push_back(at);
                }
            }
        }
    }

    /// Waits until some of these connections can go on, or until then. Which can.
    fn wait(&self, busy: &[usize], until: Option<Instant>) -> Result<Vec<usize>> {
        let of = |at: &usize| {
            let connection = &self.connections[*at];
            let is_sent = connection.sent == connection.request.len();
            let flags = if is_sent { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
            PollFd::from_borrowed_fd(connection.stream.as_fd(), flags)
        };
        let mut fds: Vec<PollFd> = busy.iter().map(of).collect();
        let left = until.map_or(PATIENCE, |until| until.saturating_duration_since(Instant::now()));
        match poll(&mut fds, Some(&Timespec::try_from(left)?)) {
            Ok(0) if until.is_none() => bail!("no answer for {} s", PATIENCE.as_secs()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for answers"),
        }
        let ready = busy.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|(at, _)| *at).collect())
    }

    /// Whether the connection's answer has come, and is right.
    fn answered(&mut self, at: usize) -> Result<bool> {
        let connection = &mut self.connections[at];
        connection.send()?;
        connection.receive(&mut self.buffer)?;
        let Some(length) = self.load.answer(at, &connection.received)? else { return Ok(false) };
        ensure!(length == connection.received.len(), "more was answered than was asked for");
        connection.received.clear();
        Ok(true)
    }
}

impl Connection {
    fn open(address: &Address) -> std::io::Result<Self> {
        let stream = match address {
            Address::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
            Address::Port(port) => Stream::Tcp(TcpStream::connect(("127.0.0.1", *port))?),
        };
        match &stream {
            Stream::Unix(stream) => stream.set_nonblocking(true)?,
            Stream::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
            }
        }
        Ok(Self { stream, request: Vec::new(), sent: 0, received: Vec::new(), due: Instant::now() })
    }

    fn begin(&mut self, due: Instant) -> Result<()> {
        (self.due, self.sent) = (due, 0);
        self.send()
    }

    /// Sends what is left of the request, as far as there is room for it.
    fn send(&mut self) -> Result<()> {
        while self.sent < self.request.len() {
            match self.stream.write(&self.request[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("the server took no request"),
            }
        }
        Ok(())
    }

    /// Takes what has arrived, by way of a buffer.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<()> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => bail!("the server closed the connection"),
                Ok(bytes) => {
                    self.received.extend_from_slice(&buffer[..bytes]);
                    if bytes < buffer.len() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("the server gave no answer"),
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;
    use crate::servers::load::redis::Redis;

    /// A server that answers each connection's requests with the same, in a thread of its own; before the request of this
    /// number, all of them wait.
    fn server(answer: &'static str, stall: (u64, Duration)) -> (tempfile::TempDir, Address) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        thread::spawn(move || {
            let mut all: Vec<UnixStream> = (0..CONNECTIONS).map(|_| listener.accept().unwrap().0).collect();
            all.iter().for_each(|one| one.set_nonblocking(true).unwrap());
            let (mut requests, mut buffer) = (0, [0; 1024]);
            loop {
                for stream in &mut all {
                    match stream.read(&mut buffer) {
                        Ok(0) => return,
                        Ok(_) => {}
                        Err(_) => continue,
                    }
                    requests += 1;
                    if requests == stall.0 {
                        thread::sleep(stall.1);
                    }
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
                thread::sleep(Duration::from_micros(50));
            }
        });
        (place, Address::Unix(path))
    }

    /// A load of which only the answers count.
    struct Pings;

    impl Load for Pings {
        fn greet(&mut self, _: usize, out: &mut Vec<u8>) {
            out.extend_from_slice(b"ping");
        }
        fn fill(&mut self, _: usize, _: &mut Vec<u8>) -> bool {
            false
        }
        fn request(&mut self, _: usize, out: &mut Vec<u8>) {
            out.extend_from_slice(b"ping");
        }
        fn answer(&mut self, _: usize, received: &[u8]) -> Result<Option<usize>> {
            ensure!(b"pong".starts_with(received), "expected pong");
            Ok(Some(received.len()).filter(|bytes| *bytes == b"pong".len()))
        }
    }

    const NEVER: (u64, Duration) = (0, Duration::ZERO);

    fn client(address: Address) -> Client {
        let mut client = Client::new(address, Box::new(Pings));
        assert!(client.is_answered().unwrap());
        client
    }

    /// Of 1,000 requests in a second, some 300 are due while the server stalls for 300 ms. Sixteen have been sent by then.
    /// Planted bug that was seen here: latency counted from when the request was sent.
    #[test]
    fn stall_of_server_is_in_the_latency_of_all_requests_that_were_due() {
        let (_place, address) = server("pong", (300, Duration::from_millis(300)));
        let mut took = client(address).run(Kind::Load, &Pace::Rate(1000.0, Duration::from_secs(1))).unwrap();
        assert_eq!(took.latencies.len(), 1000);
        let [longest, tenth] = [0.999, 0.9].map(|part| took.quantile(part).unwrap());
        assert!(longest >= Duration::from_millis(250), "{longest:?}");
        // A tenth of all are the 100 that were due first in those 300 ms; they waited for 200 of them.
        assert!(tenth >= Duration::from_millis(150), "{tenth:?}");
    }

    #[test]
    fn open_loop_keeps_its_rate() {
        let (_place, address) = server("pong", NEVER);
        let pace = Pace::Rate(500.0, Duration::from_millis(400));
        let took = client(address).run(Kind::Load, &pace).unwrap();
        assert_eq!(took.latencies.len(), 200);
        assert!(took.wall >= Duration::from_millis(398), "{:?}: the last one is due then", took.wall);
    }

    #[test]
    fn closed_loop_makes_as_many_requests_as_it_is_told() {
        let (_place, address) = server("pong", NEVER);
        let mut client = client(address);
        assert_eq!(client.run(Kind::Load, &Pace::Count(333)).unwrap().latencies.len(), 333);
        assert_eq!(client.run(Kind::Fill, &Pace::Count(u64::MAX)).unwrap().latencies.len(), 0, "it fills nothing");
        let lasting = client.run(Kind::Load, &Pace::Lasting(Duration::from_millis(50))).unwrap();
        assert!(lasting.wall >= Duration::from_millis(50) && !lasting.latencies.is_empty());
    }

    #[test]
    fn wrong_answer_is_an_error() {
        let (_place, address) = server("+PANG\r\n", NEVER);
        let error = Client::new(address, Box::new(Redis::new(16))).is_answered().unwrap_err();
        assert!(format!("{error:#}").contains("PANG"), "{error:#}");
    }

    #[test]
    fn server_that_does_not_listen_is_not_answered() {
        let place = tempfile::tempdir().unwrap();
        let address = Address::Unix(place.path().join("none"));
        assert!(!Client::new(address, Box::new(Pings)).is_answered().unwrap());
    }

    #[test]
    fn quantile_is_the_latency_that_so_many_do_not_exceed() {
        let latencies = (1..=1000).rev().map(Duration::from_nanos).collect();
        let mut took = Took { wall: Duration::ZERO, latencies };
        let of = [0.5, 0.99, 0.999, 1.0].map(|part| took.quantile(part).unwrap().as_nanos());
        assert_eq!(of, [500, 990, 999, 1000]);
        assert_eq!(Took { wall: Duration::ZERO, latencies: Vec::new() }.quantile(0.5), None);
    }
}
