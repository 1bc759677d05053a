//! Programs that are watched, each test's in a runtime directory of its own: what lies there is what the test put there.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use watch::namespaces::Namespaces;
use watch::process::now_ns;

use super::{PATIENCE, commensal, compile, succeeds};

/// What the program is called that holds memory.
pub const NAME: &str = "cm-held";
/// The kernel gives no process such a number.
pub const NOBODYS: u32 = 5_000_000;

/// The place of a test.
pub struct Place(TempDir);

/// A program under the library, until it is dropped.
pub struct Watched(pub Child);

impl Place {
    pub fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    /// The runtime directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The file of a process's page.
    pub fn page(&self, pid: u32) -> PathBuf {
        self.path().join("commensal").join(Namespaces::now().name(pid).to_string())
    }

    /// The command, which looks here.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = commensal();
        command.env("XDG_RUNTIME_DIR", self.path()).args(args);
        command
    }

    /// Starts a program that holds so many MiB and objects of 64 bytes and comes along every so many milliseconds; returns when its page says so.
    pub fn start(&self, mib: u32, objects: u32, pause_ms: u32) -> Watched {
        let mut command = self.command(&["run", "--", &format!("./{NAME}")]);
        command.args([mib, objects, pause_ms].map(|number| number.to_string()));
        let watched = Watched::when_ready(command.current_dir(program()));
        // A page that was begun before may have looked for caches before there were any.
        let ready_ns = now_ns();
        let expected = (u64::from(mib) << 20) + 64 * u64::from(objects);
        eventually("the page says what is held", || {
            let said = self.json(watched.pid());
            let number = |value: &Value| value.as_u64().unwrap();
            let is_whole = number(&said["began_ns"]) >= ready_ns;
            (is_whole && number(&said["process"]["in_use_bytes"]) >= expected).then_some(())
        });
        watched
    }

    /// What `stat` says of a process.
    pub fn json(&self, pid: u32) -> Value {
        serde_json::from_slice(&succeeds(&mut self.command(&["stat", "--json", &pid.to_string()])).stdout).unwrap()
    }
}

impl Watched {
    pub fn start(command: &mut Command) -> Self {
        Watched(command.spawn().unwrap())
    }

    /// Starts a program that says that it is ready, and then reads until it is to end.
    pub fn when_ready(command: &mut Command) -> Self {
        let mut watched = Watched::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let mut line = String::new();
        BufReader::new(watched.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        watched
    }

    pub fn stderr(&mut self) -> &mut ChildStderr {
        self.0.stderr.as_mut().expect("it is a pipe")
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Ends it as the kernel does when there is no memory, and waits for it.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Lets it end in an orderly way.
    pub fn finish(&mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The directory of the program, which is compiled once.
pub fn program() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let compiled = || {
        let folder = tempfile::tempdir().unwrap();
        let header = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../malloc/include");
        compile(include_str!("../held.c"), &folder.path().join(NAME), &["-O1", header]);
        folder
    };
    FOLDER.get_or_init(compiled).path()
}

/// What there is sooner or later.
#[track_caller]
pub fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    let mut look = look;
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}
