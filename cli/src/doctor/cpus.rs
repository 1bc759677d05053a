//! CPUs: how many there could be, are, and may be used, which bounds the slots.

use serde_json::json;

use super::cgroup::Group;
use super::finding::{Finding, Verdict};
use super::process::Process;
use super::slots::{Conduct, Mode};
use super::tree::{Tree, Unread, count_in_list, not_understood};

/// As many slots as there are areas; see `machine::slot::MAX`.
const MOST_SLOTS: usize = 1024;

/// CPUs, and what that means for slots.
pub fn cpus(tree: &Tree, process: &Process) -> Finding {
    let [possible, online] = ["possible", "online"].map(|which| listed(tree, which));
    let allowed = process.allowed_cpus;
    let told = |count: &Result<usize, Unread>| count.as_ref().map_or("?".to_owned(), usize::to_string);
    let cpuset = cpuset(tree);
    let shown = allowed.map_or("?".to_owned(), |count| count.to_string());
    let of_group = cpuset.as_ref().map_or(String::new(), |list| format!(" (cpuset {list})"));
    let found = format!("{} possible, {} on-line, {shown} allowed{of_group}", told(&possible), told(&online));
    let facts = json!({
        "possible": possible.as_ref().ok(),
        "online": online.as_ref().ok(),
        "allowed": allowed,
        "cpuset": cpuset,
    });
    let finding = |meaning: &str| Finding::fine("cpus", &found, meaning).with(facts.clone());
    if Conduct::expected(process).mode == Mode::SlotPerThread {
        return finding(&format!("in the fallback mode slots follow threads, not CPUs, up to {MOST_SLOTS}"));
    }
    let used = allowed.or(online.as_ref().ok().copied());
    // Concurrency ids are dense: what counts is how many CPUs may be used.
    if used.is_some_and(|count| count > MOST_SLOTS) {
        return finding("threads that get a number from 1024 on have no slot, and take locks instead")
            .but(Verdict::Less)
            .advising("fewer CPUs for the program (taskset, a cpuset): its numbers are dense");
    }
    let meaning = match used {
        Some(1) => "one slot is ever in use".to_owned(),
        Some(count) => format!("up to {count} slots in use at once, and no more than threads run"),
        None => "no more slots in use at once than threads run".to_owned(),
    };
    match (possible, online) {
        (Ok(_), Ok(_)) => finding(&meaning),
        (Err(why), _) | (_, Err(why)) => Finding::unknown("cpus", &why, meaning).with(facts),
    }
}

/// The CPUs of the process's control group, as the kernel lists them; what is allowed is these at most.
fn cpuset(tree: &Tree) -> Option<String> {
    let group = Group::of(tree, "cpuset").ok()??;
    let file = group.name("cpuset.effective_cpus", "cpuset.cpus.effective");
    tree.text(group.folder().join(file)).ok().filter(|list| count_in_list(list).is_some())
}

fn listed(tree: &Tree, which: &str) -> Result<usize, Unread> {
    let file = format!("/sys/devices/system/cpu/{which}");
    let text = tree.text(&file)?;
    count_in_list(&text).ok_or_else(|| not_understood(file.as_ref(), &text))
}

#[cfg(test)]
mod tests {
    use super::super::process::tests::on;
    use super::super::tree::tests::of;
    use super::*;

    fn where_there_are(possible: &str, online: &str) -> Finding {
        let files = [("/sys/devices/system/cpu/possible", possible), ("/sys/devices/system/cpu/online", online)];
        let (_folder, tree) = of(&files);
        cpus(&tree, &on("6.8.0"))
    }

    #[test]
    fn slots_are_bounded_by_what_may_be_used() {
        let found = where_there_are("0-255\n", "0-7,16\n");
        assert_eq!(found.found, "256 possible, 9 on-line, 4 allowed");
        assert!(found.verdict == Verdict::Fine && found.meaning.contains("up to 4 slots"), "{found:?}");
        let (_folder, tree) = of(&[]);
        let fallback = cpus(&tree, &on("6.1.0"));
        assert!(fallback.verdict == Verdict::Fine && fallback.meaning.contains("follow threads"), "{fallback:?}");
        assert_eq!(where_there_are("0-8191\n", "0-2047\n").verdict, Verdict::Fine, "4 may be used");
        let (_folder, tree) =
            of(&[("/sys/devices/system/cpu/possible", "0-8191\n"), ("/sys/devices/system/cpu/online", "0-2047\n")]);
        for (allowed, verdict) in [(Some(1024), Verdict::Fine), (Some(1025), Verdict::Less), (None, Verdict::Less)] {
            assert_eq!(cpus(&tree, &Process { allowed_cpus: allowed, ..on("6.8.0") }).verdict, verdict, "{allowed:?}");
        }
    }

    #[test]
    fn the_cpuset_of_the_group_is_told() {
        let mount = "36 25 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let (_folder, tree) = of(&[
            ("/sys/devices/system/cpu/possible", "0-7\n"),
            ("/sys/devices/system/cpu/online", "0-7\n"),
            ("/proc/self/cgroup", "0::/own\n"),
            ("/proc/self/mountinfo", mount),
            ("/sys/fs/cgroup/own/cpuset.cpus.effective", "2-5\n"),
        ]);
        let found = cpus(&tree, &on("6.8.0"));
        assert_eq!(found.found, "8 possible, 8 on-line, 4 allowed (cpuset 2-5)");
        assert_eq!(found.facts["cpuset"], "2-5");
    }

    #[test]
    fn without_sys_what_is_allowed_is_known() {
        let (_folder, tree) = of(&[]);
        let found = cpus(&tree, &on("6.8.0"));
        assert!(found.verdict == Verdict::Unknown && found.facts["allowed"] == 4, "{found:?}");
        assert_eq!(where_there_are("many\n", "0\n").verdict, Verdict::Unknown);
    }
}
