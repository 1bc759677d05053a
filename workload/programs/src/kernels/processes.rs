//! Processes: one that forks, as a shell does, and many that live for a moment.

use std::collections::BTreeMap;
use std::io::{Error, PipeWriter, Read, Write, pipe};
use std::process::{Command, Stdio};

use crate::frame::{Scale, mix, mix_bytes};
use crate::table::Child;

const LINES: u64 = 1200;
const WORDS: u64 = 40;
const VARIABLES: u64 = 50;

/// A process that forks and reads pipes, as a shell does for `a=$(turn $(generate))`: the child of a child writes
/// words, the child turns each round, and the shell keeps the answer in a variable. Every process works with memory
/// that it has from its parent, so that what a child frees or allocates copies pages. The checksum of all answers.
pub fn shell(scale: Scale) -> u64 {
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

/// What a child is called in the place of a kernel's name; a number follows.
pub const CHILD: &str = "short-lived-child";

const CHILDREN: u64 = 250;
const TARGETS: u64 = 300;

const CONFIGURATION: &str = "\
prefix = /usr/local
exec_prefix = ${prefix}
bindir = ${exec_prefix}/bin
libdir = ${exec_prefix}/lib
docdir = ${prefix}/share/doc/${package}
package = example
version = 4.12.1
flags = -O2 -g -Wall -I${prefix}/include -DVERSION=${version}
library = lib${package}.so.${version}
compile = cc ${flags} -c
link = cc -shared -L${libdir} -o ${libdir}/${library}
";

/// Short-lived processes, one after the other, as configure scripts and build systems have them: most of what they ask
/// of an allocator is to start. The children are this program itself, started again; so the time holds their fork, exec
/// and dynamic linking, which no allocator can spare. `child` has a child with the given number do its work, and
/// returns its checksum. In the real program that is [`spawned`]; a test may call [`child_sum`] in its own process.
pub fn short_lived(scale: Scale, child: Child<'_>) -> u64 {
    (0..scale.of(CHILDREN)).fold(0, |sum, number| mix(sum, child(number)))
}

/// Starts this program again as a child, `prefix` being the words before the name, and reads its checksum.
pub fn spawned(prefix: &[&str], number: u64) -> u64 {
    // The kernel's name for this program, which stays true if the file is moved or replaced.
    let mut command = Command::new("/proc/self/exe");
    command.args(prefix).arg(CHILD).arg(number.to_string()).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().unwrap_or_else(|why| panic!("{command:?} can't be started: {why}"));
    assert!(output.status.success(), "{command:?} ended with {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    u64::from_str_radix(text.trim_end(), 16).unwrap_or_else(|_| panic!("{command:?} printed {text:?}, not a checksum"))
}

/// What a child does, a small tool that reads a configuration, expands its variables, formats names, sorts them and
/// prints a checksum: that of its sorted targets.
pub fn child_sum(number: u64) -> u64 {
    let settings: BTreeMap<String, String> = CONFIGURATION
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut targets: Vec<String> = (0..TARGETS).map(|target| recipe(&settings, mix(number, target))).collect();
    targets.sort();
    targets.dedup();
    targets.iter().fold(0, |sum, target| mix_bytes(sum, target.as_bytes()))
}

/// The path of some target and how it is made.
fn recipe(settings: &BTreeMap<String, String>, random: u64) -> String {
    let directory = ["bindir", "libdir", "docdir"][(random % 3) as usize];
    let rule = ["compile", "link"][(random >> 2 & 1) as usize];
    let name = random >> 52;
    expanded(settings, &format!("${{{directory}}}/part-{name:03}.o <- ${{{rule}}} part-{name}.c"))
}

/// The text with each `${name}` replaced by its value, which may have such names itself. Unknown names are empty.
fn expanded(settings: &BTreeMap<String, String>, text: &str) -> String {
    let Some((before, rest)) = text.split_once("${") else {
        return text.to_owned();
    };
    let (name, after) = rest.split_once('}').unwrap_or((rest, ""));
    let value = settings.get(name).map(|value| expanded(settings, value)).unwrap_or_default();
    format!("{before}{value}{}", expanded(settings, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_asked_once_each_and_their_answers_count() {
        let mut asked = Vec::new();
        let scale = Scale::from_percent(4).expect("it is in range");
        let sum = short_lived(scale, &mut |number| {
            asked.push(number);
            number
        });
        assert!(asked.into_iter().eq(0..scale.of(CHILDREN)));
        assert_ne!(sum, short_lived(scale, &mut |_| 0));
        assert_ne!(child_sum(1), child_sum(2));
    }
}
