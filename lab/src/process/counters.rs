//! Counters of the processor and of the kernel for a program and for all that it starts, by `perf_event_open`.
//!
//! A counter is opened for the starter and is off there. Each process that the starter starts inherits it, and so do
//! that process's own children. It counts from the moment when such a process executes its program. The kernel lets only
//! one such process begin: when the starter sleeps, it may hand its own counters to the child, and the switch that turns
//! them on is used up. So a program that is counted runs once.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Counter as Open};

use crate::metric::{FAULTS, Metric};

/// What decides who may count what.
const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// Something that can be counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counter {
    /// What tables and JSON call it.
    pub metric: Metric,
    event: Event,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    /// Counted in user mode only, as each user may.
    Processor(Hardware),
    Kernel(Software),
}

/// Instructions in user mode.
pub const INSTRUCTIONS: Metric = Metric { name: "instructions", title: "instructions (user)", ..FAULTS };

const ALL: [Counter; 5] = [
    processor(INSTRUCTIONS, Hardware::INSTRUCTIONS),
    processor(Metric { name: "cycles", title: "cycles (user)", ..FAULTS }, Hardware::CPU_CYCLES),
    processor(Metric { name: "cache_misses", title: "cache misses (user)", ..FAULTS }, Hardware::CACHE_MISSES),
    processor(Metric { name: "branch_misses", title: "branch misses (user)", ..FAULTS }, Hardware::BRANCH_MISSES),
    kernel(Metric { name: "cpu_migrations", title: "CPU migrations", ..FAULTS }, Software::CPU_MIGRATIONS),
];

const fn processor(metric: Metric, event: Hardware) -> Counter {
    Counter { metric, event: Event::Processor(event) }
}

const fn kernel(metric: Metric, event: Software) -> Counter {
    Counter { metric, event: Event::Kernel(event) }
}

/// The counters that this process may use, and one line that says why it may not use the others.
pub fn usable() -> (Vec<Counter>, Option<String>) {
    let opened = ALL.map(|counter| (counter, counter.open(std::process::id()).err()));
    let usable = opened.iter().filter(|(_, error)| error.is_none()).map(|(counter, _)| *counter).collect();
    let mut missing: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (counter, error) in &opened {
        if let Some(error) = error {
            missing.entry(why(error)).or_default().push(counter.metric.title);
        }
    }
    let lines: Vec<String> = missing.iter().map(|(why, titles)| format!("{}: {why}", titles.join(", "))).collect();
    (usable, (!lines.is_empty()).then(|| format!("not counted: {}", lines.join("; "))))
}

/// What the kernel said, and what it means.
fn why(error: &io::Error) -> String {
    let meaning = match error.kind() {
        ErrorKind::NotFound => "this machine has no such counter, as most virtual machines".to_owned(),
        ErrorKind::PermissionDenied => {
            let level = std::fs::read_to_string(PARANOID).unwrap_or_default();
            format!(
                "{PARANOID} is {}; 1 permits all, 2 those in user mode; a filter of system calls may forbid it, too",
                level.trim()
            )
        }
        _ => "this kernel does not count it".to_owned(),
    };
    format!("perf_event_open: {error}: {meaning}")
}

impl Counter {
    /// Opens it for a process, where it is off, and for what that process starts, where it is on.
    pub(super) fn open(&self, process: u32) -> io::Result<Open> {
        let mut builder = match self.event {
            Event::Processor(event) => Builder::new(event),
            // The kernel counts these in kernel mode.
            Event::Kernel(event) => {
                let mut builder = Builder::new(event);
                builder.include_kernel();
                builder
            }
        };
        builder.observe_pid(process as i32).any_cpu().inherit(true).enable_on_exec(true).build()
    }

    /// What an open one has counted. If it had to share the processor's registers, the count is scaled up.
    pub(super) fn count(&self, open: &mut Open) -> io::Result<f64> {
        let data = open.read_full()?;
        let [enabled, running] = [data.time_enabled(), data.time_running()].map(Option::unwrap_or_default);
        if running.is_zero() && !enabled.is_zero() {
            let title = self.metric.title;
            return Err(io::Error::other(format!("the processor had no register left to count {title}")));
        }
        let share = if running.is_zero() { 1.0 } else { enabled.as_secs_f64() / running.as_secs_f64() };
        Ok(data.count() as f64 * share)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::process::{Interrupt, Program, Starter};

    /// The kernel counts page faults and switches for `wait4`, too, so both figures are known.
    #[test]
    fn counters_cover_a_program_and_its_children() {
        let faults = kernel(FAULTS, Software::PAGE_FAULTS);
        let switches = kernel(Metric { name: "switches", ..FAULTS }, Software::CONTEXT_SWITCHES);
        if let Err(error) = faults.open(std::process::id()) {
            return eprintln!("skipped: counters cannot be opened: {error}");
        }
        let mut starter = Starter::new(None, Interrupt::never().unwrap()).unwrap();
        let script = "x=$(head -c 8000000 /dev/zero | tr '\\0' x); sleep 0.02; sleep 0.02; sleep 0.02";
        let counters = vec![faults, switches];
        let program = Program { counters, ..Program::new("/bin/sh", ["sh", "-c", script]) };
        for _ in 0..5 {
            let run = starter.run(&program, Duration::from_secs(600)).unwrap().unwrap();
            let [faults, switches] = run.counted[..] else { panic!("{run:?}") };
            // `wait4` also has what came before execve, which is little.
            assert!(faults > 2000.0 && faults <= run.cost.page_faults, "{run:?}");
            assert!(faults > 0.8 * run.cost.page_faults, "{run:?}");
            assert!(switches >= 3.0 && switches <= run.cost.context_switches + 3.0, "{run:?}");
        }
        let twice = Program { times: 2, ..program };
        assert!(starter.run(&twice, Duration::from_secs(600)).is_err());
        let idle = Program { counters: vec![faults], ..Program::new("/bin/true", ["true"]) };
        let run = starter.run(&idle, Duration::from_secs(600)).unwrap().unwrap();
        assert!(run.counted[0] > 10.0 && run.counted[0] < 1000.0, "nothing is left of the run before: {run:?}");
    }

    #[test]
    fn counter_that_is_missing_is_named_with_the_reason() {
        let (usable, missing) = usable();
        let told = missing.unwrap_or_default();
        for counter in ALL {
            assert_ne!(usable.contains(&counter), told.contains(counter.metric.title), "{told}");
        }
        assert!(!told.contains('\n'));
        assert!(why(&io::Error::from_raw_os_error(libc::ENOENT)).contains("has no such counter"));
        assert!(why(&io::Error::from_raw_os_error(libc::EACCES)).contains("perf_event_paranoid is "));
    }
}
