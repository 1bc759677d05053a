//! Does the simulated machine change what is shipped? The library is built in a copy of the tree, and again in one that holds nothing but what it is
//! made of: both must be the same, byte for byte.

use std::fs;
use std::path::Path;
use std::process::Command;

use toml_edit::{Array, DocumentMut};

use crate::copy;

/// The packages that the library is made of.
const MADE_OF: [&str; 3] = ["machine/host", "runtime", "malloc"];
const FILES: [&str; 2] = ["libcommensal.so", "libcommensal.a"];

/// Builds both and compares them.
pub fn run(root: &Path) -> Result<(), String> {
    let place = root.join("target/alone");
    // One tree after the other at the same place: debug information has paths.
    let tree = place.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree).map_err(|error| format!("{} cannot be removed: {error}", tree.display()))?;
    }
    copy::tree(root, &tree)?;
    build(&tree, &place.join("with"))?;
    strip_down(&tree)?;
    build(&tree, &place.join("without"))?;
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

fn build(tree: &Path, target: &Path) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--release", "--package", "malloc", "--target-dir"]);
    let output =
        command.arg(target).current_dir(tree).output().map_err(|error| format!("cargo cannot be started: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}
