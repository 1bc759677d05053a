//! Randomness that can be had again: a seed, a generator, and the words that say how to replay a failure.

use super::child;
use super::model::Operation;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

const SEED: &str = "COMMENSAL_TEST_SEED";

/// The seed of this run: what COMMENSAL_TEST_SEED says, else another one each time.
pub fn seed() -> u64 {
    match std::env::var(SEED) {
        Ok(text) => text.parse().expect("COMMENSAL_TEST_SEED is a number"),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_nanos() as u64 >> 10,
    }
}

/// Seed, commit, and the command that runs the test again with them.
pub fn replay(seed: u64) -> String {
    let git =
        Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let commit = git.map_or_else(|_| "unknown\n".into(), |output| String::from_utf8_lossy(&output.stdout).into_owned());
    format!(
        "seed {seed}, commit {}; replay with\n  {SEED}={seed} cargo test -p {} --test {} -- --exact {}",
        commit.trim(),
        env!("CARGO_PKG_NAME"),
        env!("CARGO_CRATE_NAME"),
        child::test()
    )
}

/// Marsaglia's xorshift: 64 bits of state, quick in debug builds.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64, stream: u64) -> Self {
        let mixed = (seed ^ stream.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        Random((mixed ^ mixed >> 29) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }

    /// Whether something happens that happens once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// The size of a request: of every magnitude up to 2^`magnitudes`, the edges of classes more often than others.
    pub fn size(&mut self, magnitudes: usize) -> usize {
        let magnitude = self.below(magnitudes);
        let size = (1 << magnitude) + self.below(1 << magnitude);
        let eighth = (1 << magnitude >> 3).max(1);
        match self.below(4) {
            0 => size.next_multiple_of(eighth),
            1 => size.next_multiple_of(eighth) + 1,
            _ => size,
        }
    }

    /// An operation: as many allocations as frees, on small blocks mostly.
    pub fn operation(&mut self) -> Operation {
        let bytes = match self.below(1024) {
            0 => self.size(27),
            1..32 => self.size(20),
            _ => self.size(14),
        };
        let which = self.next() as u32;
        match self.below(16) {
            0..6 => Operation::Allocate { bytes },
            6 => Operation::AllocateZeroed { bytes },
            7 => Operation::AllocateAligned { bytes, log2_alignment: self.below(14) as u32 },
            8 => Operation::Reallocate { which, bytes },
            _ => Operation::Free { which },
        }
    }
}
