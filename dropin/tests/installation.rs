//! What `cargo xtask install` installs: found by pkg-config and by CMake, wherever it was moved, and enough for the
//! examples in C; and the package in `examples/greeter`, which the book shows: built as its readers build it, and run.

use dropin::run::{End, Outcome, Run};
use dropin::skips::has_tools;
use dropin::subject::{Library, Mode};
use dropin::{cargo, empty_folder, folder};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

const FILES: [&str; 9] = [
    "include/commensal.h",
    "include/commensal.hpp",
    "lib/cmake/commensal/commensal-config-version.cmake",
    "lib/cmake/commensal/commensal-config.cmake",
    "lib/libcommensal.a",
    "lib/libcommensal.so",
    "lib/libcommensal.so.0",
    concat!("lib/libcommensal.so.", env!("CARGO_PKG_VERSION")),
    "lib/pkgconfig/commensal.pc",
];

/// The installation: made for one prefix as a package is made, and moved to another.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let (made, moved) = (empty_folder(), empty_folder());
        let destination = made.display().to_string();
        cargo(&["xtask", "install", "--prefix", "/opt/table", "--destdir", &destination]);
        std::fs::rename(made.join("opt/table"), &moved).expect("an installation can be moved");
        moved
    })
}

/// A script, which finds the installation in `$PREFIX`, the repository in `$ROOT`, and an empty working folder.
fn run(script: &str, mode: Mode) -> Outcome {
    let prefix = prefix().display();
    Run::new("/bin/sh")
        .args(["-e", "-u", "-c", script])
        .env("PREFIX", &prefix.to_string())
        .env("ROOT", &folder().parent().expect("this package lies in the repository").display().to_string())
        .env("PKG_CONFIG_PATH", &format!("{prefix}/lib/pkgconfig"))
        .folder(&empty_folder())
        .limit(Duration::from_secs(900))
        .with(&Library::none(), mode)
}

fn holds(script: &str, mode: Mode) -> Outcome {
    run(script, mode).ending(End::Exited(0)).unwrap_or_else(|report| panic!("{report}"))
}

fn files_below(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder can be listed");
    let paths = entries.map(|entry| entry.expect("a folder can be listed").path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { BTreeSet::from([path]) }).collect()
}

#[test]
fn these_files_and_no_others() {
    let installed = files_below(prefix());
    assert_eq!(installed, FILES.iter().map(|file| prefix().join(file)).collect());
    let read = |path: &Path| std::fs::read(path).expect("an installed file can be read");
    let header = folder().with_file_name("malloc").join("include/commensal.h");
    assert_eq!(read(&prefix().join("include/commensal.h")), read(&header));
    let texts = installed.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    assert_eq!(texts.inspect(|text| assert!(!text.contains("/opt/table"), "{text}")).count(), 5);
}

const ANSWER: &str = "400000 requests\n300000 hits, 100000 misses\n1000 tickets sold, 1000 by all threads\n";

/// Runs a script if the tools are there, and looks at what it prints.
fn says(tools: &[&str], script: &str, mode: Mode, answer: &str) {
    if has_tools("an installation", tools) {
        let outcome = holds(script, mode);
        assert_eq!(outcome.stdout, answer, "{}", outcome.report("it says something else"));
    }
}

/// Builds one of the examples as its first lines say, and runs it.
fn example_says(name: &str, answer: &str) {
    let script = format!(
        "cc -Wall -Wextra -Werror $ROOT/examples/{name}.c $(pkg-config --cflags --libs commensal) -o {name}
        LD_LIBRARY_PATH=$PREFIX/lib ./{name}"
    );
    for mode in [Mode::Normal, Mode::Fallback] {
        says(&["cc", "pkg-config"], &script, mode, answer);
    }
}

#[test]
fn example_of_a_counter_is_built_by_pkg_config() {
    example_says("counter", ANSWER);
}

#[test]
fn example_of_a_list_is_built_by_pkg_config() {
    let costs: String = (0..4).map(|network| format!("network {network} costs 101\n")).collect();
    example_says("rcu_list", &format!("{costs}0 lookups found what is gone\n"));
}

#[test]
fn example_of_a_typesafe_cache_is_built_by_pkg_config() {
    example_says("rcu_typesafe", "0 accounts are open\nsomething was paid in, 0 of it was lost\n");
}

#[test]
fn example_of_a_tenant_is_built_by_pkg_config() {
    // The book shows the same file.
    example_says("tenant", include_str!("../../examples/tenant.txt"));
}

#[test]
fn static_program_is_built_by_pkg_config() {
    const SCRIPT: &str =
        "cc -static $ROOT/examples/counter.c $(pkg-config --static --cflags --libs commensal) -o counter
        ./counter";
    says(&["cc", "pkg-config"], SCRIPT, Mode::Normal, ANSWER);
}

#[test]
fn pkg_config_and_the_library_tell_the_same_version() {
    let version = concat!(env!("CARGO_PKG_VERSION"), "\n");
    says(&["pkg-config"], "pkg-config --modversion commensal", Mode::Normal, version);
}

const CMAKE: [&str; 4] = ["cmake", "gcc", "g++", "make"];

#[test]
fn cmake_finds_both_libraries() {
    const SCRIPT: &str = "cmake -S $ROOT/dropin/consumer -B . -DCMAKE_PREFIX_PATH=$PREFIX -DWANTED=0.1 > log
        cmake --build . >> log
        ./with_shared
        ./with_static";
    says(&CMAKE, SCRIPT, Mode::Normal, "C counted 1\nC++ counted 1000\n");
}

#[test]
fn cmake_refuses_other_versions() {
    const SCRIPT: &str = "cmake -S $ROOT/dropin/consumer -B . -DCMAKE_PREFIX_PATH=$PREFIX -DWANTED=";
    if has_tools("cmake", &CMAKE) {
        for version in ["0.0", "0.2", "0.1.999", "1.0"] {
            let outcome = run(&format!("{SCRIPT}{version}"), Mode::Normal);
            let refused = outcome.end == End::Exited(1) && outcome.stderr.contains("not accepted");
            assert!(refused, "{}", outcome.report(&format!("version {version} was accepted")));
        }
    }
}

/// What it prints; the book shows the same file.
const GREETING: &str = include_str!("../../examples/greeter/answer.txt");

/// The package is built as its readers build it; its target folder stays from one test to the next.
#[test]
fn rust_package_says_what_the_book_shows() {
    let target = folder().with_file_name("target").join("examples");
    let (manifest, quiet) = ("--manifest-path=examples/greeter/Cargo.toml", "--config=build.rustflags=['-Dwarnings']");
    let folder = format!("--target-dir={}", target.display());
    cargo(&["build", "--release", "--locked", "--offline", quiet, manifest, &folder]);
    for mode in [Mode::Normal, Mode::Fallback] {
        let outcome = Run::new(target.join("release/greeter")).with(&Library::none(), mode);
        let outcome = outcome.ending(End::Exited(0)).unwrap_or_else(|report| panic!("{report}"));
        assert_eq!(outcome.stdout, GREETING, "{}", outcome.report("the example says something else"));
    }
}
