//! Numbers of system calls and errors on x86-64.

pub const READ: usize = 0;
pub const WRITE: usize = 1;
pub const CLOSE: usize = 3;
pub const STAT: usize = 4;
pub const FSTAT: usize = 5;
pub const MMAP: usize = 9;
pub const MPROTECT: usize = 10;
pub const MUNMAP: usize = 11;
pub const MREMAP: usize = 25;
pub const RT_SIGACTION: usize = 13;
pub const RT_SIGPROCMASK: usize = 14;
pub const MADVISE: usize = 28;
pub const GETPID: usize = 39;
pub const PREAD64: usize = 17;
pub const FCNTL: usize = 72;
pub const SYSINFO: usize = 99;
pub const GETEUID: usize = 107;
pub const SIGALTSTACK: usize = 131;
pub const PRCTL: usize = 157;
pub const GETTID: usize = 186;
pub const FUTEX: usize = 202;
pub const SCHED_GETAFFINITY: usize = 204;
pub const EXIT_GROUP: usize = 231;
pub const TGKILL: usize = 234;
pub const OPENAT: usize = 257;
pub const MKDIRAT: usize = 258;
pub const UNLINKAT: usize = 263;
pub const UNSHARE: usize = 272;
pub const FALLOCATE: usize = 285;
pub const PRLIMIT: usize = 302;
pub const SETNS: usize = 308;
pub const PROCESS_VM_READV: usize = 310;
pub const PROCESS_VM_WRITEV: usize = 311;
pub const MEMBARRIER: usize = 324;

/// Operations of FUTEX, within one process.
pub const FUTEX_WAIT_PRIVATE: usize = 128;
pub const FUTEX_WAKE_PRIVATE: usize = 129;

/// All arguments of a call, of which the first are given.
#[inline]
pub fn padded<const N: usize>(arguments: [usize; N]) -> [usize; 6] {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&arguments);
    all
}

/// Whether any filter permits the call if it lets the C library's malloc and threads live. Other calls may end a
/// program with a filter, and are made only if none is known to come ([`sandbox`](crate::sandbox)).
pub const fn is_usual(number: usize) -> bool {
    matches!(number, MMAP | MPROTECT | MUNMAP | MREMAP | MADVISE | FUTEX | WRITE | CLOSE | RT_SIGPROCMASK)
}

/// An error number of the kernel, positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    pub const NOT_PERMITTED: Errno = Errno(1);
    pub const NO_SUCH_PROCESS: Errno = Errno(3);
}

/// Why a call failed, by Linux's numbers: for the C library's `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Error {
    /// Try again.
    Again = 11,
    /// Out of memory.
    OutOfMemory = 12,
    /// In use.
    Busy = 16,
    /// Invalid argument.
    Invalid = 22,
}
