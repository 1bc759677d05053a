//! Makes what people install, in `target/package`: an archive for any distribution, Debian packages, and their checksums.
//!
//! The tree of files is made once, as it lies below `/`; the archive has it, and each Debian package a part of it
//! (`packaging/debian/packages.toml`). The same sources give the same bytes, wherever they lie and whenever they are built:
//! paths are mapped, files have the time of the commit, and archives are sorted. `cargo xtask package --twice` looks.

mod container;
mod debian;
mod suites;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::install;
use crate::library::{Library, succeeds};

pub use suites::Fresh;

/// The folder for libraries, as Debian for this architecture has it.
const LIBDIR: &str = "lib/x86_64-linux-gnu";
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Files that are copied as they are: where they lie, and where they go.
const COPIED: [(&str, &str); 8] = [
    ("packaging/systemd/commensal-exporter.service", "usr/lib/systemd/system/commensal-exporter.service"),
    ("packaging/systemd/preload.conf", "usr/share/commensal/systemd/preload.conf"),
    ("packaging/grafana/commensal.json", "usr/share/commensal/grafana/commensal.json"),
    ("examples/counter.c", "usr/share/doc/commensal/examples/counter.c"),
    ("README.md", "usr/share/doc/commensal/README.md"),
    ("CHANGELOG.md", "usr/share/doc/commensal/CHANGELOG.md"),
    ("LICENSE-APACHE", "usr/share/doc/commensal/LICENSE-APACHE"),
    ("LICENSE-MIT", "usr/share/doc/commensal/LICENSE-MIT"),
];
/// The shells with completions, and their files.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/commensal"),
    ("zsh", "usr/share/zsh/vendor-completions/_commensal"),
    ("fish", "usr/share/fish/vendor_completions.d/commensal.fish"),
];

/// Makes everything; if told so, a second time at another place, which must give the same
/// bytes. Then tries the Debian packages in fresh systems.
pub fn run(root: &Path, makes_twice: bool, suites: &[String]) -> Result<(), String> {
    let made = make(root)?;
    if makes_twice {
        let again = root.join("target/package-again");
        let _ = fs::remove_dir_all(again.join("copy"));
        // With its commit, which the command tells; so what is in no commit is missing there.
        let mut clone = Command::new("git");
        succeeds(clone.args(["clone", "--quiet"]).arg(root).arg(again.join("copy")))?;
        same(&made, &make_in(&again.join("copy"), epoch(root)?, &again)?)?;
    }
    suites::try_in(root, &made, suites)
}

/// Makes everything, and prints the checksums.
pub fn make(root: &Path) -> Result<Vec<PathBuf>, String> {
    make_in(root, epoch(root)?, &root.join("target/package"))
}

fn make_in(root: &Path, epoch: u64, place: &Path) -> Result<Vec<PathBuf>, String> {
    let _ = fs::remove_dir_all(place.join("out"));
    let _ = fs::remove_dir_all(place.join("tree"));
    let (files, out) = (place.join("tree"), place.join("out"));
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let built = build(root, &place.join("build"))?;
    stage(root, &built, &files)?;
    let mut made = debian::make(root, &files, epoch, &out)?;
    made.push(archive(&files, epoch, &out)?);
    let sums = checksums(&made)?;
    let path = out.join("SHA256SUMS");
    fs::write(&path, &sums).map_err(|error| format!("{}: {error}", path.display()))?;
    print!("{sums}");
    made.push(path);
    Ok(made)
}

/// The time of the commit, which all files get: `SOURCE_DATE_EPOCH`, as reproducible builds have it.
fn epoch(root: &Path) -> Result<u64, String> {
    if let Ok(told) = std::env::var("SOURCE_DATE_EPOCH") {
        return told.parse().map_err(|_| format!("found SOURCE_DATE_EPOCH={told}; expected seconds since 1970"));
    }
    let said = said(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root))?;
    said.trim().parse().map_err(|_| format!("git says that the commit is of '{}'", said.trim()))
}

/// Builds the command and the library without a trace of where they lie.
fn build(root: &Path, target: &Path) -> Result<PathBuf, String> {
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")));
    let home = home.map_err(|_| "neither CARGO_HOME nor HOME is set".to_owned())?;
    let root = fs::canonicalize(root).map_err(|error| format!("{}: {error}", root.display()))?;
    fs::create_dir_all(target).map_err(|error| format!("{}: {error}", target.display()))?;
    let target = fs::canonicalize(target).map_err(|error| format!("{}: {error}", target.display()))?;
    // The last one that fits is taken.
    let mapped =
        [(root.display().to_string(), "/commensal"), (target.display().to_string(), "/target"), (home, "/cargo")];
    let flags: Vec<String> = mapped.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect();
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--release", "--quiet", "--locked", "--target-dir"]).arg(&target);
    // As where it is built without the workspace's own settings: the library lies in a folder of its own.
    command.env("COMMENSAL_EMBED", "no").env("COMMENSAL_ALONE", "help");
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f")).current_dir(&root);
    succeeds(&mut command).map(|()| target.join("release"))
}

/// Lays all files out as they will lie below `/`.
fn stage(root: &Path, built: &Path, files: &Path) -> Result<(), String> {
    install::of(&Library::in_folder(built), root, Path::new("/usr"), LIBDIR, Some(files))?;
    let command = built.join("commensal");
    let copied = COPIED.iter().map(|(from, to)| (root.join(from), *to));
    for (from, to) in copied.chain([(command.clone(), "usr/bin/commensal")]) {
        put(&files.join(to), &fs::read(&from).map_err(|error| format!("{}: {error}", from.display()))?)?;
    }
    for (shell, to) in SHELLS {
        put(&files.join(to), said(Command::new(&command).args(["completions", shell]))?.as_bytes())?;
    }
    let pages = files.join("usr/share/man/man1");
    said(Command::new(&command).arg("man").arg(&pages))?;
    let mut gzip = Command::new("gzip");
    succeeds(gzip.args(["--best", "--no-name", "--recursive"]).arg(&pages))?;
    set_modes(files)
}

/// Programs and libraries can be run, everything can be read, and only its owner may write.
fn set_modes(files: &Path) -> Result<(), String> {
    let mut modes = Command::new("chmod");
    succeeds(modes.args(["--recursive", "u=rwX,go=rX"]).arg(files))?;
    succeeds(Command::new("chmod").arg("755").arg(files.join("usr/bin/commensal")))
}

pub fn put(path: &Path, contents: &[u8]) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, contents));
    written.map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

/// What `tar` needs to make the same archive of the same files.
pub fn sorted(files: &Path, epoch: u64) -> Command {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    tar.arg(format!("--mtime=@{epoch}")).arg("--directory").arg(files);
    tar
}

/// The archive: what lies below `/usr`, to be unpacked in any prefix.
fn archive(files: &Path, epoch: u64, out: &Path) -> Result<PathBuf, String> {
    let name = format!("commensal-{VERSION}-x86_64-linux-gnu");
    let path = out.join(format!("{name}.tar.xz"));
    let mut tar = sorted(&files.join("usr"), epoch);
    // One thread: the number of them shows in the bytes.
    tar.env("XZ_OPT", "-9 --threads=1").arg("--xz").arg(format!("--transform=flags=r;s|^\\./|{name}/|"));
    succeeds(tar.arg("--create").arg("--file").arg(&path).arg("./bin").arg("./lib").arg("./include").arg("./share"))?;
    Ok(path)
}

fn checksums(made: &[PathBuf]) -> Result<String, String> {
    let mut sums = String::new();
    for path in made {
        let (folder, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
        sums += &said(Command::new("sha256sum").arg(name).current_dir(folder))?;
    }
    Ok(sums)
}

/// Whether both have the same files, byte for byte.
fn same(one: &[PathBuf], other: &[PathBuf]) -> Result<(), String> {
    let names = |made: &[PathBuf]| made.iter().map(|path| path.file_name().map(ToOwned::to_owned)).collect::<Vec<_>>();
    if names(one) != names(other) {
        return Err(format!("found {:?} and {:?}; expected the same files", names(one), names(other)));
    }
    for (one, other) in one.iter().zip(other) {
        let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        let (mine, its) = (read(one)?, read(other)?);
        if mine != its {
            let at = mine.iter().zip(&its).position(|(mine, its)| mine != its);
            return Err(format!("{} and {} differ from byte {at:?} on", one.display(), other.display()));
        }
        println!("the same twice: {}, {} bytes", one.file_name().unwrap_or_default().display(), mine.len());
    }
    Ok(())
}

/// The output of a command that must end well.
pub fn said(command: &mut Command) -> Result<String, String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("{command:?} cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} ended with {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
