//! How much memory this process has.

use std::fs;

/// The kernel's exact count in kB, page by page; the one in /proc/self/status lags behind on some kernels. Without pages of files as they are on
/// disk: those are shared, and come and go sixteen at a time, so that 64 kB more are of a function that ran for the first time.
pub fn resident_kb() -> u64 {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").expect("/proc is mounted");
    let line = rollup.lines().find(|line| line.starts_with("Anonymous:")).expect("the kernel reports Anonymous");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("Anonymous is a number of kB")
}
