//! The client thread: it writes commands in batches, and reads the replies of one while it prepares the next.
//!
//! At most one batch is under way, and it is smaller than any socket's buffer: the client never waits with its writing
//! for a server that waits with its own.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use super::compose::Composer;
use super::protocol::{self, Reply};
use crate::checksum::{mix, mix_bytes};

const CHUNK: usize = 32 << 10;

/// Sends so many batches, and mixes their replies.
pub fn run(mut connection: UnixStream, batches: u64) -> io::Result<u64> {
    let mut composer = Composer::new();
    let mut input = Vec::with_capacity(2 * CHUNK);
    let mut sum = 0;
    let mut batch = composer.batch();
    for _ in 0..batches {
        connection.write_all(&batch.bytes)?;
        let expected = batch.commands;
        batch = composer.batch();
        for reply in replies(&mut connection, &mut input, expected)? {
            sum = mixed(sum, &reply);
        }
    }
    Ok(sum)
}

/// Reads so many replies.
fn replies(connection: &mut UnixStream, input: &mut Vec<u8>, expected: usize) -> io::Result<Vec<Reply>> {
    let mut replies = Vec::with_capacity(expected);
    let mut taken = 0;
    while replies.len() < expected {
        match protocol::reply(&input[taken..]).map_err(io::Error::other)? {
            Some((reply, length)) => {
                replies.push(reply);
                taken += length;
            }
            None => {
                let length = input.len();
                input.resize(length + CHUNK, 0);
                let count = connection.read(&mut input[length..])?;
                input.truncate(length + count);
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }
    input.drain(..taken);
    Ok(replies)
}

fn mixed(sum: u64, reply: &Reply) -> u64 {
    match reply {
        Reply::Word(text) => mix_bytes(sum, text.as_bytes()),
        Reply::Error(why) => panic!("the server refused a command: {why}"),
        Reply::Number(number) => mix(sum, *number as u64),
        Reply::Bytes(bytes) => mix_bytes(sum, bytes),
        Reply::Nothing => mix(sum, u64::MAX),
        Reply::Array(replies) => replies.iter().fold(mix(sum, replies.len() as u64), mixed),
    }
}
