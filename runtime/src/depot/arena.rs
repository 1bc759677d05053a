//! Magazine arenas: each slot cuts memory for new magazines for itself, so threads that grow at once do not queue.
//!
//! Runs at the same time: any thread, also in signal handlers; there is no lock.

use crate::page_heap::Metadata;
use machine::slot::ARRAY;
use machine::sync::{AtomicUsize, Ordering};

/// Magazines cut at once. The unused part is only address space.
const AT_ONCE: usize = 16;
/// Bits of the word that count the magazines left; above them lies the address of the next one.
const LEFT: usize = ARRAY - 1;
const _: () = assert!(AT_ONCE <= LEFT);

/// A slot's cut but unused memory. All-zero memory: none. The word has each value once in a process's life, as memory
/// is never cut twice. So a successful exchange saw no other value in between. Relaxed: no thread has written to this
/// memory.
#[derive(Debug)]
#[repr(transparent)]
pub struct Arena(AtomicUsize);

impl Arena {
    /// Memory for a magazine. None: out of memory.
    pub fn take(&self, metadata: &Metadata) -> Option<*mut u8> {
        let mut word = self.0.load(Ordering::Relaxed);
        while word & LEFT != 0 {
            match self.0.compare_exchange_weak(word, word + ARRAY - 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some((word & !LEFT) as *mut u8),
                Err(seen) => word = seen,
            }
        }
        let Some(memory) = metadata.cut(AT_ONCE * ARRAY, ARRAY) else { return metadata.cut(ARRAY, ARRAY) };
        // If another thread was faster, the rest of ours stays unused, which costs only address space.
        let rest = (memory as usize + ARRAY) | (AT_ONCE - 1);
        let _ = self.0.compare_exchange(word, rest, Ordering::Relaxed, Ordering::Relaxed);
        Some(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::vm;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    #[test]
    fn memory_that_two_threads_take_is_taken_once() {
        const BYTES: usize = 64 << 20;
        let space = vm::reserve(core::ptr::null_mut(), BYTES, vm::Access::ReadWrite).expect("there is memory");
        // SAFETY: zeroes are valid metadata that has not begun.
        let metadata: Metadata = unsafe { core::mem::zeroed() };
        // SAFETY: within the mapping, or its end.
        metadata.begin(space, unsafe { space.add(BYTES) });
        let arena = Arena(AtomicUsize::new(0));
        let take = || (0..20_000).map(|_| arena.take(&metadata).expect("there is room") as usize).collect::<Vec<_>>();
        let taken: Vec<usize> = std::thread::scope(|scope| {
            let threads = [scope.spawn(take), scope.spawn(take)];
            threads.into_iter().flat_map(|thread| thread.join().expect("it took")).collect()
        });
        assert!(
            taken.iter().all(|at| at.is_multiple_of(ARRAY) && (space as usize..space as usize + BYTES).contains(at))
        );
        assert_eq!(BTreeSet::from_iter(&taken).len(), taken.len());
    }
}
