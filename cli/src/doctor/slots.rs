//! Restartable sequences, concurrency ids and kicks: which mode the runtime is expected to choose, and why.
//!
//! This is said from what the kernel and the C library say of themselves. What the runtime does is asked by `trial`, which knows nothing of
//! what is said here.

use serde::Serialize;
use serde_json::json;

use super::finding::{Finding, Verdict};
use super::process::{Call, PRIVATE_EXPEDITED, PRIVATE_EXPEDITED_RSEQ, Process};

/// How slots are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// By the kernel, one for each running thread.
    ConcurrencyIds,
    /// By the runtime, one for each thread.
    SlotPerThread,
}

impl Mode {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Mode::ConcurrencyIds => "slots by concurrency ids",
            Mode::SlotPerThread => "one slot a thread (fallback)",
        }
    }
}

/// Whether other CPUs can be kicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kicks {
    Possible,
    Refused,
    /// Where each thread owns its slot nobody restarts another's sections.
    NotUsed,
}

impl Kicks {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Kicks::Possible => "kicks possible",
            Kicks::Refused => "kicks refused",
            Kicks::NotUsed => "no kicks",
        }
    }
}

/// What the runtime does, or should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Conduct {
    pub mode: Mode,
    pub kicks: Kicks,
}

impl Conduct {
    /// What follows from what was found.
    pub fn expected(process: &Process) -> Self {
        if !process.has_rseq() || !process.has_concurrency_ids() {
            return Self { mode: Mode::SlotPerThread, kicks: Kicks::NotUsed };
        }
        let can_kick = [PRIVATE_EXPEDITED, PRIVATE_EXPEDITED_RSEQ].iter().all(|kind| process.has_membarrier(*kind));
        Self { mode: Mode::ConcurrencyIds, kicks: if can_kick { Kicks::Possible } else { Kicks::Refused } }
    }
}

/// Whether threads are registered for restartable sequences, or why not.
pub fn rseq(process: &Process) -> Finding {
    let facts = json!({
        "registered": process.has_rseq(),
        "size": process.rseq_bytes,
        "system_call": match process.rseq_call { Call::There => "there", Call::Missing => "missing", Call::Forbidden => "forbidden" },
    });
    if process.has_rseq() {
        let meaning = "malloc and free take from arrays of the CPU without an atomic operation";
        return Finding::fine("rseq", "registered by glibc", meaning).with(facts);
    }
    let (why, advice) = why_not_registered(process);
    let meaning = "each thread owns a slot of its own, so idle threads keep what they cached";
    Finding::fine("rseq", format!("not registered: {why}"), meaning).but(Verdict::Less).advising(advice).with(facts)
}

fn why_not_registered(process: &Process) -> (&'static str, &'static str) {
    match process.rseq_call {
        _ if process.rseq_bytes.is_none() => ("this C library does not know of them", "glibc 2.35 or newer"),
        _ if is_tuned_off(process) => {
            ("GLIBC_TUNABLES has glibc.pthread.rseq=0", "take glibc.pthread.rseq=0 out of GLIBC_TUNABLES")
        }
        Call::Forbidden => ("a filter of system calls refuses rseq", "allow rseq in the sandbox's seccomp filter"),
        Call::Missing => ("the kernel lacks rseq, or a filter says so", "Linux 4.18 or newer, with CONFIG_RSEQ"),
        Call::There => {
            ("the C library did not, though the kernel has them", "see whether something else registers them")
        }
    }
}

fn is_tuned_off(process: &Process) -> bool {
    let tunables = process.variable("GLIBC_TUNABLES").unwrap_or_default();
    // Of several the last one holds.
    tunables.split(':').filter_map(|one| one.strip_prefix("glibc.pthread.rseq=")).next_back() == Some("0")
}

/// Whether the kernel gives concurrency ids, and so which mode is chosen.
pub fn concurrency_ids(process: &Process) -> Finding {
    let facts = json!({ "given": process.has_concurrency_ids(), "feature_size": process.rseq_feature_bytes });
    let finding = |found: &str, meaning: &str| Finding::fine("concurrency-ids", found, meaning).with(facts.clone());
    match (process.has_concurrency_ids(), process.has_rseq()) {
        (true, true) => {
            finding("given by the kernel", "one slot for each thread that runs, however many there are: the usual mode")
        }
        (true, false) => finding(
            "given by the kernel, but to nobody without restartable sequences",
            "one slot a thread: the fallback mode",
        )
        .but(Verdict::Less),
        (false, _) => {
            finding("none", "one slot a thread: the fallback mode; as fast, but idle threads keep what they cached")
                .but(Verdict::Less)
                .advising("Linux 6.3 or newer has them")
        }
    }
}

/// Whether other CPUs can be kicked.
pub fn membarrier(process: &Process) -> Finding {
    let has = |kind| process.has_membarrier(kind);
    let (orders, restarts) = (has(PRIVATE_EXPEDITED), has(PRIVATE_EXPEDITED_RSEQ));
    let facts = json!({
        "private_expedited": orders,
        "private_expedited_rseq": restarts,
        "refused": process.membarrier == Err(Call::Forbidden),
        "filtered": process.is_filtered,
    });
    let finding = |found: &str, meaning: &str| Finding::fine("membarrier", found, meaning).with(facts.clone());
    const NO_ACCOUNT: &str = "of no account: in the fallback mode nobody is kicked";
    let is_used = Conduct::expected(process).kicks != Kicks::NotUsed;
    if orders && restarts {
        let usual = "other CPUs can be kicked: what they cached is taken back, limits are exact, RCU reads by rows";
        return finding(
            "private expedited, and private expedited for restartable sequences",
            if is_used { usual } else { NO_ACCOUNT },
        );
    }
    let (found, advice) = match process.membarrier {
        Err(Call::Forbidden) => {
            ("a filter of system calls refuses it", "allow membarrier in the sandbox's seccomp filter")
        }
        Err(_) => (
            "the kernel lacks it, or a filter says so",
            "a kernel with CONFIG_MEMBARRIER; a filter that answers ENOSYS has to allow membarrier",
        ),
        Ok(_) if orders => {
            ("private expedited only, not for restartable sequences", "Linux 5.10 or newer, with CONFIG_RSEQ")
        }
        Ok(_) => ("none that is private and expedited", "Linux 5.10 or newer"),
    };
    if !is_used {
        return finding(found, NO_ACCOUNT);
    }
    let meaning = "no kicks: what other CPUs cached stays with them until they use it, limited counters take the shared \
                   word, RCU readers a lane each";
    finding(found, meaning).but(Verdict::Less).advising(advice)
}

#[cfg(test)]
mod tests {
    use super::super::process::tests::{on, with};
    use super::*;

    const USUAL: Conduct = Conduct { mode: Mode::ConcurrencyIds, kicks: Kicks::Possible };
    const FALLBACK: Conduct = Conduct { mode: Mode::SlotPerThread, kicks: Kicks::NotUsed };

    #[test]
    fn the_mode_follows_from_the_kernel_and_the_c_library() {
        for (process, expected) in [
            (on("6.8.0"), USUAL),
            (on("6.1.0"), FALLBACK),
            (on("5.4.0"), FALLBACK),
            (Process { rseq_bytes: Some(0), ..on("6.8.0") }, FALLBACK),
            (Process { rseq_bytes: None, ..on("6.8.0") }, FALLBACK),
            (Process { membarrier: Ok(PRIVATE_EXPEDITED), ..on("6.8.0") }, Conduct { kicks: Kicks::Refused, ..USUAL }),
            (Process { membarrier: Err(Call::Forbidden), ..on("6.8.0") }, Conduct { kicks: Kicks::Refused, ..USUAL }),
        ] {
            assert_eq!(Conduct::expected(&process), expected, "{process:?}");
        }
    }

    #[test]
    fn it_is_said_why_there_are_no_restartable_sequences() {
        let without = |process: Process| rseq(&Process { rseq_bytes: Some(0), ..process });
        let tuned = without(with("GLIBC_TUNABLES", "glibc.malloc.check=1:glibc.pthread.rseq=0"));
        assert!(tuned.found.contains("GLIBC_TUNABLES") && tuned.verdict == Verdict::Less, "{}", tuned.found);
        let again = without(with("GLIBC_TUNABLES", "glibc.pthread.rseq=0:glibc.pthread.rseq=1"));
        assert!(!again.found.contains("GLIBC_TUNABLES"), "{}", again.found);
        let refused = without(Process { rseq_call: Call::Forbidden, ..on("6.8.0") });
        assert!(refused.found.contains("a filter"), "{}", refused.found);
        let missing = without(Process { rseq_call: Call::Missing, ..on("4.9.0") });
        assert!(missing.found.contains("lacks rseq"), "{}", missing.found);
        assert_eq!(rseq(&on("5.4.0")).verdict, Verdict::Fine);
    }

    #[test]
    fn refused_kicks_matter_where_there_would_be_some() {
        let refused = |release| membarrier(&Process { membarrier: Err(Call::Forbidden), ..on(release) });
        let (new, old) = (refused("6.8.0"), refused("6.1.0"));
        assert!(new.verdict == Verdict::Less && new.found.contains("refuses"), "{new:?}");
        assert!(old.verdict == Verdict::Fine && old.meaning.contains("of no account"), "{old:?}");
        let partly = membarrier(&Process { membarrier: Ok(PRIVATE_EXPEDITED), ..on("6.8.0") });
        assert!(partly.verdict == Verdict::Less && partly.found.contains("only"), "{partly:?}");
        for (release, means) in [("6.8.0", "can be kicked"), ("6.1.0", "of no account")] {
            let there = membarrier(&on(release));
            assert!(there.verdict == Verdict::Fine && there.meaning.contains(means), "{there:?}");
        }
    }
}
