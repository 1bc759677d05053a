//! Memory goes back: how much of what a program once used is still in memory, as the kernel counts it, after the program
//! freed it; each case in a process of its own, in both modes of the machine.
//!
//! Measured on Linux 6.18: nothing is left of the blocks themselves, and up to 1 MiB of arrays and descriptions after eight threads.
//! The bounds are twice that.

mod common;

use commensal_runtime::central::size_class::{self, SMALL};
use commensal_runtime::heap::{self, check, report};
use commensal_runtime::machine::slot;
use common::child::{self, with_settings};
use common::peak::{Blocks, MIB, comes, resident};
use std::sync::Barrier;
use std::thread;

/// Acts a test out in both modes, with these settings, after some use of memory.
fn in_child(conf: &str, body: fn()) {
    with_settings(conf, &child::MODES, || {
        Blocks::of(MIB, &[64]).free();
        body();
    });
}

/// What a use of memory leaves resident, after it was freed and after it was trimmed.
fn leftovers(use_memory: impl FnOnce()) -> (usize, usize) {
    let before = resident();
    use_memory();
    let freed = resident().saturating_sub(before);
    heap::trim(0);
    let trimmed = resident().saturating_sub(before);
    println!("left after free {} KiB, after trim {} KiB", freed >> 10, trimmed >> 10);
    (freed, trimmed)
}

/// Planted bug that was seen here: first spans as long as the others.
#[test]
fn few_objects_of_many_sizes_lie_in_short_spans() {
    in_child("stats:off", || {
        let of = |class: usize, blocks: usize| (0..blocks).map(move |_| heap::allocate(size_class::size(class)));
        let large: Vec<usize> = (1..SMALL).filter(|&class| size_class::size(class) > 4096).collect();
        let mut blocks: Vec<*mut u8> = large.iter().flat_map(|&class| of(class, 1)).collect();
        let span_bytes = || {
            let mut all = Vec::new();
            report::for_each_class(|class| all.extend((class.object_bytes > 4096).then_some(class.span_bytes)));
            assert_eq!(all.len(), large.len());
            all
        };
        let short = span_bytes();
        assert!(short.iter().all(|&bytes| bytes == 64 << 10), "{short:?}");
        blocks.extend(large.iter().flat_map(|&class| of(class, 20)));
        let long = span_bytes();
        assert!(long.iter().all(|&bytes| bytes >= 256 << 10), "{long:?}");
        assert!(blocks.iter().all(|block| !block.is_null()));
        // SAFETY: allocated above.
        blocks.into_iter().for_each(|block| unsafe { heap::free(block) });
        check::check_valid(|_| {});
    });
}

#[test]
fn blocks_leave_nothing_after_trim_and_huge_ones_at_once() {
    in_child("stats:off", || {
        let (freed, _) = leftovers(|| Blocks::of(100 * MIB, &[100 * MIB]).free());
        assert!(freed < MIB, "{freed} bytes are left of 100 MiB");
        for sizes in [&[100_000, MIB, 3 * MIB][..], &[16, 48, 112, 640, 3000]] {
            let (_, trimmed) = leftovers(|| Blocks::of(64 * MIB, sizes).free());
            assert!(trimmed < MIB, "{trimmed} bytes are left of 64 MiB in {sizes:?}");
        }
        let (_, trimmed) = leftovers(|| {
            let work = |_| thread::spawn(|| Blocks::of(8 * MIB, &[32, 200, 1500]).free());
            let threads: Vec<_> = (0..8).map(work).collect();
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        });
        assert!(trimmed < 2 * MIB, "{trimmed} bytes are left of threads that ended, slots {:?}", slot::mode());
        let process = report::process().expect("the heap was used");
        assert!(process.shared_since_ns > 0, "a process that had threads is taken for one with one thread");
    });
}

/// Arrays that many threads leave go back, too, as far as they lie in pages that are theirs alone; and the next threads use the same again.
#[test]
fn arrays_of_many_threads() {
    in_child("stats:off", || {
        const THREADS: usize = 64;
        let sizes: Vec<usize> = (1..=64).map(|step| step * 16).collect();
        let crowd = || {
            let together = Barrier::new(THREADS);
            let work = || {
                let blocks = Blocks::of(MIB, &sizes);
                together.wait();
                blocks.free();
                together.wait();
            };
            // Joined one by one: at the end of a scope some may still be about to end, and keep what is in their slots.
            thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
                threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            });
        };
        let metadata = || report::process().expect("the heap was used").metadata_bytes;
        let (_, trimmed) = leftovers(crowd);
        let needed = metadata();
        let (_, again) = leftovers(crowd);
        println!("metadata {} KiB, then {} KiB", needed >> 10, metadata() >> 10);
        assert!(
            trimmed.max(again) < 4 * MIB,
            "{trimmed} and {again} bytes are left of 64 MiB, slots {:?}",
            slot::mode()
        );
        assert!(
            metadata() <= needed + 2 * MIB as u64,
            "metadata of {needed} bytes is not used again: {} bytes",
            metadata()
        );
        check::check_valid(|_| ());
    });
}

#[test]
fn trim_keeps_some() {
    in_child("stats:off", || {
        Blocks::of(64 * MIB, &[MIB]).free();
        heap::trim(16 * MIB);
        let dirty = report::process().expect("the heap was used").dirty_bytes as usize;
        assert!((12 * MIB..=16 * MIB).contains(&dirty), "{dirty} bytes are kept, expected up to 16 MiB");
    });
}

/// Without a trim, pages that are of no use go back by and by, down to what may be kept.
#[test]
fn idle_pages_by_and_by_down_to_what_conf_keeps() {
    in_child("keep:1", || {
        let before = resident();
        Blocks::of(64 * MIB, &[MIB]).free();
        let freed = resident() - before;
        let left = || resident().saturating_sub(before);
        let has_decayed = comes(|| {
            Blocks::of(64 << 10, &[64 << 10]).free();
            left() < 2 * MIB
        });
        assert!(has_decayed, "{} bytes are left of {freed}", left());
    });
}
