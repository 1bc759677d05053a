//! Do the crates for programs work where the runtime does not? Their plain means are tested here, and compiled for targets
//! of each kind; and all of the workspace is compiled by the oldest compiler that it promises.

use std::path::Path;
use std::process::Command;

use toml_edit::DocumentMut;

use crate::library::succeeds;

/// One of each kind that the runtime does not know.
const TARGETS: [&str; 4] =
    ["aarch64-apple-darwin", "x86_64-pc-windows-gnu", "aarch64-unknown-linux-gnu", "x86_64-unknown-linux-musl"];
/// What compiles on all of them.
const PORTABLE: [&str; 4] = ["--package", "commensal", "--package", "commensal-metrics"];
/// Examples of the mechanisms that all targets have.
const EXAMPLES: [&str; 4] = ["allocator", "cache", "cell", "counter"];

/// All of it. Downloads targets and a compiler if rustup does not have them.
pub fn run(root: &Path) -> Result<(), String> {
    test(root)?;
    for target in TARGETS {
        rustup(root, &["target", "add", target])?;
        let mut check = cargo(root, &["check", "--quiet", "--locked", "--target", target]);
        succeeds(check.args(PORTABLE).env("RUSTFLAGS", "-D warnings"))?;
        println!("portable: {target} compiles");
    }
    let oldest = oldest(root)?;
    rustup(root, &["toolchain", "install", &oldest, "--profile", "minimal"])?;
    rustup(root, &["run", &oldest, "cargo", "check", "--quiet", "--locked", "--workspace", "--target-dir", TARGET])?;
    println!("portable: Rust {oldest} compiles the workspace");
    Ok(())
}

/// Tests the plain means on this machine.
pub fn test(root: &Path) -> Result<(), String> {
    ["clippy", "test"].into_iter().try_for_each(|task| {
        let mut task = cargo(root, &[task, "--quiet", "--package", "commensal", "--lib", "--test", "portable"]);
        task.args(EXAMPLES.iter().flat_map(|name| ["--example", name]));
        succeeds(task.env("RUSTFLAGS", "--cfg commensal_plain -D warnings"))
    })
}

/// Apart from what is compiled with other flags, which would be compiled anew each time.
const TARGET: &str = "target/portable";

fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(arguments).args(["--target-dir", TARGET]).current_dir(root);
    cargo
}

/// Targets and compilers come by rustup, in the versions of the project.
fn rustup(root: &Path, arguments: &[&str]) -> Result<(), String> {
    succeeds(Command::new("rustup").args(arguments).current_dir(root))
        .map_err(|why| format!("{why}; expected rustup, and a network if it does not have it yet"))
}

/// The version of Rust that the workspace promises.
fn oldest(root: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(root.join("Cargo.toml")).map_err(|error| format!("Cargo.toml: {error}"))?;
    let manifest: DocumentMut = text.parse().map_err(|error| format!("Cargo.toml is not TOML: {error}"))?;
    let version = manifest["workspace"]["package"]["rust-version"].as_str();
    version.map(str::to_owned).ok_or_else(|| "found no rust-version in Cargo.toml's workspace.package".to_owned())
}
