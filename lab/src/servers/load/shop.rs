//! A web shop, which the servers in JavaScript, Java and Rust all are: `POST /orders` computes the bill of an order, JSON in
//! and out; `/sessions/NAME` is stored, read and removed.

use std::io::Write;

use anyhow::{Result, ensure};
use fastrand::Rng;

use super::{Load, Texts, any_size, check, for_connections, generator};
use crate::servers::driver::CONNECTIONS;
use crate::servers::protocol::{http, shown};

const MOST_ITEMS: usize = 40;

/// The load.
pub struct Shop {
    texts: Texts,
    connections: Vec<Books>,
}

/// What the server holds of a connection.
struct Books {
    rng: Rng,
    /// Sizes of sessions; none for one that is not there.
    sessions: Vec<Option<usize>>,
    filled: usize,
    /// The status, and what the body must be; nothing if that is the server's affair.
    expected: (u16, Option<Vec<u8>>),
}

impl Shop {
    /// With so many sessions in all.
    pub fn new(sessions: usize) -> Self {
        let of = |connection| Books {
            rng: generator(connection),
            sessions: vec![None; sessions / CONNECTIONS],
            filled: 0,
            expected: (0, None),
        };
        Self { texts: Texts::new(), connections: for_connections(of) }
    }

    fn store(&mut self, connection: usize, session: usize, out: &mut Vec<u8>) {
        let books = &mut self.connections[connection];
        let size = any_size(&mut books.rng);
        books.sessions[session] = Some(size);
        books.expected = (200, Some(b"stored".to_vec()));
        let path = format!("/sessions/{connection}-{session}");
        request(out, "PUT", &path, "text/plain; charset=utf-8", self.texts.of(session, size));
    }

    /// An order, and what the bill must be.
    fn order(&mut self, connection: usize, out: &mut Vec<u8>) {
        let books = &mut self.connections[connection];
        let (rng, id) = (&mut books.rng, connection);
        let (mut items, mut lines, mut total) = (Vec::new(), Vec::new(), 0);
        for at in 0..=rng.usize(..MOST_ITEMS) {
            let (number, count, price) = (rng.usize(..1000), rng.u32(1..10), rng.u32(1..10_000));
            let name = String::from_utf8_lossy(self.texts.of(number, 8 + number % 64));
            let comma = if at == 0 { "" } else { "," };
            // Writing into memory does not fail.
            let _ = write!(items, r#"{comma}{{"name":"{name}","count":{count},"price":{price}}}"#);
            let _ = write!(lines, r#"{comma}{{"name":"{name}","sum":{}}}"#, count * price);
            total += count * price;
        }
        let [items, lines] = [items, lines].map(|text| String::from_utf8_lossy(&text).into_owned());
        let bill = format!(r#"{{"id":{id},"total":{total},"lines":[{lines}]}}"#);
        books.expected = (200, Some(bill.into_bytes()));
        let order = format!(r#"{{"id":{id},"items":[{items}]}}"#);
        request(out, "POST", "/orders", "application/json", order.as_bytes());
    }
}

impl Load for Shop {
    fn greet(&mut self, connection: usize, out: &mut Vec<u8>) {
        self.connections[connection].expected = (404, None);
        request(out, "GET", "/sessions/none", "text/plain", b"");
    }

    fn fill(&mut self, connection: usize, out: &mut Vec<u8>) -> bool {
        let books = &mut self.connections[connection];
        let session = books.filled;
        books.filled += 1;
        let is_left = session < books.sessions.len();
        if is_left {
            self.store(connection, session, out);
        }
        is_left
    }

    fn request(&mut self, connection: usize, out: &mut Vec<u8>) {
        let books = &mut self.connections[connection];
        let session = books.rng.usize(..books.sessions.len());
        let path = format!("/sessions/{connection}-{session}");
        match books.rng.u8(..20) {
            0..12 => self.order(connection, out),
            12..16 => self.store(connection, session, out),
            16..19 => {
                let text = books.sessions[session].map(|size| self.texts.of(session, size).to_vec());
                books.expected = if text.is_some() { (200, text) } else { (404, None) };
                request(out, "GET", &path, "text/plain", b"");
            }
            _ => {
                let was_there = books.sessions[session].take().is_some();
                books.expected = if was_there { (200, Some(b"removed".to_vec())) } else { (404, None) };
                request(out, "DELETE", &path, "text/plain", b"");
            }
        }
    }

    fn answer(&mut self, connection: usize, received: &[u8]) -> Result<Option<usize>> {
        let Some((answer, length)) = http(received)? else { return Ok(None) };
        let (status, body) = &self.connections[connection].expected;
        ensure!(
            answer.status == *status,
            "expected status {status}, got {} with {}",
            answer.status,
            shown(&answer.body)
        );
        body.as_ref().map_or(Ok(()), |expected| check("an answer", &answer.body, expected))?;
        Ok(Some(length))
    }
}

fn request(out: &mut Vec<u8>, method: &str, path: &str, kind: &str, body: &[u8]) {
    let length = body.len();
    let _ = write!(
        out,
        "{method} {path} HTTP/1.1\r\nHost: shop\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    );
    out.extend_from_slice(body);
}
