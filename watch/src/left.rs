//! Pages of processes that have ended: which of them stay; and why pages cannot be read.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use commensal_runtime::observe::page::VERSION;
use host::publication::Name;

use crate::folders;
use crate::namespaces::{Namespaces, Number};
use crate::page::Unread;
use crate::process::{State, all_in};
use crate::units;

/// Pages of ended processes that stay; older ones are removed.
const KEPT: usize = 32;

/// Whether nothing was written to a page for long, and its process has ended. Removes such a page: it says nothing.
pub(crate) fn has_nobody_left(process: Number, path: &Path) -> bool {
    const LONG: Duration = Duration::from_secs(10);
    let is_old = written_at(path).is_some_and(|at| at.elapsed().is_ok_and(|age| age > LONG));
    let is_left = is_old && !process.may_exist();
    if is_left {
        folders::remove_own(path);
    }
    is_left
}

/// When a page was last written to.
pub(crate) fn written_at(page: &Path) -> Option<SystemTime> {
    fs::symlink_metadata(page).and_then(|page| page.modified()).ok()
}

/// Removes pages of ended processes, except the latest ones, which tell how their processes ended. The caller still
/// shows all of them. Pages of other users stay.
pub(crate) fn forget_old<'a, T: Ord>(gone: impl Iterator<Item = (T, &'a PathBuf)>) {
    let mut gone: Vec<(T, &PathBuf)> = gone.filter(|(_, path)| folders::is_own(path)).collect();
    gone.sort_by(|one, other| other.0.cmp(&one.0));
    gone.into_iter().skip(KEPT).for_each(|(_, path)| folders::remove_own(path));
}

/// Removes the pages of processes that are gone, as far as they are this user's, and says which.
pub fn clear() -> String {
    clear_in(&folders::all())
}

fn clear_in(folders: &[PathBuf]) -> String {
    let (found, unread) = all_in(folders);
    let gone = found.iter().filter(|process| process.state == State::Gone && folders::is_own(&process.path));
    let mut removed: Vec<String> = Vec::new();
    for process in gone {
        folders::remove_own(&process.path);
        removed.push(format!("{} ({})", units::word(&process.name()), process.pid));
    }
    let namespaces = Namespaces::now();
    for error in &unread {
        let Some(Unread::OtherVersion { path, version }) = error.downcast_ref() else { continue };
        let name = path.file_name().and_then(|name| Name::parse(name.to_str()?));
        if folders::is_own(path) && name.is_some_and(|name| !namespaces.number(name).may_exist()) {
            folders::remove_own(path);
            removed.push(format!("{} of version {version}", folders::shown(path)));
        }
    }
    match removed.len() {
        0 => "no page of a process that is gone\n".to_owned(),
        1 => format!("removed 1 page of a process that is gone: {}\n", removed[0]),
        many => format!("removed {many} pages of processes that are gone: {}\n", removed.join(", ")),
    }
}

/// Why pages could not be read, one line each. Pages of another version have one line for each directory, because an
/// upgrade may leave many.
pub fn reasons(unreadable: &[anyhow::Error]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut of_versions = BTreeMap::<(&Path, u32), Vec<&anyhow::Error>>::new();
    for error in unreadable {
        match error.downcast_ref() {
            Some(Unread::OtherVersion { path, version }) => {
                of_versions.entry((path.parent().unwrap_or(path), *version)).or_default().push(error);
            }
            _ => lines.push(format!("{error:#}")),
        }
    }
    lines.extend(of_versions.into_iter().map(|((folder, version), pages)| match pages[..] {
        [page] => page.to_string(),
        _ => format!(
            "{}: {} statistics pages of version {version}, and this command reads version {VERSION}; use the command that came with the programs' library, or remove those of ended processes by `commensal stat --clear`",
            folders::shown(folder),
            pages.len()
        ),
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Gone, now_ns};
    use crate::sample::{self, NOBODY, of_version, write, write_changed};
    use commensal_runtime::observe::page::ENDED_AT;

    /// The processes that have pages in a folder.
    fn left_in(folder: &Path) -> Vec<u32> {
        let mut left: Vec<u32> = folders::pages(folder).map(|page| page.unwrap().0.process).collect();
        left.sort();
        left
    }

    #[test]
    fn pages_of_the_last_ones_that_went_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        // The oldest have the highest numbers, and one is no page.
        for number in 0..40 {
            write(folder.path(), NOBODY + number, 1000 - u64::from(number), 2000);
        }
        fs::write(folder.path().join("7000000"), "text").unwrap();
        let own = std::process::id();
        write(folder.path(), own, now_ns(), now_ns());
        let look = || {
            let (found, errors) = all_in(&[folder.path().to_owned()]);
            let gone = found.iter().filter(|process| process.state == State::Gone).map(|process| process.pid);
            (gone.collect::<Vec<u32>>(), found, errors)
        };
        let mut counted = Gone::default();
        // All are told of once.
        let (gone, found, _) = look();
        assert_eq!((gone, counted.with(&found)), ((NOBODY..NOBODY + 40).collect(), 40));
        let (gone, found, errors) = look();
        assert_eq!((gone, counted.with(&found)), ((NOBODY..NOBODY + 32).collect(), 40));
        assert!(found.iter().any(|process| process.pid == own && process.state == State::Running));
        assert_eq!(errors.len(), 1, "{errors:?}");
        // Nothing else went.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 34);
        // A newer one takes the place of one of them, and one may have the number of another; a page that somebody removed was of one all the same.
        write(folder.path(), NOBODY + 39, 3000, 3000);
        write(folder.path(), NOBODY, 4000, 4000);
        fs::remove_file(folder.path().join(sample::name(NOBODY + 1))).unwrap();
        assert_eq!(counted.with(&look().1), 42);
        assert_eq!(counted.with(&look().1), 42);
    }

    #[test]
    fn clear_removes_pages_of_processes_that_are_gone_and_names_them() {
        let folder = tempfile::tempdir().unwrap();
        let own = std::process::id();
        write(folder.path(), own, now_ns(), now_ns());
        write(folder.path(), NOBODY, 1000, 2000);
        // There is a process 1.
        for pid in [1, NOBODY + 1] {
            write_changed(folder.path(), pid, SystemTime::now(), of_version(7));
        }
        let folders = [folder.path().to_owned()];
        let said = clear_in(&folders);
        let other = folders::shown(&folder.path().join(sample::name(NOBODY + 1)));
        let expected = format!("sample ({NOBODY}), {other} of version 7\n");
        assert_eq!(said, format!("removed 2 pages of processes that are gone: {expected}"));
        assert_eq!(left_in(folder.path()), [1, own]);
        assert_eq!(clear_in(&folders), "no page of a process that is gone\n");
    }

    /// In a sandbox a process cannot remove its page.
    #[test]
    fn page_of_an_orderly_end_is_removed_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = write_changed(folder.path(), NOBODY, SystemTime::now(), |page| page[ENDED_AT] = 1);
        let (found, errors) = all_in(&[folder.path().to_owned()]);
        assert_eq!((found.len(), errors.len(), path.exists()), (0, 0, false));
    }

    /// Children that were killed before they said anything leave such pages, by the hundred.
    #[test]
    fn pages_in_which_nobody_wrote_go() {
        let folder = tempfile::tempdir().unwrap();
        let own = std::process::id();
        let long_ago = SystemTime::now() - Duration::from_secs(60);
        for (pid, written) in [(NOBODY, long_ago), (NOBODY + 1, SystemTime::now()), (own, long_ago)] {
            // There is no current copy.
            write_changed(folder.path(), pid, written, |page| page[12] = 0);
        }
        let (found, errors) = all_in(&[folder.path().to_owned()]);
        assert!(found.is_empty(), "{found:?}");
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert_eq!(left_in(folder.path()), [own.min(NOBODY), NOBODY + 1]);
    }

    /// Whoever upgrades is told in a line what the version before has left, and of it, too, only the last ones stay.
    #[test]
    fn pages_of_another_version_are_told_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let write = |pid: u32, version: u32, age: u64| {
            write_changed(folder.path(), pid, now - Duration::from_secs(age), of_version(version));
        };
        // The oldest have the highest numbers; the oldest of all is one that runs.
        let own = std::process::id();
        write(own, VERSION + 1, 5000);
        (0..KEPT as u32 + 7).for_each(|number| write(NOBODY + number, VERSION + 1, number.into()));
        write(NOBODY + 1000, VERSION + 2, 0);
        fs::write(folder.path().join("7000000"), "text").unwrap();
        let (found, errors) = all_in(&[folder.path().to_owned()]);
        assert_eq!((found.len(), errors.len()), (0, KEPT + 10));
        let said = reasons(&errors);
        let expected = [
            "7000000: this is no statistics page".to_owned(),
            format!(": 40 statistics pages of version {}, and this command reads version {VERSION};", VERSION + 1),
            format!("/5001000: a statistics page of version {}, and this", VERSION + 2),
        ];
        assert_eq!(said.len(), expected.len(), "{said:?}");
        for (line, expected) in said.iter().zip(&expected) {
            assert!(line.contains(expected), "{line}, not {expected}");
        }
        let kept = (0..KEPT as u32 - 1).map(|number| NOBODY + number);
        let expected: Vec<u32> = [own].into_iter().chain(kept).chain([NOBODY + 1000, 7_000_000]).collect();
        assert_eq!(left_in(folder.path()), expected);
    }
}
