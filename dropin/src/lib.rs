//! Tests of `libcommensal.so` as what it claims to be: a malloc that unchanged programs do not notice.
//!
//! This package has no code of the product. Its tests build small C and C++ programs from `c/`, run them and
//! real programs (`programs/`) with the library preloaded, in both of its modes, and look at what comes out.
//! What the library has for programs that know it (`commensal.h`) is tested by some that are linked with it, and
//! by a project that finds it installed (`consumer/`). This crate holds what those tests share:
//!
//! - [`subject`]: the library under test, built on demand, and the modes to run it in;
//! - [`compile`]: the C and C++ sources, compiled once per test process;
//! - [`linked`]: a check of a program that is linked with the library;
//! - [`run`]: one command, bounded in time, and how it ended;
//! - [`check`]: one line such as `fork storm {600} fork,vfork`, as a test in both modes;
//! - [`skips`]: what is not here to be tested.
//!
//! Environment variables that change what is tested:
//!
//! | variable | meaning |
//! |---|---|
//! | `COMMENSAL_TEST_EFFORT` | multiplies the seconds and the counts of stress checks |
//! | `CI` | no program may be missing |

#![allow(missing_docs)]

pub mod check;
pub mod compile;
pub mod linked;
pub mod run;
pub mod skips;
pub mod subject;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// This package's folder.
pub fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A folder of this name for files that tests make, below cargo's target folder.
pub fn scratch(name: &str) -> PathBuf {
    // A test runs as <target>/<profile>/deps/<test>.
    let test = std::env::current_exe().expect("the running test has a path");
    let target = test.ancestors().nth(3).expect("a test runs three levels below the target folder");
    let folder = target.join("tmp").join("dropin").join(name);
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("cannot make {}: {error}", folder.display()));
    folder
}

/// A new folder, which is empty, and removed when a later process makes one.
pub fn empty_folder() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    static CLEAN: Once = Once::new();
    let all = scratch("folders");
    // Before this process makes one: an older process had the same number.
    CLEAN.call_once(|| remove_what_others_left(&all));
    // Relaxed: each value is given out once, whatever the order.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = all.join(format!("{}-{number}", std::process::id()));
    std::fs::create_dir(&folder).unwrap_or_else(|error| panic!("cannot make {}: {error}", folder.display()));
    folder
}

/// Folders begin with the number of the process that made them, as several may run at the same time.
fn remove_what_others_left(all: &Path) {
    for folder in std::fs::read_dir(all).expect("a folder can be listed") {
        let folder = folder.expect("a folder can be listed");
        let owner = folder.file_name().to_string_lossy().split('-').next().unwrap_or_default().to_owned();
        if owner == std::process::id().to_string() || !Path::new("/proc").join(owner).exists() {
            // Another process may be at it, too.
            let _ = std::fs::remove_dir_all(folder.path());
        }
    }
}

/// What cargo prints on standard output, in the repository's folder.
pub fn cargo(words: &[&str]) -> String {
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args(words)
        .current_dir(folder().parent().expect("this package lies in the repository"))
        .output()
        .expect("cargo runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`cargo {}` failed:\n{stderr}", words.join(" "));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
