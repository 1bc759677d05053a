//! What the integration tests share: the command under test, the library, and a visible way to skip.

#![allow(dead_code)] // Each test binary uses its part.

pub mod form;
pub mod terminal;
pub mod watched;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

pub use dropin::skips::skip;
use serde_json::Value;

/// What may pass before something counts as hanging: far more than a busy machine needs.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// The `commensal` command, told where the library is.
pub fn commensal() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_commensal"));
    command.env("COMMENSAL_LIBRARY", library());
    command.env_remove("COMMENSAL_CONF").env_remove("LD_PRELOAD");
    command
}

/// Gives a command that starts the command under test what that one is given.
pub fn as_commensal(command: &mut Command) -> &mut Command {
    for (name, value) in commensal().get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// What `commensal ARGS…` does.
pub fn commensal_does(args: &[&str]) -> Output {
    commensal().args(args).output().expect("the command starts")
}

/// What a command does that ends with status 0.
#[track_caller]
pub fn succeeds(command: &mut Command) -> Output {
    let done = command.output().expect("the command starts");
    assert_eq!(done.status.code(), Some(0), "{command:?}: {}{}", text(&done.stdout), text(&done.stderr));
    done
}

/// All of these words are in what was printed to standard output.
#[track_caller]
pub fn assert_says(done: &Output, expected: &[&str]) {
    let said = text(&done.stdout);
    for words in expected {
        assert!(said.contains(words), "{words:?} is missing in\n{said}{}", text(&done.stderr));
    }
}

/// A metric's runs in a result, and their median: of the arm with this name and these parameters.
#[track_caller]
pub fn found(result: &Value, name: &str, parameters: &Value, metric: &str) -> (usize, f64) {
    let is_it = |arm: &&Value| arm["name"] == name && arm["parameters"] == *parameters;
    let arm = result["arms"].as_array().unwrap().iter().find(is_it);
    let of = &arm.unwrap_or_else(|| panic!("no {name} with {parameters}"))["metrics"][metric];
    let runs = of["runs"].as_array().unwrap_or_else(|| panic!("no {metric} of {name} with {parameters}"));
    (runs.len(), of["median"].as_f64().unwrap())
}

/// The library: the one that COMMENSAL_LIBRARY names, else the release build, brought up to date once.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    let build = || dropin::subject::build("libcommensal.so");
    LIBRARY.get_or_init(|| std::env::var_os("COMMENSAL_LIBRARY").map_or_else(build, PathBuf::from))
}

/// What was printed, for an assertion.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Makes an executable file that holds what `from` holds.
///
/// Another process writes it: a file that this one wrote could still be open in a child that another test is just
/// starting, and what is open for writing cannot be executed.
pub fn install_program(from: impl Into<Stdio>, to: &Path) {
    let installed = Command::new("install").args(["-m", "755", "/dev/stdin"]).arg(to).stdin(from).status();
    assert!(installed.expect("install is there").success());
}

/// Makes an executable file with these contents, for instance a script.
pub fn write_program(path: &Path, contents: &str) {
    let text = path.with_extension("text");
    fs::write(&text, contents).unwrap();
    install_program(fs::File::open(&text).unwrap(), path);
}

/// A directory for PATH, in which there are these programs and no others.
pub fn path_of(folder: &Path, programs: &[&str]) -> PathBuf {
    let path = folder.join("bin");
    fs::create_dir(&path).unwrap();
    for name in programs {
        let real = ["/bin", "/usr/bin"].map(|place| Path::new(place).join(name));
        symlink(real.iter().find(|path| path.exists()).unwrap(), path.join(name)).unwrap();
    }
    path
}

/// Compiles a C program with the system's compiler.
pub fn compile(source: &str, output: &Path, options: &[&str]) {
    let file = output.with_extension("c");
    fs::write(&file, source).unwrap();
    let status = Command::new("gcc").args(options).arg("-o").arg(output).arg(&file).status();
    assert!(status.expect("gcc is installed").success());
}

/// A result, after its form was checked.
pub fn result(path: &Path) -> Value {
    valid(&fs::read(path).unwrap())
}

/// Likewise, from its text.
pub fn valid(text: &[u8]) -> Value {
    serde_json::from_slice::<form::Outcome>(text).unwrap().check();
    serde_json::from_slice(text).unwrap()
}
