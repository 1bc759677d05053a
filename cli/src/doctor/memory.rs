//! What the kernel gives memory by: huge pages, overcommitment, mappings, limits, and where addresses lie.

use std::path::Path;

use procfs_core::Meminfo;
use serde_json::{Value, json};

use super::bytes;
use super::finding::{Finding, Verdict};
use super::process::Process;
use super::tree::{Tree, Unread, not_understood};

/// Transparent huge pages, and what the runtime's policy makes of them.
pub fn huge_pages(tree: &Tree, process: &Process) -> Finding {
    const ITEM: &str = "huge-pages";
    const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";
    let enabled = match tree.chosen(&format!("{FOLDER}/enabled")) {
        Ok(enabled) => enabled,
        Err(why) => return Finding::unknown(ITEM, &why, "taken for off"),
    };
    let defrag = tree.chosen(&format!("{FOLDER}/defrag")).ok();
    let found = match &defrag {
        Some(defrag) => format!("{enabled}; defrag {defrag}"),
        None => enabled.clone(),
    };
    let facts = json!({ "enabled": enabled, "defrag": defrag, "disabled_for_process": process.has_no_huge_pages });
    let finding = |meaning| Finding::fine(ITEM, &found, meaning).with(facts.clone());
    if process.has_no_huge_pages {
        return finding("this process and what it starts have forsworn them (prctl)");
    }
    match (enabled.as_str(), defrag.as_deref()) {
        ("always", Some("always")) => {
            finding("the first 32 MiB of a heap use none; beyond, a first touch may wait until the kernel has made one")
                .but(Verdict::Less)
                .advising("huge:avoid in COMMENSAL_CONF, or defrag on madvise, if pauses matter")
        }
        ("always", _) => {
            finding("the first 32 MiB of a heap use none; what comes later does, and is larger and faster")
                .advising("huge:avoid in COMMENSAL_CONF, if memory matters more than time")
        }
        _ => finding("the heap uses none, and does not ask for any"),
    }
}

/// Whether the kernel promises memory that it may not have.
pub fn overcommit(tree: &Tree) -> Finding {
    const ITEM: &str = "overcommit";
    const FILE: &str = "/proc/sys/vm/overcommit_memory";
    let policy = match tree.number(FILE) {
        Ok(policy @ 0..=2) => policy,
        Ok(other) => return Finding::unknown(ITEM, &not_understood(Path::new(FILE), &other.to_string()), NO_MATTER),
        Err(why) => return Finding::unknown(ITEM, &why, NO_MATTER),
    };
    if policy < 2 {
        let found = ["by estimate (0)", "always (1)"][policy as usize];
        let meaning = "address space that is set aside costs nothing";
        return Finding::fine(ITEM, found, meaning).with(json!({ "policy": policy }));
    }
    let memory = tree.parsed::<Meminfo>("/proc/meminfo").ok();
    let committed = memory.as_ref().and_then(|memory| Some((memory.committed_as, memory.commit_limit?)));
    let found = match committed {
        Some((now, limit)) => format!("never (2): {} of {} are promised", bytes(now), bytes(limit)),
        None => "never (2)".to_owned(),
    };
    let meaning =
        "each segment (4 MiB or more) counts as a whole from the start on, and a fork promises all of it once more";
    let facts = json!({ "policy": policy, "committed": committed.map(|it| it.0), "limit": committed.map(|it| it.1) });
    Finding::fine(ITEM, found, meaning)
        .but(Verdict::Less)
        .advising("vm.overcommit_memory=0, or a larger vm.overcommit_ratio")
        .with(facts)
}

const NO_MATTER: &str = "the runtime does not ask; address space that it sets aside may count as memory";

/// How many mappings a process may have.
pub fn mappings(tree: &Tree) -> Finding {
    const ITEM: &str = "mappings";
    /// What the kernel has if nobody sets it.
    const USUAL: u64 = 65530;
    match tree.number("/proc/sys/vm/max_map_count") {
        Ok(most) => {
            let finding = |meaning| Finding::fine(ITEM, format!("up to {most}"), meaning).with(json!({ "most": most }));
            if most >= USUAL {
                finding("segments lie in a few mappings; blocks over 64 MiB have one each")
            } else {
                finding("where there are no more, blocks over 64 MiB cannot be had, and freed ones stay mapped")
                    .but(Verdict::Less)
                    .advising(format!("vm.max_map_count={USUAL}, as is usual"))
            }
        }
        Err(why) => Finding::unknown(ITEM, &why, "segments lie in a few mappings; blocks over 64 MiB have one each"),
    }
}

/// Below this the page map is one of 64 GiB of addresses only.
const ENOUGH_FOR_THE_MAP: u64 = 32 << 30;

/// The process's own limits.
pub fn limits(process: &Process) -> Finding {
    let limits = &process.limits;
    let told = |name: &str, limit: Option<u64>| format!("{name} {}", limit.map_or("unlimited".to_owned(), bytes));
    let all = [
        ("address space", limits.address_space),
        ("data", limits.data),
        ("locked", limits.locked),
        ("stack", limits.stack),
    ];
    let found = all.map(|(name, limit)| told(name, limit)).join(", ");
    let facts = json!({
        "address_space": limits.address_space,
        "data": limits.data,
        "locked": limits.locked,
        "stack": limits.stack,
    });
    let finding = |meaning: String| Finding::fine("limits", &found, meaning).with(facts.clone());
    let is_narrow = limits.address_space.is_some_and(|limit| limit < ENOUGH_FOR_THE_MAP);
    let locked = limits.locked.map_or(String::new(), |limit| {
        format!("; a program that locks all its memory (mlockall) has a heap of {} at most", bytes(limit))
    });
    if is_narrow || limits.data.is_some() {
        let narrow = "address space that is only set aside counts too: the page map is made smaller, and malloc fails \
                      where the limit is";
        let data = "malloc fails where the limit is";
        return finding(format!("{}{locked}", if is_narrow { narrow } else { data }))
            .but(Verdict::Less)
            .advising("ulimit -v unlimited, ulimit -d unlimited; limit memory by a control group instead");
    }
    finding(format!("none that the heap meets{locked}"))
}

/// Whether addresses are drawn.
pub fn randomisation(tree: &Tree, process: &Process) -> Finding {
    const ITEM: &str = "randomisation";
    const MEANING: &str = "the heap is wherever the kernel puts it, and relies on nothing";
    let facts = |setting: Option<u64>| json!({ "setting": setting, "fixed_for_process": process.has_fixed_addresses });
    let fixed = "times depend on one layout of addresses then, in `lab` and `compare` too";
    match tree.number("/proc/sys/kernel/randomize_va_space") {
        Ok(setting) if setting > 0 && !process.has_fixed_addresses => {
            Finding::fine(ITEM, format!("on ({setting})"), MEANING).with(facts(Some(setting)))
        }
        Ok(setting) => {
            let why = if process.has_fixed_addresses { "off for this process (setarch -R)" } else { "off (0)" };
            Finding::fine(ITEM, why, format!("{MEANING}; {fixed}")).with(facts(Some(setting)))
        }
        Err(why) => Finding::unknown(ITEM, &why, MEANING).with(facts(None)),
    }
}

/// What the system has of memory, and how much it is short of it.
pub fn pressure(tree: &Tree, of_group: Option<&Path>) -> Finding {
    const ITEM: &str = "pressure";
    const SYSTEM: &str = "/proc/pressure/memory";
    const MEANING: &str =
        "the runtime does not look at it; it gives back what is idle, and at once where a group is full";
    let group = of_group.map(|folder| folder.join("memory.pressure"));
    let (place, read) = match group.and_then(|file| Some((file.clone(), read_pressure(tree, &file).ok()?))) {
        Some((file, read)) => (file.display().to_string(), Ok(read)),
        None => (SYSTEM.to_owned(), read_pressure(tree, Path::new(SYSTEM))),
    };
    match read {
        Ok((some, full)) => {
            let found = format!("waited for memory in the last minute: some {some:.1}%, all {full:.1}% of the time");
            let facts = json!({ "file": place, "some_avg60": some, "full_avg60": full });
            let finding = Finding::fine(ITEM, found, MEANING).with(facts);
            if some < MUCH {
                finding
            } else {
                finding.but(Verdict::Less).advising("more memory, or fewer programs at once")
            }
        }
        Err(why) => Finding::unknown(ITEM, &why, MEANING).with(Value::Object(Default::default())),
    }
}

/// Percent of a minute from which on programs wait so long for memory that figures are those of the disk.
const MUCH: f32 = 10.0;

fn read_pressure(tree: &Tree, file: &Path) -> Result<(f32, f32), Unread> {
    let read: procfs_core::MemoryPressure = tree.parsed(&file.display().to_string())?;
    Ok((read.some.avg60, read.full.avg60))
}

#[cfg(test)]
mod tests {
    use super::super::process::tests::on;
    use super::super::tree::tests::of;
    use super::*;

    const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    const DEFRAG: &str = "/sys/kernel/mm/transparent_hugepage/defrag";

    #[test]
    fn the_policy_of_huge_pages_follows_the_systems() {
        let said = |enabled: &str, defrag: &str| {
            let (_folder, tree) = of(&[(ENABLED, enabled), (DEFRAG, defrag)]);
            huge_pages(&tree, &on("6.8.0"))
        };
        let madvised = "always defer defer+madvise [madvise] never\n";
        let always = said("[always] madvise never\n", madvised);
        assert!(always.found == "always; defrag madvise" && always.meaning.contains("first 32 MiB"), "{always:?}");
        assert!(
            always.verdict == Verdict::Fine && always.advice.as_deref().is_some_and(|it| it.contains("huge:avoid"))
        );
        let slow = said("[always] madvise never\n", "[always] defer defer+madvise madvise never\n");
        assert!(slow.verdict == Verdict::Less && slow.meaning.contains("may wait"), "{slow:?}");
        for word in ["always [madvise] never\n", "always madvise [never]\n"] {
            let none = said(word, madvised);
            assert!(
                none.verdict == Verdict::Fine && none.advice.is_none() && none.meaning.contains("uses none"),
                "{none:?}"
            );
        }
        let (_folder, empty) = of(&[]);
        let unknown = huge_pages(&empty, &on("6.8.0"));
        assert_eq!(
            (unknown.verdict, unknown.found.as_str()),
            (Verdict::Unknown, &*format!("unknown: {ENABLED} does not exist"))
        );
    }

    #[test]
    fn promises_are_counted_where_the_kernel_counts_them() {
        let said = |policy: &str| {
            let (_folder, tree) = of(&[("/proc/sys/vm/overcommit_memory", policy)]);
            overcommit(&tree)
        };
        assert_eq!(["0\n", "1\n", "2\n", "7\n", ""].map(|it| said(it).verdict), {
            use Verdict::{Fine, Less, Unknown};
            [Fine, Fine, Less, Unknown, Unknown]
        });
    }

    #[test]
    fn few_mappings_are_told() {
        let said = |files: &[(&str, &str)]| {
            let (_folder, tree) = of(files);
            mappings(&tree).verdict
        };
        let file = "/proc/sys/vm/max_map_count";
        assert_eq!(said(&[(file, "1000\n")]), Verdict::Less);
        assert_eq!(said(&[(file, "65530\n")]), Verdict::Fine);
        assert_eq!(said(&[]), Verdict::Unknown);
    }

    #[test]
    fn limits_that_the_heap_meets_are_told() {
        let said = |change: fn(&mut Process)| {
            let mut process = on("6.8.0");
            change(&mut process);
            limits(&process)
        };
        assert_eq!(said(|_| {}).verdict, Verdict::Fine);
        assert_eq!(said(|it| it.limits.address_space = Some(64 << 30)).verdict, Verdict::Fine);
        let narrow = said(|it| it.limits.address_space = Some(1 << 30));
        assert!(narrow.verdict == Verdict::Less && narrow.meaning.contains("page map"), "{narrow:?}");
        assert_eq!(said(|it| it.limits.data = Some(1 << 30)).verdict, Verdict::Less);
        assert!(said(|it| it.limits.locked = Some(64 << 10)).meaning.contains("64 KiB at most"));
    }

    #[test]
    fn pressure_of_the_group_comes_before_the_systems() {
        let line = |of: &str, avg: &str| format!("{of} avg10=0.00 avg60={avg} avg300=0.00 total=0\n");
        let file = |avg: &str| line("some", avg) + &line("full", "0.00");
        let (_folder, tree) =
            of(&[("/proc/pressure/memory", &file("0.00")), ("/group/memory.pressure", &file("20.50"))]);
        let own = pressure(&tree, Some(Path::new("/group")));
        assert!(own.verdict == Verdict::Less && own.found.contains("some 20.5%"), "{own:?}");
        for other in [None, Some(Path::new("/elsewhere"))] {
            assert_eq!(pressure(&tree, other).verdict, Verdict::Fine);
        }
        assert_eq!(pressure(&of(&[]).1, None).verdict, Verdict::Unknown);
    }

    #[test]
    fn addresses_that_are_always_the_same_are_told() {
        let (_folder, tree) = of(&[("/proc/sys/kernel/randomize_va_space", "2\n")]);
        assert_eq!(randomisation(&tree, &on("6.8.0")).found, "on (2)");
        let fixed = Process { has_fixed_addresses: true, ..on("6.8.0") };
        assert!(randomisation(&tree, &fixed).meaning.contains("one layout"));
    }
}
