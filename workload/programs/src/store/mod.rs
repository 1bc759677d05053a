//! A key-value server in memory and its client: values of all sizes are replaced, grow, shrink and expire at random.
//!
//! ```text
//!   client thread ── batches of commands, as bytes ──▶ server thread: protocol ─▶ command ─▶ keyspace ─▶ value
//!                 ◀───────── their replies ───────────
//! ```
//!
//! The server parses each command into blocks of its own and keeps those that are values, so most blocks that one
//! command allocates are freed by a much later one. The client prepares the next batch while the server works on the
//! last. It stands for redis. glibc's malloc and free take a seventh of its time, the kernel a third.

mod client;
mod command;
mod compose;
mod keyspace;
mod protocol;
mod server;
mod sorted_set;
mod value;

use std::os::unix::net::UnixStream;
use std::thread;

use crate::scale::Scale;

const BATCHES: u64 = 3500;

/// Runs it: all replies, in their order.
pub fn run(scale: Scale) -> u64 {
    let (ours, theirs) = UnixStream::pair().expect("a process may have two more files");
    thread::scope(|scope| {
        scope.spawn(move || server::serve(theirs).expect("the client reads all replies"));
        client::run(ours, scale.of(BATCHES)).expect("the server answers every command")
    })
}
