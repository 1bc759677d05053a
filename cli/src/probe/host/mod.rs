//! The machine that the command runs on.

#[path = "../figures/mod.rs"]
pub mod figures;

/// What `figures` measures: here the host's.
extern crate workload;

use figures::Machine;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::ffi::{CStr, c_char};
use std::ptr::null_mut;
use std::{fs, mem, thread};
use workload::Threads;
use workload::caches::{CacheCalls, GeneralCalls, Source, construct};
use workload::counters::Calls;

/// This machine.
pub struct Host;

impl Machine for Host {
    fn threads(&self, count: u32) -> Result<impl Threads, String> {
        let allowed =
            sched_getaffinity(None).map_err(|error| format!("cannot ask for the CPUs to run on ({error})"))?;
        let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
        if cpus.len() < count as usize {
            return Err(format!("{count} threads at once need as many CPUs, and there is {}", cpus.len()));
        }
        Ok(Pinned { cpus })
    }

    /// Of whichever library is preloaded.
    fn calls(&self) -> Result<Calls, String> {
        // SAFETY: they are what the header says of them, and a counter has as many words.
        unsafe {
            Ok(Calls {
                add: typed(c"cm_counter_add")?,
                share: typed(c"cm_counter_share")?,
                sum: typed(c"cm_counter_sum")?,
            })
        }
    }

    /// As the loader binds the names, whoever is preloaded.
    fn general_calls(&self, bytes: usize) -> Result<impl Source, String> {
        // SAFETY: they are what the standard says of them.
        unsafe { Ok(GeneralCalls { allocate: typed(c"malloc")?, free: typed(c"free")?, bytes }) }
    }

    /// Of whichever library is preloaded. It stays.
    fn cache_calls(&self, bytes: usize, has_constructor: bool) -> Result<impl Source, String> {
        type Create = unsafe extern "C" fn(*const c_char, usize, usize, *const CacheOptions) -> *mut u8;
        let constructor = has_constructor.then_some(construct as Hook);
        let (destructor, argument) = (None, null_mut());
        let options = CacheOptions { constructor, destructor, argument, limit: 0, batch: 0, typesafe_by_rcu: false };
        // SAFETY: they are what the header says of them.
        unsafe {
            let cache = typed::<Create>(c"cm_cache_create")?(c"context".as_ptr(), bytes, 0, &options);
            if cache.is_null() {
                return Err(format!("no cache could be made ({})", std::io::Error::last_os_error()));
            }
            Ok(CacheCalls { allocate: typed(c"cm_cache_alloc")?, free: typed(c"cm_cache_free")?, cache })
        }
    }

    /// The sum of what the kernel says of each mapping; it is exact, which the short form of it is not.
    fn resident(&self) -> Result<u64, String> {
        let file = "/proc/self/smaps_rollup";
        let said = read(file)?;
        let kb = said.lines().find_map(|line| line.strip_prefix("Rss:")?.trim().strip_suffix(" kB")?.parse().ok());
        kb.map(|kb: u64| kb << 10).ok_or_else(|| format!("{file} has no line `Rss: … kB`"))
    }

    fn interrupts(&self) -> Result<u64, String> {
        let file = "/proc/interrupts";
        sum_of_calls(&read(file)?).ok_or_else(|| format!("{file} has no line `Function call interrupts`"))
    }
}

fn read(file: &str) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("cannot read {file} ({error})"))
}

type Hook = unsafe extern "C" fn(*mut u8, *mut u8);

/// `cm_cache_options` of the header. Zeroes ask for nothing.
#[repr(C)]
struct CacheOptions {
    constructor: Option<Hook>,
    destructor: Option<Hook>,
    argument: *mut u8,
    limit: usize,
    batch: usize,
    typesafe_by_rcu: bool,
}

/// The columns of all CPUs.
fn sum_of_calls(said: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.trim_end().strip_suffix("Function call interrupts"))?;
    Some(line.split_whitespace().skip(1).filter_map(|count| count.parse::<u64>().ok()).sum())
}

/// The address of one, of whatever type.
pub type Function = *mut libc::c_void;

/// The function, or the variable, of this name that the loader finds first.
pub fn function(name: &CStr) -> Result<Function, String> {
    // SAFETY: looks the name up.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() {
        return Err(format!("there is no function {}: a library with it has to be preloaded", name.to_string_lossy()));
    }
    Ok(found)
}

/// The same as a pointer to a function.
///
/// # Safety
/// `F` is such a pointer, of the function's type.
unsafe fn typed<F>(name: &CStr) -> Result<F, String> {
    const { assert!(size_of::<F>() == size_of::<Function>()) };
    // SAFETY: passed on.
    Ok(unsafe { mem::transmute_copy(&function(name)?) })
}

/// Threads that stay where they are: the scheduler might put two that wait for each other on one CPU.
pub struct Pinned {
    cpus: Vec<usize>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupt_counts_are_summed_over_all_columns() {
        let said = "           CPU0       CPU1\n RES:    7    8   Rescheduling interrupts\n CAL:    100    23   Function call interrupts\n";
        assert_eq!(sum_of_calls(said), Some(123));
        assert_eq!(sum_of_calls("IPI1:  5  6  7       Function call interrupts\n"), Some(18), "as on aarch64");
        assert_eq!(sum_of_calls(" RES:    7    8   Rescheduling interrupts\n"), None);
    }

    #[test]
    fn cache_options_are_those_of_the_header() {
        let header = include_str!("../../../../malloc/include/commensal.h");
        let members = header.split("typedef struct cm_cache_options {").nth(1).unwrap().split('}').next().unwrap();
        let members = members.lines().filter_map(|line| line.strip_suffix(';')?.rsplit([' ', '*']).next());
        let ours = ["constructor", "destructor", "argument", "limit", "batch", "typesafe_by_rcu"];
        assert_eq!(members.collect::<Vec<_>>(), ours);
    }
}
