//! The server thread: one connection, whose commands are executed as they arrive.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use super::command::execute;
use super::keyspace::Keyspace;
use super::protocol;

const CHUNK: usize = 32 << 10;

/// Answers commands until the client closes the connection.
pub fn serve(mut connection: UnixStream) -> io::Result<()> {
    let mut keyspace = Keyspace::default();
    let (mut input, mut replies) = (Vec::with_capacity(2 * CHUNK), Vec::new());
    while read_more(&mut connection, &mut input)? {
        let mut taken = 0;
        while let Some((words, length)) = protocol::command(&input[taken..]).map_err(io::Error::other)? {
            taken += length;
            execute(&mut keyspace, words, &mut replies);
        }
        input.drain(..taken);
        connection.write_all(&replies)?;
        replies.clear();
    }
    Ok(())
}

/// Appends what has arrived, at least one byte. Whether anything will still arrive.
fn read_more(connection: &mut UnixStream, input: &mut Vec<u8>) -> io::Result<bool> {
    let length = input.len();
    input.resize(length + CHUNK, 0);
    let count = connection.read(&mut input[length..])?;
    input.truncate(length + count);
    Ok(count > 0)
}
