//! The directories where pages may be, and what lies there.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use host::publication::{self, Name};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, statat, unlinkat};
use rustix::process::geteuid;

use crate::units;

/// Where users have their runtime directories.
const SESSIONS: &str = "/run/user";
/// So many pages of one directory are looked at: its owner could fill it, and each of them takes the reader memory.
const MOST_PAGES: usize = 4096;

/// The directories in which processes of this user leave their pages, those that there are; of all users, if this one may look at all.
///
/// A service has seldom the `XDG_RUNTIME_DIR` of whoever looks for it: so all places are looked at that it may have chosen.
pub fn all() -> Vec<PathBuf> {
    let user = geteuid();
    let named = env::var(publication::VARIABLE.to_str().unwrap_or_default()).ok();
    let of = |user, named| publication::candidates(user, named).map(|path| PathBuf::from(path.as_str()));
    let mut folders: Vec<PathBuf> = of(user.as_raw(), named.as_deref()).collect();
    if user.is_root() {
        let others = publication::OTHERS.into_iter().flat_map(|folder| users_in(Path::new(folder), "commensal-"));
        let users = users_in(Path::new(SESSIONS), "").chain(others);
        folders.extend(users.flat_map(|user| of(user, None)));
    }
    folders.retain(|folder| is_trusted(folder));
    folders.sort();
    folders.dedup();
    folders
}

/// The pages in a directory, with their names; an error in the place of those beyond the most.
pub fn pages(folder: &Path) -> impl Iterator<Item = Result<(Name, PathBuf)>> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of_process = |path: PathBuf| Some((Name::parse(path.file_name()?.to_str()?)?, path));
    let pages = entries.filter_map(move |entry| of_process(entry.path())).take(MOST_PAGES + 1).enumerate();
    pages.map(|(before, page)| if before < MOST_PAGES { Ok(page) } else { Err(too_many(folder)) })
}

fn too_many(folder: &Path) -> anyhow::Error {
    anyhow!(
        "{}: more than {MOST_PAGES} statistics pages, and only so many are looked at; `commensal stat --clear` removes those of processes that are gone",
        shown(folder)
    )
}

/// A path as it is told: whoever made a directory may have put into its name what terminals obey.
pub fn shown(path: &Path) -> String {
    units::word(&path.display().to_string())
}

/// The user to whom the directory of a page belongs.
pub fn owner(page: &Path) -> Option<u32> {
    fs::symlink_metadata(page.parent()?).ok().map(|folder| folder.uid())
}

/// Whether a page is this user's to remove.
pub fn is_own(page: &Path) -> bool {
    own(page).is_some()
}

/// Removes a page if it is this user's to remove; what cannot be removed stays.
pub fn remove_own(page: &Path) {
    if let Some((folder, name)) = own(page) {
        let _ = unlinkat(folder, name, AtFlags::empty());
    }
}

/// The directory of a page, open, and its name there, if both are this user's. Somebody else's directory may be a link to one of this user's a moment later; one that
/// is open stays the same.
fn own(page: &Path) -> Option<(OwnedFd, &OsStr)> {
    let (folder, name, user) = (page.parent()?, page.file_name()?, geteuid().as_raw());
    let folder = open(folder, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let entry = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_file = FileType::from_raw_mode(entry.st_mode).is_file();
    (is_file && entry.st_uid == user && fstat(&folder).ok()?.st_uid == user).then_some((folder, name))
}

/// The users whose numbers end names in a directory that begin so.
fn users_in<'a>(folder: &Path, prefix: &'a str) -> impl Iterator<Item = u32> + use<'a> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(move |entry| number(entry.file_name().to_str()?.strip_prefix(prefix)?))
}

/// The number in a name, if it is written as processes write it: others would be a second name of the same.
fn number(name: &str) -> Option<u32> {
    name.parse().ok().filter(|number: &u32| number.to_string() == name)
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
    fn directory_that_is_not_private_is_not_trusted() {
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
        for name in ["17", "x17", "17.old", "4294967296", "readme", "+17", "017", "x+17", "x017"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let pages_in = |folder: &Path| pages(folder).map(Result::unwrap).collect::<Vec<_>>();
        assert_eq!(
            pages_in(folder.path()),
            [(Name { namespace: Name::MACHINE, process: 17 }, folder.path().join("17"))]
        );
        assert_eq!(pages_in(&folder.path().join("none")), []);
        assert_eq!(users_in(folder.path(), "").collect::<Vec<_>>(), [17]);
        assert_eq!(users_in(folder.path(), "x").collect::<Vec<_>>(), [17]);
    }

    #[test]
    fn so_many_pages_are_looked_at_and_that_there_are_more_is_said() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("\u{1b}[2J");
        fs::create_dir(&folder).unwrap();
        let add = |number: usize| fs::write(folder.join(number.to_string()), "").unwrap();
        let look = || pages(&folder).partition::<Vec<_>, _>(Result::is_ok);
        (0..MOST_PAGES).for_each(add);
        let (found, errors) = look();
        assert_eq!((found.len(), errors.len()), (MOST_PAGES, 0));
        (MOST_PAGES..MOST_PAGES + 3).for_each(add);
        let (found, errors) = look();
        assert_eq!((found.len(), errors.len()), (MOST_PAGES, 1));
        let said = format!("{:#}", errors[0].as_ref().unwrap_err());
        assert!(said.contains("/?[2J: more than 4096 statistics pages"), "{said:?}");
    }

    #[test]
    fn pages_are_removed_in_directories_of_this_user_alone() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir(at("own")).unwrap();
        std::os::unix::fs::symlink(at("own"), at("link")).unwrap();
        let page = at("own").join("17");
        let goes = |path: &Path| {
            fs::write(&page, "").unwrap();
            let was_own = is_own(path);
            remove_own(path);
            assert_eq!(was_own, fs::symlink_metadata(path).is_err());
            was_own
        };
        assert!(goes(&page));
        // Whoever owns the directory that a link is in may have it lead to any other one.
        assert!(!goes(&at("link").join("17")));
        // A file of this user in a directory of another one.
        if !geteuid().is_root() {
            return eprintln!("left out: only root can have directories of others");
        }
        std::os::unix::fs::chown(at("own"), Some(65534), None).unwrap();
        assert_eq!(owner(&page), Some(65534));
        assert!(!goes(&page));
        // And the other way round.
        std::os::unix::fs::chown(at("own"), Some(0), None).unwrap();
        std::os::unix::fs::chown(&page, Some(65534), None).unwrap();
        assert!(!is_own(&page));
    }
}
