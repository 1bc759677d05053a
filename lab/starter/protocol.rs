//! What the lab and its starter share: the layout of the page through which they talk.
//!
//! The lab maps it wherever it likes, the starter at [`ADDRESS`]: so the lab writes pointers that are valid in the starter, and
//! the starter has nothing to parse. One side writes while the other waits: a byte in a pipe hands the page over.

/// Where the page, and all that follows it, lies in the starter.
pub const ADDRESS: usize = 0x10_0000_0000;

/// The starter's descriptors besides the first three, which are those of the programs that it starts. They are high, so that what has
/// a low one in the lab is not replaced before the starter runs: the starter itself, or the pipe that tells why it could not be.
pub const REQUESTS: i32 = 60;
/// Where it tells that a request is done.
pub const REPLIES: i32 = 61;
/// The memory that is mapped at [`ADDRESS`].
pub const MEMORY: i32 = 62;

/// The start of the shared memory; the strings of a request follow it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Page {
    /// The bytes that are mapped, this page included.
    pub bytes: u64,
    /// The path of the program, as a pointer in the starter's memory.
    pub path: u64,
    /// Its arguments: a pointer to pointers, of which the last is null.
    pub arguments: u64,
    /// Its environment, likewise.
    pub environment: u64,
    /// The directory that it starts in; 0 is where the starter is.
    pub directory: u64,
    /// How often it is started, one after the other.
    pub times: u64,
    /// The process that runs now, which is also the number of its process group; written by the kernel.
    pub running: i32,
    /// Why the program could not be started: an errno, else 0.
    pub error: i32,
    /// The wait status of the last one; those before it ended with 0.
    pub status: i32,
    /// Whether processes that it started are still running.
    pub left_running: i32,
    /// Nanoseconds from before the fork until its end was seen, of all times together.
    pub wall_ns: u64,
    /// Microseconds of processor time in the program, its waited-for children included.
    pub user_us: u64,
    /// Microseconds of processor time in the kernel for it.
    pub system_us: u64,
    /// The most memory that one of its processes had, in kB: the largest of all times.
    pub peak_kb: u64,
    /// Page faults that needed no reading.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// How often it waited for something.
    pub voluntary_switches: u64,
    /// How often something else was let run in its place.
    pub involuntary_switches: u64,
}
