//! What is compared: the same program with another allocator, with other settings of ours, or with other words on its command line; or several
//! commands. The loader decides which malloc a program gets, and all it is told is LD_PRELOAD.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::Program;

const PRELOAD: &str = "LD_PRELOAD";
const SETTINGS: &str = "COMMENSAL_CONF";
/// What a program that hands its arm on gets in place of each of these. What a script preloads, it decides itself.
const HANDED_ON: [(&str, &str); 2] = [(PRELOAD, "LAB_PRELOAD"), (SETTINGS, "LAB_CONF")];
const SCRIPTS: [(&str, &str); 2] = [("LAB_PRELOAD", "PRELOAD"), ("LAB_CONF", SETTINGS)];

/// What programs use when nothing is preloaded.
pub const GLIBC: &str = "glibc";
/// Our own library with its default settings.
pub const COMMENSAL: &str = "commensal";

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    /// What tables call it; no two arms of a run share one.
    pub name: String,
    /// What to preload.
    pub library: Option<PathBuf>,
    /// Our library's settings.
    pub settings: Option<String>,
    /// What is added to the program's arguments, where a program has the arms inside.
    pub words: Vec<String>,
    /// What runs in place of the subject's program: the file, and all arguments.
    pub command: Option<(PathBuf, Vec<OsString>)>,
    /// Whether it is somebody else's allocator, against the best of which ours is held.
    pub is_peer: bool,
}

impl Arm {
    /// Nothing preloaded.
    pub fn glibc() -> Self {
        Self { name: GLIBC.to_owned(), library: None, settings: None, words: Vec::new(), command: None, is_peer: false }
    }

    /// A library that stands for itself.
    pub fn preloading(name: impl Into<String>, library: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), library: Some(library.into()), ..Self::glibc() }
    }

    /// Our library, or the same again with settings.
    pub fn commensal(name: impl Into<String>, library: impl Into<PathBuf>, settings: Option<String>) -> Self {
        Self { settings, ..Self::preloading(name, library) }
    }

    /// Nothing preloaded; the program is told by a word.
    pub fn told(name: impl Into<String>, word: impl Into<String>) -> Self {
        Self { name: name.into(), words: vec![word.into()], ..Self::glibc() }
    }

    /// A command of its own, in the user's own environment.
    pub fn command(name: impl Into<String>, path: impl Into<PathBuf>, words: Vec<OsString>) -> Self {
        Self { command: Some((path.into(), words)), name: name.into(), ..Self::glibc() }
    }

    /// The same again, as a control: whatever differs between the two is chance.
    pub fn again(&self) -> Self {
        Self { name: format!("{} again", self.name), is_peer: false, ..self.clone() }
    }

    /// Whether there is more to say of it than its name.
    pub fn has_origin(&self) -> bool {
        self.library.is_some() || self.command.is_some()
    }

    /// Where its allocator comes from, or the command.
    pub fn origin(&self) -> String {
        if let Some((_, words)) = &self.command {
            return words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        }
        let library =
            self.library.as_ref().map_or("nothing preloaded".to_owned(), |library| library.display().to_string());
        let settings = self.settings.as_ref().map_or(String::new(), |settings| format!(" with {settings}"));
        let words = self.words.iter().map(|word| format!(", told {word}"));
        library + &settings + &words.collect::<String>()
    }

    /// Changes a program's arguments and its environment to this arm's, whatever the user's own says: arms must differ in nothing else.
    /// `also` are settings that a row asks for of all arms that have some.
    pub fn apply(&self, program: &mut Program, also: Option<&str>) {
        if let Some((path, words)) = &self.command {
            (program.path, program.arguments) = (path.clone(), words.clone());
            return;
        }
        program.arguments.extend(self.words.iter().map(OsString::from));
        let environment = &mut program.environment;
        environment.remove(&OsString::from(PRELOAD));
        environment.remove(&OsString::from(SETTINGS));
        if let Some(library) = &self.library {
            environment.insert(PRELOAD.into(), library.into());
        }
        if let Some(settings) = &self.settings {
            let all: Vec<&str> = [settings.as_str()].into_iter().chain(also).collect();
            environment.insert(SETTINGS.into(), all.join(",").into());
        }
    }
}

/// Puts the arm aside: the program runs under none, and [takes it on](take_on) for what it starts.
pub fn hand_on(program: &mut Program) {
    HANDED_ON.iter().for_each(|names| rename(program, *names));
}

/// Gives a script the arm that was handed on to this process: settings, and the variable `PRELOAD`, which may be empty.
pub fn take_on(script: &mut Program) {
    script.environment.remove(OsStr::new(PRELOAD));
    SCRIPTS.iter().for_each(|names| rename(script, *names));
    script.environment.entry("PRELOAD".into()).or_default();
}

fn rename(program: &mut Program, (from, to): (&str, &str)) {
    let value = program.environment.remove(OsStr::new(from));
    program.environment.remove(OsStr::new(to));
    program.environment.extend(value.map(|value| (to.into(), value)));
}

/// An allocator that may be installed.
pub struct Peer {
    /// What tables call it.
    pub name: &'static str,
    /// Names that the loader knows its library by, the best first.
    libraries: &'static [&'static str],
    /// The Debian package that brings it.
    pub package: &'static str,
}

/// The allocators that are looked for.
pub const PEERS: [Peer; 3] = [
    Peer { name: "jemalloc", libraries: &["libjemalloc.so.2"], package: "libjemalloc2" },
    Peer {
        name: "mimalloc",
        libraries: &["libmimalloc.so.3", "libmimalloc.so.2"],
        package: "libmimalloc3 or libmimalloc2.0",
    },
    Peer {
        name: "tcmalloc",
        libraries: &["libtcmalloc_minimal.so.4", "libtcmalloc.so.4"],
        package: "libtcmalloc-minimal4",
    },
];

/// The peers that are installed, as arms, and those that are not.
pub fn peers() -> Result<(Vec<Arm>, Vec<&'static Peer>)> {
    let (mut arms, mut absent) = (Vec::new(), Vec::new());
    for peer in &PEERS {
        let asked = peer.libraries.iter().map(|library| loaded(Path::new(library)));
        match asked.collect::<Result<Vec<_>>>()?.into_iter().find_map(Result::ok) {
            Some(library) => arms.push(Arm { is_peer: true, ..Arm::preloading(peer.name, library) }),
            None => absent.push(peer),
        }
    }
    Ok((arms, absent))
}

/// The file that the loader takes for a library, which may be a path or a name to be searched for; or why it takes none.
pub fn loaded(library: &Path) -> Result<Result<PathBuf, String>> {
    let output = ask_loader(Path::new("/proc/self/exe"), library.as_os_str())?;
    let said = String::from_utf8_lossy(&output.stdout);
    if let Some(path) = said.lines().find_map(|line| path_in(line, library)) {
        return Ok(Ok(path));
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let Some(complaint) = complaint.lines().next() else {
        bail!("the loader says nothing about {}; is this program linked statically?", library.display());
    };
    Ok(Err(complaint.trim_start_matches("ERROR: ").to_owned()))
}

/// The peer that a program brings itself, because it is linked with its library: then that is what it has where nothing is preloaded.
///
/// The program must be one that a loader starts; any other would be executed.
pub fn linked(program: &Path) -> Result<Option<&'static Peer>> {
    let output = ask_loader(program, OsStr::new(""))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let names: Vec<&str> = said.lines().filter_map(|line| line.trim().split(' ').next()).collect();
    Ok(PEERS.iter().find(|peer| peer.libraries.iter().any(|library| names.contains(library))))
}

/// The loader tells what it would load for a program, which it does not execute then.
fn ask_loader(program: &Path, preload: &OsStr) -> Result<Output> {
    let mut command = Command::new(program);
    command.env("LD_TRACE_LOADED_OBJECTS", "1").env(PRELOAD, preload).stdin(Stdio::null());
    command.output().context("cannot ask the loader which libraries there are")
}

/// A line is `name => path (address)`, or `path (address)` for one that was given by its path.
fn path_in(line: &str, library: &Path) -> Option<PathBuf> {
    let line = line.trim().rsplit_once(" (")?.0;
    let (name, path) = line.split_once(" => ").unwrap_or((line, line));
    (Path::new(name) == library).then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loader_finds_a_library_or_says_why_not() {
        let libc = loaded(Path::new("libc.so.6")).unwrap().unwrap();
        assert!(libc.is_absolute() && libc.exists(), "{}", libc.display());
        assert_eq!(loaded(&libc).unwrap().unwrap(), libc);
        assert!(loaded(Path::new("libnowhere.so.9")).unwrap().unwrap_err().contains("libnowhere.so.9"));
        assert!(loaded(Path::new("/etc/passwd")).unwrap().unwrap_err().contains("/etc/passwd"));
    }

    #[test]
    fn arm_replaces_preload_and_settings_and_adds_its_words() {
        let under = |arm: &Arm, also| {
            let mut program = Program::new("/bin/true", ["true"]);
            program.environment =
                [("LD_PRELOAD".into(), "x.so".into()), ("COMMENSAL_CONF".into(), "a:b".into())].into();
            arm.apply(&mut program, also);
            program
        };
        let program = under(&Arm::glibc(), Some("possible_cpus:2"));
        assert!(program.environment.is_empty() && program.arguments == ["true"], "{program:?}");
        let lean = Arm::commensal("lean", "/l.so", Some("keep:1".to_owned()));
        let program = under(&lean, None);
        assert_eq!(program.environment[&OsString::from("LD_PRELOAD")], "/l.so");
        assert_eq!(program.environment[&OsString::from("COMMENSAL_CONF")], "keep:1");
        let program = under(&lean, Some("possible_cpus:2"));
        assert_eq!(program.environment[&OsString::from("COMMENSAL_CONF")], "keep:1,possible_cpus:2");
        let command = Arm::command("sleep", "/bin/sleep", vec!["sleep".into(), "1".into()]);
        let program = under(&command, None);
        assert_eq!((program.path, program.environment.len()), (PathBuf::from("/bin/sleep"), 2), "the user's own");
        assert_eq!((program.arguments.len(), command.origin().as_str()), (2, "sleep 1"));
        let told = Arm::told("lazy and cached", "lazy-and-cached").again();
        assert_eq!(under(&told, None).arguments, ["true", "lazy-and-cached"]);
        assert_eq!(told.origin(), "nothing preloaded, told lazy-and-cached");
    }
}
