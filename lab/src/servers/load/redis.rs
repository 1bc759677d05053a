//! Redis: values that are set to other sizes, read and deleted; fields of hashes; lists that grow and shrink.

use std::collections::VecDeque;
use std::io::Write;

use anyhow::{Result, bail};
use fastrand::Rng;

use super::{Load, Texts, any_size, check, for_connections, generator};
use crate::servers::driver::CONNECTIONS;
use crate::servers::protocol::{Resp, resp};

/// Of each connection.
const LISTS: usize = 8;
/// A list with so many values only shrinks.
const LONGEST_LIST: usize = 500;
/// Fields of a hash.
const FIELDS: usize = 32;
/// Of all values, one part in so many is in hashes.
const OF_HASHES: usize = 4;

/// The load.
pub struct Redis {
    texts: Texts,
    connections: Vec<Books>,
}

/// What the server holds of a connection.
struct Books {
    rng: Rng,
    /// Sizes of values by key; none for one that is not there.
    values: Vec<Option<usize>>,
    /// Likewise, of fields: that many are in each hash.
    fields: Vec<Option<usize>>,
    lists: Vec<VecDeque<usize>>,
    filled: usize,
    expected: Expected,
}

enum Expected {
    Word(&'static [u8]),
    Number(usize),
    /// The text of this number with so many bytes.
    Value(usize, Option<usize>),
}

impl Redis {
    /// With so many values in all.
    pub fn new(values: usize) -> Self {
        let each = values / CONNECTIONS;
        let fields = each / OF_HASHES;
        let of = |connection| Books {
            rng: generator(connection),
            values: vec![None; each - fields],
            fields: vec![None; fields.max(1)],
            lists: vec![VecDeque::new(); LISTS],
            filled: 0,
            expected: Expected::Word(b""),
        };
        Self { texts: Texts::new(), connections: for_connections(of) }
    }

    fn set(&mut self, connection: usize, key: usize, out: &mut Vec<u8>) {
        let books = &mut self.connections[connection];
        let size = any_size(&mut books.rng);
        books.values[key] = Some(size);
        books.expected = Expected::Word(b"OK");
        command(out, &[b"SET", &name("value", connection, key), self.texts.of(key, size)]);
    }

    fn set_field(&mut self, connection: usize, field: usize, out: &mut Vec<u8>) {
        let books = &mut self.connections[connection];
        let size = any_size(&mut books.rng);
        let is_new = books.fields[field].replace(size).is_none();
        books.expected = Expected::Number(usize::from(is_new));
        let [hash, field_name] = hash_of(connection, field);
        command(out, &[b"HSET", &hash, &field_name, self.texts.of(field, size)]);
    }

    fn change_list(&mut self, connection: usize, out: &mut Vec<u8>) {
        let books = &mut self.connections[connection];
        let at = books.rng.usize(..LISTS);
        let (key, list) = (name("list", connection, at), &mut books.lists[at]);
        if list.len() < LONGEST_LIST && books.rng.bool() {
            let size = any_size(&mut books.rng);
            list.push_back(size);
            books.expected = Expected::Number(list.len());
            command(out, &[b"RPUSH", &key, self.texts.of(at, size)]);
        } else {
            books.expected = Expected::Value(at, list.pop_front());
            command(out, &[b"LPOP", &key]);
        }
    }
}

impl Load for Redis {
    fn greet(&mut self, connection: usize, out: &mut Vec<u8>) {
        self.connections[connection].expected = Expected::Word(b"PONG");
        command(out, &[b"PING"]);
    }

    fn fill(&mut self, connection: usize, out: &mut Vec<u8>) -> bool {
        let books = &mut self.connections[connection];
        let (at, values) = (books.filled, books.values.len());
        books.filled += 1;
        match at.checked_sub(values) {
            None => self.set(connection, at, out),
            Some(field) if field < books.fields.len() => self.set_field(connection, field, out),
            Some(_) => return false,
        }
        true
    }

    fn request(&mut self, connection: usize, out: &mut Vec<u8>) {
        let books = &mut self.connections[connection];
        let (key, field) = (books.rng.usize(..books.values.len()), books.rng.usize(..books.fields.len()));
        let [hash, field_name] = hash_of(connection, field);
        match books.rng.u8(..20) {
            0..6 => self.set(connection, key, out),
            6..11 => {
                books.expected = Expected::Value(key, books.values[key]);
                command(out, &[b"GET", &name("value", connection, key)]);
            }
            11..13 => {
                books.expected = Expected::Number(usize::from(books.values[key].take().is_some()));
                command(out, &[b"DEL", &name("value", connection, key)]);
            }
            13..15 => self.set_field(connection, field, out),
            15 => {
                books.expected = Expected::Value(field, books.fields[field]);
                command(out, &[b"HGET", &hash, &field_name]);
            }
            16 => {
                books.expected = Expected::Number(usize::from(books.fields[field].take().is_some()));
                command(out, &[b"HDEL", &hash, &field_name]);
            }
            _ => self.change_list(connection, out),
        }
    }

    fn answer(&mut self, connection: usize, received: &[u8]) -> Result<Option<usize>> {
        let Some((answer, length)) = resp(received)? else { return Ok(None) };
        match (&self.connections[connection].expected, answer) {
            (Expected::Word(expected), Resp::Simple(word)) => check("an answer", word, expected)?,
            (Expected::Number(expected), Resp::Number(number)) if *expected as i64 == number => {}
            (Expected::Value(number, Some(size)), Resp::Bulk(Some(value))) => {
                check("a value", value, self.texts.of(*number, *size))?;
            }
            (Expected::Value(_, None), Resp::Bulk(None)) => {}
            (Expected::Number(expected), other) => bail!("expected {expected}, got {other:?}"),
            (Expected::Word(expected), other) => bail!("expected {}, got {other:?}", String::from_utf8_lossy(expected)),
            (Expected::Value(_, size), other) => bail!("expected a value of {size:?} bytes, got {other:?}"),
        }
        Ok(Some(length))
    }
}

fn name(kind: &str, connection: usize, number: usize) -> Vec<u8> {
    format!("{kind}:{connection}:{number}").into_bytes()
}

/// A field's hash, and its name there.
fn hash_of(connection: usize, field: usize) -> [Vec<u8>; 2] {
    [name("hash", connection, field / FIELDS), format!("field:{}", field % FIELDS).into_bytes()]
}

fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    // Writing into memory does not fail.
    let _ = write!(out, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(out, "${}\r\n", word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}
