//! What is tested: the shared library, and the modes that programs run in.
//!
//! The library is built once per test process, in release as users have it.

use crate::cargo;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Without any preloaded library: what the others are compared with.
    Without,
    Normal,
    /// The library is preloaded and the C library is told not to register restartable sequences, so that the
    /// library's fallback is at work.
    Fallback,
}

/// The libraries to preload, the one with malloc first; with none, malloc is libc's own.
#[derive(Clone, Debug)]
pub struct Library {
    paths: Vec<PathBuf>,
}

impl Library {
    pub fn none() -> Library {
        Library { paths: Vec::new() }
    }

    /// This file, which calls the others.
    pub fn before(&self, path: PathBuf) -> Library {
        assert!(path.is_file(), "no library at {}", path.display());
        Library { paths: [&[path], &self.paths[..]].concat() }
    }

    /// The file, unless this is libc's own malloc.
    pub fn path(&self) -> Option<&Path> {
        self.paths.first().map(PathBuf::as_path)
    }

    /// The file's name, by which a process tells whether it has the library; libc's if none is preloaded.
    pub fn name(&self) -> &str {
        self.path().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or("libc.so")
    }

    /// The variables that put a program into this mode.
    pub fn environment(&self, mode: Mode) -> Vec<(String, String)> {
        let mut variables = Vec::new();
        if mode == Mode::Fallback {
            variables.push(("GLIBC_TUNABLES".into(), "glibc.pthread.rseq=0".into()));
        }
        if mode != Mode::Without && !self.paths.is_empty() {
            let paths: Vec<_> = self.paths.iter().map(|path| path.display().to_string()).collect();
            variables.push(("LD_PRELOAD".into(), paths.join(":")));
        }
        variables
    }
}

/// The library that all tests are about, built if need be.
pub fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| Library::none().before(build("libcommensal.so")))
}

/// How a program that is linked with Commensal's library has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// `libcommensal.so`, by the names that it has where it is installed.
    Shared,
    /// `libcommensal.a`.
    Static,
}

impl Linkage {
    pub fn flags(self) -> Vec<String> {
        match self {
            Linkage::Static => vec![build("libcommensal.a").display().to_string()],
            Linkage::Shared => {
                let folder = installed_names().display().to_string();
                vec![format!("-L{folder}"), format!("-Wl,-rpath,{folder}"), "-lcommensal".into()]
            }
        }
    }
}

/// A folder in which the built library has the name that linkers look for, and the one that programs then ask for.
fn installed_names() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let (folder, path) = (crate::empty_folder(), library().path().expect("Commensal is a file"));
        for name in ["libcommensal.so", "libcommensal.so.0"] {
            std::os::unix::fs::symlink(path, folder.join(name)).expect("a link can be made in an empty folder");
        }
        folder
    })
}

/// Builds the malloc package and returns the file of this name that cargo says it made.
pub fn build(name: &str) -> PathBuf {
    let messages = cargo(&["build", "--release", "-p", "malloc", "--message-format=json-render-diagnostics"]);
    let file = messages.split('"').find(|text| text.ends_with(&format!("/{name}")));
    PathBuf::from(file.unwrap_or_else(|| panic!("`cargo build --release -p malloc` made no {name}")))
}

/// What the seconds and the counts of stress checks are multiplied by: what `COMMENSAL_TEST_EFFORT` says.
pub fn effort() -> f64 {
    let text = std::env::var("COMMENSAL_TEST_EFFORT").unwrap_or_else(|_| "1".into());
    text.parse().unwrap_or_else(|_| panic!("COMMENSAL_TEST_EFFORT is {text:?}, not a number"))
}
