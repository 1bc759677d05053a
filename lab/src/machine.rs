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
    /// Of a simulated one, where its costs come from.
    #[serde(skip)]
    pub profile: Option<String>,
}

/// As many threads as probes have at once: one CPU of the most that can be simulated is for whoever waits for them.
pub const MOST_THREADS: u32 = 1023;

const SIMULATED: &str = "simulated";

impl Machine {
    /// A simulated one with so many CPUs, and a profile's costs; if there is none, with round ones.
    pub fn simulated(cpus: usize, profile: Option<String>) -> Self {
        Self {
            kind: SIMULATED,
            cpus,
            model: profile.as_ref().map_or("simple cost model".to_owned(), |name| format!("cost model {name}")),
            kernel: "none".to_owned(),
            libc: "none".to_owned(),
            is_virtual: false,
            profile,
        }
    }

    /// A simulated one with a profile's CPUs and costs.
    pub fn like(profile: &str) -> anyhow::Result<Self> {
        Ok(Self::simulated(crate::profile::Profile::find(profile)?.cpus, Some(profile.to_owned())))
    }

    /// What a probe is told of a simulated one.
    pub fn word(&self) -> String {
        let profile = self.profile.as_ref().map_or(String::new(), |profile| format!("@{profile}"));
        format!("{}{profile}", self.cpus)
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
            profile: None,
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

/// Whether the first two CPUs that we may use are threads of one core, as the kernel says; what it does not say is no.
pub fn are_siblings() -> bool {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return false };
    let mut cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    let (Some(first), Some(second)) = (cpus.next(), cpus.next()) else { return false };
    let siblings = format!("/sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list");
    fs::read_to_string(siblings).is_ok_and(|list| names(list.trim(), second))
}

/// Whether a list as the kernel writes it, like "0-1,8", has a number.
fn names(list: &str, number: usize) -> bool {
    list.split(',').any(|part| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let ends = from.parse::<usize>().ok().zip(to.parse::<usize>().ok());
        ends.is_some_and(|(from, to)| (from..=to).contains(&number))
    })
}

/// Warnings about what makes measurements on this machine wider or wrong.
pub fn preflight() -> Vec<String> {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    warnings(
        &text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        &text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        &text("/proc/loadavg"),
        cpus,
    )
}

/// The same, from the kernel's files. An empty text is a missing file, as in many virtual machines.
fn warnings(clock: &str, governor: &str, load: &str, cpus: usize) -> Vec<String> {
    /// Clocks that are read without a system call.
    const QUICK: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];
    let mut lines = Vec::new();
    if !clock.is_empty() && !QUICK.contains(&clock) {
        lines.push(format!(
            "warning: reading the clock ({clock}) takes a system call, which adds to times of short operations"
        ));
    }
    if !["", "performance"].contains(&governor) {
        lines.push(format!("warning: CPUs change their frequency (governor {governor}), so intervals are wider; try the governor performance"));
    }
    let busy: f64 = load.split(' ').next().and_then(|minute| minute.parse().ok()).unwrap_or(0.0);
    if busy > cpus as f64 / 2.0 {
        lines.push(format!("warning: the machine is busy (load {busy} on {cpus} CPUs), so intervals are wider"));
    }
    lines
}

/// The one CPU to keep programs on: the last that we may use, since the first serves more interrupts on most machines.
pub fn quiet_cpu() -> Option<usize> {
    let allowed = rustix::thread::sched_getaffinity(None).ok()?;
    (0..rustix::thread::CpuSet::MAX_CPU).rev().find(|&cpu| allowed.is_set(cpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_that_disturbs_measurement_is_warned_of() {
        assert_eq!(warnings("tsc", "performance", "0.90 0.50 0.40 1/99 7", 2), [""; 0]);
        assert_eq!(warnings("", "", "", 1), [""; 0]);
        let lines = warnings("hpet", "powersave", "3.10 0.50 0.40 4/99 7", 2);
        assert!(lines.len() == 3 && lines[0].contains("hpet") && lines[1].contains("powersave"), "{lines:?}");
        assert!(lines[2].contains("load 3.1 on"), "{lines:?}");
    }

    #[test]
    fn kernel_cpu_list_is_read_with_numbers_and_ranges() {
        assert!(names("0-1,8", 1) && names("0-1,8", 8) && names("3", 3));
        assert!(!names("0-1,8", 2) && !names("", 0) && !names("13", 3));
    }
}
