//! A trial: a small process under `commensal run`, which shows what the library does.
//!
//! The library's statistics tell the mode. To see whether kicks are possible, the process tunes a cache that two threads have
//! used, which needs a kick. The process is this command, started as [`NAME`].

use std::ffi::{c_char, c_int, c_void};
use std::io;
use std::mem;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, Output, Stdio};
use std::ptr::null;
use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};
use watch::folders;

use crate::places;

/// The process's name among the bundled programs.
pub const NAME: &str = "trial";
/// Far more than the milliseconds that it takes.
const SECONDS: u32 = 20;
/// How the library's lines about settings begin, and the line about a missing statistics page.
pub const COMPLAINT: &str = "commensal: COMMENSAL_CONF: ";
const NO_PAGE: &str = "observe: no statistics page: ";

/// How slots are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By the kernel, one for each running thread.
    ConcurrencyIds,
    /// By the library, one for each thread.
    SlotPerThread,
}

impl Mode {
    pub fn name(self) -> &'static str {
        ["concurrency-ids", "slot-per-thread"][self as usize]
    }
}

/// Whether other CPUs can be interrupted, by membarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kicks {
    Possible,
    Refused,
    /// Each thread owns its slot, so the library does not interrupt other CPUs.
    NotUsed,
}

impl Kicks {
    pub fn name(self) -> &'static str {
        ["possible", "refused", "not-used"][self as usize]
    }
}

/// The process's statistics page.
#[derive(Clone, Debug, PartialEq)]
pub enum Page {
    At(String),
    Refused(String),
    /// The user's settings forbid or delay it.
    NotMade,
}

/// What was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub mode: Mode,
    pub kicks: Kicks,
    pub page: Page,
    /// The library's complaints about COMMENSAL_CONF.
    pub complaints: Vec<String>,
}

/// Runs the process with the user's settings, or says why that failed.
pub fn run() -> Result<Seen, String> {
    let (told, printed) = told(&[])?;
    understood(&told, &printed)
}

/// Runs it with more arguments. Returns its answer, and what the library printed.
pub fn told(arguments: &[&str]) -> Result<(Value, String), String> {
    let own = places::own().map_err(|failure| failure.to_string())?;
    let mut command = Command::new(&own);
    command.args(["run", "--stats", "--"]).arg(&own).args([crate::WORKLOAD, NAME]).args(arguments).stdin(Stdio::null());
    // SAFETY: alarm may be called between fork and exec, and what it sets outlives the latter.
    unsafe {
        command.pre_exec(|| {
            libc::alarm(SECONDS);
            Ok(())
        });
    }
    answer(&command.output().map_err(|error| format!("cannot start a process ({error})"))?)
}

fn answer(output: &Output) -> Result<(Value, String), String> {
    let (said, printed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        let last = printed.lines().next_back().unwrap_or("(nothing)");
        let why = match output.status.signal() {
            Some(libc::SIGALRM) => format!("did not end within {SECONDS} s"),
            Some(signal) => format!("was killed by signal {signal}"),
            None => format!("ended with status {}", output.status.code().unwrap_or(-1)),
        };
        return Err(format!("the process {why}; it printed: {last}"));
    }
    let told = serde_json::from_str(&said).map_err(|error| format!("its answer cannot be parsed ({error})"))?;
    Ok((told, printed.into_owned()))
}

fn understood(told: &Value, printed: &str) -> Result<Seen, String> {
    let Some(mode) = printed.lines().find_map(mode) else {
        // The loader says why it left a library out, and goes on.
        let first = printed.lines().next().unwrap_or("(nothing)");
        return Err(format!(
            "the library printed no statistics, so it was not loaded or has another version; found: {first}"
        ));
    };
    let kicks = match (mode, told["tuned"].as_i64().map(|error| error as i32)) {
        (Mode::SlotPerThread, _) => Kicks::NotUsed,
        (Mode::ConcurrencyIds, Some(0)) => Kicks::Possible,
        (Mode::ConcurrencyIds, Some(libc::EAGAIN)) => Kicks::Refused,
        (Mode::ConcurrencyIds, Some(error)) => {
            return Err(format!("a cache cannot be tuned ({})", io::Error::from_raw_os_error(error)));
        }
        (Mode::ConcurrencyIds, None) => return Err("the library has no caches, so it has another version".to_owned()),
    };
    let (refused, complaints): (Vec<&str>, Vec<&str>) =
        printed.lines().filter_map(|line| line.strip_prefix(COMPLAINT)).partition(|line| line.starts_with(NO_PAGE));
    let page = match (told["page"].as_str(), refused.first()) {
        (Some(path), _) => Page::At(path.to_owned()),
        (None, Some(why)) => Page::Refused(why[NO_PAGE.len()..].to_owned()),
        (None, None) => Page::NotMade,
    };
    Ok(Seen { mode, kicks, page, complaints: complaints.into_iter().map(str::to_owned).collect() })
}

/// The mode, from the line of the statistics that has it.
fn mode(line: &str) -> Option<Mode> {
    let (_, rest) = line.strip_prefix("  slots: ")?.split_once("has concurrency ids ")?;
    Some(if rest.starts_with("yes") { Mode::ConcurrencyIds } else { Mode::SlotPerThread })
}

/// The process: uses a cache from two threads at once, re-tunes it, and says what came of that and where its statistics
/// page is.
pub fn main() -> ExitCode {
    let own = std::process::id().to_string();
    let page = folders::all().into_iter().map(|folder| folder.join(&own)).find(|page| page.exists());
    println!("{}", json!({ "tuned": tune_a_cache().ok(), "page": page }));
    ExitCode::SUCCESS
}

/// A cache that two threads use at once, so that both have arrays; then it is re-tuned: 0, or errno. An error if the library has no caches.
fn tune_a_cache() -> Result<i32, String> {
    type Create = unsafe extern "C" fn(*const c_char, usize, usize, *const c_void) -> *mut u8;
    type Allocate = unsafe extern "C" fn(*mut u8) -> *mut u8;
    type Free = unsafe extern "C" fn(*mut u8, *mut u8);
    type Tune = unsafe extern "C" fn(*mut u8, usize, usize) -> c_int;
    let function = crate::probe::function;
    // SAFETY: they are what the header says of them.
    let (create, allocate, free, tune) = unsafe {
        (
            mem::transmute::<*mut c_void, Create>(function(c"cm_cache_create")?),
            mem::transmute::<*mut c_void, Allocate>(function(c"cm_cache_alloc")?),
            mem::transmute::<*mut c_void, Free>(function(c"cm_cache_free")?),
            mem::transmute::<*mut c_void, Tune>(function(c"cm_cache_tune")?),
        )
    };
    // SAFETY: a name, a size, and no options.
    let cache = unsafe { create(c"trial".as_ptr(), 64, 0, null()) };
    if cache.is_null() {
        return Ok(io::Error::last_os_error().raw_os_error().unwrap_or(0));
    }
    let cache = Shared(cache);
    let both = Barrier::new(2);
    let work = || {
        let cache = &cache;
        both.wait();
        for _ in 0..100 {
            // SAFETY: objects of the cache, each given back once.
            let objects: Vec<*mut u8> = (0..100).map(|_| unsafe { allocate(cache.0) }).collect();
            // SAFETY: as above; none is given back that could not be had.
            objects.into_iter().filter(|object| !object.is_null()).for_each(|object| unsafe { free(cache.0, object) });
        }
        both.wait();
    };
    thread::scope(|scope| {
        // Without a second thread the answer is the same, and no kick is made.
        if thread::Builder::new().spawn_scoped(scope, work).is_ok() {
            work();
        }
    });
    // SAFETY: the cache is there, and stays.
    let outcome = unsafe { tune(cache.0, 8, 4) };
    Ok(if outcome == 0 { 0 } else { io::Error::last_os_error().raw_os_error().unwrap_or(0) })
}

/// A cache, which any thread may use.
struct Shared(*mut u8);

// SAFETY: the header says so.
unsafe impl Sync for Shared {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::ExitStatus;

    const TOLD: &str = r#"{"tuned":0,"page":"/dev/shm/commensal-0/7"}"#;
    const LINE: &str = "  slots: used 2, has concurrency ids yes, shared since 1.00 ms ago\n";
    const FALLBACK: &str = "  slots: used 3, has concurrency ids no, shared since never\n";

    fn read(status: i32, told: &str, printed: &str) -> Result<Seen, String> {
        let status = ExitStatus::from_raw(status);
        let (told, printed) = answer(&Output { status, stdout: told.into(), stderr: printed.into() })?;
        understood(&told, &printed)
    }

    #[test]
    fn statistics_tell_mode_kicks_and_page() {
        let seen = read(0, TOLD, LINE).unwrap();
        assert_eq!((seen.mode, seen.kicks), (Mode::ConcurrencyIds, Kicks::Possible));
        assert_eq!(seen.page, Page::At("/dev/shm/commensal-0/7".to_owned()));
        assert_eq!(read(0, r#"{"tuned":11}"#, LINE).unwrap().kicks, Kicks::Refused);
        let fallback = read(0, TOLD, FALLBACK).unwrap();
        assert_eq!((fallback.mode, fallback.kicks), (Mode::SlotPerThread, Kicks::NotUsed));
        let complaints = format!("{COMPLAINT}unknown key 'stat'\n{COMPLAINT}{NO_PAGE}no room\n{LINE}");
        let seen = read(0, r#"{"tuned":0,"page":null}"#, &complaints).unwrap();
        assert_eq!(
            (seen.page, &*seen.complaints),
            (Page::Refused("no room".to_owned()), &["unknown key 'stat'".to_owned()][..])
        );
    }

    #[test]
    fn failed_trials_say_why() {
        for (status, told, printed, why) in [
            (11, TOLD, "", "was killed by signal 11"),
            (14, TOLD, "", "did not end within"),
            (256, "", "commensal: no memory\n", "ended with status 1; it printed: commensal: no memory"),
            (0, "", LINE, "cannot be parsed"),
            (
                0,
                TOLD,
                "ERROR: ld.so: object ignored.\n",
                "no statistics, so it was not loaded or has another version; found: ERROR",
            ),
            (0, r#"{"tuned":null}"#, LINE, "no caches"),
            (0, r#"{"tuned":12}"#, LINE, "cannot be tuned"),
        ] {
            let said = read(status, told, printed).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
