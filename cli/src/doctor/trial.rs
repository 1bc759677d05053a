//! A trial: a small process under the library, which is asked what it really does there.
//!
//! What other items expect is said from files and system calls of this process. The trial knows nothing of that: the mode is what the library
//! prints of itself when the process exits, and whether kicks are possible is what it answers when a cache is re-tuned that two threads have used,
//! which takes a kick. So where both say the same it has been seen, and where they differ that is a finding.
//!
//! The process is this command once more, as [`NAME`], before anything is parsed.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::mem;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use std::ptr::null;
use std::sync::Barrier;
use std::thread;

use serde::{Deserialize, Serialize};

use super::slots::{Conduct, Kicks, Mode};
use crate::{conf, places, preload};

/// What the process is called, where bundled programs have their names.
pub const NAME: &str = "trial";
/// It takes milliseconds. Whatever hangs is a finding, too.
const SECONDS: u32 = 20;
/// How lines begin that the library prints about its settings.
const COMPLAINT: &str = "commensal: COMMENSAL_CONF: ";

/// What the process says itself.
#[derive(Debug, Deserialize, Serialize)]
struct Told {
    /// The file whose malloc it calls.
    malloc: Option<String>,
    /// The version of the library that is there.
    version: Option<String>,
    /// What re-tuning a cache came to: 0, or errno; none if the library has no caches.
    tuned: Option<i32>,
}

/// What was seen.
#[derive(Debug, PartialEq)]
pub struct Seen {
    /// The file whose malloc the process called.
    pub malloc: String,
    /// The version of the library there.
    pub version: Option<String>,
    /// What the library does.
    pub conduct: Conduct,
    /// Slots that two threads used.
    pub slots: u64,
    /// Kicks that were made.
    pub kicks: u64,
    /// What the library said of COMMENSAL_CONF.
    pub complaints: Vec<String>,
}

/// Why nothing was seen.
#[derive(Debug, PartialEq)]
pub enum Unseen {
    /// The process could not be started, which says nothing of the library.
    NotStarted(String),
    /// It did not end well, or was not under the library.
    Failed(String),
}

/// Runs the process under a library, with the user's settings.
pub fn run(library: &Path) -> Result<Seen, Unseen> {
    let own = places::own().map_err(|failure| Unseen::NotStarted(failure.to_string()))?;
    let mut command = Command::new(own);
    command.args([crate::WORKLOAD, NAME]).stdin(Stdio::null());
    preload::apply(&mut command, library, &[conf::STATS_AT_EXIT]);
    // SAFETY: alarm may be called between fork and exec, and what it sets outlives the latter.
    unsafe {
        command.pre_exec(|| {
            libc::alarm(SECONDS);
            Ok(())
        });
    }
    let output = command.output().map_err(|error| Unseen::NotStarted(error.to_string()))?;
    understood(&output).map_err(Unseen::Failed)
}

fn understood(output: &Output) -> Result<Seen, String> {
    let (said, printed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        let last = printed.lines().next_back().unwrap_or("nothing");
        let why = match output.status.signal() {
            Some(libc::SIGALRM) => format!("did not end within {SECONDS} s"),
            Some(signal) => format!("was ended by signal {signal}"),
            None => format!("ended with status {}", output.status.code().unwrap_or(-1)),
        };
        return Err(format!("the process {why}; it said: {last}"));
    }
    let told: Told = serde_json::from_str(&said).map_err(|error| format!("its answer is not understood ({error})"))?;
    let malloc = told.malloc.ok_or("it cannot be told whose malloc the process called")?;
    let Some((mode, slots, kicks)) = printed.lines().find_map(mode) else {
        // The loader says why it left a library out, and goes on.
        let first = printed.lines().next().unwrap_or("nothing");
        return Err(format!("the library printed no statistics: not loaded, or of another version; it said: {first}"));
    };
    let kicks_are = match (mode, told.tuned) {
        (Mode::SlotPerThread, _) => Kicks::NotUsed,
        (Mode::ConcurrencyIds, Some(0)) => Kicks::Possible,
        (Mode::ConcurrencyIds, Some(libc::EAGAIN)) => Kicks::Refused,
        (Mode::ConcurrencyIds, Some(error)) => {
            return Err(format!("a cache could not be re-tuned ({})", io::Error::from_raw_os_error(error)));
        }
        (Mode::ConcurrencyIds, None) => return Err("the library has no caches: it is of another version".to_owned()),
    };
    let complaints = printed.lines().filter_map(|line| line.strip_prefix(COMPLAINT)).map(str::to_owned).collect();
    Ok(Seen { malloc, version: told.version, conduct: Conduct { mode, kicks: kicks_are }, slots, kicks, complaints })
}

/// The mode, the slots used and the kicks made, from the line of the statistics that has them.
fn mode(line: &str) -> Option<(Mode, u64, u64)> {
    let behind = |word: &str| {
        let rest = line.split(word).nth(1)?;
        rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse::<u64>().ok()
    };
    let slots = behind("; slots used ")?;
    let kicks = behind("; kicks ")?;
    let mode = if line.contains("(concurrency ids)") {
        Mode::ConcurrencyIds
    } else if line.contains("(one slot a thread") {
        Mode::SlotPerThread
    } else {
        return None;
    };
    Some((mode, slots, kicks))
}

/// The process: uses malloc and a cache from two threads at once, re-tunes the cache, and says what came of it.
pub fn main() -> ExitCode {
    let told = Told {
        malloc: crate::probe::function(c"malloc").ok().and_then(file_of),
        version: crate::probe::function(c"commensal_version").ok().map(|at| {
            // SAFETY: the library exports a C string by this name.
            unsafe { CStr::from_ptr(at.cast::<c_char>()) }.to_string_lossy().into_owned()
        }),
        tuned: tune_a_cache().ok(),
    };
    match serde_json::to_string(&told) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}

/// The file that has what lies at an address.
fn file_of(address: *mut c_void) -> Option<String> {
    // SAFETY: zeroes are null pointers.
    let mut found: libc::Dl_info = unsafe { mem::zeroed() };
    // SAFETY: asks; the answer is written into ours.
    let is_known = unsafe { libc::dladdr(address, &mut found) } != 0 && !found.dli_fname.is_null();
    // SAFETY: the loader's name of an object, which lasts as long as that.
    is_known.then(|| unsafe { CStr::from_ptr(found.dli_fname) }.to_string_lossy().into_owned())
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
        // Where there is no second thread, the answer is the same, and no kick is made.
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

    const TOLD: &str = r#"{"malloc":"/l.so","version":"0.1.0","tuned":0}"#;
    const LINE: &str = "  shared: a second thread was created 0 ms before this; slots used 2 (concurrency ids); kicks 1 for tune 1, refused 0\n";
    const FALLBACK: &str = "  solo: the process never had a second thread; slots used 3 (one slot a thread (no concurrency ids here)); kicks 0, refused 0\n";

    fn read(status: i32, told: &str, printed: &str) -> Result<Seen, String> {
        let status = ExitStatus::from_raw(status);
        understood(&Output { status, stdout: told.into(), stderr: printed.into() })
    }

    #[test]
    fn what_the_library_prints_is_read() {
        let seen = read(0, TOLD, LINE).unwrap();
        assert_eq!(seen.conduct, Conduct { mode: Mode::ConcurrencyIds, kicks: Kicks::Possible });
        assert_eq!((seen.slots, seen.kicks, &*seen.malloc), (2, 1, "/l.so"));
        let refused = read(0, &TOLD.replace(":0}", ":11}"), LINE).unwrap();
        assert_eq!(refused.conduct.kicks, Kicks::Refused);
        let fallback = read(0, TOLD, FALLBACK).unwrap();
        assert_eq!(fallback.conduct, Conduct { mode: Mode::SlotPerThread, kicks: Kicks::NotUsed });
        let complaint = "commensal: COMMENSAL_CONF: unknown key 'stat': did you mean 'stats'? ignored\n";
        let seen = read(0, TOLD, &format!("{complaint}{LINE}")).unwrap();
        assert_eq!(seen.complaints, ["unknown key 'stat': did you mean 'stats'? ignored"]);
    }

    #[test]
    fn what_went_wrong_is_said() {
        for (status, told, printed, why) in [
            (11, TOLD, "", "was ended by signal 11"),
            (14, TOLD, "", "did not end within"),
            (256, "", "commensal: no memory\n", "ended with status 1; it said: commensal: no memory"),
            (0, "", LINE, "not understood"),
            (0, TOLD, "", "printed no statistics"),
            (0, TOLD, "ERROR: ld.so: object ignored.\n", "it said: ERROR: ld.so: object ignored."),
            (0, r#"{"malloc":null,"version":null,"tuned":null}"#, LINE, "whose malloc"),
            (0, r#"{"malloc":"/l.so","version":null,"tuned":null}"#, LINE, "no caches"),
            (0, &TOLD.replace(":0}", ":12}"), LINE, "re-tuned"),
        ] {
            let said = read(status, told, printed).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn a_function_is_in_some_file() {
        assert!(file_of(libc::malloc as *mut c_void).unwrap().contains("libc"));
    }
}
