//! Upkeep where the kernel does not take pages back, or not all: memory that is locked, calls that fail, and a limit of address space.
//!
//! Planted bugs that were seen here: pages that the kernel refused and that are taken for zeroes, or tried again and again; one locked page that keeps all others;
//! pages that go back although all memory is to be locked.

mod common;

use commensal::heap;
use commensal::machine::fault::{self, Plan, Point};
use commensal::upkeep::Report;
use common::child::with_settings;
use common::peak::{Blocks, MIB, after_a_peak, comes, resident};
use std::thread;
use std::time::Duration;

#[test]
fn locked_page_after_free_keeps_no_memory() {
    with_settings("upkeep.interval_ms:20,keep:0", &[None], || {
        let before = resident();
        thread::spawn(|| {
            let blocks = Blocks::new(60 * MIB);
            let largest = blocks.0.iter().skip(7).step_by(8);
            for &block in largest.step_by(20) {
                // SAFETY: a page of a block of ours.
                assert_eq!(unsafe { libc::mlock(block.add(40_000).cast(), 1) }, 0, "a few pages may be locked");
            }
            blocks.free();
        })
        .join()
        .expect("no panic");
        let work = || Blocks::new(MIB / 2).free();
        let is_back = comes(|| {
            work();
            resident() < before + 4 * MIB
        });
        assert!(is_back, "{} bytes are left: {:?}", resident() - before, Report::read());
    });
}

#[test]
fn process_with_all_memory_locked_keeps_its_pages() {
    with_settings("upkeep.interval_ms:20,keep:0", &[None], || {
        // SAFETY: it changes no memory.
        if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
            return println!("skipped: this user may not lock as much");
        }
        thread::spawn(|| Blocks::new(20 * MIB).free()).join().expect("no panic");
        let before = resident();
        let is_refused = comes(|| {
            Blocks::new(MIB / 2).free();
            Report::read().refused > 0
        });
        assert!(is_refused && resident() + 2 * MIB > before, "{before}, then {}: {:?}", resident(), Report::read());
    });
}

#[test]
fn refused_pages_stay_as_they_are() {
    with_settings("upkeep.interval_ms:20", &[None], || {
        fault::arm(Point::Decommit, Plan::Always { skip: 0 });
        after_a_peak(4 * MIB, 40 * MIB, Duration::from_millis(100), || {
            assert!(comes(|| Report::read().refused > 0), "{:?}", Report::read());
            thread::sleep(Duration::from_millis(300));
            let report = Report::read();
            assert!(report.bytes == 0 && (1..100).contains(&report.refused), "{report:?}");
            // They are not taken for zeroes.
            for _ in 0..100 {
                const WORDS: usize = 40_000;
                let block: *mut u64 = heap::allocate_zeroed(WORDS * 8).cast();
                // SAFETY: the block is ours; it is never freed, so that each is another one.
                let is_zero = (0..WORDS).all(|word| unsafe { block.add(word).read() } == 0);
                assert!(is_zero, "a block that should be zero is not");
            }
            let again = Blocks::new(60 * MIB);
            heap::check::check_valid(|_| {});
            again.free();
            fault::arm(Point::Decommit, Plan::Never);
            assert!(comes(|| Report::read().bytes > 30 << 20), "{:?}", Report::read());
        });
    });
}
