//! The machine that the command runs on.

#[path = "../figures.rs"]
pub mod figures;

use commensal_workload as workload;
use commensal_workload::Threads;
use commensal_workload::counters::{AddFunction, Calls, ShareFunction, SumFunction};
use figures::Machine;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::ffi::CStr;
use std::{mem, thread};

/// This machine.
pub struct Host;

impl Machine for Host {
    type Threads = Pinned;

    fn threads(&self, count: u32) -> Result<Pinned, String> {
        pinned(count)
    }

    fn calls(&self) -> Result<Calls, String> {
        calls()
    }
}

/// The counters of whichever library is preloaded.
fn calls() -> Result<Calls, String> {
    let [add, share, sum] =
        [function(c"cm_counter_add")?, function(c"cm_counter_share")?, function(c"cm_counter_sum")?];
    // SAFETY: they are what the header says of them, and a counter has as many words.
    unsafe {
        Ok(Calls {
            add: mem::transmute::<Function, AddFunction>(add),
            share: mem::transmute::<Function, ShareFunction>(share),
            sum: mem::transmute::<Function, SumFunction>(sum),
        })
    }
}

type Function = *mut libc::c_void;

fn function(name: &CStr) -> Result<Function, String> {
    // SAFETY: looks the name up.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() {
        return Err(format!("there is no function {}: a library with it has to be preloaded", name.to_string_lossy()));
    }
    Ok(found)
}

/// Threads that stay where they are: the scheduler might put two that wait for each other on one CPU.
pub struct Pinned {
    cpus: Vec<usize>,
}

fn pinned(threads: u32) -> Result<Pinned, String> {
    let allowed = sched_getaffinity(None).map_err(|error| format!("cannot ask for the CPUs to run on ({error})"))?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    if cpus.len() < threads as usize {
        return Err(format!("{threads} threads at once need as many CPUs, and there is {}", cpus.len()));
    }
    Ok(Pinned { cpus })
}

impl Threads for Pinned {
    fn run(&self, count: u32, work: &(dyn Fn(u32) + Sync)) {
        thread::scope(|scope| {
            for (number, &cpu) in (0..count).zip(&self.cpus) {
                scope.spawn(move || {
                    let mut one = CpuSet::new();
                    one.set(cpu);
                    // Where it is forbidden, it is measured as the scheduler has it.
                    let _ = sched_setaffinity(None, &one);
                    work(number);
                });
            }
        });
    }
}
