//! The text protocol, in the form that redis made common. A command is an array of bulk strings; a reply is one of
//! several kinds, which its first byte tells:
//!
//! ```text
//!   *2\r\n $3\r\nGET\r\n $5\r\nkey:1\r\n       a command (without the spaces)
//!   +OK\r\n   -message\r\n   :17\r\n            a word, an error, a number
//!   $5\r\nhello\r\n   $-1\r\n   *2\r\n...        bytes, nothing, an array of replies
//! ```
//!
//! Parsers take what has arrived so far and return `None` if more has to come. They return what they parsed and how
//! many bytes that took.

use std::io::Write;

/// A command's name and arguments, each in a block of its own.
pub type Words = Vec<Box<[u8]>>;

/// A reply, as the client sees it.
#[derive(Debug, PartialEq)]
pub enum Reply {
    Word(String),
    Error(String),
    Number(i64),
    Bytes(Box<[u8]>),
    Nothing,
    Array(Vec<Reply>),
}

/// Writes a command.
pub fn write_command(out: &mut Vec<u8>, words: &[&[u8]]) {
    write_header(out, b'*', words.len() as i64);
    words.iter().for_each(|word| write_bytes(out, word));
}

/// Writes a bulk string.
pub fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_header(out, b'$', bytes.len() as i64);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Writes a line that is a kind and a number: a number as a reply, or the length of what follows.
pub fn write_header(out: &mut Vec<u8>, kind: u8, number: i64) {
    // Writing to a vector never fails.
    _ = write!(out, "{}{number}\r\n", char::from(kind));
}

/// Writes a line that is a kind and a text without line ends.
pub fn write_line(out: &mut Vec<u8>, kind: u8, text: &str) {
    _ = write!(out, "{}{text}\r\n", char::from(kind));
}

/// The command that the bytes begin with.
pub fn command(input: &[u8]) -> Result<Option<(Words, usize)>, String> {
    let Some((b'*', count, mut at)) = header(input)? else {
        return if input.first().is_none_or(|kind| *kind == b'*') {
            Ok(None)
        } else {
            Err("a command is an array".into())
        };
    };
    let mut words = Words::with_capacity(count.clamp(0, 64) as usize);
    for _ in 0..count {
        let Some((kind, length, taken)) = header(&input[at..])? else { return Ok(None) };
        if kind != b'$' || length < 0 {
            return Err("a command consists of bulk strings".into());
        }
        at += taken;
        let Some(bytes) = counted(&input[at..], length as usize) else { return Ok(None) };
        words.push(bytes.into());
        at += bytes.len() + 2;
    }
    Ok(Some((words, at)))
}

/// The reply that the bytes begin with.
pub fn reply(input: &[u8]) -> Result<Option<(Reply, usize)>, String> {
    let Some((kind, text, at)) = line(input) else { return Ok(None) };
    let text = String::from_utf8_lossy(text);
    match kind {
        b'+' => return Ok(Some((Reply::Word(text.into_owned()), at))),
        b'-' => return Ok(Some((Reply::Error(text.into_owned()), at))),
        _ => {}
    }
    let number: i64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    match kind {
        b':' => Ok(Some((Reply::Number(number), at))),
        b'$' if number < 0 => Ok(Some((Reply::Nothing, at))),
        b'$' => {
            let bytes = counted(&input[at..], number as usize);
            Ok(bytes.map(|bytes| (Reply::Bytes(bytes.into()), at + bytes.len() + 2)))
        }
        b'*' => array(input, number, at),
        _ => Err(format!("no reply begins with {kind}")),
    }
}

fn array(input: &[u8], count: i64, mut at: usize) -> Result<Option<(Reply, usize)>, String> {
    let mut replies = Vec::with_capacity(count.clamp(0, 64) as usize);
    for _ in 0..count {
        let Some((inner, taken)) = reply(&input[at..])? else { return Ok(None) };
        replies.push(inner);
        at += taken;
    }
    Ok(Some((Reply::Array(replies), at)))
}

/// A line's kind and number, and its length.
fn header(input: &[u8]) -> Result<Option<(u8, i64, usize)>, String> {
    let Some((kind, text, length)) = line(input) else { return Ok(None) };
    let number = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    let number = number.ok_or_else(|| format!("`{}` is no number", String::from_utf8_lossy(text)))?;
    Ok(Some((kind, number, length)))
}

/// A line's first byte and its rest without the line end, and its length with it.
fn line(input: &[u8]) -> Option<(u8, &[u8], usize)> {
    let end = input.iter().position(|byte| *byte == b'\n')?;
    let text = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
    let (kind, rest) = text.split_first()?;
    Some((*kind, rest, end + 1))
}

/// So many bytes, if they and the line end after them are there.
fn counted(input: &[u8], length: usize) -> Option<&[u8]> {
    (input.len() >= length + 2).then(|| &input[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_comes_back_whole_and_only_when_it_is_whole() {
        let mut bytes = Vec::new();
        write_command(&mut bytes, &[b"SET", b"a key", b"with\r\nlines", b""]);
        for length in 0..bytes.len() {
            assert_eq!(command(&bytes[..length]), Ok(None), "{length} bytes");
        }
        let whole = bytes.len();
        bytes.extend_from_slice(b"*1\r\n");
        let (words, taken) = command(&bytes).expect("it is well-formed").expect("it is whole");
        assert_eq!(
            words.iter().map(|word| &word[..]).collect::<Vec<_>>(),
            [&b"SET"[..], b"a key", b"with\r\nlines", b""]
        );
        assert_eq!(taken, whole);
    }

    #[test]
    fn replies_nest() {
        let bytes = b"*4\r\n:-3\r\n$2\r\nab\r\n*1\r\n$-1\r\n+OK\r\n-oops\r\n";
        let inner = vec![
            Reply::Number(-3),
            Reply::Bytes(b"ab"[..].into()),
            Reply::Array(vec![Reply::Nothing]),
            Reply::Word("OK".into()),
        ];
        let (first, taken) = reply(bytes).expect("it is well-formed").expect("it is whole");
        assert_eq!(first, Reply::Array(inner));
        assert_eq!(reply(&bytes[taken..]), Ok(Some((Reply::Error("oops".into()), 7))));
        for length in 0..taken {
            assert_eq!(reply(&bytes[..length]), Ok(None), "{length} bytes");
        }
    }

    #[test]
    fn what_is_no_command_is_refused() {
        for bytes in [&b"GET x\r\n"[..], b"*x\r\n", b"*1\r\n:3\r\n", b"*1\r\n$-1\r\n"] {
            assert!(command(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
    }
}
