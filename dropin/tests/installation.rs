//! What `cargo xtask install` installs: found by pkg-config and by CMake, wherever it was moved, and enough for the
//! examples in C; and the package in `examples/greeter`, which the book shows: built as its readers build it, and run.

use dropin::run::{End, Outcome, Run};
use dropin::skips::has_tools;
use dropin::subject::{Library, Mode};
use dropin::{folder, scratch};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

const FILES: [&str; 6] = [
    "include/commensal.h",
    "lib/cmake/commensal/commensal-config-version.cmake",
    "lib/cmake/commensal/commensal-config.cmake",
    "lib/libcommensal.a",
    "lib/libcommensal.so",
    "lib/pkgconfig/commensal.pc",
];

/// The installation: made for one prefix as a package is made, and moved to another.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        remove_what_others_left();
        let (made, moved) = (empty_folder("made"), empty_folder("moved"));
        let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
            .args(["run", "--quiet", "--package", "xtask", "--", "install", "--prefix", "/opt/table", "--destdir"])
            .arg(&made)
            .current_dir(folder())
            .output()
            .expect("cargo runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "`cargo xtask install` failed:\n{stderr}");
        std::fs::rename(made.join("opt/table"), &moved).expect("an installation can be moved");
        moved
    })
}

/// Folders begin with the number of the process that made them, as several may run at the same time.
fn remove_what_others_left() {
    for folder in std::fs::read_dir(scratch("installation")).expect("a folder can be listed") {
        let path = folder.expect("a folder can be listed").path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let owner = name.split('-').next().unwrap_or_default();
        if !Path::new("/proc").join(owner).exists() {
            // Another one may be at it, too.
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

fn empty_folder(name: &str) -> PathBuf {
    let path = scratch("installation").join(format!("{}-{name}", std::process::id()));
    if path.exists() {
        std::fs::remove_dir_all(&path).expect("a test's own folder can be removed");
    }
    std::fs::create_dir(&path).expect("a folder can be made below the target folder");
    path
}

/// A script, which finds the installation in `$PREFIX`, the repository in `$ROOT`, and an empty working folder.
fn run(script: &str, name: &str, mode: Mode) -> Outcome {
    let path = |path: &Path| path.display().to_string();
    Run::new("/bin/sh")
        .args(["-e", "-u", "-c", script])
        .env("PREFIX", &path(prefix()))
        .env("ROOT", &path(folder().parent().expect("this package lies in the repository")))
        .env("PKG_CONFIG_PATH", &path(&prefix().join("lib/pkgconfig")))
        .folder(&empty_folder(name))
        .limit(Duration::from_secs(900))
        .with(&Library::none(), mode)
}

fn holds(script: &str, name: &str, mode: Mode) -> Outcome {
    run(script, name, mode).ending(End::Exited(0)).unwrap_or_else(|report| panic!("{report}"))
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
    assert_eq!(texts.inspect(|text| assert!(!text.contains("/opt/table"), "{text}")).count(), 4);
}

const ANSWER: &str = "400000 requests\n300000 hits, 100000 misses\n1000 tickets sold, 1000 by all threads\n";

/// Builds one of the examples as its first lines say, and runs it.
fn example_says(name: &str, answer: &str) {
    let script = format!(
        "cc -Wall -Wextra -Werror $ROOT/examples/{name}.c $(pkg-config --cflags --libs commensal) -o {name}
        LD_LIBRARY_PATH=$PREFIX/lib ./{name}"
    );
    if has_tools("pkg-config", &["cc", "pkg-config"]) {
        for mode in [Mode::Normal, Mode::Fallback] {
            let outcome = holds(&script, name, mode);
            assert_eq!(outcome.stdout, answer, "{}", outcome.report("the example says something else"));
        }
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
    if has_tools("pkg-config", &["cc", "pkg-config"]) {
        let outcome = holds(SCRIPT, "static_example", Mode::Normal);
        assert_eq!(outcome.stdout, ANSWER, "{}", outcome.report("the example says something else"));
    }
}

#[test]
fn pkg_config_and_the_library_tell_the_same_version() {
    if has_tools("pkg-config", &["pkg-config"]) {
        let outcome = holds("pkg-config --modversion commensal", "version", Mode::Normal);
        assert_eq!(outcome.stdout.trim(), env!("CARGO_PKG_VERSION"));
    }
}

#[test]
fn cmake_finds_both_libraries() {
    const SCRIPT: &str = "cmake -S $ROOT/dropin/consumer -B . -DCMAKE_PREFIX_PATH=$PREFIX -DWANTED=0.1 > log
        cmake --build . >> log
        ./with_shared
        ./with_static";
    if has_tools("cmake", &["cmake", "gcc", "g++", "make"]) {
        let outcome = holds(SCRIPT, "consumer", Mode::Normal);
        let expected = "C counted 1\nC++ counted 1000\n";
        assert_eq!(outcome.stdout, expected, "{}", outcome.report("the programs say something else"));
    }
}

#[test]
fn cmake_refuses_other_versions() {
    const SCRIPT: &str = "cmake -S $ROOT/dropin/consumer -B . -DCMAKE_PREFIX_PATH=$PREFIX -DWANTED=";
    if has_tools("cmake", &["cmake", "gcc", "g++", "make"]) {
        for version in ["0.0", "0.2", "0.1.999", "1.0"] {
            let outcome = run(&format!("{SCRIPT}{version}"), &format!("version_{version}"), Mode::Normal);
            let refused = outcome.end == End::Exited(1) && outcome.stderr.contains("not accepted");
            assert!(refused, "{}", outcome.report(&format!("version {version} was accepted")));
        }
    }
}

/// What it prints; the book shows the same file.
const GREETING: &str = include_str!("../../examples/greeter/answer.txt");

/// Builds the package, whose target folder stays from one test to the next; returns its program.
fn built() -> PathBuf {
    let root = folder().parent().expect("this package lies in the repository");
    let target = root.join("target/examples");
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args(
            "build --quiet --release --locked --offline --manifest-path examples/greeter/Cargo.toml --target-dir"
                .split(' '),
        )
        .arg(&target)
        .current_dir(root)
        .output()
        .expect("cargo runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "examples/greeter is not built without a word:\n{stderr}");
    target.join("release/greeter")
}

#[test]
fn rust_package_says_what_the_book_shows() {
    let program = built();
    for mode in [Mode::Normal, Mode::Fallback] {
        let outcome = Run::new(&program).with(&Library::none(), mode);
        let outcome = outcome.ending(End::Exited(0)).unwrap_or_else(|report| panic!("{report}"));
        assert_eq!(outcome.stdout, GREETING, "{}", outcome.report("the example says something else"));
    }
}
