//! The probes: each measures one thing and prints figures instead of a checksum. They are no part of the suite.

pub mod bursts;
pub mod pair;
pub mod peak;
pub mod placed;
pub mod soak;
pub mod swing;

use std::fs;

/// Anonymous memory of this process in kB, counted page by page; the count in /proc/self/status lags on some kernels.
/// Pages of files are left out: they are shared, and come and go sixteen at a time.
fn resident_kb() -> u64 {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").expect("/proc is mounted");
    let line = rollup.lines().find(|line| line.starts_with("Anonymous:")).expect("the kernel reports Anonymous");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("Anonymous is a number of kB")
}
