//! Any calls of malloc and its kin, in any order: no two blocks overlap, and each keeps its contents.
//!
//! Planted bug that was seen here, within a minute: `allocate_zeroed` that takes used pages for zeroes.

#![no_main]

use std::collections::HashMap;

use arbitrary::Arbitrary;
use commensal_runtime::heap;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Call {
    Malloc(Bytes),
    Calloc(Bytes),
    Aligned(Bytes, u8),
    Realloc(u8, Bytes),
    Free(u8),
    /// By another thread.
    FreeElsewhere(u8),
    Trim(u16),
}

/// Small ones often, some of a few pages, and few large ones.
#[derive(Arbitrary, Debug)]
enum Bytes {
    Small(u8),
    Middle(u16),
    Large(u32),
}

impl Bytes {
    fn count(&self) -> usize {
        match *self {
            Bytes::Small(bytes) => bytes.into(),
            Bytes::Middle(bytes) => bytes.into(),
            Bytes::Large(bytes) => bytes as usize % (8 << 20),
        }
    }
}

struct Block {
    start: *mut u8,
    bytes: usize,
    seed: u8,
}

// SAFETY: a block is its owner's, on any thread.
unsafe impl Send for Block {}

impl Block {
    /// Fills the first and the last bytes: large blocks would take too long.
    fn fill(&self) {
        for at in self.places() {
            // SAFETY: within the block, which is ours.
            unsafe { self.start.add(at).write(self.seed ^ at as u8) };
        }
    }

    fn check(&self, bytes: usize) {
        for at in self.places().filter(|&at| at < bytes) {
            // SAFETY: as above.
            let found = unsafe { self.start.add(at).read() };
            assert_eq!(found, self.seed ^ at as u8, "byte {at} of {} at {:p}", self.bytes, self.start);
        }
    }

    fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let bytes = self.bytes;
        (0..bytes.min(512)).chain(bytes.saturating_sub(512).max(512)..bytes)
    }

    fn free(self) {
        self.check(self.bytes);
        // SAFETY: a block of ours, given up.
        unsafe { heap::free(self.start) };
    }
}

fuzz_target!(|calls: Vec<Call>| {
    let mut blocks: HashMap<u8, Block> = HashMap::new();
    let mut next = 0_u8;
    for call in calls {
        let (start, bytes, seed) = match call {
            Call::Malloc(bytes) => (heap::allocate(bytes.count()), bytes.count(), next),
            Call::Calloc(bytes) => {
                let start = heap::allocate_zeroed(bytes.count());
                let is_zero = |at| unsafe { start.add(at).read() } == 0;
                assert!((0..bytes.count()).all(is_zero), "calloc of {} at {start:p}", bytes.count());
                (start, bytes.count(), next)
            }
            Call::Aligned(bytes, shift) => {
                let alignment = 1 << (shift % 22);
                let start = heap::allocate_aligned(bytes.count(), alignment);
                assert!(start.addr().is_multiple_of(alignment), "{start:p} is aligned to {alignment}");
                (start, bytes.count(), next)
            }
            Call::Realloc(name, bytes) => {
                let Some(old) = blocks.remove(&name) else { continue };
                old.check(old.bytes);
                // SAFETY: a block of ours, given up.
                let start = unsafe { heap::reallocate(old.start, bytes.count()) };
                if bytes.count() == 0 {
                    continue;
                }
                Block { start, ..old }.check(old.bytes.min(bytes.count()));
                (start, bytes.count(), name)
            }
            Call::Free(name) => {
                blocks.remove(&name).into_iter().for_each(Block::free);
                continue;
            }
            Call::FreeElsewhere(name) => {
                let Some(block) = blocks.remove(&name) else { continue };
                std::thread::spawn(move || {
                    let block = block;
                    block.free()
                })
                .join()
                .expect("it frees");
                continue;
            }
            Call::Trim(keep) => {
                heap::trim(keep.into());
                continue;
            }
        };
        assert!(!start.is_null(), "there is memory for {bytes} bytes");
        let block = Block { start, bytes, seed };
        block.fill();
        blocks.insert(seed, block).into_iter().for_each(Block::free);
        next = next.wrapping_add(1);
    }
    blocks.into_values().for_each(Block::free);
    heap::check::check_valid(|_| {});
});
