//! The command line: `NAME [PERCENT]` for a workload, `NAME [ARGUMENTS]` for a probe.
//!
//! Nothing here starts a thread, and hardly anything is allocated before the program itself runs: what is measured is
//! the program.

use std::process::ExitCode;

use crate::scale::Scale;
use crate::short_lived;
use crate::suite::{ALL, PROBES, find};

/// Runs the workload or probe that the arguments name, and prints its checksum as 16 hexadecimal digits, or the probe's
/// figures.
///
/// The arguments are NAME and, for a workload, optionally how many percent of the full work to do, from 1 to 1000; a
/// probe has arguments of its own. Anything else is explained in one line on standard error, and the exit status is 2.
///
/// `prefix` has the words that stood before NAME on this process's command line, without the name of the program
/// itself. A workload that starts the program again gives them to its children, so that they arrive here, too.
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
    if let Some(workload) = find(name) {
        let scale = scale(rest)?;
        print(workload.run(scale, &mut |number| short_lived::spawned(prefix, number)));
        return Ok(());
    }
    if let Some(probe) = PROBES.iter().find(|probe| probe.name == name) {
        return (probe.run)(rest).map_err(|why| format!("{name}: {why}"));
    }
    if name == short_lived::CHILD {
        print(short_lived::tool(child_number(rest)?));
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

fn child_number(rest: &[String]) -> Result<u64, String> {
    match rest {
        [word] => word.parse().map_err(|_| format!("the child's number is `{word}`; expected a number")),
        _ => Err(format!("{} arguments follow; expected the child's number", rest.len())),
    }
}

fn names() -> String {
    let names = ALL.iter().map(|workload| workload.name).chain(PROBES.iter().map(|probe| probe.name));
    format!("one of {}", names.collect::<Vec<_>>().join(", "))
}

fn print(checksum: u64) {
    println!("{checksum:016x}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(words: &[&str]) -> String {
        let arguments: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        dispatch(&[], &arguments).expect_err("these arguments are bad")
    }

    #[test]
    fn an_unknown_name_is_answered_with_all_that_are_known() {
        for line in [refused(&["larsson"]), refused(&[])] {
            let known = ALL.iter().map(|workload| workload.name).chain(["pair", "threads-placed", "server"]);
            for name in known {
                assert!(line.contains(name), "{name} is missing: {line}");
            }
            assert!(!line.contains('\n'), "one line: {line:?}");
            assert!(!line.contains(short_lived::CHILD), "hidden: {line}");
        }
        assert!(refused(&["larsson"]).contains("`larsson`"));
    }

    #[test]
    fn a_bad_percentage_is_named() {
        for percent in ["0", "1001", "-5", "ten", "", "5%", "99999999999"] {
            let line = refused(&["lifo", percent]);
            assert!(line.contains(&format!("`{percent}`")) && line.contains("1 to 1000"), "{line}");
        }
    }

    #[test]
    fn a_third_word_is_too_many() {
        assert!(refused(&["lifo", "10", "twice"]).contains("`twice`"));
    }

    #[test]
    fn a_child_needs_its_number() {
        for words in [&[short_lived::CHILD][..], &[short_lived::CHILD, "x"], &[short_lived::CHILD, "1", "2"]] {
            assert!(refused(words).contains("number"));
        }
    }

    #[test]
    fn bad_usage_ends_with_status_2() {
        // ExitCode has no comparison of its own.
        let status = main(&[], ["nothing".to_owned()].into_iter());
        assert_eq!(format!("{status:?}"), format!("{:?}", ExitCode::from(2)));
    }
}
