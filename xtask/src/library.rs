//! The release library and the command, as users have them, and what must be so: they are not too large, the simulated
//! machine does not change the library, and the command brings one.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::{fs, io};

use toml_edit::{Array, DocumentMut};

use crate::tree;

/// What cargo made of the malloc package.
pub struct Library {
    pub shared: PathBuf,
    pub archive: PathBuf,
}

/// Builds it in the target directory that this program lies in.
pub fn build(root: &Path) -> Result<Library, String> {
    Ok(Library::in_folder(&release(root, &["--package", "malloc"])?))
}

impl Library {
    /// The library that lies in a folder of cargo's.
    pub fn in_folder(made: &Path) -> Self {
        Library { shared: made.join("libcommensal.so"), archive: made.join("libcommensal.a") }
    }
}

/// The name by which programs that are linked with a library ask for it.
pub fn soname(library: &Path) -> Result<String, String> {
    let output = Command::new("readelf").args(["--dynamic", "--wide"]).arg(library).output();
    let output = output.map_err(|error| format!("readelf, of binutils, cannot be started: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let name = text.split("Library soname: [").nth(1).and_then(|rest| rest.split(']').next());
    name.map(str::to_owned).ok_or_else(|| format!("{} has no soname", library.display()))
}

/// Builds the boxes of a Rust program, whose instructions are counted, and says where they are.
pub fn boxes(root: &Path) -> Result<PathBuf, String> {
    Ok(release(root, &["--package", "boxes"])?.join("libboxes.so"))
}

/// Builds the command, as the README's first line does, and says where it is.
pub fn command(root: &Path) -> Result<PathBuf, String> {
    Ok(release(root, &[])?.join("commensal"))
}

/// Runs a mixed load under the library for some minutes, with ten intervals of upkeep in a second.
pub fn soak(root: &Path, minutes: u32) -> Result<(), String> {
    let command = command(root)?;
    let mut soak = Command::new(&command);
    soak.args(["workload", "soak"]).arg(minutes.to_string());
    soak.env("LD_PRELOAD", command.with_file_name("libcommensal.so")).env("COMMENSAL_CONF", "upkeep.interval_ms:100");
    succeeds(soak.current_dir(root))
}

/// Builds some packages, or the usual ones, and says where they are.
fn release(root: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    made(root, "release", packages)
}

fn made(root: &Path, profile: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = own.ancestors().nth(2).ok_or("xtask does not lie in a target directory")?;
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--profile", profile]).args(packages).arg("--target-dir").arg(target);
    succeeds(command.current_dir(root)).map(|()| target.join(profile))
}

/// What `cargo build --release` makes, and how many bytes it may have.
const LIMITS: [(&str, u64); 2] = [("libcommensal.so", 600_000), ("commensal", 10_000_000)];

/// Builds the library and the command, and holds them against the limits.
pub fn check_size(root: &Path) -> Result<(), String> {
    let built = command(root)?;
    for (name, limit) in LIMITS {
        let path = built.with_file_name(name);
        let file = fs::metadata(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        println!("size: {}", judge(name, file.len(), limit)?);
    }
    check_order(root)
}

/// Bytes of a file that a page fault maps at once.
const MAPPED_BY_A_FAULT: u64 = 64 << 10;

/// Whether each name in the order of the library's code is still one of a function, and the code of a small heap ends
/// in time: after a renaming or with more code, a process would map more of the library again.
fn check_order(root: &Path) -> Result<(), String> {
    let order = root.join("malloc/text.ld");
    let order = fs::read_to_string(&order).map_err(|error| format!("{} cannot be read: {error}", order.display()))?;
    let library = made(root, "debugging", &["--package", "malloc"])?.join("libcommensal.so");
    let listing =
        Command::new("nm").arg(&library).output().map_err(|error| format!("nm cannot be started: {error}"))?;
    let names = String::from_utf8_lossy(&listing.stdout);
    let functions: Vec<&str> = names.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let unknown: Vec<&str> =
        patterns(&order).filter(|pattern| !functions.iter().any(|name| fits(name, pattern))).collect();
    if !unknown.is_empty() {
        return Err(format!(
            "malloc/text.ld names no function by {}; rename or remove it there",
            unknown.join(" and ")
        ));
    }
    println!("size: all names in the order of code are those of functions");
    let address = |name: &str| {
        let line = names.lines().find(|line| line.ends_with(&format!(" {name}")));
        line.and_then(|line| u64::from_str_radix(line.split(' ').next()?, 16).ok())
            .ok_or_else(|| format!("{} has no symbol {name}", library.display()))
    };
    // The first function of the order, so the beginning of the code.
    let most = (address("free")? / MAPPED_BY_A_FAULT + 2) * MAPPED_BY_A_FAULT;
    let end = address("end_of_a_small_heap")?;
    if end > most {
        return Err(format!("the code of a small heap ends {} bytes too late; see malloc/text.ld", end - most));
    }
    println!("size: the code of a small heap ends {} bytes before its limit", most - end);
    Ok(())
}

/// The patterns of functions in an order of sections, without the section's name that they begin with.
fn patterns(order: &str) -> impl Iterator<Item = &str> {
    let words = order.split(|end: char| end.is_whitespace() || "()".contains(end));
    // A section of that name has functions of many names.
    words.filter_map(|word| word.strip_prefix(".text.")).filter(|&pattern| pattern != "first" && pattern != "*")
}

/// Whether a name fits a pattern, in which a star stands for anything.
fn fits(name: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.is_empty() || pattern.ends_with('*')
}

fn judge(name: &str, bytes: u64, limit: u64) -> Result<String, String> {
    let said = format!("{name} has {bytes} bytes, at most {limit} are allowed");
    if bytes <= limit { Ok(said) } else { Err(said) }
}

/// The packages that the library is made of.
const MADE_OF: [&str; 3] = ["machine/host", "runtime", "malloc"];
const FILES: [&str; 2] = ["libcommensal.so", "libcommensal.a"];

/// Does the simulated machine change what is shipped? The library is built in a copy of the tree, and again in one that
/// holds nothing but what it is made of: both must be the same, byte for byte.
pub fn check_alone(root: &Path) -> Result<(), String> {
    let place = root.join("target/alone");
    // One tree after the other at the same place: debug information has paths.
    let tree = place.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree).map_err(|error| format!("{} cannot be removed: {error}", tree.display()))?;
    }
    tree::copy(root, &tree)?;
    build_in(&tree, &place.join("with"))?;
    strip_down(&tree)?;
    build_in(&tree, &place.join("without"))?;
    for file in FILES {
        let [with, without] = ["with", "without"].map(|target| fs::read(place.join(target).join("release").join(file)));
        match (with, without) {
            (Ok(with), Ok(without)) if with == without => println!("alone: {file} is the same, {} bytes", with.len()),
            (Ok(with), Ok(without)) => {
                let at = with.iter().zip(&without).position(|(one, other)| one != other);
                let (long, short) = (with.len(), without.len());
                return Err(format!(
                    "{file} differs from byte {at:?} on: {long} bytes in this tree, {short} by itself"
                ));
            }
            _ => return Err(format!("there is no {file} to compare")),
        }
    }
    Ok(())
}

/// Leaves what the library is made of.
fn strip_down(tree: &Path) -> Result<(), String> {
    for folder in ["manifests", "machine/simulated", "exploration", "lab", "cli", "workload", "machine/conformance"] {
        fs::remove_dir_all(tree.join(folder)).map_err(|error| format!("{folder} cannot be removed: {error}"))?;
    }
    let path = tree.join("Cargo.toml");
    let text = fs::read_to_string(&path).map_err(|error| format!("Cargo.toml cannot be read: {error}"))?;
    let mut manifest: DocumentMut = text.parse().map_err(|error| format!("Cargo.toml is not TOML: {error}"))?;
    for (key, members) in [("members", &MADE_OF[..]), ("default-members", &["malloc"])] {
        manifest["workspace"][key] = toml_edit::value(members.iter().copied().collect::<Array>());
    }
    if let Some(profiles) = manifest["profile"]["dev"].as_table_mut() {
        // These are of packages that are gone.
        profiles.remove("package");
    }
    fs::write(&path, manifest.to_string()).map_err(|error| format!("Cargo.toml cannot be written: {error}"))
}

fn build_in(tree: &Path, target: &Path) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--release", "--package", "malloc", "--target-dir"]);
    let output =
        command.arg(target).current_dir(tree).output().map_err(|error| format!("cargo cannot be started: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// The command as `cargo install` makes it has no library beside it: it must bring its own. Installs it below
/// `target/installed`, and runs it where nobody tells it of a library.
pub fn check_installed(root: &Path) -> Result<(), String> {
    let place = root.join("target/installed");
    let mut install = Command::new(env!("CARGO"));
    install.args(["install", "--quiet", "--force", "--locked", "--path", "cli", "--root"]).arg(&place);
    succeeds(install.current_dir(root))?;
    let command = place.join("bin/commensal");
    let alone = |arguments: &[&str]| {
        let mut command = Command::new(&command);
        command.args(arguments).env_remove("COMMENSAL_LIBRARY").env("XDG_CACHE_HOME", place.join("cache"));
        succeeds(&mut command)
    };
    alone(&["run", "--", "grep", "-q", "/commensal/libcommensal-", "/proc/self/maps"])?;
    // It starts programs, and has the kernels.
    let kernel = ["--", &command.to_string_lossy(), "workload", "trees", "10"];
    alone(&[&["compare", "--blocks", "1", "--arm", "a="], &kernel[..]].concat())?;
    println!("installed: it brings its library");
    Ok(())
}

/// Whether a command ends well; else an error that names it.
pub fn succeeds(command: &mut Command) -> Result<(), String> {
    let status = command.status();
    ended_well(&format!("{command:?}"), status)
}

/// The same of a command that has ended.
pub fn ended_well(command: &str, status: io::Result<ExitStatus>) -> Result<(), String> {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command} ended with {status}")),
        Err(error) => Err(format!("{command} cannot be run: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns_with_stars() {
        let order = "{ *(.text.first .text.vfork) *(.text.*5depot4tier* .text .text.*) }";
        assert_eq!(patterns(order).collect::<Vec<_>>(), ["vfork", "*5depot4tier*"]);
        assert!(fits("vfork", "vfork") && !fits("vforks", "vfork") && !fits("a_vfork", "vfork"));
        let name = "_ZN9commensal5depot4tier4Held3pop";
        assert!(fits(name, "*5depot4tier*") && fits(name, "*5depot*pop") && !fits(name, "*4tier*5depot*"));
    }

    #[test]
    fn artefact_above_its_limit_is_refused() {
        assert!(judge("libcommensal.so", 600_000, 600_000).is_ok());
        assert!(judge("libcommensal.so", 600_001, 600_000).unwrap_err().contains("600001 bytes"));
    }
}
