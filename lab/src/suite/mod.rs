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
use object::read::ReadCache;
use object::{Object, ObjectSymbol};
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
    /// Those that cannot be measured.
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

/// A program that cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Its name.
    pub name: &'static str,
    /// The commands that are not there; none if no other malloc can take the place of the program's own.
    pub commands: Vec<&'static str>,
    /// The Debian packages that bring them; none if it is an example of this project.
    pub packages: Vec<&'static str>,
}

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_absent() {
            return write!(
                out,
                "{}: it calls jemalloc by its own names, so no other malloc can take its place",
                self.name
            );
        }
        write!(out, "{}: {} not in PATH; ", self.name, self.commands.join(" and "))?;
        match &self.packages[..] {
            [] => out.write_str("in a copy of the project, run cargo install --path examples/server"),
            packages => write!(out, "install Debian's {}", packages.join(" ")),
        }
    }
}

impl Missing {
    /// Whether it could be installed.
    pub fn is_absent(&self) -> bool {
        !self.commands.is_empty()
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
        let file = find(real.needs[0].0).filter(|_| commands.is_empty());
        match file.ok_or(Missing { name: real.name, commands, packages }).and_then(|file| fit(real.name, file)) {
            Ok(file) => {
                let folder = folder.join(real.name);
                fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
                programs.subjects.push(real.prepare(&file, folder)?);
                programs.versions.push(Version { name: real.name, version: version_of(&file, real.version) });
            }
            Err(missing) => programs.missing.push(missing),
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

/// The file, unless it takes blocks by jemalloc's own names and so would pass foreign ones to another malloc's `free`.
pub fn fit(name: &'static str, file: PathBuf) -> Result<PathBuf, Missing> {
    match imports(&file, "mallocx") {
        true => Err(Missing { name, commands: Vec::new(), packages: Vec::new() }),
        false => Ok(file),
    }
}

/// Whether an ELF file gets a function of this name from a library.
fn imports(file: &Path, name: &str) -> bool {
    let Ok(file) = File::open(file).map(ReadCache::new) else { return false };
    let is_it = |symbol: object::Symbol<'_, '_, _>| symbol.is_undefined() && symbol.name() == Ok(name);
    object::File::parse(&file).is_ok_and(|elf| elf.dynamic_symbols().any(is_it))
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

    /// Planted bug that was seen here: any symbol of that name, not only one from a library.
    #[test]
    fn program_that_calls_jemalloc_by_name_is_not_measured() {
        let place = tempfile::tempdir().unwrap();
        let compiled = |name: &str, text: &str| {
            let (source, file) = (place.path().join(format!("{name}.c")), place.path().join(name));
            fs::write(&source, text).unwrap();
            let done = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&file).arg(source).status().unwrap();
            assert!(done.success());
            file
        };
        let caller = compiled("caller", "void *mallocx(unsigned long, int); void *f(void) { return mallocx(1, 0); }");
        let missing = fit("redis", caller).unwrap_err();
        assert!(!missing.is_absent() && missing.to_string().contains("calls jemalloc by its own names"), "{missing}");
        for text in ["void *malloc(unsigned long); void *f(void) { return malloc(1); }", "void mallocx(void) {}"] {
            let file = compiled("other", text);
            assert_eq!(fit("redis", file.clone()), Ok(file));
        }
        let script = place.path().join("caller.c");
        assert_eq!(fit("redis", script.clone()), Ok(script), "a script calls nothing");
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
