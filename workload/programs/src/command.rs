//! The command line: `NAME [PERCENT]` for a kernel, `NAME [ARGUMENTS]` for a probe.
//!
//! Nothing here starts a thread, and hardly anything is allocated before the program itself runs: what is measured is
//! the program.

use std::process::ExitCode;

use crate::frame::Scale;
use crate::kernels::processes;
use crate::table::{KERNELS, PROBES, Probe, find};

/// Runs the kernel or probe that the arguments name, and prints its checksum as 16 hexadecimal digits, or the probe's
/// figures.
///
/// The arguments are NAME and, for a kernel, optionally how many percent of the full work to do, from 1 to 1000; a
/// probe has arguments of its own. Anything else is explained in one line on standard error, and the exit status is 2.
///
/// `prefix` has the words that stood before NAME on this process's command line, without the name of the program
/// itself. A kernel that starts the program again gives them to its children, so that they arrive here, too.
pub fn main(prefix: &[&str], arguments: impl Iterator<Item = String>) -> ExitCode {
    let arguments: Vec<String> = arguments.collect();
    match dispatch(prefix, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("workload: {why}");
            ExitCode::from(2)
        }
    }
}

fn dispatch(prefix: &[&str], arguments: &[String]) -> Result<(), String> {
    let (name, rest) = arguments.split_first().ok_or_else(|| format!("no name is given; expected {}", names()))?;
    if let Some(kernel) = find(name) {
        let scale = scale(rest)?;
        print(kernel.run(scale, &mut |number| processes::spawned(prefix, number)));
        return Ok(());
    }
    if let Some(probe) = PROBES.iter().find(|probe| probe.name == name) {
        return (probe.run)(rest).map_err(|why| format!("{name}: {why}"));
    }
    if name == processes::CHILD {
        let number = rest.first().and_then(|word| word.parse().ok());
        print(processes::child_sum(number.ok_or("expected the child's number")?));
        return Ok(());
    }
    Err(format!("the name is `{name}`; expected {}", names()))
}

fn scale(rest: &[String]) -> Result<Scale, String> {
    let (first, last) = (Scale::RANGE.start(), Scale::RANGE.end());
    match rest {
        [] => Ok(Scale::FULL),
        [word] => word
            .parse()
            .ok()
            .and_then(Scale::from_percent)
            .ok_or_else(|| format!("the percentage is `{word}`; expected a number from {first} to {last}")),
        [_, more, ..] => Err(format!("`{more}` is one argument too many; expected NAME [PERCENT]")),
    }
}

/// What the programs are, their arguments, and what they print.
pub fn help() -> String {
    let kernels = KERNELS.iter().map(|kernel| format!("  {:20} {}\n", kernel.name, kernel.about));
    let probe = |probe: &Probe| {
        let about = probe.about.replace('\n', "\n      ");
        format!("  {} {}\n      {about}\n", probe.name, probe.arguments)
    };
    format!(
        "\
Programs that do a fixed amount of work: NAME [PERCENT]
  PERCENT is how much of the full work to do, 1 to 1000 (default 100, about half a second). The line that is
  printed is a checksum of what the program read back from its memory, 16 hexadecimal digits. It is the same
  under every allocator: another one means that blocks overlapped or lost their contents. The programs print
  no times; `commensal compare -- commensal workload NAME` measures time and memory.

{}
Programs that measure themselves and print figures:
{}",
        kernels.collect::<String>(),
        PROBES.iter().map(probe).collect::<String>()
    )
}

fn names() -> String {
    let names = KERNELS.iter().map(|kernel| kernel.name).chain(PROBES.iter().map(|probe| probe.name));
    format!("one of {}; see commensal workload --help", names.collect::<Vec<_>>().join(", "))
}

fn print(checksum: u64) {
    println!("{checksum:016x}");
}
