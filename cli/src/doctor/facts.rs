//! What the kernel and the C library offer this process and its children. Asked once, by system calls that change nothing.

use std::ffi::CStr;

use rustix::system::uname;

/// Whether a system call exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The kernel has it.
    There,
    /// The kernel does not have it, or a filter says so.
    Missing,
    /// A filter refuses it.
    Forbidden,
}

pub struct Facts {
    /// The kernel's release, as `uname -r` says it.
    pub kernel: String,
    /// The C library's version.
    pub libc: String,
    /// `__rseq_size`: zero if the C library registered no restartable sequences, none if it does not know of them.
    pub rseq_bytes: Option<u32>,
    /// What the kernel says of the size of that area; zero before Linux 6.3.
    pub rseq_feature_bytes: u64,
    pub rseq_call: Call,
    /// The commands of membarrier, a bit each.
    pub membarrier: Result<u32, Call>,
    /// What GLIBC_TUNABLES says.
    pub tunables: String,
}

impl Facts {
    /// Of the process that asks.
    pub fn own() -> Self {
        // SAFETY: it returns a string that lasts.
        let libc = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
        Self {
            kernel: uname().release().to_string_lossy().into_owned(),
            libc: libc.to_string_lossy().into_owned(),
            rseq_bytes: rseq_bytes(),
            rseq_feature_bytes: rseq_feature_bytes(),
            // SAFETY: an area of no bytes is refused before anything is done, whether the thread has one or not.
            rseq_call: call(unsafe { libc::syscall(libc::SYS_rseq, 0, 0, 0, 0) })
                .map_or_else(|why| why, |_| Call::There),
            // SAFETY: asks which commands there are.
            membarrier: call(unsafe { libc::syscall(libc::SYS_membarrier, 0, 0, 0) }).map(|commands| commands as u32),
            tunables: std::env::var("GLIBC_TUNABLES").unwrap_or_default(),
        }
    }

    /// Whether the kernel gives concurrency ids to threads that are registered.
    pub fn has_concurrency_ids(&self) -> bool {
        const BYTES_WITH_CONCURRENCY_ID: u64 = 28;
        self.rseq_feature_bytes >= BYTES_WITH_CONCURRENCY_ID
    }

    /// Whether membarrier restarts restartable sequences on other CPUs.
    pub fn has_membarrier_for_rseq(&self) -> bool {
        const PRIVATE_EXPEDITED_RSEQ: u32 = 1 << 7;
        self.membarrier.is_ok_and(|commands| commands & PRIVATE_EXPEDITED_RSEQ != 0)
    }

    /// Whether GLIBC_TUNABLES forbids restartable sequences: of several such settings the last one holds.
    pub fn is_rseq_tuned_off(&self) -> bool {
        let settings = self.tunables.split(':');
        settings.filter_map(|one| one.strip_prefix("glibc.pthread.rseq=")).next_back() == Some("0")
    }
}

fn rseq_bytes() -> Option<u32> {
    // SAFETY: looks the name up.
    let size = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()) };
    // SAFETY: glibc documents it as a constant of this type, once the program runs.
    (!size.is_null()).then(|| unsafe { *size.cast::<u32>() })
}

fn rseq_feature_bytes() -> u64 {
    const AT_RSEQ_FEATURE_SIZE: u64 = 27;
    // SAFETY: reads a table of the process's own.
    unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) }
}

/// The result of a call, or why it is not possible. A call that refuses its arguments exists.
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

#[cfg(test)]
impl Facts {
    /// A machine with all that the library can use.
    pub fn all() -> Self {
        Self {
            kernel: "6.8.0".to_owned(),
            libc: "2.36".to_owned(),
            rseq_bytes: Some(20),
            rseq_feature_bytes: 28,
            rseq_call: Call::There,
            membarrier: Ok(u32::MAX),
            tunables: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunables_last_setting_holds() {
        let off = |tunables: &str| Facts { tunables: tunables.to_owned(), ..Facts::all() }.is_rseq_tuned_off();
        assert!(off("glibc.malloc.check=1:glibc.pthread.rseq=0") && !off("glibc.malloc.check=0"));
        assert!(!off("glibc.pthread.rseq=0:glibc.pthread.rseq=1"));
    }
}
