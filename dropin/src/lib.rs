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
//! - [`skips`]: what is not here to be tested, and who allowed that.
//!
//! Environment variables that change what is tested:
//!
//! | variable | meaning |
//! |---|---|
//! | `COMMENSAL_TEST_EFFORT` | multiplies the seconds and the counts of stress checks |
//! | `CI` | programs that are missing must be listed in `.ci/skips` |

#![allow(missing_docs)]

pub mod check;
pub mod compile;
pub mod linked;
pub mod run;
pub mod skips;
pub mod subject;

use std::path::{Path, PathBuf};

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
