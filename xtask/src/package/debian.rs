//! Debian packages, by `dpkg-deb`: what they say of themselves, and which files each has.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use toml_edit::{DocumentMut, Item, Table};

use super::{VERSION, put, said};
use crate::library::succeeds;

const PACKAGES: &str = "packaging/debian/packages.toml";
const MAINTAINER: &str = "The Commensal developers <commensal@example.org>";

/// Makes the packages of a tree of files; each file must be in one of them.
pub fn make(root: &Path, files: &Path, epoch: u64, out: &Path) -> Result<Vec<PathBuf>, String> {
    let path = root.join(PACKAGES);
    let text = fs::read_to_string(&path).map_err(|error| format!("{PACKAGES} cannot be read: {error}"))?;
    let packages: DocumentMut = text.parse().map_err(|error| format!("{PACKAGES} is not TOML: {error}"))?;
    let mut left: BTreeSet<PathBuf> = all(files)?.into_iter().collect();
    let mut made = Vec::new();
    for (name, package) in packages.iter() {
        let package = package.as_table().ok_or_else(|| format!("{PACKAGES}: {name} is no table"))?;
        let folder = out.with_file_name(format!("debian-{name}"));
        let _ = fs::remove_dir_all(&folder);
        for pattern in list(package, "files") {
            let found: Vec<PathBuf> = left.iter().filter(|path| fits(path, &pattern)).cloned().collect();
            if found.is_empty() {
                return Err(format!("{PACKAGES}: {name} has {pattern}, and there is no such file"));
            }
            for file in found {
                move_one(files, &folder, &file)?;
                left.remove(&file);
            }
        }
        made.push(make_one(root, name, package, &folder, epoch, out)?);
    }
    let outside: Vec<_> = left.iter().map(|path| path.display().to_string()).collect();
    if outside.is_empty() { Ok(made) } else { Err(format!("{PACKAGES}: no package has {}", outside.join(", "))) }
}

/// Files and links, without folders, from the root.
fn all(files: &Path) -> Result<Vec<PathBuf>, String> {
    let found = said(Command::new("find").args([".", "!", "-type", "d", "-printf", "%P\\n"]).current_dir(files))?;
    Ok(found.lines().map(PathBuf::from).collect())
}

/// Whether a path is the pattern, below it, or begins as it does if a star ends it.
fn fits(path: &Path, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => path.to_string_lossy().starts_with(beginning),
        None => path.starts_with(pattern),
    }
}

/// By a link, so that the tree stays whole for the archive.
fn move_one(files: &Path, folder: &Path, file: &Path) -> Result<(), String> {
    let to = folder.join(file);
    fs::create_dir_all(to.parent().unwrap_or(folder)).map_err(|error| format!("{}: {error}", to.display()))?;
    succeeds(Command::new("cp").args(["--no-dereference", "--preserve=mode,links"]).arg(files.join(file)).arg(&to))
}

fn list(package: &Table, key: &str) -> Vec<String> {
    let values = package.get(key).and_then(Item::as_array).into_iter().flatten();
    values.filter_map(|value| Some(value.as_str()?.to_owned())).collect()
}

fn make_one(
    root: &Path, name: &str, package: &Table, folder: &Path, epoch: u64, out: &Path,
) -> Result<PathBuf, String> {
    let text = |key: &str| package.get(key).and_then(Item::as_str).unwrap_or_default();
    let copyright = fs::read(root.join("packaging/debian/copyright")).map_err(|error| format!("copyright: {error}"))?;
    put(&folder.join(format!("usr/share/doc/{name}/copyright")), &copyright)?;
    let mut depends = needed(folder)?;
    depends.extend(list(package, "depends").iter().map(|one| one.replace("@VERSION@", VERSION)));
    let mut control = format!(
        "Package: {name}\nVersion: {VERSION}\nArchitecture: amd64\nMaintainer: {MAINTAINER}\nSection: {}\n\
         Priority: optional\nInstalled-Size: {}\n",
        text("section"),
        kilobytes(folder)?
    );
    if !text("multi_arch").is_empty() {
        control += &format!("Multi-Arch: {}\n", text("multi_arch"));
    }
    if !depends.is_empty() {
        control += &format!("Depends: {}\n", depends.join(", "));
    }
    control += &format!("Description: {}\n", text("summary"));
    text("description").trim().lines().for_each(|line| control += &format!(" {line}\n"));
    put(&folder.join("DEBIAN/control"), control.as_bytes())?;
    let sums =
        said(Command::new("sh").args(["-c", "find usr -type f | LC_ALL=C sort | xargs md5sum"]).current_dir(folder))?;
    put(&folder.join("DEBIAN/md5sums"), sums.as_bytes())?;
    if text("section") == "libs" {
        // The loader's cache then knows the library.
        put(&folder.join("DEBIAN/triggers"), b"activate-noawait ldconfig\n")?;
    }
    succeeds(Command::new("chmod").args(["--recursive", "u=rwX,go=rX"]).arg(folder))?;
    let path = out.join(format!("{name}_{VERSION}_amd64.deb"));
    let mut deb = Command::new("dpkg-deb");
    deb.args(["--root-owner-group", "--uniform-compression", "--threads-max=1", "-Zxz", "--build"]);
    succeeds(
        deb.arg(folder).arg(&path).env("SOURCE_DATE_EPOCH", epoch.to_string()).stdout(std::process::Stdio::null()),
    )?;
    Ok(path)
}

/// Other packages that have the libraries that a package's programs ask for, with the versions.
fn needed(folder: &Path) -> Result<Vec<String>, String> {
    let is_elf = |path: &PathBuf| {
        let path = folder.join(path);
        !path.is_symlink() && fs::read(&path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"))
    };
    let programs: Vec<PathBuf> = all(folder)?.into_iter().filter(is_elf).collect();
    if programs.is_empty() {
        return Ok(Vec::new());
    }
    // It wants to be in the tree of a source package.
    let tree = folder.with_file_name("debian-source");
    put(&tree.join("debian/control"), b"Source: commensal\n\nPackage: commensal\nArchitecture: amd64\n")?;
    let mut shlibdeps = Command::new("dpkg-shlibdeps");
    shlibdeps.arg("-O").args(programs.iter().map(|path| folder.join(path))).current_dir(&tree);
    let said = said(&mut shlibdeps)?;
    let depends = said.trim().strip_prefix("shlibs:Depends=");
    Ok(depends.into_iter().flat_map(|found| found.split(", ").map(str::to_owned)).collect())
}

fn kilobytes(folder: &Path) -> Result<u64, String> {
    let sizes = all(folder)?.into_iter().filter_map(|path| fs::symlink_metadata(folder.join(path)).ok());
    Ok(sizes.map(|file| file.len().div_ceil(1024)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_files_folders_or_beginnings() {
        let fits = |path: &str, pattern: &str| fits(Path::new(path), pattern);
        assert!(fits("usr/bin/commensal", "usr/bin") && fits("usr/bin", "usr/bin"));
        assert!(!fits("usr/binary", "usr/bin") && fits("usr/lib/libx.so.0", "usr/lib/libx.so.*"));
        assert!(!fits("usr/lib/libx.so", "usr/lib/libx.so.*"));
    }

    #[test]
    fn file_of_no_package_is_told() {
        let place = std::env::temp_dir().join(format!("commensal-xtask-debian-{}", std::process::id()));
        let (root, files) = (place.join("root"), place.join("files"));
        put(&root.join(PACKAGES), b"[one]\nsection = \"utils\"\nfiles = [\"usr/bin\"]\nsummary = \"s\"\n").unwrap();
        put(&root.join("packaging/debian/copyright"), b"ours\n").unwrap();
        put(&files.join("usr/bin/one"), b"#!/bin/sh\n").unwrap();
        put(&files.join("usr/share/other"), b"x").unwrap();
        fs::create_dir_all(place.join("out")).unwrap();
        let why = make(&root, &files, 0, &place.join("out")).unwrap_err();
        assert!(why.contains("no package has usr/share/other"), "{why}");
        fs::remove_file(files.join("usr/share/other")).unwrap();
        let made = make(&root, &files, 0, &place.join("out")).unwrap();
        let listed = said(Command::new("dpkg-deb").arg("--contents").arg(&made[0])).unwrap();
        assert!(listed.contains("root/root") && listed.contains("./usr/bin/one"), "{listed}");
        fs::remove_dir_all(place).unwrap();
    }
}
