//! The C and C++ programs of `c/`, compiled when a test first asks for them.
//!
//! Optimisation is low and builtins are off, so that the compiler leaves every call of malloc in place.
//! A program is compiled into a file of the process's own and then renamed, so that test processes that run at
//! the same time never see half a program.

use crate::subject::{Library, library};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

const FLAGS: &[&str] = &["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-fno-builtin", "-D_GNU_SOURCE", "-pthread"];

/// The program made from `c/<name>.c` or `.cc`.
pub fn program(name: &str) -> PathBuf {
    variant(name, name, &[])
}

/// The same as a shared library.
pub fn shared_library(name: &str, output: &str, flags: &[&str]) -> PathBuf {
    variant(name, &format!("{output}.so"), &[&["-shared", "-fPIC"], flags].concat())
}

/// The library under test behind `c/broken.c` with a defect, or "NONE".
pub fn broken(defect: &str) -> Library {
    let output = format!("broken_{}", defect.to_lowercase());
    library().before(shared_library("broken", &output, &[&format!("-DDEFECT={defect}")]))
}

/// The program `output`, made from the source `name` with more flags; libraries among them come last.
pub fn variant(name: &str, output: &str, flags: &[&str]) -> PathBuf {
    // One cell an output, so that tests wait for a compilation only if it is theirs.
    static BUILT: OnceLock<Mutex<HashMap<String, Arc<OnceLock<PathBuf>>>>> = OnceLock::new();
    let cell = {
        let mut built = BUILT.get_or_init(Mutex::default).lock().expect("no test panics while it holds this lock");
        built.entry(output.to_owned()).or_default().clone()
    };
    cell.get_or_init(|| compile(&source(name), output, flags)).clone()
}

/// [`variant`] of a source that includes `commensal.h`.
pub fn with_commensal_header(name: &str, output: &str, flags: &[String]) -> PathBuf {
    variant(name, output, &flags_with_header(flags))
}

fn flags_with_header(flags: &[String]) -> Vec<&str> {
    let own = ["-Wpedantic", concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../malloc/include")];
    own.into_iter().chain(flags.iter().map(String::as_str)).collect()
}

/// The program `output` whose `main` does what the indented lines of the first comment of `commensal.h` say.
pub fn introduction_of_commensal_header(output: &str, flags: &[String]) -> PathBuf {
    let header = include_str!("../../malloc/include/commensal.h");
    let comment = header.lines().take_while(|line| *line != " */");
    let lines: Vec<&str> = comment.filter_map(|line| line.strip_prefix(" *     ")).collect();
    let includes = "#include <commensal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n";
    let source = crate::scratch("bin").join(format!("{output}.{}.c", std::process::id()));
    std::fs::write(&source, format!("{includes}int main(void) {{\n{}\n}}\n", lines.join("\n"))).expect("a file");
    compile(&source, output, &flags_with_header(flags))
}

fn source(name: &str) -> PathBuf {
    let c = crate::folder().join("c").join(format!("{name}.c"));
    if c.exists() { c } else { c.with_extension("cc") }
}

fn compile(source: &Path, output: &str, flags: &[&str]) -> PathBuf {
    let (compiler, standard) = if source.extension().is_some_and(|extension| extension == "cc") {
        ("g++", "-std=c++17")
    } else {
        ("gcc", "-std=c11")
    };
    let folder = crate::scratch("bin");
    let made = folder.join(output);
    let unfinished = folder.join(format!("{output}.{}", std::process::id()));
    let result = Command::new(compiler)
        .arg(standard)
        .args(FLAGS)
        .arg("-o")
        .args([&unfinished, &source.to_path_buf()])
        .args(flags)
        .output()
        .unwrap_or_else(|error| panic!("cannot run {compiler}, which these tests need: {error}"));
    let stderr = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{compiler} refuses {}:\n{stderr}", source.display());
    std::fs::rename(&unfinished, &made).expect("a file can be renamed in its folder");
    made
}
