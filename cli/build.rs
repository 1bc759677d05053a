//! Puts the library inside the command, where no library will lie beside it.
//!
//! `cargo run` and `cargo build` at the workspace's root make the command and the library in one go, and the command finds
//! the library beside itself. `cargo install --path cli` builds this package only. So the rule is: carry the library,
//! unless COMMENSAL_EMBED says "no". The workspace's `.cargo/config.toml` says so, which spares `cargo run` a second build of
//! the library; `cli/.cargo/config.toml` takes it back, and Cargo reads that one for `cargo install --path cli` only (or when
//! it is started in `cli/`). Wherever neither file is read, the library is built twice, but none is ever missing.
//!
//! The library is built by a Cargo of its own in this script's output directory: the outer Cargo holds the lock of its
//! target directory while this script runs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the library is made of, relative to the workspace's root; a change in one of them builds it again.
const SOURCES: [&str; 5] = ["machine", "runtime", "malloc", "Cargo.toml", "Cargo.lock"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=COMMENSAL_EMBED");
    let embed = env::var("COMMENSAL_EMBED").as_deref() != Ok("no");
    let expression = if embed { format!("Some(include_bytes!({:?}))", build_library()) } else { "None".to_owned() };
    fs::write(directory("OUT_DIR").join("embedded.rs"), expression).expect("Cargo's OUT_DIR is writable");
}

/// Builds the library as the release profile has it, and says where it is.
fn build_library() -> PathBuf {
    let root = directory("CARGO_MANIFEST_DIR").join("..");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
    }
    let target = env::var("TARGET").expect("Cargo sets TARGET");
    let output = directory("OUT_DIR").join("library");
    run_cargo(&root, &output, &target);
    output.join(target).join("release/libcommensal.so")
}

fn run_cargo(root: &Path, output: &Path, target: &str) {
    let cargo = env::var_os("CARGO").expect("Cargo sets CARGO");
    let status = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--release", "--package", "malloc"])
        .args(["--target", target, "--target-dir"])
        .arg(output)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("building malloc for the command ended with {status}"),
        Err(error) => panic!("could not start Cargo to build malloc: {error}"),
    }
}

fn directory(variable: &str) -> PathBuf {
    PathBuf::from(env::var_os(variable).unwrap_or_else(|| panic!("Cargo sets {variable}")))
}
