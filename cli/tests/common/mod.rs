//! What the integration tests share: the command under test, the library, and a visible way to skip.

#![allow(dead_code)] // Each test binary uses its part.

pub mod terminal;
pub mod watched;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

pub use dropin::skips::skip;
use serde_json::Value;

/// What may pass before something counts as hanging: far more than a busy machine needs.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// A user without rights, there on every Linux.
pub const NOBODY: u32 = 65534;

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
    assert_contains(&text(&done.stdout), expected);
}

#[track_caller]
pub fn assert_contains(said: &str, expected: &[&str]) {
    for words in expected {
        assert!(said.contains(words), "{words:?} is missing in\n{said}");
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

/// The command under test where any user may start it, with the library beside it.
pub fn for_everybody(folder: &Path) -> PathBuf {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let command = folder.join("commensal");
    for (from, to) in
        [(Path::new(env!("CARGO_BIN_EXE_commensal")), &command), (library(), &folder.join("libcommensal.so"))]
    {
        install_program(fs::File::open(from).unwrap(), to);
    }
    command
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

/// Likewise, from its text: programs in other languages go by these names.
#[track_caller]
pub fn valid(text: &[u8]) -> Value {
    let result: Value = serde_json::from_slice(text).unwrap();
    let all = |name: &str| result[name].as_array().unwrap();
    assert!(["experiment", "commit", "command"].iter().all(|name| result[name].is_string()), "{result}");
    assert!(["seed", "blocks"].iter().all(|name| result[name].is_u64()) && result["interrupted"].is_boolean());
    has_names(&result["machine"], "cpus is_virtual kernel kind libc model");
    assert!(!all("arms").is_empty());
    for arm in all("arms") {
        has_names(arm, "metrics name origin parameters");
        for metric in arm["metrics"].as_object().unwrap().values() {
            has_names(metric, "ci95 median runs unit");
            let unit = metric["unit"].as_str().unwrap();
            assert!(["s", "ns", "ms", "us", "kB", "B", "1", "1/s"].contains(&unit), "{unit}");
        }
    }
    for compared in all("comparisons") {
        has_names(compared, "baseline candidate ci95 document mde metric p parameters ratio verdict");
        let verdict = compared["verdict"].as_str().unwrap();
        assert!(["faster", "slower", "no difference shown"].contains(&verdict), "{verdict}");
    }
    all("findings").iter().for_each(|finding| has_names(finding, "arm detail is_fault row what"));
    result
}

#[track_caller]
fn has_names(object: &Value, names: &str) {
    let mut found: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    found.sort_unstable();
    assert_eq!(found.join(" "), names);
}
