//! Whether the loader will preload the library into a program, told before the program starts.
//!
//! Only the dynamic loader preloads libraries. It does not for static programs, programs for another machine, and programs with
//! more rights than their user. These are not errors: the program runs without the library, and the user is warned.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, getxattr, statvfs};
use rustix::process::{getgid, getuid};

use crate::elf::{self, Elf};
use crate::program;

/// How many interpreters of interpreters the kernel follows.
const MAX_INTERPRETERS: usize = 4;

const SET_USER_ID: u32 = 0o4000;
/// Without the group's execute bit, the set-group-ID bit means something else.
const SET_GROUP_ID: u32 = 0o2010;

/// One line for each reason why `library` will not be in `program`.
pub fn warnings(program: &Path, library: Elf) -> Vec<String> {
    let executed = executed_file(program);
    let name = if executed == program {
        program.display().to_string()
    } else {
        format!("{}, which executes {},", executed.display(), program.display())
    };
    let of_format = elf::read(&executed).ok().flatten().and_then(|elf| format_warning(elf, library));
    let of_rights = rights_warning(&executed);
    [of_format, of_rights].into_iter().flatten().map(|why| format!("{name} {why}")).collect()
}

fn format_warning(program: Elf, library: Elf) -> Option<String> {
    if program.bits != library.bits {
        return Some(format!(
            "is a {}-bit program, and the library has {} bits: it will run without the library",
            program.bits, library.bits
        ));
    }
    if program.machine != library.machine {
        let why = "is a program for another architecture: if it runs here, it will run without the library";
        return Some(why.to_owned());
    }
    (!program.names_loader).then(|| {
        "is statically linked, and only the dynamic loader preloads libraries: it will run without the library"
            .to_owned()
    })
}

/// Whether the kernel will start the file in secure mode, where the loader ignores preloaded libraries.
fn rights_warning(file: &Path) -> Option<String> {
    let gains = gained_rights(file)?;
    let takes_effect = !rustix::thread::no_new_privs().unwrap_or(false)
        && !statvfs(file).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::NOSUID));
    takes_effect.then(|| {
        format!("{gains}, and the loader preloads no library into such programs: it will run without the library")
    })
}

fn gained_rights(file: &Path) -> Option<String> {
    let metadata = fs::metadata(file).ok()?;
    let mode = metadata.mode();
    if mode & SET_USER_ID != 0 && metadata.uid() != getuid().as_raw() {
        return Some(format!("is set-user-ID to user {}", metadata.uid()));
    }
    if mode & SET_GROUP_ID == SET_GROUP_ID && metadata.gid() != getgid().as_raw() {
        return Some(format!("is set-group-ID to group {}", metadata.gid()));
    }
    // Root has all capabilities, so a file adds none.
    (!getuid().is_root() && has_capabilities(file)).then(|| "has file capabilities".to_owned())
}

fn has_capabilities(file: &Path) -> bool {
    // The attribute has at most 24 bytes. Only its presence counts.
    getxattr(file, "security.capability", &mut [0u8; 64]).is_ok()
}

/// The file that the kernel maps in the end: the program, or the interpreter of a script.
pub fn executed_file(program: &Path) -> PathBuf {
    let mut file = program.to_owned();
    for _ in 0..MAX_INTERPRETERS {
        match interpreter(&file) {
            Ok(Some(next)) => file = next,
            _ => break,
        }
    }
    file
}

/// The interpreter of a script; `None` if the file is an ELF file.
fn interpreter(file: &Path) -> io::Result<Option<PathBuf>> {
    let mut head = Vec::new();
    File::open(file)?.take(256).read_to_end(&mut head)?;
    if head.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let Some(line) = head.strip_prefix(b"#!") else {
        // What the kernel does not recognise, `execvp` hands to the shell.
        return Ok(Some(PathBuf::from("/bin/sh")));
    };
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or(line);
    let mut words = line
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
        .map(|word| Path::new(OsStr::from_bytes(word)));
    let named = words.next();
    Ok(match named {
        Some(env) if env.ends_with("env") => found_by_env(words).or(named.map(Path::to_owned)),
        _ => named.map(Path::to_owned),
    })
}

/// The program that `env` starts: the first word that is neither an option nor an assignment.
fn found_by_env<'a>(mut words: impl Iterator<Item = &'a Path>) -> Option<PathBuf> {
    let name = words.find(|word| {
        let word = word.as_os_str().as_bytes();
        !word.starts_with(b"-") && !word.contains(&b'=')
    })?;
    program::resolve(name.as_os_str()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::elf::EM_X86_64;

    /// The warnings for this test's own file with these bytes changed.
    fn warned(changes: &[(usize, u8)]) -> String {
        const LIBRARY: Elf = Elf { bits: 64, machine: EM_X86_64, names_loader: false };
        let mut start = Vec::new();
        File::open("/proc/self/exe").unwrap().take(4096).read_to_end(&mut start).unwrap();
        changes.iter().for_each(|&(at, byte)| start[at] = byte);
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), start).unwrap();
        warnings(file.path(), LIBRARY).join("\n")
    }

    #[test]
    fn programs_out_of_reach_are_told_and_others_are_not() {
        const CLASS: usize = 4;
        const MACHINE: usize = 18;
        const PROGRAM_HEADERS: usize = 56;
        assert_eq!(warned(&[]), "");
        assert!(warned(&[(PROGRAM_HEADERS, 0)]).contains("is statically linked"));
        assert!(warned(&[(CLASS, 1)]).contains("is a 32-bit program"));
        assert!(warned(&[(MACHINE, 183)]).contains("another architecture"));
    }

    #[test]
    fn env_lines_name_the_program_behind_env() {
        let script = tempfile::NamedTempFile::new().unwrap();
        for line in ["#!/usr/bin/env sh\n", "#!/usr/bin/env -S A=b sh -e\n"] {
            fs::write(script.path(), line).unwrap();
            let found = interpreter(script.path()).unwrap().unwrap();
            assert!(found.ends_with("sh"), "{line}: {}", found.display());
        }
    }

    #[test]
    fn interpreter_that_names_itself_ends_the_search() {
        let script = tempfile::NamedTempFile::new().unwrap();
        fs::write(script.path(), format!("#!{}\n", script.path().display())).unwrap();
        assert_eq!(executed_file(script.path()), script.path());
    }
}
