//! What the kernel and the C library say of this process, and so of what it starts: asked once, by system calls that change nothing.
//!
//! A test makes one up; nothing else in `doctor` asks for itself.

use std::ffi::{CStr, OsString};

use procfs_core::KernelVersion;
use rustix::process::{Resource, geteuid, getrlimit};
use rustix::system::uname;
use rustix::thread::{CpuSet, transparent_huge_pages_are_disabled};
use rustix::thread::{SecureComputingMode, no_new_privs, sched_getaffinity, secure_computing_mode};

/// The bit of each command in what membarrier says that it can do.
pub const PRIVATE_EXPEDITED: u32 = 1 << 3;
pub const PRIVATE_EXPEDITED_RSEQ: u32 = 1 << 7;

/// The least size of the kernel's rseq area that has the concurrency id in it.
const SIZE_WITH_CONCURRENCY_ID: u64 = 28;

/// What a system call came to that was made to see whether there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The kernel has it.
    There,
    /// The kernel lacks it, or a filter says so.
    Missing,
    /// A filter refuses it.
    Forbidden,
}

/// Soft limits; none: unlimited.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub address_space: Option<u64>,
    pub data: Option<u64>,
    pub locked: Option<u64>,
    pub stack: Option<u64>,
}

/// This process.
#[derive(Clone, Debug)]
pub struct Process {
    /// The kernel's release, as `uname -r` says it.
    pub release: String,
    pub architecture: String,
    /// The C library's version.
    pub libc: String,
    /// `__rseq_size`: zero if the C library registered no restartable sequences, none if it does not know of them.
    pub rseq_bytes: Option<u32>,
    /// What the kernel says of the size of that area; zero before Linux 6.3.
    pub rseq_feature_bytes: u64,
    pub rseq_call: Call,
    /// The commands of membarrier.
    pub membarrier: Result<u32, Call>,
    pub limits: Limits,
    /// How many CPUs it may run on.
    pub allowed_cpus: Option<usize>,
    pub no_new_privs: bool,
    /// Whether system calls are filtered; none if that is not told.
    pub is_filtered: Option<bool>,
    /// Whether the loader distrusts the environment, since the process has more rights than its user.
    pub is_secure: bool,
    /// Whether it has forsworn huge pages.
    pub has_no_huge_pages: bool,
    /// Whether it wants its addresses to be the same each time.
    pub has_fixed_addresses: bool,
    pub user: u32,
    /// The environment.
    pub environment: Vec<(OsString, OsString)>,
}

impl Process {
    /// The one that asks.
    pub fn own() -> Self {
        let name = uname();
        let limit = |resource| getrlimit(resource).current;
        Self {
            release: name.release().to_string_lossy().into_owned(),
            architecture: name.machine().to_string_lossy().into_owned(),
            libc: libc_version(),
            rseq_bytes: rseq_bytes(),
            rseq_feature_bytes: auxiliary(AT_RSEQ_FEATURE_SIZE),
            rseq_call: rseq_call(),
            membarrier: membarrier_commands(),
            limits: Limits {
                address_space: limit(Resource::As),
                data: limit(Resource::Data),
                locked: limit(Resource::Memlock),
                stack: limit(Resource::Stack),
            },
            allowed_cpus: sched_getaffinity(None).ok().map(|set: CpuSet| set.count() as usize),
            no_new_privs: no_new_privs().unwrap_or(false),
            is_filtered: secure_computing_mode().ok().map(|mode| mode != SecureComputingMode::Disabled),
            is_secure: auxiliary(libc::AT_SECURE) != 0,
            has_no_huge_pages: transparent_huge_pages_are_disabled().unwrap_or(false),
            has_fixed_addresses: has_fixed_addresses(),
            user: geteuid().as_raw(),
            environment: std::env::vars_os().collect(),
        }
    }

    /// The kernel's version, if its release begins with one.
    pub fn kernel(&self) -> Option<KernelVersion> {
        self.release.parse().ok()
    }

    /// Whether the kernel is at least of this version; when in doubt, not.
    pub fn is_at_least(&self, major: u8, minor: u8) -> bool {
        self.kernel().is_some_and(|kernel| (kernel.major, kernel.minor) >= (major, minor))
    }

    /// A variable of the environment, if it is set and not empty.
    pub fn variable(&self, name: &str) -> Option<String> {
        let (_, value) = self.environment.iter().find(|(known, _)| known == name)?;
        (!value.is_empty()).then(|| value.to_string_lossy().into_owned())
    }

    /// Whether the C library has registered restartable sequences with the kernel.
    pub fn has_rseq(&self) -> bool {
        self.rseq_bytes.is_some_and(|bytes| bytes > 0)
    }

    /// Whether the kernel gives concurrency ids to threads that are registered.
    pub fn has_concurrency_ids(&self) -> bool {
        self.rseq_feature_bytes >= SIZE_WITH_CONCURRENCY_ID
    }

    /// Whether membarrier has this command.
    pub fn has_membarrier(&self, command: u32) -> bool {
        self.membarrier.is_ok_and(|commands| commands & command != 0)
    }
}

const AT_RSEQ_FEATURE_SIZE: u64 = 27;

fn auxiliary(kind: u64) -> u64 {
    // SAFETY: reads a table of the process's own.
    unsafe { libc::getauxval(kind) }
}

fn libc_version() -> String {
    // SAFETY: it returns a string that lasts.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    version.to_string_lossy().into_owned()
}

fn rseq_bytes() -> Option<u32> {
    // SAFETY: looks the name up.
    let size = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()) };
    // SAFETY: glibc documents it as a constant of this type, once the program runs.
    (!size.is_null()).then(|| unsafe { *size.cast::<u32>() })
}

fn rseq_call() -> Call {
    // SAFETY: an area of no bytes is refused before anything is done, whether the thread has one or not.
    call(unsafe { libc::syscall(libc::SYS_rseq, 0, 0, 0, 0) }).map_or_else(|refused| refused, |_| Call::There)
}

fn membarrier_commands() -> Result<u32, Call> {
    const QUERY: i32 = 0;
    // SAFETY: asks which commands there are.
    call(unsafe { libc::syscall(libc::SYS_membarrier, QUERY, 0, 0) }).map(|commands| commands as u32)
}

/// What a call says, or why there is none; one that the kernel has and does not like is there.
fn call(result: libc::c_long) -> Result<libc::c_long, Call> {
    if result >= 0 {
        return Ok(result);
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::ENOSYS) => Err(Call::Missing),
        Some(libc::EPERM | libc::EACCES) => Err(Call::Forbidden),
        _ => Ok(0),
    }
}

fn has_fixed_addresses() -> bool {
    const ASK: libc::c_ulong = 0xffff_ffff;
    // SAFETY: asks, changes nothing.
    let personality = unsafe { libc::personality(ASK) };
    personality >= 0 && personality & libc::ADDR_NO_RANDOMIZE != 0
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A process on a kernel of this release with everything that such a kernel has.
    pub fn on(release: &str) -> Process {
        let process = Process {
            release: release.to_owned(),
            architecture: "x86_64".to_owned(),
            libc: "2.39".to_owned(),
            rseq_bytes: Some(20),
            rseq_feature_bytes: 0,
            rseq_call: Call::There,
            membarrier: Ok(PRIVATE_EXPEDITED),
            limits: Limits { locked: Some(8 << 20), stack: Some(8 << 20), ..Limits::default() },
            allowed_cpus: Some(4),
            no_new_privs: false,
            is_filtered: Some(false),
            is_secure: false,
            has_no_huge_pages: false,
            has_fixed_addresses: false,
            user: geteuid().as_raw(),
            environment: Vec::new(),
        };
        let has_ids = process.is_at_least(6, 3);
        let restarts = process.is_at_least(5, 10);
        Process {
            rseq_feature_bytes: if has_ids { SIZE_WITH_CONCURRENCY_ID } else { 0 },
            membarrier: Ok(PRIVATE_EXPEDITED | if restarts { PRIVATE_EXPEDITED_RSEQ } else { 0 }),
            ..process
        }
    }

    /// Likewise, with a variable.
    pub fn with(variable: &str, value: &str) -> Process {
        Process { environment: vec![(variable.into(), value.into())], ..on("6.8.0") }
    }

    #[test]
    fn this_process_can_be_asked() {
        let own = Process::own();
        assert!(own.kernel().is_some() && own.allowed_cpus.is_some_and(|cpus| cpus > 0), "{own:?}");
        assert!(own.variable("PATH").is_some() && own.variable("NO_SUCH_VARIABLE").is_none());
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let [old, new] = ["5.4.0-150-generic", "6.18.2"].map(on);
        assert!(!old.is_at_least(5, 10) && old.is_at_least(5, 4));
        assert!(new.is_at_least(6, 3) && !new.is_at_least(7, 0));
        assert!(!on("strange").is_at_least(1, 0));
    }
}
