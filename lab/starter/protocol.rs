//! What the starter and the lab tell each other.

/// The starter's descriptor besides the first three, which are those of the programs that it starts. It is high, so that what has a low one in the
/// lab is not replaced before the starter runs: the starter itself, or the pipe that tells why it could not be.
pub const REPLY: i32 = 60;

/// What the lab writes into that descriptor once the starter may begin: it has opened the counters by then.
pub const GO: u8 = 1;

/// What came of a program.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Reply {
    /// Why the program could not be started: an errno, else 0.
    pub error: i64,
    /// The wait status of the last one; those before it ended with 0.
    pub status: i64,
    /// 1 if processes that it started are still running.
    pub left_running: u64,
    /// Nanoseconds from before the fork until its end was seen, of all times together.
    pub wall_ns: u64,
    /// Microseconds of processor time in the program, its waited-for children included.
    pub user_us: u64,
    /// Microseconds of processor time in the kernel for it.
    pub system_us: u64,
    /// The most memory that one of its processes had, in kB: the largest of all times.
    pub peak_kb: u64,
    /// Page faults, of either kind.
    pub page_faults: u64,
    /// Context switches, of either kind.
    pub context_switches: u64,
}
