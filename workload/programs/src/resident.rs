//! How much memory this process has.

use std::fs;

/// The kernel's exact count in kB, page by page; the one in /proc/self/status lags behind on some kernels.
pub fn resident_kb() -> u64 {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").expect("/proc is mounted");
    let line = rollup.lines().find(|line| line.starts_with("Rss:")).expect("the kernel reports Rss");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("Rss is a number of kB")
}
