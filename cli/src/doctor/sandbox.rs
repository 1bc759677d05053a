//! `commensal doctor --sandbox`: what a program loses if it forbids itself system calls, because plain mode lasts.
//!
//! A small process under the library installs a filter while two threads allocate. The filter permits what glibc's malloc and
//! threads need, and any other call ends the process. The process measures itself before and after.

use std::ffi::{c_char, c_int, c_void};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter_all_threads};
use serde_json::{Value, json};

use super::trial::{self, COMPLAINT};
use super::{Finding, Verdict};

/// The process's argument.
pub const NAME: &str = "sandbox";
/// How long its threads work in the sandbox.
const WORK: Duration = Duration::from_millis(100);
/// The calls of glibc's malloc, and of running threads.
const PERMITTED: [i64; 15] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_exit_group,
    libc::SYS_getrandom,
];

/// Runs the process.
pub(super) fn examine() -> Vec<Finding> {
    match trial::told(&[NAME]).and_then(|(told, printed)| findings(&told, &printed)) {
        Ok(findings) => findings,
        Err(why) => vec![
            Finding::new(NAME, Verdict::Fails, why, "a program that forbids itself system calls may be killed")
                .advising("please report this, with the output of `strace -f` for such a program"),
        ],
    }
}

fn findings(told: &Value, printed: &str) -> Result<Vec<Finding>, String> {
    let number = |name: &str| told[name].as_f64().ok_or_else(|| format!("the process did not print `{name}`"));
    let milliseconds = |name: &str| number(name).map(|us| format!("{:.2} ms", us / 1000.0));
    if let Some(complaint) = printed.lines().find_map(|line| line.strip_prefix(COMPLAINT)) {
        return Err(format!("the library reported: {complaint}"));
    }
    let strandable = printed.lines().find_map(|line| Some(line.split_once("strandable ")?.1.split(',').next()?.trim()));
    let strandable = strandable.ok_or("the library does not print what can be stranded: it has another version")?;
    Ok(vec![
        Finding::new(
            NAME,
            Verdict::Fine,
            format!("two threads allocated under a filter for {} ms, and made no forbidden call", WORK.as_millis()),
            "programs that forbid themselves system calls run: the library notices their call of prctl",
        )
        .advising("set sandbox:on for programs that install the filter without the C library's prctl"),
        Finding::new(
            "stranded-memory",
            Verdict::Less,
            format!("the magazines of the slots in use can hold {strandable}; --stats prints what they hold"),
            "only threads that run in a slot can empty it, so this much memory at most may stay unused",
        ),
        Finding::new(
            "grace-periods",
            if number("after_us")? > 1000.0 + number("before_us")? { Verdict::Less } else { Verdict::Fine },
            format!(
                "synchronize took {} under the filter, {} before",
                milliseconds("after_us")?,
                milliseconds("before_us")?
            ),
            "if readers have no fence, synchronize waits instead of calling membarrier",
        ),
        Finding::new(
            "background",
            Verdict::Less,
            "the library starts no thread and makes no statistics page",
            "those that exist go on; otherwise threads that allocate do the upkeep of their own slots",
        ),
    ])
}

/// The process. It does not end by Rust's exit, which makes forbidden calls.
pub fn main() -> ! {
    let status = match shut_in() {
        Ok(told) => {
            println!("{told}");
            0
        }
        Err(why) => {
            eprintln!("{why}");
            1
        }
    };
    // SAFETY: ends the process; the thread that is left does nothing that matters.
    unsafe { libc::exit(status) }
}

/// `cm_rcu_section` of the header.
#[repr(C)]
struct Section(*mut c_void, u32);

fn shut_in() -> Result<Value, String> {
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    type Lock = extern "C" fn() -> Section;
    type Unlock = unsafe extern "C" fn(Section);
    type Synchronize = extern "C" fn();
    let function = crate::probe::function;
    // SAFETY: they are what the header says of them.
    let (lock, unlock, synchronize) = unsafe {
        (
            mem::transmute::<*mut c_void, Lock>(function(c"cm_rcu_read_lock")?),
            mem::transmute::<*mut c_void, Unlock>(function(c"cm_rcu_read_unlock")?),
            mem::transmute::<*mut c_void, Synchronize>(function(c"cm_rcu_synchronize")?),
        )
    };
    let work = || {
        while !IS_OVER.load(Ordering::Relaxed) {
            let blocks: Vec<Vec<u8>> = (1..200_usize).map(|size| vec![1; size * size]).collect();
            drop(blocks);
        }
    };
    let wait = || {
        // SAFETY: ended once, by the thread that opened it.
        unsafe { unlock(lock()) };
        let begin = Instant::now();
        synchronize();
        begin.elapsed().as_secs_f64() * 1e6
    };
    // Never joined: the start and the end of a thread make forbidden calls.
    let both = Arc::new(Barrier::new(2));
    let begun = Arc::clone(&both);
    thread::spawn(move || {
        begun.wait();
        work();
        loop {
            thread::sleep(Duration::from_secs(1));
        }
    });
    both.wait();
    // The first one prepares what later ones need.
    wait();
    let before_us = wait();
    end_with_the_number();
    let rules = PERMITTED.map(|call| (call, Vec::new())).into_iter().collect();
    let filter = SeccompFilter::new(rules, SeccompAction::Trap, SeccompAction::Allow, TargetArch::x86_64);
    let program =
        filter.and_then(BpfProgram::try_from).map_err(|error| format!("cannot compile the filter: {error}"))?;
    apply_filter_all_threads(&program).map_err(|error| format!("the kernel refuses the filter: {error}"))?;
    let begin = Instant::now();
    while begin.elapsed() < WORK {
        drop((1..200_usize).map(|size| vec![1_u8; size * size]).collect::<Vec<_>>());
    }
    let after_us = wait();
    IS_OVER.store(true, Ordering::Relaxed);
    Ok(json!({ "before_us": before_us, "after_us": after_us }))
}

/// Prints the number of a forbidden call, and ends the process.
fn end_with_the_number() {
    extern "C" fn tell(_: c_int, about: *mut libc::siginfo_t, _: *mut c_char) {
        // SAFETY: the kernel's description of the signal, in which the number of the call lies behind an address.
        let number = unsafe { *about.cast::<c_int>().add(6) };
        let mut text = *b"system call ... is not permitted\n";
        for (place, power) in [(12, 100), (13, 10), (14, 1)] {
            text[place] = b'0' + (number / power % 10) as u8;
        }
        // SAFETY: writes what is there, and ends the process.
        unsafe {
            libc::write(2, text.as_ptr().cast(), text.len());
            libc::_exit(1);
        }
    }
    // SAFETY: zeroes are an action; the handler does what handlers may.
    unsafe {
        let mut action = mem::zeroed::<libc::sigaction>();
        action.sa_sigaction = tell as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut());
    }
}
