//! The kernel, the processor's architecture and the C library: what the runtime finds in newer ones only.

use serde_json::json;

use super::finding::{Finding, Verdict};
use super::process::Process;

/// What came with a version of the kernel, and what the runtime does without it.
const CAME_WITH: [(u8, u8, &str); 5] = [
    (4, 14, "forks that no handler sees are noticed"),
    (5, 7, "large blocks grow without being copied"),
    (5, 10, "kicks (membarrier for restartable sequences)"),
    (5, 18, "locked pages go back"),
    (6, 3, "slots by concurrency ids"),
];

/// The only architecture that the fast path is written for.
const ARCHITECTURE: &str = "x86_64";

/// The kernel's version.
pub fn kernel(process: &Process) -> Finding {
    let found = format!("Linux {} on {}", process.release, process.architecture);
    let facts = json!({ "release": process.release, "architecture": process.architecture });
    let finding = |meaning: &str| Finding::fine("kernel", &found, meaning).with(facts.clone());
    if process.architecture != ARCHITECTURE {
        return finding("the library is for x86-64 only").but(Verdict::Fails);
    }
    if process.kernel().is_none() {
        return finding("what this version has is not known from its name; the items below say what was found")
            .but(Verdict::Unknown);
    }
    let missing: Vec<String> = CAME_WITH
        .iter()
        .filter(|(major, minor, _)| !process.is_at_least(*major, *minor))
        .map(|(major, minor, what)| format!("{what}: {major}.{minor}"))
        .collect();
    if missing.is_empty() {
        return finding("has all that the runtime makes use of");
    }
    finding(&format!("not in this version, and what they came with: {}", missing.join("; ")))
        .but(Verdict::Less)
        .advising("a newer kernel, if that can be chosen")
}

/// The C library's version.
pub fn libc(process: &Process) -> Finding {
    let found = format!("glibc {}", process.libc);
    let finding = |meaning| Finding::fine("libc", &found, meaning).with(json!({ "version": process.libc }));
    match process.rseq_bytes {
        Some(_) => finding("registers threads for restartable sequences (since 2.35)"),
        None => finding("registers no thread for restartable sequences; that came with 2.35: one slot a thread")
            .but(Verdict::Less)
            .advising("a distribution with glibc 2.35 or newer"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::process::tests::on;
    use super::*;

    #[test]
    fn what_a_kernel_lacks_is_named() {
        let [old, middle, new] = ["5.4.0-150-generic", "6.1.0-28-amd64", "6.8.0-45-generic"].map(|it| kernel(&on(it)));
        assert_eq!([old.verdict, middle.verdict, new.verdict], [Verdict::Less, Verdict::Less, Verdict::Fine]);
        assert!(old.meaning.contains("kicks") && old.meaning.contains("copied: 5.7"), "{}", old.meaning);
        assert!(middle.meaning.contains("concurrency ids: 6.3") && !middle.meaning.contains("kicks"));
        assert_eq!(kernel(&on("banquet")).verdict, Verdict::Unknown);
        let foreign = Process { architecture: "aarch64".to_owned(), ..on("6.8.0") };
        assert_eq!(kernel(&foreign).verdict, Verdict::Fails);
    }

    #[test]
    fn an_old_c_library_has_less() {
        let old = Process { rseq_bytes: None, libc: "2.31".to_owned(), ..on("6.8.0") };
        assert_eq!((libc(&old).verdict, libc(&on("6.8.0")).verdict), (Verdict::Less, Verdict::Fine));
    }
}
