//! Builds each peer as the shared library that its authors would have you preload: with its own
//! build system, in its own release configuration, out of tree. Nothing is downloaded here but
//! through Cargo, and nothing of a peer is committed.
//!
//! Each library's path reaches the crate in an environment variable, `MIMALLOC`, `JEMALLOC` or
//! `SNMALLOC`, and the version of the crate that carried it in the same with `_CRATE` appended.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{Metadata, MetadataCommand, Package};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR"));
    let metadata =
        MetadataCommand::new().exec().expect("cargo metadata lists the crates that carry the peers' sources");

    let carrier = package(&metadata, "libmimalloc-sys2");
    publish("MIMALLOC", carrier, &mimalloc(&folder(carrier), &out));
    let carrier = package(&metadata, "tikv-jemalloc-sys");
    publish("JEMALLOC", carrier, &jemalloc(&folder(carrier), &out));
    let carrier = package(&metadata, "snmalloc-sys");
    publish("SNMALLOC", carrier, &snmalloc(&folder(carrier), &out));
}

/// mimalloc, with its release defaults: `-ftls-model=initial-exec`, override on, padding and checks
/// off.
fn mimalloc(source: &Path, out: &Path) -> PathBuf {
    let build = out.join("mimalloc");
    cmake(
        &source.join("c_src/mimalloc3"),
        &build,
        "mimalloc",
        &["-DMI_BUILD_STATIC=OFF", "-DMI_BUILD_OBJECT=OFF", "-DMI_BUILD_TESTS=OFF"],
    );
    build.join("libmimalloc.so")
}

/// jemalloc, with its release defaults. Its makefile works in the source tree, so it gets a copy of
/// it.
fn jemalloc(source: &Path, out: &Path) -> PathBuf {
    let build = out.join("jemalloc");
    if build.exists() {
        fs::remove_dir_all(&build).expect("an earlier build can be removed");
    }
    run(Command::new("cp").arg("-R").arg(source.join("jemalloc")).arg(&build));
    run(Command::new("cp").arg(source.join("configure/configure")).arg(&build));
    run(in_folder("sh", &build).args([
        "configure",
        "--enable-doc=no",
        "--disable-static",
        // There is no git history to read the version from. The hash is required in the form, and
        // not used.
        "--with-version=5.3.1-0-g0000000000000000000000000000000000000000",
    ]));
    run(in_folder("make", &build).arg("build_lib_shared").arg(jobs()));
    build.join("lib/libjemalloc.so.2")
}

/// snmalloc's preload shim without checks. With g++: clang's build was no faster side by side, and
/// its processes were 0.4 MB larger.
fn snmalloc(source: &Path, out: &Path) -> PathBuf {
    let build = out.join("snmalloc");
    cmake(
        &source.join("upstream"),
        &build,
        "snmallocshim",
        &["-DSNMALLOC_BUILD_TESTING=OFF", "-DSNMALLOC_STATIC_LIBRARY=OFF", "-DCMAKE_CXX_COMPILER=g++"],
    );
    build.join("libsnmallocshim.so")
}

/// Configures `source` for release and builds one target of it.
fn cmake(source: &Path, build: &Path, target: &str, options: &[&str]) {
    run(Command::new("cmake")
        .arg("-S")
        .arg(source)
        .arg("-B")
        .arg(build)
        .arg("-DCMAKE_BUILD_TYPE=Release")
        .args(options));
    run(Command::new("cmake").arg("--build").arg(build).args(["--target", target]).arg(jobs()));
}

fn in_folder(program: impl AsRef<OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder);
    command
}

fn jobs() -> String {
    format!("-j{}", env::var("NUM_JOBS").expect("Cargo sets NUM_JOBS"))
}

/// Runs a step of a build. Cargo shows its output if we panic.
fn run(command: &mut Command) {
    // Cargo's own settings would change the flags that upstream chose.
    for variable in ["CFLAGS", "CXXFLAGS", "LDFLAGS", "MAKEFLAGS", "LD_PRELOAD"] {
        command.env_remove(variable);
    }
    let status = command.status().unwrap_or_else(|error| {
        panic!("{command:?} didn't start ({error}); Debian's packages cmake, make and g++ bring it")
    });
    assert!(status.success(), "{command:?} failed with {status}");
}

fn package<'a>(metadata: &'a Metadata, name: &str) -> &'a Package {
    metadata
        .packages
        .iter()
        .find(|package| package.name.as_str() == name)
        .unwrap_or_else(|| panic!("{name} isn't among the dependencies of peers/Cargo.toml"))
}

fn folder(package: &Package) -> PathBuf {
    package.manifest_path.parent().expect("a manifest lies in a folder").into()
}

fn publish(variable: &str, carrier: &Package, library: &Path) {
    assert!(library.exists(), "the build of {variable} left no {}", library.display());
    println!("cargo:rustc-env={variable}={}", library.display());
    println!("cargo:rustc-env={variable}_CRATE={} {}", carrier.name, carrier.version);
}
