//! Control groups as systems have them: each version, both, containers, and what is broken.

use super::super::tree::tests::of;
use super::*;

const UNLIMITED: &str = "9223372036854771712\n";

/// A mount of a part of a hierarchy.
fn mounted(root: &str, at: &str, kind: &str, options: &str) -> String {
    format!("36 25 0:31 {root} {at} rw,nosuid - {kind} {kind} rw,{options}\n")
}

/// What is found of memory where a process is in these groups, with these mounts and files.
fn memory_where(groups: &str, mounts: &str, files: &[(&str, &str)]) -> Finding {
    let all = [&[("/proc/self/cgroup", groups), ("/proc/self/mountinfo", mounts)], files].concat();
    let (_folder, tree) = of(&all);
    memory(&tree)
}

fn cpu_where(groups: &str, mounts: &str, files: &[(&str, &str)]) -> Finding {
    let all = [&[("/proc/self/cgroup", groups), ("/proc/self/mountinfo", mounts)], files].concat();
    let (_folder, tree) = of(&all);
    cpu(&tree)
}

fn second() -> String {
    mounted("/", "/sys/fs/cgroup", "cgroup2", "nsdelegate")
}

fn first() -> String {
    mounted("/", "/sys/fs/cgroup/memory", "cgroup", "memory")
}

#[test]
fn the_smallest_limit_around_counts() {
    let files = [
        ("/sys/fs/cgroup/pod/memory.max", "209715200\n"),
        ("/sys/fs/cgroup/pod/memory.current", "104857600\n"),
        ("/sys/fs/cgroup/pod/own/memory.max", "1073741824\n"),
        ("/sys/fs/cgroup/pod/own/memory.current", "1048576\n"),
        ("/sys/fs/cgroup/pod/own/memory.high", "max\n"),
        ("/sys/fs/cgroup/pod/own/memory.swap.max", "0\n"),
    ];
    let found = memory_where("0::/pod/own\n", &second(), &files);
    assert_eq!(found.facts["limit"], 200 << 20, "{found:?}");
    assert_eq!(found.facts["limit_of"], "/sys/fs/cgroup/pod");
    assert_eq!(found.facts["current"], 100 << 20);
    assert_eq!((&found.facts["high"], &found.facts["swap"]), (&serde_json::Value::Null, &json!(0)));
    assert_eq!((found.verdict, &found.facts["seen_by_runtime"]), (Verdict::Fine, &json!(true)));
    assert_eq!(found.found, "v2: 200 MiB (of /sys/fs/cgroup/pod, around it), 100 MiB used, swap 0 KiB");
}

#[test]
fn where_the_inner_limit_is_smaller_it_counts() {
    let files =
        [("/sys/fs/cgroup/pod/memory.max", "1073741824\n"), ("/sys/fs/cgroup/pod/own/memory.max", "209715200\n")];
    let found = memory_where("0::/pod/own\n", &second(), &files);
    assert_eq!((&found.facts["limit"], &*found.found), (&json!(200 << 20), "v2: 200 MiB (its own)"));
}

#[test]
fn the_first_version_has_numbers_for_no_limit() {
    let groups = "5:cpu,cpuacct:/a\n4:memory:/a/b\n1:name=systemd:/a\n";
    let own = ("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", UNLIMITED);
    let around = ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "536870912\n");
    let limited = memory_where(groups, &first(), &[own, around]);
    assert_eq!((&limited.facts["version"], &limited.facts["limit"]), (&json!(1), &json!(512 << 20)), "{limited:?}");
    let free = memory_where(groups, &first(), &[own]);
    assert_eq!((&*free.found, free.verdict), ("v1: no limit", Verdict::Fine));
}

#[test]
fn where_there_are_both_versions_each_controller_is_in_one() {
    let groups = "4:memory:/a\n0::/user.slice\n";
    let mounts = mounted("/", "/sys/fs/cgroup/unified", "cgroup2", "nsdelegate") + &first();
    let files = [
        ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "268435456\n"),
        ("/sys/fs/cgroup/unified/user.slice/memory.max", "4096\n"),
        ("/sys/fs/cgroup/unified/user.slice/cpu.max", "150000 100000\n"),
    ];
    let found = memory_where(groups, &mounts, &files);
    assert_eq!((&found.facts["version"], &found.facts["limit"]), (&json!(1), &json!(256 << 20)), "{found:?}");
    // No hierarchy of the first version has this one.
    let cpu = cpu_where(groups, &mounts, &files);
    assert_eq!((&cpu.facts["version"], &cpu.facts["quota_cpus"]), (&json!(2), &json!(1.5)), "{cpu:?}");
}

#[test]
fn limits_where_the_runtime_does_not_look_are_told() {
    let mounts = mounted("/", "/sys/fs/cgroup/unified", "cgroup2", "nsdelegate");
    let files = [("/sys/fs/cgroup/unified/a/memory.max", "268435456\n")];
    let found = memory_where("0::/a\n", &mounts, &files);
    assert_eq!((found.verdict, &found.facts["seen_by_runtime"]), (Verdict::Less, &json!(false)), "{found:?}");
    assert!(found.meaning.contains("mounted at /sys/fs/cgroup/unified"), "{}", found.meaning);
}

#[test]
fn in_a_container_only_its_own_part_may_be_mounted() {
    let mounts = mounted("/docker/abc", "/sys/fs/cgroup", "cgroup2", "nsdelegate");
    for (groups, file) in [
        ("0::/docker/abc\n", "/sys/fs/cgroup/memory.max"),
        ("0::/docker/abc/inner\n", "/sys/fs/cgroup/inner/memory.max"),
        ("0::/docker/abc/inner\n", "/sys/fs/cgroup/memory.max"),
        ("0::/elsewhere\n", "/sys/fs/cgroup/memory.max"),
        ("0::/../other\n", "/sys/fs/cgroup/memory.max"),
    ] {
        let found = memory_where(groups, &mounts, &[(file, "134217728\n")]);
        assert_eq!(found.facts["limit"], 128 << 20, "{groups}{file}: {found:?}");
    }
}

#[test]
fn without_control_groups_there_is_no_limit() {
    let nothing_mounted = memory_where("0::/\n", "", &[]);
    let no_groups = memory_where("", &second(), &[]);
    for found in [&nothing_mounted, &no_groups] {
        assert_eq!((found.verdict, &found.facts["version"]), (Verdict::Fine, &serde_json::Value::Null), "{found:?}");
    }
    let outermost = memory_where("0::/\n", &second(), &[]);
    assert_eq!(outermost.found, "v2: no limit to be seen");
    // The kernel has none, or nothing of /proc is there.
    let (_folder, tree) = of(&[("/proc/self/mountinfo", "")]);
    assert_eq!(memory(&tree).verdict, Verdict::Fine);
    let (_folder, tree) = of(&[]);
    assert_eq!((memory(&tree).verdict, cpu(&tree).verdict), (Verdict::Unknown, Verdict::Unknown));
}

#[test]
fn what_is_not_understood_is_unknown() {
    for (groups, mounts) in [("nonsense\n", second()), ("0::/a\n", "nonsense\n".to_owned())] {
        let found = memory_where(groups, &mounts, &[]);
        assert!(found.verdict == Verdict::Unknown && found.found.contains("is not understood"), "{found:?}");
    }
    for text in ["", "lots\n", "lots 100000\n", "1000\n", "1000 0\n"] {
        let found = cpu_where("0::/a\n", &second(), &[("/sys/fs/cgroup/a/cpu.max", text)]);
        assert_eq!(found.verdict, Verdict::Unknown, "{text:?}");
    }
}

#[test]
fn little_memory_is_told() {
    let found = memory_where("0::/a\n", &second(), &[("/sys/fs/cgroup/a/memory.max", "33554432\n")]);
    assert!(found.verdict == Verdict::Less && found.advice.is_some(), "{found:?}");
}

#[test]
fn the_smallest_quota_around_counts() {
    let files = [("/sys/fs/cgroup/pod/cpu.max", "50000 100000\n"), ("/sys/fs/cgroup/pod/own/cpu.max", "max 100000\n")];
    let found = cpu_where("0::/pod/own\n", &second(), &files);
    assert_eq!((found.verdict, &found.facts["quota_cpus"]), (Verdict::Less, &json!(0.5)), "{found:?}");
    for (outer, inner) in [("400000 100000\n", "150000 100000\n"), ("150000 100000\n", "400000 100000\n")] {
        let files = [("/sys/fs/cgroup/pod/cpu.max", outer), ("/sys/fs/cgroup/pod/own/cpu.max", inner)];
        assert_eq!(cpu_where("0::/pod/own\n", &second(), &files).facts["quota_cpus"], 1.5, "{outer}{inner}");
    }
    let files = [("/sys/fs/cgroup/pod/cpu.max", "400000 100000\n"), ("/sys/fs/cgroup/pod/own/cpu.max", "max 100000\n")];
    assert_eq!(cpu_where("0::/\n", &second(), &files).found, "v2: no quota");
    let mounts = mounted("/", "/sys/fs/cgroup/cpu,cpuacct", "cgroup", "cpu,cpuacct");
    let first = |quota: &str| {
        let quota = ("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", quota);
        let period = ("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
        cpu_where("5:cpu,cpuacct:/a\n", &mounts, &[quota, period]).facts["quota_cpus"].clone()
    };
    assert_eq!([first("-1\n"), first("250000\n")], [serde_json::Value::Null, json!(2.5)]);
}
