//! The allocators side by side. An arm is one of them with the library to preload for it.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;
use peers::Peer;
use serde::Serialize;

/// What `--libs` chooses from. glibc is what programs use when nothing is preloaded: a reference,
/// not a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Allocator {
    Glibc,
    Commensal,
    Mimalloc,
    Jemalloc,
    Snmalloc,
}

impl Allocator {
    /// In the order of the tables' columns.
    pub const ALL: [Allocator; 5] =
        [Allocator::Glibc, Allocator::Commensal, Allocator::Mimalloc, Allocator::Jemalloc, Allocator::Snmalloc];
}

/// The label of the arm that preloads nothing.
pub const GLIBC: &str = "glibc";
/// The label of the arm that is judged.
pub const COMMENSAL: &str = "commensal";
/// The label of the peer that memory is judged against.
pub const SNMALLOC: &str = "snmalloc";
/// The labels of the arms that it is judged against.
pub const PEERS: [&str; 3] = ["mimalloc", "jemalloc", SNMALLOC];

/// One side of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Arm {
    /// What tables call it.
    pub label: &'static str,
    /// Which version it is, and where from.
    pub origin: String,
    /// What to preload.
    pub library: Option<PathBuf>,
}

impl Arm {
    pub fn new(allocator: Allocator, commensal: &Path) -> Arm {
        match allocator {
            Allocator::Glibc => Arm::without_library(GLIBC),
            Allocator::Commensal => Arm::preloading(COMMENSAL, commensal),
            Allocator::Mimalloc => Arm::of_peer(PEERS[0], &peers::MIMALLOC),
            Allocator::Jemalloc => Arm::of_peer(PEERS[1], &peers::JEMALLOC),
            Allocator::Snmalloc => Arm::of_peer(SNMALLOC, &peers::SNMALLOC),
        }
    }

    /// An arm that is no allocator, or none with a version: its origin is the library's path.
    pub fn preloading(label: &'static str, library: &Path) -> Arm {
        Arm { label, origin: library.display().to_string(), library: Some(library.to_owned()) }
    }

    fn without_library(label: &'static str) -> Arm {
        Arm { label, origin: "nothing preloaded".to_owned(), library: None }
    }

    fn of_peer(label: &'static str, peer: &Peer) -> Arm {
        let origin = format!("{}, from the crate {}", peer.version, peer.carrier);
        Arm { label, origin, library: Some(peer.library().to_owned()) }
    }

    /// `LD_PRELOAD` for this arm, if it needs one.
    pub fn preload(&self) -> Option<String> {
        self.library.as_ref().map(|library| format!("LD_PRELOAD={}", library.display()))
    }

    /// A command that will run on this arm's allocator.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        match &self.library {
            Some(library) => command.env("LD_PRELOAD", library),
            None => command.env_remove("LD_PRELOAD"),
        };
        command
    }
}
