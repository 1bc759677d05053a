//! A process that forks and reads pipes, as a shell does for `a=$(turn $(generate))`: the child of a child writes words,
//! the child turns each round, and the shell keeps the answer in a variable.
//!
//! Every process works with memory that it has from its parent, so that what a child frees or allocates copies pages.

use std::collections::BTreeMap;
use std::io::{Error, PipeWriter, Read, Write, pipe};

use crate::frame::{Scale, mix_bytes};

const LINES: u64 = 1200;
const WORDS: u64 = 40;
const VARIABLES: u64 = 50;

/// Runs it: the checksum of all answers.
pub fn run(scale: Scale) -> u64 {
    let mut variables: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    (0..scale.of(LINES)).fold(0, |sum, line| {
        let words = || -> Vec<String> { (0..WORDS).map(|word| format!("word-{}", line * WORDS + word)).collect() };
        let generated = || substituted(|out| out.write_all(words().join(" ").as_bytes()));
        let answer = substituted(|out| {
            let text = String::from_utf8(generated()).expect("it is text");
            let turned: Vec<String> = text.split(' ').map(|word| word.chars().rev().collect()).collect();
            out.write_all(turned.join("\n").as_bytes())
        });
        let sum = mix_bytes(sum, &answer);
        variables.insert(format!("variable_{}", line % VARIABLES), answer);
        sum
    })
}

/// What a child process writes, as `$(…)` has it.
fn substituted(work: impl FnOnce(&mut PipeWriter) -> Result<(), Error>) -> Vec<u8> {
    let (mut reader, mut writer) = pipe().expect("a pipe can be made");
    // SAFETY: the child calls malloc, which the C library keeps usable after a fork, and ends without running what
    // belongs to its parent.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "a child can be made: {}", Error::last_os_error());
    if child == 0 {
        drop(reader);
        let done = work(&mut writer);
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(done.is_err())) }
    }
    drop(writer);
    let mut written = Vec::new();
    reader.read_to_end(&mut written).expect("the pipe can be read");
    let mut status = 0;
    // SAFETY: waits for the child, and writes the status.
    let ended = unsafe { libc::waitpid(child, &mut status, 0) };
    assert!(ended == child && status == 0, "the child ended with wait status {status:#x}");
    written
}
