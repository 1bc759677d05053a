//! The allocators that Commensal is measured against, as shared libraries to preload.
//!
//! build.rs has built them when this crate compiles; here is only where they lie and which versions
//! they are.

use std::path::Path;

/// One peer's library.
pub struct Peer {
    /// Where the library lies.
    library: &'static str,
    /// The version of the allocator itself.
    pub version: &'static str,
    /// The crate whose copy of the source it was built from, with that crate's version.
    pub carrier: &'static str,
}

impl Peer {
    /// The file to name in `LD_PRELOAD`.
    pub fn library(&self) -> &'static Path {
        Path::new(self.library)
    }
}

/// mimalloc, by Daan Leijen at Microsoft Research.
pub const MIMALLOC: Peer = Peer { library: env!("MIMALLOC"), version: "3.6.0", carrier: env!("MIMALLOC_CRATE") };

/// jemalloc, by Jason Evans and others.
pub const JEMALLOC: Peer = Peer { library: env!("JEMALLOC"), version: "5.3.1", carrier: env!("JEMALLOC_CRATE") };

/// snmalloc, by Microsoft Research and others.
pub const SNMALLOC: Peer = Peer { library: env!("SNMALLOC"), version: "0.7.6", carrier: env!("SNMALLOC_CRATE") };
