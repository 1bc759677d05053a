//! On what a result was measured.

use std::fs;

use rustix::system::uname;
use serde::Serialize;

/// What a result names of the machine.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// `host`, or `simulated`.
    pub kind: &'static str,
    /// CPUs that this process may use.
    pub cpus: usize,
    /// The processor, as it calls itself.
    pub model: String,
    /// The kernel's release.
    pub kernel: String,
    /// The C library's version.
    pub libc: String,
    /// Whether a hypervisor is below; times spread more then.
    pub is_virtual: bool,
}

const SIMULATED: &str = "simulated";

impl Machine {
    /// A simulated one with so many CPUs.
    pub fn simulated(cpus: usize) -> Self {
        Self {
            kind: SIMULATED,
            cpus,
            model: "simple cost model".to_owned(),
            kernel: "none".to_owned(),
            libc: "none".to_owned(),
            is_virtual: false,
        }
    }

    /// Whether its times come from a cost model.
    pub fn is_simulated(&self) -> bool {
        self.kind == SIMULATED
    }

    /// This one.
    pub fn host() -> Self {
        let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = processor.lines().find(|line| line.split('\t').next().map(str::trim) == Some(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        Self {
            kind: "host",
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            model: field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            kernel: uname().release().to_string_lossy().into_owned(),
            libc: libc_version(),
            is_virtual: field("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_simulated() {
            return write!(out, "SIMULATED, {}: {} CPUs; times are the model's, not measured", self.model, self.cpus);
        }
        let Self { cpus, model, kernel, libc, is_virtual, .. } = self;
        let real = if *is_virtual { ", virtual" } else { "" };
        write!(out, "{model}, {cpus} CPUs{real}, Linux {kernel}, glibc {libc}")
    }
}

fn libc_version() -> String {
    // SAFETY: it returns a string that lasts.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    version.to_string_lossy().into_owned()
}

/// The one CPU to keep programs on: the last that we may use, since the first serves more interrupts on most machines.
pub fn quiet_cpu() -> Option<usize> {
    let allowed = rustix::thread::sched_getaffinity(None).ok()?;
    (0..rustix::thread::CpuSet::MAX_CPU).rev().find(|&cpu| allowed.is_set(cpu))
}
