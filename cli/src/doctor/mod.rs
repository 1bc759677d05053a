//! `commensal doctor`: which mode the library is in on this machine, why, and what that costs.
//!
//! `trial` runs a small process under the library to see what it does. `facts` asks the kernel and the C library why. Both become
//! findings here: a row of the table or an object of the JSON each.

mod facts;
pub mod sandbox;
pub mod trial;

use std::process::ExitCode;

use clap::Args;
use lab::sheet::{Sheet, Side};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::library::{self, Library};
use crate::places;
use facts::{Call, Facts};
use trial::{Kicks, Mode, Page, Seen};

/// Check how the library works on this machine: its mode, the reason, and what it costs
///
/// Runs a small process under the library. Each finding says what it means for programs, and what you can do.
///
/// Exit status: 0 if programs can run under the library, otherwise 1.
#[derive(Args)]
pub struct Doctor {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,

    /// Check instead what a program loses if it forbids itself system calls by seccomp
    #[arg(long)]
    sandbox: bool,
}

/// Verdicts, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// The library has all that it can use.
    Fine,
    /// Not known.
    Unknown,
    /// The library works, with less.
    Less,
    /// The library does not work.
    Fails,
}

impl Verdict {
    fn word(self) -> &'static str {
        ["fine", "unknown", "less", "fails"][self as usize]
    }
}

#[derive(Debug)]
struct Finding {
    item: &'static str,
    verdict: Verdict,
    /// What was found, and why.
    found: String,
    /// What that means for programs, and what it costs.
    meaning: String,
    /// What the user can do.
    advice: Option<String>,
}

impl Finding {
    fn new(item: &'static str, verdict: Verdict, found: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self { item, verdict, found: found.into(), meaning: meaning.into(), advice: None }
    }

    fn advising(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

/// Examines this machine; status 1 if the library does not work here.
pub fn doctor(request: &Doctor) -> Result<ExitCode, Failure> {
    let library = Library::find();
    let seen = match &library {
        Ok(_) => trial::run(),
        Err(failure) => Err(failure.to_string()),
    };
    let mut findings = examine(library.as_ref().ok(), &seen, &Facts::own());
    if request.sandbox && seen.is_ok() {
        findings.truncate(1);
        findings.extend(sandbox::examine());
    }
    let verdict = findings.iter().map(|it| it.verdict).max().unwrap_or(Verdict::Fine);
    let shown =
        if request.json { format!("{:#}\n", as_json(verdict, &seen, &findings)) } else { as_table(&seen, &findings) };
    places::show(&shown, None)?;
    Ok(if verdict == Verdict::Fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn examine(library: Option<&Library>, seen: &Result<Seen, String>, facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![of_library(library, seen)];
    if let Ok(seen) = seen {
        findings.extend([of_mode(seen, facts), of_kicks(seen, facts), of_page(seen), of_settings(seen)]);
    }
    findings
}

fn of_library(library: Option<&Library>, seen: &Result<Seen, String>) -> Finding {
    const ITEM: &str = "library";
    let Some(library) = library else {
        let why = seen.as_ref().err().map_or("", String::as_str);
        return Finding::new(ITEM, Verdict::Fails, why, "no program can run under the library");
    };
    let version = library.version();
    let found = format!("{}, version {}", library.path.display(), version.as_deref().unwrap_or("unknown"));
    match (seen, library.version_warning()) {
        (Err(why), _) => Finding::new(ITEM, Verdict::Fails, found, format!("a small process failed under it: {why}"))
            .advising("try `commensal run --stats -- true`"),
        (Ok(_), Some(_)) => {
            let meaning =
                format!("this command has version {}: settings and statistics may differ", library::OWN_VERSION);
            Finding::new(ITEM, Verdict::Less, found, meaning)
                .advising("use the same version of both, or unset COMMENSAL_LIBRARY")
        }
        (Ok(_), None) => Finding::new(ITEM, Verdict::Fine, found, "programs run under it"),
    }
}

fn of_mode(seen: &Seen, facts: &Facts) -> Finding {
    const ITEM: &str = "mode";
    match seen.mode {
        Mode::ConcurrencyIds => Finding::new(
            ITEM,
            Verdict::Fine,
            format!("slots by concurrency ids, which Linux {} and glibc {} support", facts.kernel, facts.libc),
            "each running thread has a slot, and idle threads hold no memory; a process with one thread starts no other",
        ),
        Mode::SlotPerThread => {
            let (why, advice) = why_slot_per_thread(facts);
            let meaning = "as fast, but idle threads hold cached memory, and a signal handler must not allocate if it \
                           interrupts an allocation";
            Finding::new(ITEM, Verdict::Less, format!("one slot per thread (fallback): {why}"), meaning)
                .advising(advice)
        }
    }
}

const UNEXPLAINED: (&str, &str) = ("the reason is unknown", "please report this");

fn why_slot_per_thread(facts: &Facts) -> (String, &'static str) {
    let (why, advice) = match facts.rseq_bytes {
        None => {
            let why = format!("glibc {} does not register threads for restartable sequences", facts.libc);
            return (why, "use a distribution with glibc 2.35 or newer");
        }
        Some(0) => match facts.rseq_call {
            _ if facts.is_rseq_tuned_off() => {
                ("GLIBC_TUNABLES has glibc.pthread.rseq=0", "remove glibc.pthread.rseq=0 from GLIBC_TUNABLES")
            }
            Call::Forbidden => ("a seccomp filter refuses rseq", "allow rseq in the sandbox's seccomp filter"),
            Call::Missing => {
                ("the kernel has no rseq, or a seccomp filter says so", "use Linux 6.3 or newer, with CONFIG_RSEQ")
            }
            Call::There => {
                ("glibc registered no restartable sequences", "look for another library that registers them")
            }
        },
        Some(_) if !facts.has_concurrency_ids() => {
            return (format!("Linux {} has no concurrency ids", facts.kernel), "use Linux 6.3 or newer");
        }
        Some(_) => UNEXPLAINED,
    };
    (why.to_owned(), advice)
}

fn of_kicks(seen: &Seen, facts: &Facts) -> Finding {
    const ITEM: &str = "membarrier";
    match seen.kicks {
        Kicks::Possible => Finding::new(
            ITEM,
            Verdict::Fine,
            "kicks are possible: the kernel has membarrier for restartable sequences",
            "idle CPUs return cached memory, limits are exact, and RCU readers need no fence",
        ),
        Kicks::NotUsed => {
            let meaning = "each thread owns its slot, so the library never interrupts other CPUs";
            Finding::new(ITEM, Verdict::Fine, "not used in this mode", meaning)
        }
        Kicks::Refused => {
            let (why, advice) = match facts.membarrier {
                Err(Call::Forbidden) => {
                    ("a seccomp filter refuses membarrier", "allow membarrier in the sandbox's seccomp filter")
                }
                Err(_) => (
                    "the kernel has no membarrier, or a seccomp filter says so",
                    "use a kernel with CONFIG_MEMBARRIER; allow membarrier in the sandbox's seccomp filter",
                ),
                Ok(_) if !facts.has_membarrier_for_rseq() => {
                    ("the kernel has membarrier, but not for restartable sequences", "use Linux 5.10 or newer")
                }
                Ok(_) => UNEXPLAINED,
            };
            let meaning = "idle CPUs hold cached memory until they use it, limited counters share one word, and RCU readers \
                           need a fence";
            Finding::new(ITEM, Verdict::Less, format!("kicks are refused: {why}"), meaning).advising(advice)
        }
    }
}

fn of_page(seen: &Seen) -> Finding {
    const ITEM: &str = "statistics-page";
    let blind = "`commensal top`, `stat` and `slabinfo` cannot see programs; malloc is not affected";
    match &seen.page {
        Page::At(path) => {
            Finding::new(ITEM, Verdict::Fine, path, "`commensal top`, `stat` and `slabinfo` see programs")
        }
        Page::Refused(why) => Finding::new(ITEM, Verdict::Less, format!("none: {why}"), blind)
            .advising("set XDG_RUNTIME_DIR to a directory of yours with mode 0700"),
        Page::NotMade => Finding::new(ITEM, Verdict::Unknown, "none: COMMENSAL_CONF sets the key observe", blind),
    }
}

fn of_settings(seen: &Seen) -> Finding {
    const ITEM: &str = "settings";
    if seen.complaints.is_empty() {
        return Finding::new(ITEM, Verdict::Fine, "no errors in COMMENSAL_CONF", "all settings are in force");
    }
    let meaning = "the library ignores these settings and uses the others";
    Finding::new(ITEM, Verdict::Less, seen.complaints.join("; "), meaning).advising("correct them in COMMENSAL_CONF")
}

fn as_json(verdict: Verdict, seen: &Result<Seen, String>, findings: &[Finding]) -> Value {
    let item = |it: &Finding| {
        json!({
            "item": it.item, "verdict": it.verdict.word(), "found": it.found, "meaning": it.meaning, "advice": it.advice,
        })
    };
    json!({
        "version": library::OWN_VERSION,
        "verdict": verdict.word(),
        "seen": seen.as_ref().ok().map(|seen| json!({ "mode": seen.mode.name(), "kicks": seen.kicks.name() })),
        "items": findings.iter().map(item).collect::<Vec<_>>(),
    })
}

/// A summary, and a table of 80 columns.
fn as_table(seen: &Result<Seen, String>, findings: &[Finding]) -> String {
    const COLUMNS: u16 = 80;
    let mut sheet =
        Sheet::new(["item", "verdict", "found, what it means, and → what to do"].map(|heading| (heading, Side::Left)));
    for it in findings {
        let advice = it.advice.as_ref().map_or(String::new(), |advice| format!("\n→ {advice}"));
        let words = format!("{}\n{}{advice}", it.found, it.meaning);
        sheet.add([it.item.to_owned(), it.verdict.word().to_owned(), words]);
    }
    let does = match seen {
        Ok(seen) => format!("works here: mode {}, kicks {}", seen.mode.name(), seen.kicks.name()),
        Err(_) => "does not work here".to_owned(),
    };
    format!("Commensal {} {does}.\n\n{}", library::OWN_VERSION, sheet.within(COLUMNS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Seen =
        Seen { mode: Mode::ConcurrencyIds, kicks: Kicks::Possible, page: Page::NotMade, complaints: Vec::new() };

    #[test]
    fn fallback_is_explained_by_what_the_machine_lacks() {
        let seen = Seen { mode: Mode::SlotPerThread, kicks: Kicks::NotUsed, ..USUAL };
        let unregistered = || Facts { rseq_bytes: Some(0), ..Facts::all() };
        for (facts, why) in [
            (Facts { rseq_bytes: None, ..Facts::all() }, "glibc 2.36 does not register threads"),
            (Facts { tunables: "glibc.pthread.rseq=0".to_owned(), ..unregistered() }, "GLIBC_TUNABLES"),
            (Facts { rseq_call: Call::Forbidden, ..unregistered() }, "a seccomp filter refuses rseq"),
            (Facts { rseq_call: Call::Missing, ..unregistered() }, "has no rseq"),
            (unregistered(), "glibc registered no"),
            (Facts { rseq_feature_bytes: 0, ..Facts::all() }, "Linux 6.8.0 has no concurrency ids"),
            (Facts::all(), UNEXPLAINED.0),
        ] {
            let found = of_mode(&seen, &facts);
            assert!(found.verdict == Verdict::Less && found.advice.is_some(), "{found:?}");
            assert!(found.found.contains(why), "{found:?}: {why}");
        }
    }

    #[test]
    fn refused_kicks_are_explained_by_what_membarrier_says() {
        let seen = Seen { kicks: Kicks::Refused, ..USUAL };
        for (membarrier, why) in [
            (Err(Call::Forbidden), "a seccomp filter refuses"),
            (Err(Call::Missing), "or a seccomp filter says so"),
            (Ok(8), "not for restartable sequences"),
            (Ok(u32::MAX), UNEXPLAINED.0),
        ] {
            let found = of_kicks(&seen, &Facts { membarrier, ..Facts::all() });
            assert!(found.verdict == Verdict::Less && found.found.contains(why), "{found:?}: {why}");
        }
    }

    #[test]
    fn findings_of_a_library_that_is_missing_fail() {
        let findings = examine(None, &Err("it is nowhere".to_owned()), &Facts::all());
        assert_eq!((findings[0].verdict, &*findings[0].found), (Verdict::Fails, "it is nowhere"));
        assert_eq!(findings.len(), 1, "{findings:?}");
    }
}
