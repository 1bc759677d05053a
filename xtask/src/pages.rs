//! Which pages a program and its fork children fault in under the library, and which function touches each first.
//!
//! `perf` sees the faults. The library is built once more, with symbols. A page of a file can be shared; an anonymous one
//! is the process's own. A fork child faults again in each page that it writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Groups that are printed.
const MOST: usize = 40;

/// A page fault: in which process, where, and by whom.
#[derive(Debug, PartialEq, Eq)]
struct Fault<'a> {
    command: &'a str,
    process: u32,
    memory: &'a str,
    function: &'a str,
}

/// Prints the faults of a command.
pub fn run(root: &Path, command: &[String]) -> Result<(), String> {
    let target = root.join("target/pages");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--release", "--quiet", "--package", "malloc", "--target-dir"]).arg(&target);
    build.args(["--config", "profile.release.strip=\"none\""]).current_dir(root);
    succeeds(&mut build)?;
    let (library, data) = (target.join("release/libcommensal.so"), target.join("faults"));
    let mut record = Command::new("perf");
    record.args(["record", "--quiet", "--event", "page-faults", "--count", "1", "--data", "--output"]).arg(&data);
    record.arg("env").arg(format!("LD_PRELOAD={}", library.display())).args(command);
    succeeds(&mut record)?;
    let mut script = Command::new("perf");
    script.args(["script", "--fields", "comm,pid,addr,ip,sym,dso", "--input"]).arg(&data);
    let output = script.output().map_err(|error| why_not(&script, &error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // `env` is the same process before it becomes the command.
    let faults: Vec<_> = text.lines().filter_map(parsed).filter(|fault| fault.command != "env").collect();
    let first = faults.first().ok_or("perf saw no page fault; is it allowed to (kernel.perf_event_paranoid)?")?.process;
    let (own, children): (Vec<_>, Vec<_>) = faults.iter().partition(|fault| fault.process == first);
    print("the program", &own, 1);
    let mut processes: Vec<_> = children.iter().map(|fault| fault.process).collect();
    processes.sort_unstable();
    processes.dedup();
    if !processes.is_empty() {
        print(&format!("a child, of {}", processes.len()), &children, processes.len());
    }
    Ok(())
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| why_not(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}

fn why_not(command: &Command, error: &std::io::Error) -> String {
    format!("{command:?} cannot be run: {error}; perf is in Debian's package linux-perf")
}

/// A line of `perf script`: the command, its number, and twice an address, a symbol and the file in parentheses.
fn parsed(line: &str) -> Option<Fault<'_>> {
    let (command, rest) = line.trim_start().split_once(' ')?;
    let (process, rest) = rest.trim_start().split_once(' ')?;
    let (at, by) = rest.char_indices().filter(|&(_, sign)| sign == ')').find_map(|(end, _)| {
        let (at, by) = (rest[..end].trim(), rest[end + 1..].trim());
        let address = by.split(' ').next()?;
        (address.len() > 4 && u64::from_str_radix(address, 16).is_ok()).then_some((at, by))
    })?;
    let memory = at.rsplit_once('(')?.1;
    let function = by.split_once(' ')?.1.trim();
    Some(Fault { command, process: process.parse().ok()?, memory: memory.rsplit('/').next()?, function })
}

fn print(who: &str, faults: &[&Fault<'_>], processes: usize) {
    let mut groups = BTreeMap::<(&str, &str), usize>::new();
    faults.iter().for_each(|fault| *groups.entry((fault.memory, fault.function)).or_default() += 1);
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let per_process = |count: usize| count as f64 / processes as f64;
    println!("{who}: {:.1} page faults", per_process(faults.len()));
    for &((memory, function), count) in groups.iter().take(MOST) {
        println!("{:8.1}  {memory:24} {function}", per_process(count));
    }
    if let Some(rest) = groups.get(MOST..).filter(|rest| !rest.is_empty()) {
        println!("{:8.1}  others", per_process(rest.iter().map(|group| group.1).sum()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_perf_are_understood() {
        let line =
            "            dash  5138     7f4ea7089692 [unknown] (//anon)     7f4ea701679c malloc (/a b/libcommensal.so)";
        let fault = Fault { command: "dash", process: 5138, memory: "anon", function: "malloc (/a b/libcommensal.so)" };
        assert_eq!(parsed(line), Some(fault));
        let generic = "sh 7 56486308b7c8 [unknown] ([heap]) 56486306e5a4 <a::B as C<(u8, u8)>>::d (inlined) (/x.so)";
        let fault = parsed(generic).expect("it is a fault");
        assert_eq!((fault.memory, fault.function), ("[heap]", "<a::B as C<(u8, u8)>>::d (inlined) (/x.so)"));
        for wrong in ["", "dash", "dash x 12 (a) 3456789 f (b)", "dash 5 7f4ea7089692 [unknown]"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
