//! Builds the peers that `targets.toml` lists, each with its own build system in its own release configuration, in a folder below
//! `target/peers`; and finds those that Debian brings. Nothing is downloaded but through Cargo, and nothing of a peer is committed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use lab::arm::{self, Arm};
use serde_json::Value;

use crate::targets::Peer;

pub fn place(root: &Path, name: &str) -> PathBuf {
    root.join("target/peers").join(name)
}

/// The peers to preload, and why the others of the list are not there.
pub fn find(root: &Path, peers: &[Peer]) -> (Vec<Arm>, Vec<String>) {
    let (mut arms, mut absent) = (Vec::new(), Vec::new());
    for peer in peers {
        let told = |why: &str| format!("{} {}: {why}", peer.name, peer.version);
        match &peer.unavailable {
            Some(why) => eprintln!("peer {}", told(&format!("cannot be had: {why}"))),
            None => match provide(root, peer) {
                Ok(file) => {
                    eprintln!("peer {}", told(&file.display().to_string()));
                    if !peer.is_no_allocator {
                        arms.push(Arm { is_peer: true, ..Arm::preloading(&peer.name, file) });
                    }
                }
                Err(why) => absent.push(told(&format!("{why:#}"))),
            },
        }
    }
    (arms, absent)
}

/// Builds it unless that was done before; what is there has to be what the loader takes.
fn provide(root: &Path, peer: &Peer) -> Result<PathBuf> {
    let install = || match &peer.package {
        Some(package) => format!("Debian's package {package} brings it"),
        None => "its build left none".to_owned(),
    };
    let file = match &peer.build {
        None => PathBuf::from(&peer.file),
        Some(script) => {
            let source = peer.carrier.as_deref().map_or_else(|| Ok(root.to_owned()), |name| folder_of(root, name))?;
            build(root, peer, script, &source).with_context(install)?.join(&peer.file)
        }
    };
    if peer.is_no_allocator {
        ensure!(file.exists(), "there is no {}: {}", file.display(), install());
        return Ok(file);
    }
    arm::loaded(&file)?.map_err(|why| anyhow::anyhow!("{why}; {}", install()))
}

/// The folder in which it was built.
fn build(root: &Path, peer: &Peer, script: &str, source: &Path) -> Result<PathBuf> {
    let folder = place(root, &peer.name);
    let (stamp, built) = (folder.join("built"), format!("{}\n{script}", source.display()));
    if fs::read_to_string(&stamp).is_ok_and(|before| before == built) {
        return Ok(folder);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    eprintln!("building {} {}", peer.name, peer.version);
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(&folder).env("SOURCE", source).env("ROOT", root);
    // Cargo's own settings would change the flags that upstream chose.
    for variable in ["CFLAGS", "CXXFLAGS", "LDFLAGS", "MAKEFLAGS", "LD_PRELOAD"] {
        command.env_remove(variable);
    }
    let output = command.output().context("sh cannot be started")?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
        let last: Vec<&str> = said.lines().rev().take(10).collect();
        bail!("its build ended with {}:\n{}", output.status, last.into_iter().rev().collect::<Vec<_>>().join("\n"));
    }
    fs::write(stamp, built)?;
    Ok(folder)
}

/// Where Cargo keeps a crate's sources.
fn folder_of(root: &Path, name: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(["metadata", "--format-version", "1"]).current_dir(root).output()?;
    ensure!(output.status.success(), "cargo metadata said {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let package = metadata["packages"].as_array().into_iter().flatten().find(|package| package["name"] == name);
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let manifest = manifest.with_context(|| format!("{name} is not among the dependencies in bench/Cargo.toml"))?;
    Ok(Path::new(manifest).parent().context("a manifest lies in a folder")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(build: Option<&str>, file: &str) -> Peer {
        let (name, build, file) = ("p".to_owned(), build.map(str::to_owned), file.to_owned());
        Peer { name, version: "1".to_owned(), build, file, ..Peer::default() }
    }

    #[test]
    fn peer_that_cannot_be_had_is_not_absent_and_one_that_is_not_found_is() {
        let root = tempfile::tempdir().expect("there is a folder for temporary files");
        let unavailable = Peer { unavailable: Some("gone".to_owned()), ..peer(None, "") };
        let package = Peer { package: Some("nowhere-dev".to_owned()), ..peer(None, "libnowhere.so.9") };
        let failing = peer(Some("echo no compiler; false"), "libp.so");
        let (arms, absent) = find(root.path(), &[unavailable, package, failing, peer(None, "libc.so.6")]);
        assert_eq!(arms.len(), 1);
        let [not_found, not_built] = &absent[..] else { panic!("two are absent: {absent:?}") };
        assert!(not_found.contains("nowhere-dev"), "{not_found}");
        assert!(not_built.contains("no compiler"), "{not_built}");
    }

    #[test]
    fn peer_is_built_once_for_each_script() {
        let root = tempfile::tempdir().expect("there is a folder for temporary files");
        let provide = |script: &str| {
            let peer = Peer { is_no_allocator: true, ..peer(Some(script), "made") };
            fs::read_to_string(provide(root.path(), &peer).expect("it is built")).expect("it is there")
        };
        assert_eq!(provide("echo 1 > made; echo 1 >> $ROOT/runs"), "1\n");
        assert_eq!(provide("echo 1 > made; echo 1 >> $ROOT/runs"), "1\n");
        assert_eq!(provide("echo 2 > made; echo 2 >> $ROOT/runs"), "2\n");
        assert_eq!(fs::read_to_string(root.path().join("runs")).expect("it is there"), "1\n2\n");
    }
}
