//! What a cache is called, for those who ask while it may go.
//!
//! Descriptions of caches are never unmapped: at a place there is always one, of a cache that exists, or did, or will.
//! So whoever goes over all caches, to report on them, needs neither a lock nor a grace period: he follows the re-check
//! rule of typesafe memory. He notes whose place it is, reads, and looks whether it is still the same one's; if not,
//! what he has read is of two caches, and he drops it.
//!
//! Runs at the same time: one writes, who has the place to himself; any read, also in signal handlers. After a fork in
//! the middle of writing, the child finds the place taken, with no cache.
//!
//! Source: sequence locks, as in the Linux kernel's `seqcount`.

use core::fmt;
use machine::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Bytes of a cache's name, at most.
pub const NAME_BYTES: usize = 31;
const WORDS: usize = (NAME_BYTES + 1) / 8;
const _: () = assert!(WORDS * 8 == NAME_BYTES + 1);

/// A cache's name, and whose turn it is at the place. Zeroes: nobody's yet, and no name.
#[derive(Debug)]
#[repr(C)]
pub struct Label {
    /// Odd while the name is written.
    turn: AtomicU32,
    /// The bytes, and in the last one their number.
    words: [AtomicU64; WORDS],
}

/// A cache's name, read.
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

    /// Its text.
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
    /// A fresh place, which is zero, becomes one. It is written before anybody reads it: a page that is read first is
    /// the kernel's page of zeroes, and whoever writes it then interrupts all CPUs that the process runs on.
    pub fn begin(&self) {
        self.turn.store(0, Ordering::Relaxed);
    }

    /// The place becomes another cache's. By whoever has it to himself.
    pub fn write(&self, name: &[u8]) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
        // Pairs with the fence in `is_still`: who read any of the words below finds the turn changed. Who finds it
        // unchanged read none of them.
        fence(Ordering::Release);
        for (word, bytes) in self.words.iter().zip(CacheName::new(name).0.as_chunks().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        // Release pairs with the acquire in `turn`: who sees the new turn sees the whole name; who sees the last one
        // drops what he reads.
        self.turn.store(turn.wrapping_add(2), Ordering::Release);
    }

    /// Whose turn it is. None: just now it becomes another one's.
    pub fn turn(&self) -> Option<u32> {
        Some(self.turn.load(Ordering::Acquire)).filter(|turn| turn.is_multiple_of(2))
    }

    /// Whether all that was read since [`Self::turn`] is of that turn.
    pub fn is_still(&self, turn: u32) -> bool {
        // Pairs with the fence in `write`.
        fence(Ordering::Acquire);
        self.turn.load(Ordering::Relaxed) == turn
    }

    /// The name: good for whoever knows that the cache exists, or asks [`Self::is_still`] afterwards.
    pub fn name(&self) -> CacheName {
        let mut name = [0; WORDS * 8];
        for (word, bytes) in self.words.iter().zip(name.as_chunks_mut().0) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        CacheName(name)
    }
}
