//! `commensal doctor`: which mode the library is in on this machine, why, and what that costs.
//!
//! A small process under the library shows the mode. The kernel and the C library say why: what they offer this process, they
//! offer its children, and filters of system calls are inherited.

use std::ffi::CStr;
use std::io;
use std::process::{Command, ExitCode};

use lab::sheet::{Sheet, Side};

use crate::failure::Failure;
use crate::library::{self, Library};
use crate::places;

/// How the library's lines about settings begin.
const COMPLAINT: &str = "commensal: COMMENSAL_CONF: ";

/// What the small process shows.
struct Seen {
    /// Whether slots are the kernel's concurrency ids. Otherwise each thread has one of its own.
    has_concurrency_ids: bool,
    complaints: Vec<String>,
}

/// Verdicts, from best to worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Fine,
    /// The library works, with less.
    Less,
    /// The library does not work.
    Fails,
}

struct Finding {
    item: &'static str,
    verdict: Verdict,
    /// What was found, and why.
    found: String,
    /// What that means for programs, and what it costs.
    meaning: String,
    /// What the user can do.
    advice: Option<&'static str>,
}

impl Finding {
    fn fine(item: &'static str, found: impl Into<String>, meaning: &str) -> Self {
        Self { item, verdict: Verdict::Fine, found: found.into(), meaning: meaning.to_owned(), advice: None }
    }

    fn less(item: &'static str, found: String, meaning: impl Into<String>, advice: &'static str) -> Self {
        Self { item, verdict: Verdict::Less, found, meaning: meaning.into(), advice: Some(advice) }
    }
}

/// Examines this machine; status 1 if the library does not work here.
pub fn doctor() -> Result<ExitCode, Failure> {
    let mut summary = "does not work here".to_owned();
    let findings = match Library::find() {
        Err(failure) => {
            let meaning = "no program can run under the library".to_owned();
            let found = failure.to_string();
            vec![Finding { item: "library", verdict: Verdict::Fails, found, meaning, advice: None }]
        }
        Ok(library) => {
            let seen = trial();
            let mut findings = vec![of_library(&library, seen.as_ref().err())];
            if let Ok(seen) = seen {
                let (kicks, of_kicks) = kicks(&seen);
                let mode = if seen.has_concurrency_ids { "concurrency-ids" } else { "slot-per-thread" };
                summary = format!("works here: mode {mode}, kicks {kicks}");
                findings.extend([of_mode(&seen), of_kicks, of_settings(&seen)]);
            }
            findings
        }
    };
    places::show(&format!("Commensal {} {summary}.\n\n{}", library::OWN_VERSION, table(&findings)), None)?;
    let fails = findings.iter().any(|it| it.verdict == Verdict::Fails);
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A table of 80 columns.
fn table(findings: &[Finding]) -> String {
    const COLUMNS: u16 = 80;
    let headings = ["item", "verdict", "found, what it means, and → what to do"];
    let mut sheet = Sheet::new(headings.map(|heading| (heading, Side::Left)));
    for Finding { item, verdict, found, meaning, advice } in findings {
        let verdict = ["fine", "less", "fails"][*verdict as usize];
        let advice = advice.map_or(String::new(), |advice| format!("\n→ {advice}"));
        sheet.add([*item, verdict, &format!("{found}\n{meaning}{advice}")]);
    }
    sheet.within(COLUMNS)
}

/// Runs this command itself under the library, with the user's settings, or says why that failed.
fn trial() -> Result<Seen, String> {
    let own = places::own().map_err(|failure| failure.to_string())?;
    let output = Command::new(&own).args(["run", "--stats", "--"]).arg(&own).arg("--version").output();
    let output = output.map_err(|error| format!("cannot start a process ({error})"))?;
    let printed = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let last = printed.lines().next_back().unwrap_or("(nothing)");
        return Err(format!("the process ended with {}; it printed: {last}", output.status));
    }
    let slots = printed.lines().find_map(|line| line.strip_prefix("  slots: ")?.split_once("has concurrency ids "));
    let Some((_, answer)) = slots else {
        // The loader says why it left a library out, and goes on.
        let first = printed.lines().next().unwrap_or("(nothing)");
        return Err(format!(
            "the library printed no statistics, so it was not loaded or has another version; found: {first}"
        ));
    };
    let complaints = printed.lines().filter_map(|line| line.strip_prefix(COMPLAINT)).map(str::to_owned).collect();
    Ok(Seen { has_concurrency_ids: answer.starts_with("yes"), complaints })
}

fn of_library(library: &Library, why: Option<&String>) -> Finding {
    const ITEM: &str = "library";
    let version = library.version().unwrap_or_else(|| "unknown".to_owned());
    let found = format!("{}, version {version}", library.path.display());
    if let Some(why) = why {
        let meaning = format!("a small process failed under it: {why}");
        let advice = Some("try `commensal run --stats -- true`");
        return Finding { item: ITEM, verdict: Verdict::Fails, found, meaning, advice };
    }
    if version == library::OWN_VERSION {
        return Finding::fine(ITEM, found, "programs run under it");
    }
    let meaning = format!("this command has version {}: settings and statistics may differ", library::OWN_VERSION);
    Finding::less(ITEM, found, meaning, "use the same version of both, or unset COMMENSAL_LIBRARY")
}

fn of_mode(seen: &Seen) -> Finding {
    const ITEM: &str = "mode";
    if seen.has_concurrency_ids {
        let meaning = "each running thread has a slot, and idle threads hold no memory; a process with one thread \
                       starts no other";
        return Finding::fine(ITEM, format!("slots by concurrency ids, {}", versions()), meaning);
    }
    let (why, advice) = why_slot_per_thread();
    let meaning = "as fast, but idle threads hold cached memory, and a signal handler must not allocate if it \
                   interrupts an allocation";
    Finding::less(ITEM, format!("one slot per thread (fallback): {why}; {}", versions()), meaning, advice)
}

/// What the mode depends on.
fn versions() -> String {
    // SAFETY: it returns a string that lasts.
    let libc = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("with Linux {} and glibc {}", rustix::system::uname().release().to_string_lossy(), libc.to_string_lossy())
}

const UNEXPLAINED: (&str, &str) = ("the reason is unknown", "please report this");

fn why_slot_per_thread() -> (&'static str, &'static str) {
    const BYTES_WITH_CONCURRENCY_ID: u64 = 28;
    const AT_RSEQ_FEATURE_SIZE: u64 = 27;
    let tunables = std::env::var("GLIBC_TUNABLES").unwrap_or_default();
    // Of several such settings the last one holds.
    let is_on = tunables.rsplit(':').find_map(|one| one.strip_prefix("glibc.pthread.rseq=")) != Some("0");
    // SAFETY: looks the name up.
    let size = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()) };
    if size.is_null() {
        return ("this glibc does not register restartable sequences", "use a distribution with glibc 2.35 or newer");
    }
    // SAFETY: glibc documents it as a constant of this type.
    if unsafe { *size.cast::<u32>() } > 0 {
        // SAFETY: reads a table of the process's own.
        let has_ids = unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) } >= BYTES_WITH_CONCURRENCY_ID;
        return if has_ids { UNEXPLAINED } else { ("this kernel has no concurrency ids", "use Linux 6.3 or newer") };
    }
    // An area of no bytes is refused before anything is done.
    match error_of(libc::SYS_rseq, 0) {
        _ if !is_on => ("GLIBC_TUNABLES has glibc.pthread.rseq=0", "remove glibc.pthread.rseq=0 from GLIBC_TUNABLES"),
        libc::EPERM | libc::EACCES => ("a seccomp filter refuses rseq", "allow rseq in the sandbox's seccomp filter"),
        libc::ENOSYS => {
            ("the kernel has no rseq, or a seccomp filter says so", "use Linux 6.3 or newer, with CONFIG_RSEQ")
        }
        _ => ("glibc registered no restartable sequences", "look for another library that registers them"),
    }
}

/// Whether the library can interrupt other CPUs: in a word, and as a finding.
fn kicks(seen: &Seen) -> (&'static str, Finding) {
    const ITEM: &str = "membarrier";
    const REGISTER_PRIVATE_EXPEDITED_RSEQ: usize = 1 << 8;
    if !seen.has_concurrency_ids {
        let meaning = "each thread owns its slot, so the library never interrupts other CPUs";
        return ("not-used", Finding::fine(ITEM, "not used in this mode", meaning));
    }
    // Of all the library's calls the kernel first refuses this one, which changes nothing for a process that has no threads.
    let (why, advice) = match error_of(libc::SYS_membarrier, REGISTER_PRIVATE_EXPEDITED_RSEQ) {
        0 => {
            let found = "kicks are possible: the kernel has membarrier for restartable sequences";
            let meaning = "idle CPUs return cached memory, limits are exact, and RCU readers need no fence";
            return ("possible", Finding::fine(ITEM, found, meaning));
        }
        libc::EPERM | libc::EACCES => {
            ("a seccomp filter refuses membarrier", "allow membarrier in the sandbox's seccomp filter")
        }
        libc::ENOSYS => (
            "the kernel has no membarrier, or a seccomp filter says so",
            "use a kernel with CONFIG_MEMBARRIER; allow membarrier in the sandbox's seccomp filter",
        ),
        libc::EINVAL => ("the kernel has membarrier, but not for restartable sequences", "use Linux 5.10 or newer"),
        _ => UNEXPLAINED,
    };
    let meaning = "idle CPUs hold cached memory until they use it, limited counters share one word, and RCU readers \
                   need a fence";
    ("refused", Finding::less(ITEM, format!("kicks are refused: {why}"), meaning, advice))
}

fn of_settings(seen: &Seen) -> Finding {
    const ITEM: &str = "settings";
    if seen.complaints.is_empty() {
        return Finding::fine(ITEM, "no errors in COMMENSAL_CONF", "all settings are in force");
    }
    let meaning = "the library does without; `commensal top` and `stat` see only programs with a statistics page";
    Finding::less(ITEM, seen.complaints.join("; "), meaning, "correct COMMENSAL_CONF, or do what it says")
}

/// The error of a system call that takes one number, or 0.
fn error_of(call: libc::c_long, argument: usize) -> i32 {
    // SAFETY: the callers' calls touch no memory.
    let result = unsafe { libc::syscall(call, argument, 0, 0, 0) };
    if result < 0 { io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
}
