//! Builds what the lab carries inside, and finds out the commit that results are signed with.
//!
//! Inside are the starter, a small program without any library (starter/main.rs), and the empty library (empty/lib.rs). Packages of
//! their own would be more files, to be found beside the command wherever that is installed.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const STARTER: [&str; 6] = [
    "--crate-name=starter",
    "--crate-type=bin",
    "-Crelocation-model=static",
    "-Clink-arg=-static",
    "-Clink-arg=-nostdlib",
    "-Clink-arg=-nostartfiles",
];

/// The real library's own flags (malloc/build.rs): a difference would be counted as start-up cost of the real one, or hide some.
const LIBRARY: [&str; 4] = [
    "--crate-name=empty",
    "--crate-type=cdylib",
    "-Clink-arg=-Wl,-z,nodelete",
    "-Clink-arg=-Wl,-z,separate-loadable-segments",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    compile("starter/main.rs", &STARTER, "starter");
    compile("empty/lib.rs", &LIBRARY, "libempty.so");
    sign();
}

fn compile(source: &str, flags: &[&str], name: &str) {
    println!("cargo::rerun-if-changed={}", Path::new(source).parent().expect("it is in a folder").display());
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR"));
    let compiler = env::var_os("RUSTC").expect("Cargo sets RUSTC");
    let status = Command::new(compiler)
        .args(["--edition=2024", "-Copt-level=2", "-Cpanic=abort", "-Cstrip=symbols"])
        .args(flags)
        .args(["--target", &env::var("TARGET").expect("Cargo sets TARGET"), "-o"])
        .arg(out.join(name))
        .arg(source)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "{source} does not compile; the lines above say why");
}

/// The commit that the lab is built from, empty if there is none; with a plus if the tree had changes then that are in no commit.
fn sign() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // Sources without a repository of their own may lie in another one, which says nothing of them.
    let root = Path::new("..").canonicalize().ok();
    let is_own = root.is_some() && git(&["rev-parse", "--show-toplevel"]).map(PathBuf::from) == root;
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| is_own).map_or(String::new(), |commit| {
        let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|list| !list.is_empty());
        if changed { commit + "+" } else { commit }
    });
    println!("cargo::rustc-env=LAB_COMMIT={commit}");
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}
