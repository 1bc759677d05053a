//! Blocks of 32 KiB to 4 MiB: slots keep them in magazines, within a budget.

mod common;

use commensal_runtime::heap::{self, report};
use commensal_runtime::machine::slot;
use common::child::{self, alone, in_both_modes};

const KIB: usize = 1 << 10;
/// What a slot's magazines may hold of middle sizes, and of small ones.
const MOST_IN_A_SLOT: usize = (4 << 20) + (3 << 20);

fn block(bytes: usize) -> *mut u8 {
    let block = heap::allocate(bytes);
    assert!(!block.is_null());
    // SAFETY: the block is ours, and that long.
    [0, bytes - 1].into_iter().for_each(|at| unsafe { block.add(at).write(at as u8) });
    block
}

fn free(block: *mut u8) {
    // SAFETY: the block is ours.
    unsafe { heap::free(block) }
}

/// Allocates `depth` blocks and frees them, again and again.
fn pairs(rounds: usize, depth: usize, bytes: usize) {
    for _ in 0..rounds {
        let blocks: Vec<_> = (0..depth).map(|_| block(bytes)).collect();
        blocks.into_iter().for_each(free);
    }
}

fn runs() -> u64 {
    report::process().expect("the heap was used").runs
}

/// Planted bugs that were seen here: no level is ever granted; none is taken from a size that is used no more.
#[test]
fn blocks_in_steady_use_come_from_magazines() {
    alone(|| {
        pairs(1, 1, 1);
        for (depth, bytes) in [(8, 33_000), (8, 64_000), (8, 200_000), (2, 1_000_000)] {
            let taken = || {
                let before = runs();
                pairs(2000, depth, bytes);
                runs() - before
            };
            // On a busy machine, the blocks may look as if they were seldom used.
            let all: Vec<_> = (0..50).map(|_| taken()).take_while(|&taken| taken > 20).collect();
            assert!(all.len() < 50, "runs for 2000 times {depth} blocks of {bytes} bytes: {all:?}");
        }
    });
}

#[test]
fn magazines_of_all_sizes_stay_within_the_budget() {
    in_both_modes(|| {
        for round in 0..2000 {
            let bytes = [33, 50, 90, 150, 260, 500, 900, 1700, 3900][round / 3 % 9] * KIB;
            pairs(20, 1 + round % 4, bytes);
            if round.is_multiple_of(100) {
                let cached = report::process().expect("the heap was used").cached_bytes as usize;
                assert!(cached <= MOST_IN_A_SLOT * slot::in_use() as usize, "{cached} bytes are cached");
            }
        }
        heap::trim(0);
        heap::check::check_valid(|_| ());
    });
}

#[test]
fn block_that_changes_within_its_class_stays() {
    alone(|| {
        pairs(200, 1, 200_000);
        pairs(50_000, 1, 200_000);
        let old = block(200_000);
        // SAFETY: the block is ours.
        let usable = unsafe { heap::usable_bytes(old) };
        for bytes in [usable, usable / 2 + 1, 200_000] {
            // SAFETY: the block is ours.
            assert_eq!(unsafe { heap::reallocate(old, bytes) }, old, "{bytes} of {usable} bytes");
        }
        // SAFETY: the block is ours, and so is what it becomes.
        let new = unsafe { heap::reallocate(old, 3 << 20) };
        // SAFETY: the block is ours, and that long.
        assert_eq!(unsafe { new.add(199_999).read() }, 199_999_usize as u8, "its contents");
        free(new);
    });
}

/// Planted bug that was seen here: hardened blocks whose free fills the magazines of middle sizes.
#[test]
fn heap_with_middle_sizes_is_not_hardened_any_more() {
    if child::case().is_some() {
        pairs(20_000, 8, 50_000);
        heap::conf::apply_environment();
        let blocks: Vec<_> = (0..5000).map(|number| block(16 + number % 2000)).collect();
        pairs(1000, 8, 50_000);
        blocks.into_iter().for_each(free);
        heap::trim(0);
        heap::check::check_valid(|_| ());
        return;
    }
    let outcome = child::run(child::command("late").env("COMMENSAL_CONF", "harden:on"));
    outcome.expect_success();
    assert!(outcome.stderr.contains("too late for harden:on"), "{}", outcome.report());
}
