//! memcached: values that are set to other sizes, read and deleted.

use std::io::Write;

use anyhow::{Result, bail};
use fastrand::Rng;

use super::{Load, Texts, any_size, check, for_connections, generator};
use crate::servers::driver::CONNECTIONS;
use crate::servers::protocol::{Memcached as Answer, memcached};

/// The load.
pub struct Memcached {
    texts: Texts,
    connections: Vec<Books>,
}

/// What the server holds of a connection.
struct Books {
    rng: Rng,
    /// Sizes of values by key; none for one that is not there.
    values: Vec<Option<usize>>,
    filled: usize,
    expected: Expected,
}

enum Expected {
    /// A line that begins so.
    Word(&'static [u8]),
    /// The text of this number with so many bytes.
    Value(usize, usize),
}

impl Memcached {
    /// With so many values in all.
    pub fn new(values: usize) -> Self {
        let of = |connection| Books {
            rng: generator(connection),
            values: vec![None; values / CONNECTIONS],
            filled: 0,
            expected: Expected::Word(b""),
        };
        Self { texts: Texts::new(), connections: for_connections(of) }
    }

    fn set(&mut self, connection: usize, key: usize, out: &mut Vec<u8>) {
        let books = &mut self.connections[connection];
        let size = any_size(&mut books.rng);
        books.values[key] = Some(size);
        books.expected = Expected::Word(b"STORED");
        // Writing into memory does not fail.
        let _ = write!(out, "set value:{connection}:{key} 0 0 {size}\r\n");
        out.extend_from_slice(self.texts.of(key, size));
        out.extend_from_slice(b"\r\n");
    }
}

impl Load for Memcached {
    fn greet(&mut self, connection: usize, out: &mut Vec<u8>) {
        self.connections[connection].expected = Expected::Word(b"VERSION");
        out.extend_from_slice(b"version\r\n");
    }

    fn fill(&mut self, connection: usize, out: &mut Vec<u8>) -> bool {
        let books = &mut self.connections[connection];
        let key = books.filled;
        books.filled += 1;
        let is_left = key < books.values.len();
        if is_left {
            self.set(connection, key, out);
        }
        is_left
    }

    fn request(&mut self, connection: usize, out: &mut Vec<u8>) {
        let books = &mut self.connections[connection];
        let key = books.rng.usize(..books.values.len());
        match books.rng.u8(..10) {
            0..4 => self.set(connection, key, out),
            4..9 => {
                books.expected = books.values[key].map_or(Expected::Word(b"END"), |size| Expected::Value(key, size));
                let _ = write!(out, "get value:{connection}:{key}\r\n");
            }
            _ => {
                let was_there = books.values[key].take().is_some();
                books.expected = Expected::Word(if was_there { b"DELETED" } else { b"NOT_FOUND" });
                let _ = write!(out, "delete value:{connection}:{key}\r\n");
            }
        }
    }

    fn answer(&mut self, connection: usize, received: &[u8]) -> Result<Option<usize>> {
        let Some((answer, length)) = memcached(received)? else { return Ok(None) };
        match (&self.connections[connection].expected, answer) {
            (Expected::Word(expected), Answer::Word(word)) => {
                check("an answer", &word[..expected.len().min(word.len())], expected)?;
            }
            (Expected::Value(number, size), Answer::Value(value)) => {
                check("a value", value, self.texts.of(*number, *size))?;
            }
            (Expected::Word(expected), other) => bail!("expected {}, got {other:?}", String::from_utf8_lossy(expected)),
            (Expected::Value(_, size), other) => bail!("expected a value of {size} bytes, got {other:?}"),
        }
        Ok(Some(length))
    }
}
