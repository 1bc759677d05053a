//! Answers of servers, read from the bytes that have arrived: RESP, memcached's text protocol and HTTP/1.1.
//!
//! Each function returns an answer and its length in bytes; none if it is not complete yet; an error if it cannot become one.

use std::borrow::Cow;

use anyhow::{Context, Result, bail, ensure};
use httparse::Status;

/// An answer with its length.
pub type Read<T> = Result<Option<(T, usize)>>;

/// Headers that an answer may have.
const HEADERS: usize = 32;
/// Of a wrong answer, so many bytes are shown.
const SHOWN: usize = 120;

/// An answer in RESP, as far as the load asks for it.
#[derive(Debug, PartialEq)]
pub enum Resp<'a> {
    /// `+OK`.
    Simple(&'a [u8]),
    /// `:7`.
    Number(i64),
    /// A value, or that there is none.
    Bulk(Option<&'a [u8]>),
}

/// Reads an answer in RESP.
pub fn resp(bytes: &[u8]) -> Read<Resp<'_>> {
    let Some((line, end)) = line(bytes) else { return Ok(None) };
    let Some((kind, rest)) = line.split_first() else { bail!("an answer in RESP is an empty line") };
    match kind {
        b'+' => Ok(Some((Resp::Simple(rest), end))),
        b':' => Ok(Some((Resp::Number(number(rest)?), end))),
        b'$' if rest == b"-1" => Ok(Some((Resp::Bulk(None), end))),
        b'$' => Ok(block(bytes, end, number(rest)?)?.map(|(value, end)| (Resp::Bulk(Some(value)), end))),
        _ => bail!("expected an answer in RESP, got {}", shown(line)),
    }
}

/// An answer of memcached.
#[derive(Debug, PartialEq)]
pub enum Memcached<'a> {
    /// `STORED`, `DELETED`, `NOT_FOUND`, `END` or a version.
    Word(&'a [u8]),
    /// The value of the one key that was asked for.
    Value(&'a [u8]),
}

/// Reads an answer of memcached.
pub fn memcached(bytes: &[u8]) -> Read<Memcached<'_>> {
    let Some((line, end)) = line(bytes) else { return Ok(None) };
    let Some(header) = line.strip_prefix(b"VALUE ") else {
        ensure!(!line.windows(5).any(|word| word == b"ERROR"), "memcached says {}", shown(line));
        return Ok(Some((Memcached::Word(line), end)));
    };
    let length = header.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    let Some((value, end)) = block(bytes, end, number(length)?)? else { return Ok(None) };
    let Some((last, length)) = self::line(&bytes[end..]) else { return Ok(None) };
    ensure!(last == b"END", "expected END after a value, got {}", shown(last));
    Ok(Some((Memcached::Value(value), end + length)))
}

/// An answer in HTTP.
#[derive(Debug, PartialEq)]
pub struct Http<'a> {
    /// The status, such as 200.
    pub status: u16,
    /// Whether the body is compressed by gzip.
    pub is_gzip: bool,
    /// The body, of one piece.
    pub body: Cow<'a, [u8]>,
}

/// Reads an answer in HTTP whose length is given, or which comes in chunks.
pub fn http(bytes: &[u8]) -> Read<Http<'_>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut head = httparse::Response::new(&mut headers);
    let parsed = head.parse(bytes).with_context(|| format!("expected an answer in HTTP, got {}", shown(bytes)))?;
    let Status::Complete(start) = parsed else { return Ok(None) };
    let status = head.code.context("an answer in HTTP has no status")?;
    let header = |name: &str| head.headers.iter().find(|of| of.name.eq_ignore_ascii_case(name)).map(|of| of.value);
    let is_gzip = header("content-encoding") == Some(b"gzip");
    let of = |body, end| Some((Http { status, is_gzip, body }, end));
    if header("transfer-encoding") == Some(b"chunked") {
        let whole = chunks(&bytes[start..])?;
        return Ok(whole.and_then(|(body, length)| of(Cow::Owned(body), start + length)));
    }
    let length = header("content-length").context("an answer in HTTP has neither a length nor chunks")?;
    let end = start + usize::try_from(number(length)?)?;
    Ok(bytes.get(start..end).and_then(|body| of(Cow::Borrowed(body), end)))
}

/// The body whose chunks these are.
fn chunks(bytes: &[u8]) -> Read<Vec<u8>> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let Ok(parsed) = httparse::parse_chunk_size(rest) else { bail!("expected a chunk, got {}", shown(rest)) };
        let Status::Complete((start, size)) = parsed else { return Ok(None) };
        let Some((chunk, end)) = block(bytes, at + start, i64::try_from(size)?)? else { return Ok(None) };
        if size == 0 {
            return Ok(Some((body, end)));
        }
        body.extend_from_slice(chunk);
        at = end;
    }
}

/// A line without its end, and where the next one starts.
fn line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    Some((&bytes[..end], end + 2))
}

/// So many bytes and the end of a line, and where the next one starts.
fn block(bytes: &[u8], start: usize, length: i64) -> Read<&[u8]> {
    let end = start + usize::try_from(length).context("a length is negative")?;
    let Some(last) = bytes.get(end..end + 2) else { return Ok(None) };
    ensure!(last == b"\r\n", "after {length} bytes, expected the end of a line, got {}", shown(last));
    Ok(Some((&bytes[start..end], end + 2)))
}

fn number(text: &[u8]) -> Result<i64> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.with_context(|| format!("expected a number, got {}", shown(text)))
}

/// How an answer begins, for an error.
pub fn shown(bytes: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever part of an answer has arrived, it is not taken for the whole; and what comes behind it is left alone.
    #[track_caller]
    fn needs_all<'a, T: std::fmt::Debug + PartialEq>(read: impl Fn(&'a [u8]) -> Read<T>, whole: &'a str, expected: T) {
        let end = whole.len() - "next".len();
        for part in 0..end {
            assert_eq!(read(&whole.as_bytes()[..part]).unwrap(), None, "{part} bytes of {whole:?}");
        }
        assert_eq!(read(whole.as_bytes()).unwrap(), Some((expected, end)));
    }

    #[test]
    fn resp_is_read_once_it_is_complete() {
        needs_all(resp, "+OK\r\nnext", Resp::Simple(b"OK"));
        needs_all(resp, ":-12\r\nnext", Resp::Number(-12));
        needs_all(resp, "$-1\r\nnext", Resp::Bulk(None));
        needs_all(resp, "$4\r\na\r\nb\r\nnext", Resp::Bulk(Some(b"a\r\nb")));
        for wrong in ["-ERR unknown command\r\n", "\r\n", ":x\r\n", "$2\r\nabcd"] {
            assert!(resp(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn memcached_is_read_once_it_is_complete() {
        needs_all(memcached, "STORED\r\nnext", Memcached::Word(b"STORED"));
        needs_all(memcached, "END\r\nnext", Memcached::Word(b"END"));
        needs_all(memcached, "VALUE k 0 4\r\na\r\nb\r\nEND\r\nnext", Memcached::Value(b"a\r\nb"));
        for wrong in
            ["SERVER_ERROR out of memory storing object\r\n", "VALUE k 0 2\r\nabcd", "VALUE k 0 1\r\na\r\nNO\r\n"]
        {
            assert!(memcached(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn http_is_read_with_a_length_or_chunks() {
        let of = |status, is_gzip, body: &'static str| Http { status, is_gzip, body: Cow::Borrowed(body.as_bytes()) };
        needs_all(http, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\nnext", of(404, false, ""));
        let chunked = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\nnext";
        needs_all(http, chunked, of(200, true, "abc0123456789"));
        for wrong in
            ["+OK\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"]
        {
            assert!(http(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }
}
