//! Control groups: which memory and how much processor time this process may have.
//!
//! A process is in one group of each hierarchy, and the limits of all groups around that one hold too: the smallest counts. The first version
//! of control groups has a hierarchy for each controller, the second one for all; systems may have both, and then each controller is in one of them.
//!
//! ```text
//!   /proc/self/cgroup:     4:memory:/pod/own              which group, seen from the hierarchy's top
//!   /proc/self/mountinfo:  … /pod /sys/fs/cgroup/memory … - cgroup … rw,memory
//!                            └ what of it is mounted       so the group's folder is /sys/fs/cgroup/memory/own
//! ```

use std::path::{Path, PathBuf};

use procfs_core::ProcessCGroups;
use procfs_core::process::MountInfos;
use serde_json::json;

use super::bytes;
use super::finding::{Finding, Verdict};
use super::tree::{Tree, Unread, not_understood};

/// Of the first version a limit from here on is none: it says so by the largest number of whole pages.
const NO_LIMIT: u64 = 1 << 60;
/// Below this a peak may well end the program.
const LITTLE: u64 = 64 << 20;

/// Where the runtime looks for limits of memory.
const SEEN_FIRST: &str = "/sys/fs/cgroup/memory";
const SEEN_SECOND: &str = "/sys/fs/cgroup";

/// The group of this process for one controller, and those around it.
pub struct Group {
    /// 1 or 2.
    version: u8,
    /// Where the hierarchy, or what is to be seen of it, is mounted.
    mount: PathBuf,
    /// The group's folder: the mount point, or below it.
    folder: PathBuf,
}

impl Group {
    /// The group for a controller; none: there are no control groups, or none that has it.
    pub fn of(tree: &Tree, controller: &str) -> Result<Option<Self>, Unread> {
        let groups: ProcessCGroups = match tree.text("/proc/self/cgroup") {
            // So says a kernel without them.
            Err(_) if tree.text("/proc/self/mountinfo").is_ok() => return Ok(None),
            _ => tree.parsed("/proc/self/cgroup")?,
        };
        let mounts: MountInfos = tree.parsed("/proc/self/mountinfo")?;
        let first = groups.0.iter().find(|group| group.controllers.iter().any(|it| it == controller));
        let second = || groups.0.iter().find(|group| group.hierarchy == 0 && group.controllers.is_empty());
        let Some((version, group)) = first.map(|it| (1, it)).or_else(|| second().map(|it| (2, it))) else {
            return Ok(None);
        };
        let is_its = |kind: &str, options: &std::collections::HashMap<String, Option<String>>| match version {
            1 => kind == "cgroup" && options.contains_key(controller),
            _ => kind == "cgroup2",
        };
        let mount = mounts.iter().find(|mount| is_its(&mount.fs_type, &mount.super_options));
        let Some(mount) = mount else { return Ok(None) };
        // A group that is not below what is mounted cannot be seen; what is mounted is around it, or its own.
        let below = Path::new(&group.pathname).strip_prefix(&mount.root).unwrap_or(Path::new(""));
        let below = if below.components().any(|part| part.as_os_str() == "..") { Path::new("") } else { below };
        Ok(Some(Self { version, mount: mount.mount_point.clone(), folder: mount.mount_point.join(below) }))
    }

    /// The group's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The group's folder and those around it, from the inside out.
    fn levels(&self) -> impl Iterator<Item = &Path> {
        self.folder.ancestors().take_while(|folder| folder.starts_with(&self.mount))
    }

    /// What the version calls something.
    pub fn name<'a>(&self, first: &'a str, second: &'a str) -> &'a str {
        if self.version == 1 { first } else { second }
    }

    /// The smallest limit of a file in this group or one around it, and where that is.
    fn least(&self, tree: &Tree, file: &str) -> Option<(u64, &Path)> {
        let limit = |folder: &Path| tree.number(folder.join(file)).ok().filter(|&limit| limit < NO_LIMIT);
        self.levels().filter_map(|folder| Some((limit(folder)?, folder))).min_by_key(|(limit, _)| *limit)
    }

    /// Whether any level has such a file.
    fn has(&self, tree: &Tree, file: &str) -> bool {
        self.levels().any(|folder| tree.text(folder.join(file)).is_ok())
    }

    /// Whether the runtime, which looks at the usual places only, finds the limits.
    fn is_seen(&self) -> bool {
        self.mount == Path::new(self.name(SEEN_FIRST, SEEN_SECOND))
    }
}

/// How much memory the process's groups may have.
pub fn memory(tree: &Tree) -> Finding {
    const ITEM: &str = "cgroup-memory";
    const WITHOUT: &str = "no limit is known; idle memory goes back all the same";
    let group = match Group::of(tree, "memory") {
        Ok(Some(group)) => group,
        Ok(None) => {
            return Finding::fine(ITEM, "no control group has memory", WITHOUT).with(json!({ "version": null }));
        }
        Err(why) => return Finding::unknown(ITEM, &why, WITHOUT),
    };
    let file = group.name("memory.limit_in_bytes", "memory.max");
    let high = group.least(tree, group.name("memory.soft_limit_in_bytes", "memory.high")).map(|(high, _)| high);
    let swap = group.least(tree, group.name("memory.memsw.limit_in_bytes", "memory.swap.max")).map(|(swap, _)| swap);
    let used = group.name("memory.usage_in_bytes", "memory.current");
    let limit = group.least(tree, file);
    let used_beside = limit.and_then(|(_, folder)| tree.number(folder.join(used)).ok());
    let facts = json!({
        "version": group.version,
        "group": group.folder,
        "limit": limit.map(|it| it.0),
        "limit_of": limit.map(|it| it.1),
        "current": used_beside.or_else(|| tree.number(group.folder.join(used)).ok()),
        "high": high,
        "swap": swap,
        "seen_by_runtime": group.is_seen(),
    });
    let version = format!("v{}", group.version);
    let Some((limit, of)) = limit else {
        let told = if group.has(tree, file) { "no limit" } else { "no limit to be seen" };
        return Finding::fine(ITEM, format!("{version}: {told}"), WITHOUT).with(facts);
    };
    let whose = if of == group.folder { "its own".to_owned() } else { format!("of {}, around it", of.display()) };
    let used = used_beside.map_or(String::new(), |used| format!(", {} used", bytes(used)));
    let more = [("high", high), (group.name("with swap", "swap"), swap)]
        .into_iter()
        .filter_map(|(name, value)| Some(format!(", {name} {}", bytes(value?))))
        .collect::<String>();
    let found = format!("{version}: {} ({whose}){used}{more}", bytes(limit));
    let finding = |meaning: String| Finding::fine(ITEM, &found, meaning).with(facts.clone());
    if !group.is_seen() {
        let usual = group.name(SEEN_FIRST, SEEN_SECOND);
        return finding(format!(
            "mounted at {}, and the runtime looks at {usual}: it does not notice when memory is short",
            group.mount.display()
        ))
        .but(Verdict::Less)
        .advising("a smaller keep in COMMENSAL_CONF, or a control group file system at the usual place");
    }
    let meaning = "where the group is nearly full, what is idle goes back at once".to_owned();
    if limit < LITTLE {
        finding(meaning).but(Verdict::Less).advising("a larger limit, or keep:0 in COMMENSAL_CONF")
    } else {
        finding(meaning)
    }
}

/// How much processor time the process's groups may have, in CPUs.
pub fn cpu(tree: &Tree) -> Finding {
    const ITEM: &str = "cgroup-cpu";
    const WITHOUT: &str = "threads run on all CPUs that they may use";
    let group = match Group::of(tree, "cpu") {
        Ok(Some(group)) => group,
        Ok(None) => return Finding::fine(ITEM, "no control group has cpu", WITHOUT).with(json!({ "version": null })),
        Err(why) => return Finding::unknown(ITEM, &why, WITHOUT),
    };
    let quotas = group.levels().filter_map(|folder| match quota(tree, &group, folder) {
        Ok(Some(cpus)) => Some(Ok((cpus, folder))),
        Ok(None) => None,
        Err(why) => Some(Err(why)),
    });
    let quotas: Vec<(f64, &Path)> = match quotas.collect::<Result<_, Unread>>() {
        Ok(quotas) => quotas,
        Err(why) => return Finding::unknown(ITEM, &why, WITHOUT),
    };
    let least = quotas.into_iter().min_by(|one, other| one.0.total_cmp(&other.0));
    let facts = json!({
        "version": group.version,
        "group": group.folder,
        "quota_cpus": least.map(|it| it.0),
        "quota_of": least.map(|it| it.1),
    });
    let Some((cpus, of)) = least else {
        return Finding::fine(ITEM, format!("v{}: no quota", group.version), WITHOUT).with(facts);
    };
    let found = format!("v{}: {cpus:.2} CPUs' time, a quota of {}", group.version, of.display());
    let meaning = "whoever has used it up stands still for the rest of a period, also with a lock in hand; slots \
                   follow the CPUs, not the quota";
    Finding::fine(ITEM, found, meaning)
        .but(Verdict::Less)
        .advising("measure elsewhere; in service, as many threads as the quota has CPUs, or a cpuset in its place")
        .with(facts)
}

/// CPUs' worth of time in a period, of one group; none: as much as there is.
fn quota(tree: &Tree, group: &Group, folder: &Path) -> Result<Option<f64>, Unread> {
    if group.version == 1 {
        // -1 is no number of those, and none.
        let read = |file: &str| tree.number(folder.join(file)).ok();
        let both = read("cpu.cfs_quota_us").zip(read("cpu.cfs_period_us"));
        return Ok(both.filter(|(_, period)| *period > 0).map(|(quota, period)| quota as f64 / period as f64));
    }
    let file = folder.join("cpu.max");
    // The outermost group has none.
    let Ok(text) = tree.text(&file) else { return Ok(None) };
    let mut words = text.split_whitespace();
    match (words.next(), words.next().and_then(|period| period.parse::<f64>().ok())) {
        (Some("max"), _) => Ok(None),
        (Some(quota), Some(period)) if period > 0.0 => {
            quota.parse::<f64>().map(|quota| Some(quota / period)).map_err(|_| not_understood(&file, &text))
        }
        _ => Err(not_understood(&file, &text)),
    }
}

#[cfg(test)]
mod tests;
