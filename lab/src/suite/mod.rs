//! The programs of `compare --suite`: small allocation kernels, and installed real programs. Both are subjects for
//! [`measure`](crate::blocks::measure).
//!
//! The `commensal` command runs a kernel. A real program is a shell script with one argument: `prepare` makes its input, once
//! and outside of the measurement; `run` does a fixed amount of work and prints the same each time. The script finds its
//! program in `$PROGRAM` and runs in a folder of its own.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use programs::KERNELS;
use serde::Serialize;

use crate::blocks::{Measured, Subject};
use crate::process::Program;

/// The kernels, of which the command does so many percent of the full work.
pub fn kernels(command: &Path, percent: u32) -> Vec<Subject> {
    let words = |name: &str| ["commensal", "workload", name, &percent.to_string()].map(str::to_owned);
    let subject = |name: &str| Subject::of_program(name, Program::new(command, words(name)));
    KERNELS.iter().map(|kernel| subject(kernel.name)).collect()
}

/// A real program.
struct Real {
    name: &'static str,
    /// The commands that its script needs, the measured one first, and the Debian packages that bring them.
    needs: &'static [(&'static str, &'static str)],
    /// What makes it print its version; nothing for one that cannot.
    version: &'static [&'static str],
    script: &'static str,
}

/// One that is called as the first command that it needs.
const fn real(needs: &'static [(&'static str, &'static str)], script: &'static str) -> Real {
    Real { name: needs[0].0, needs, version: &["--version"], script }
}

const REAL: [Real; 10] = [
    Real { version: &[], ..real(&[("sh", "dash")], include_str!("sh.sh")) },
    real(&[("git", "git")], include_str!("git.sh")),
    real(&[("gcc", "gcc"), ("g++", "g++")], include_str!("compiler.sh")),
    real(&[("clang", "clang"), ("g++", "g++")], include_str!("compiler.sh")),
    real(&[("python3", "python3")], include_str!("python3.sh")),
    Real { version: &["-e", "print $^V"], ..real(&[("perl", "perl")], include_str!("perl.sh")) },
    real(&[("sqlite3", "sqlite3")], include_str!("sqlite3.sh")),
    real(&[("redis-server", "redis-server"), ("redis-benchmark", "redis-tools")], include_str!("redis.sh")),
    real(&[("node", "nodejs")], include_str!("node.sh")),
    real(&[("z3", "z3")], include_str!("z3.sh")),
];

/// A part of an experiment, and not of the suite.
const MAKE: Real = real(&[("make", "make"), ("cc", "gcc")], include_str!("make.sh"));

/// The real programs of a machine.
#[derive(Default)]
pub struct Programs {
    /// Those that are installed.
    pub subjects: Vec<Subject>,
    /// Their names, and the first line of what each says about its version.
    pub versions: Vec<Version>,
    /// Those that are not.
    pub missing: Vec<Missing>,
}

/// A program's version.
#[derive(Clone, Debug, Serialize)]
pub struct Version {
    /// The program's name.
    pub name: &'static str,
    /// What it says of itself.
    pub version: String,
}

/// A program that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Its name.
    pub name: &'static str,
    /// The commands that are not there.
    pub commands: Vec<&'static str>,
    /// The Debian packages that bring them; none if it is an example of this project.
    pub packages: Vec<&'static str>,
}

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {} not in PATH; ", self.name, self.commands.join(" and "))?;
        match &self.packages[..] {
            [] => out.write_str("in a copy of the project, run cargo install --path examples/server"),
            packages => write!(out, "install Debian's {}", packages.join(" ")),
        }
    }
}

/// The real programs. Their inputs go to the folder, which has to stay while they are measured.
pub fn programs(folder: &Path) -> Result<Programs> {
    programs_named(folder, &REAL.each_ref().map(|real| real.name))
}

/// Those of the real programs that have these names.
pub fn programs_named(folder: &Path, names: &[&str]) -> Result<Programs> {
    let mut programs = Programs::default();
    for real in REAL.iter().chain([&MAKE]).filter(|real| names.contains(&real.name)) {
        let absent = real.needs.iter().filter(|(command, _)| find(command).is_none());
        let (commands, packages): (Vec<_>, Vec<_>) = absent.copied().unzip();
        match find(real.needs[0].0).filter(|_| commands.is_empty()) {
            Some(file) => {
                let folder = folder.join(real.name);
                fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
                programs.subjects.push(real.prepare(&file, folder)?);
                programs.versions.push(Version { name: real.name, version: version_of(&file, real.version) });
            }
            None => programs.missing.push(Missing { name: real.name, commands, packages }),
        }
    }
    Ok(programs)
}

/// The first file of that name in PATH that is executable and no script, or the first one: what version managers put in front of
/// a program would be measured with it.
pub fn find(name: &str) -> Option<PathBuf> {
    find_in(&std::env::var_os("PATH")?, name)
}

/// Likewise, in these folders.
pub fn find_in(path: &OsStr, name: &str) -> Option<PathBuf> {
    let is_executable =
        |file: &PathBuf| fs::metadata(file).is_ok_and(|of| of.is_file() && of.permissions().mode() & 0o111 != 0);
    let all: Vec<PathBuf> = std::env::split_paths(path).map(|folder| folder.join(name)).filter(is_executable).collect();
    all.iter().find(|file| is_elf(file)).or(all.first()).cloned()
}

fn is_elf(file: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(file).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok()) && magic == *b"\x7fELF"
}

impl Real {
    /// Makes the input, and the subject that uses it.
    fn prepare(&self, file: &Path, folder: PathBuf) -> Result<Subject> {
        let words = |word| ["sh", "-eu", "-c", self.script, "sh", word].map(str::to_owned);
        let mut program = Program { directory: Some(folder.clone()), ..Program::new("/bin/sh", words("run")) };
        program.environment.extend([("PROGRAM".into(), file.into()), ("LC_ALL".into(), "C".into())]);
        let mut prepare = Command::new("/bin/sh");
        prepare.args(&words("prepare")[1..]).current_dir(folder).env_clear().envs(&program.environment);
        let done = output(prepare).context("cannot run sh")?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "cannot make the input of {} ({}): {said}", self.name, done.status);
        Ok(Subject::of_program(self.name, program))
    }
}

/// The first line that an executable prints when it is asked for its version; of one that does not tell, which file it is.
pub fn version_of(file: &Path, words: &[&str]) -> String {
    let mut command = Command::new(file);
    command.args(words);
    let said = if words.is_empty() { None } else { output(command).ok() };
    let first = said.and_then(|Output { stdout, stderr, .. }| {
        let text = if stdout.is_empty() { stderr } else { stdout };
        Some(String::from_utf8_lossy(&text).lines().next()?.to_owned())
    });
    first.unwrap_or_else(|| fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()).display().to_string())
}

/// What a command prints under no arm.
fn output(mut command: Command) -> std::io::Result<Output> {
    command.env_remove("LD_PRELOAD").stdin(Stdio::null()).output()
}

impl Measured {
    /// Takes the rows from this one on, as a measurement of their own that was made in the same blocks.
    pub fn split_off(&mut self, at: usize) -> Measured {
        Measured { rows: self.rows.split_off(at), arms: self.arms.clone(), plan: self.plan.clone(), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_are_absent_are_named_with_their_packages() {
        let place = tempfile::tempdir().unwrap();
        let none = programs_named(place.path(), &["no such program"]).unwrap();
        assert!(none.subjects.is_empty() && none.missing.is_empty());
        assert_eq!(find_in("/no/such/folder".as_ref(), "sh"), None);
        let programs = programs(place.path()).unwrap();
        assert_eq!(programs.subjects.len(), programs.versions.len());
        assert_eq!(programs.subjects.len() + programs.missing.len(), REAL.len());
        assert!(programs.versions.iter().all(|of| !of.version.is_empty()), "{:?}", programs.versions);
        let missing = Missing { name: "gcc", commands: vec!["gcc", "g++"], packages: vec!["gcc", "g++"] };
        assert_eq!(missing.to_string(), "gcc: gcc and g++ not in PATH; install Debian's gcc g++");
    }

    #[test]
    fn scripts_stand_behind_programs_of_the_same_name() {
        let place = tempfile::tempdir().unwrap();
        let folders = ["shims", "bin"].map(|name| place.path().join(name));
        for (folder, text) in folders.iter().zip(["#!/bin/sh\n", "\x7fELF…"]) {
            fs::create_dir(folder).unwrap();
            let file = folder.join("guest");
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let found = |folders: &[PathBuf]| find_in(&std::env::join_paths(folders).unwrap(), "guest");
        assert_eq!(found(&folders), Some(folders[1].join("guest")));
        assert_eq!(found(&folders[..1]), Some(folders[0].join("guest")));
    }
}
