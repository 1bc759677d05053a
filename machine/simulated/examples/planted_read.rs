//! A simulated thread that reads freed memory: `cargo xtask valgrind` must find this before its silence counts.

use simulated::simulation::{Place, Settings, run, simulate};

fn main() {
    let report = simulate(Settings::default(), None, || {
        let block = Box::into_raw(Box::new(7u64));
        let read = || {
            // SAFETY: none for the second read, which is the bug.
            unsafe {
                drop(Box::from_raw(block));
                assert_ne!(block.read_volatile(), 8);
            }
        };
        run(vec![(Box::new(read), Place::Anywhere)], None);
    });
    assert_eq!(report.outcome, Ok(()));
}
