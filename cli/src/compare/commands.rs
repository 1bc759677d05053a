//! `--command`: any commands, side by side. A command is split into words as a shell does it, and started without a
//! shell, whose own time would be in the figures. A command that needs one names it: `sh -c '…'`.

use std::ffi::OsStr;

use lab::arm::Arm;
use lab::blocks::Subject;
use lab::process::Program;

use crate::arms::{check_names, named};
use crate::failure::Failure;
use crate::program;

/// A command with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    name: String,
    words: Vec<String>,
}

/// Reads `NAME=CMD`; for clap.
pub fn command(text: &str) -> Result<Named, String> {
    let expected = "expected NAME=CMD, such as old='./old --fast'";
    let (name, line) = named(text).map_err(|_| expected.to_owned())?;
    let words = shell_words::split(&line).map_err(|error| format!("{error}; {expected}"))?;
    if words.is_empty() { Err(expected.to_owned()) } else { Ok(Named { name, words }) }
}

/// The names of all commands.
pub fn names(commands: &[Named]) -> Vec<String> {
    commands.iter().map(|command| command.name.clone()).collect()
}

impl Named {
    /// The subject that the arms replace. Different programs print different things.
    pub fn subject(&self) -> Subject {
        Subject { prints_the_same: false, ..Subject::of_program("", Program::new(&self.words[0], &self.words)) }
    }
}

/// An arm for each command, the first as the baseline.
pub fn arms(commands: &[Named]) -> Result<Vec<Arm>, Failure> {
    if commands.len() == 1 {
        return Err(Failure::usage("--command: one command has nothing to be compared with; add another --command"));
    }
    let arm = |Named { name, words }: &Named| {
        let path = program::resolve(OsStr::new(&words[0]))?;
        Ok(Arm::command(name, path, words.iter().map(Into::into).collect()))
    };
    let arms = commands.iter().map(arm).collect::<Result<Vec<_>, _>>()?;
    check_names(&arms)?;
    Ok(arms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_split_as_by_a_shell() {
        let of = |text| command(text).map(|command| command.words);
        assert_eq!(of("a=sort -k 'x y' z=1").unwrap(), ["sort", "-k", "x y", "z=1"]);
        for wrong in ["a", "=true", "a=", "a= ", "a='x"] {
            assert!(of(wrong).unwrap_err().contains("expected NAME=CMD"), "{wrong}");
        }
    }
}
