//! Heap profiles: read, named, compared, drawn.
//!
//! A profile is a file in the format of pprof ([`proto`]), gzipped or not. The library writes addresses only, so that
//! it needs no symbols. This package does the rest, in this order:
//!
//! 1. [`read::file`] reads a profile and checks that all that it refers to is there.
//! 2. [`names::add`] finds functions, lines and inlined frames in the ELF files that the profile names.
//! 3. [`trim::allocator_frames`] drops the allocator's own frames, so that a stack begins at the program's call.
//! 4. [`Profile::new`](profile::Profile::new) makes samples of it. [`table`], [`diff`], [`estimate`] and [`flame`]
//!    work on these.
//!
//! Nothing here prints: the command does.

pub mod builder;
pub mod diff;
mod elf;
pub mod estimate;
pub mod flame;
mod mangled;
pub mod names;
pub mod profile;
pub mod proto;
pub mod read;
pub mod table;
pub mod trim;

use std::path::Path;

use profile::Profile;

/// A profile with names, and all that a reader should know of how they were found.
pub struct Opened {
    /// The profile as a file would have it.
    pub raw: proto::Profile,
    /// Warnings, each a sentence without an end.
    pub warnings: Vec<String>,
}

impl Opened {
    /// Its samples.
    pub fn profile(&self) -> anyhow::Result<Profile> {
        Profile::new(&self.raw)
    }
}

/// Reads a profile, names its functions, and drops the allocator's frames.
pub fn open(path: &Path) -> anyhow::Result<Opened> {
    Ok(named(read::file(path)?))
}

/// The same for the bytes of a file.
pub fn of_bytes(bytes: &[u8]) -> anyhow::Result<Opened> {
    Ok(named(read::profile(bytes)?))
}

fn named(mut raw: proto::Profile) -> Opened {
    let warnings = names::add(&mut raw, Path::new(names::DEBUG_FILES));
    trim::allocator_frames(&mut raw);
    Opened { raw, warnings }
}
