//! A cache's name, for readers that run while the cache may be destroyed.
//!
//! A cache's description is never unmapped, and its id may serve another cache later. So a reader needs neither a lock
//! nor a grace period. It follows the re-check rule of typesafe memory: it notes the turn, reads, and checks the turn
//! again. If the turn has changed, the reader drops what it read, which mixes two caches.
//!
//! Runs at the same time: one writer, which owns the description, and any readers, also in signal handlers. After a
//! fork in the middle of a write, the child finds the id taken, without a cache.
//!
//! Source: sequence locks, as in the Linux kernel's `seqcount`.

use core::fmt;
use machine::sync::{AtomicU32, AtomicU64, Ordering, fence};

pub const NAME_BYTES: usize = 31;
const WORDS: usize = (NAME_BYTES + 1) / 8;
const _: () = assert!(WORDS * 8 == NAME_BYTES + 1);

/// A cache's name and the turn of its id. Zeroes: no cache yet, and no name.
#[derive(Debug)]
#[repr(C)]
pub struct Label {
    /// Odd during a write.
    turn: AtomicU32,
    /// The bytes; the last one holds their number.
    words: [AtomicU64; WORDS],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CacheName([u8; WORDS * 8]);

impl CacheName {
    fn new(name: &[u8]) -> Self {
        let bytes = name.len().min(NAME_BYTES);
        let mut whole = [0; WORDS * 8];
        whole[..bytes].copy_from_slice(&name[..bytes]);
        whole[NAME_BYTES] = bytes as u8;
        CacheName(whole)
    }

    pub fn as_str(&self) -> &str {
        let bytes = (self.0[NAME_BYTES] as usize).min(NAME_BYTES);
        core::str::from_utf8(&self.0[..bytes]).unwrap_or("?")
    }
}

impl fmt::Display for CacheName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Debug for CacheName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(out)
    }
}

impl Label {
    /// Initialises a fresh, zeroed label by a write. If the first access were a read, it would map the kernel's zero
    /// page, and the next write would interrupt all CPUs that the process runs on.
    pub fn begin(&self) {
        self.turn.store(0, Ordering::Relaxed);
    }

    /// Gives the label to another cache. The caller owns the description.
    pub fn write(&self, name: &[u8]) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
        // Pairs with the fence in `is_still`: a reader that saw a word stored below finds the turn changed.
        fence(Ordering::Release);
        for (word, bytes) in self.words.iter().zip(CacheName::new(name).0.as_chunks().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        // Release pairs with the acquire in `turn`: a reader with the new turn sees the whole name. Others drop theirs.
        self.turn.store(turn.wrapping_add(2), Ordering::Release);
    }

    /// The current turn. None: a write is under way.
    pub fn turn(&self) -> Option<u32> {
        Some(self.turn.load(Ordering::Acquire)).filter(|turn| turn.is_multiple_of(2))
    }

    /// Whether all reads since [`Self::turn`] belong to that turn.
    pub fn is_still(&self, turn: u32) -> bool {
        // Pairs with the fence in `write`.
        fence(Ordering::Acquire);
        self.turn.load(Ordering::Relaxed) == turn
    }

    /// The name. Valid if the cache is known to exist, or if [`Self::is_still`] holds afterwards.
    pub fn name(&self) -> CacheName {
        let mut name = [0; WORDS * 8];
        for (word, bytes) in self.words.iter().zip(name.as_chunks_mut().0) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        CacheName(name)
    }
}
