//! The directories where pages may be, and what lies there.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use commensal_machine_host::publication;
use rustix::process::geteuid;

/// Where users have their runtime directories, and those who have none what they need.
const SESSIONS: &str = "/run/user";
const OTHERS: &str = "/tmp";

/// The directories in which processes of this user leave their pages, those that there are; of all users, if this one may look at all.
///
/// A service has seldom the `XDG_RUNTIME_DIR` of whoever looks for it: so all places are looked at that it may have chosen.
pub fn all() -> Vec<PathBuf> {
    let user = geteuid();
    let named = env::var(publication::VARIABLE.to_str().unwrap_or_default()).ok();
    let of = |user, named| publication::candidates(user, named).map(|path| PathBuf::from(path.as_str()));
    let mut folders: Vec<PathBuf> = of(user.as_raw(), named.as_deref()).collect();
    if user.is_root() {
        let users = users_in(Path::new(SESSIONS), "").chain(users_in(Path::new(OTHERS), "commensal-"));
        folders.extend(users.flat_map(|user| of(user, None)));
    }
    folders.retain(|folder| is_trusted(folder));
    folders.sort();
    folders.dedup();
    folders
}

/// The pages in a directory, as the numbers of processes by which they are named.
pub fn pages(folder: &Path) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of_process = |path: PathBuf| Some((path.file_name()?.to_str()?.parse().ok()?, path));
    entries.filter_map(|entry| of_process(entry.path())).collect()
}

/// The users whose numbers end names in a directory that begin so.
fn users_in<'a>(folder: &Path, prefix: &'a str) -> impl Iterator<Item = u32> + use<'a> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(move |entry| entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok())
}

/// Whether nobody but its owner, this user or for root anybody, can have put anything there.
fn is_trusted(folder: &Path) -> bool {
    let user = geteuid();
    fs::symlink_metadata(folder).is_ok_and(|folder| {
        folder.is_dir() && folder.mode() & 0o077 == 0 && (user.is_root() || folder.uid() == user.as_raw())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_directories_that_are_private_are_looked_at() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("commensal");
        fs::create_dir(&folder).unwrap();
        let with_mode = |mode| {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            is_trusted(&folder)
        };
        assert_eq!([with_mode(0o700), with_mode(0o750), with_mode(0o707)], [true, false, false]);
        assert!(!is_trusted(&root.path().join("none")));
        std::os::unix::fs::symlink(&folder, root.path().join("link")).unwrap();
        assert!(!is_trusted(&root.path().join("link")));
    }

    #[test]
    fn files_that_are_named_by_a_process_are_pages() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["17", "x17", "17.old", "4294967296", "readme"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(pages(folder.path()), [(17, folder.path().join("17"))]);
        assert_eq!(pages(&folder.path().join("none")), []);
        assert_eq!(users_in(folder.path(), "").collect::<Vec<_>>(), [17]);
        assert_eq!(users_in(folder.path(), "x").collect::<Vec<_>>(), [17]);
    }
}
