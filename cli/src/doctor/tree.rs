//! The files by which the kernel tells of itself, below a root: `/`, or a folder in which a test has put others.
//!
//! Sandboxes and containers lack some of them, or forbid to read them: then it is said why.

use std::fmt;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use procfs_core::FromRead;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;

/// A file system, or a part of one that stands in for it.
pub struct Tree {
    root: PathBuf,
}

/// Why something could not be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread(pub String);

impl fmt::Display for Unread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl Tree {
    /// The files below `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where a file is that has this path on a machine.
    fn place(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// What a file says, without the end of its last line.
    pub fn text(&self, path: impl AsRef<Path>) -> Result<String, Unread> {
        let path = path.as_ref();
        // Not all of it need be text: a mount point may have any name.
        match fs::read(self.place(path)) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
            Err(error) => Err(unread(path, &error)),
        }
    }

    /// The number that a file holds.
    pub fn number(&self, path: impl AsRef<Path>) -> Result<u64, Unread> {
        let text = self.text(path.as_ref())?;
        text.trim().parse().map_err(|_| not_understood(path.as_ref(), &text))
    }

    /// What a file says, by a parser for such files.
    pub fn parsed<T: FromRead>(&self, path: &str) -> Result<T, Unread> {
        let text = self.text(path)?;
        T::from_read(text.as_bytes()).map_err(|error| Unread(format!("{path} is not understood ({error})")))
    }

    /// The word in brackets, by which the kernel marks the setting that holds: "always [madvise] never".
    pub fn chosen(&self, path: &str) -> Result<String, Unread> {
        let text = self.text(path)?;
        let marked = text.split('[').nth(1).and_then(|rest| rest.split(']').next());
        marked.map(str::to_owned).ok_or_else(|| not_understood(Path::new(path), &text))
    }

    /// What is known of a file or folder itself; of a link, of the link.
    pub fn metadata(&self, path: &Path) -> Result<Metadata, Unread> {
        fs::symlink_metadata(self.place(path)).map_err(|error| unread(path, &error))
    }

    /// Whether this user may make files in a folder; an error if it is not there.
    pub fn is_writable(&self, folder: &Path) -> Result<bool, Unread> {
        match accessat(CWD, self.place(folder), Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
            Ok(()) => Ok(true),
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Ok(false),
            Err(error) => Err(unread(folder, &error.into())),
        }
    }
}

/// What a file says is not what the kernel writes there.
pub fn not_understood(path: &Path, text: &str) -> Unread {
    Unread(format!("{} says {:?}, which is not understood", path.display(), text.lines().next().unwrap_or("")))
}

fn unread(path: &Path, error: &std::io::Error) -> Unread {
    let path = path.display();
    Unread(match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => format!("{path} does not exist"),
        ErrorKind::PermissionDenied => format!("{path} may not be read"),
        _ => format!("{path} cannot be read ({error})"),
    })
}

/// How many numbers a list names as the kernel writes it, like "0-3,8".
pub fn count_in_list(list: &str) -> Option<usize> {
    let count = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (from.trim().parse::<usize>().ok()?, to.trim().parse::<usize>().ok()?);
        (to + 1).checked_sub(from)
    };
    list.split(',').map(count).sum()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    /// A tree of files with these contents; it goes away with the folder.
    pub fn of(files: &[(&str, &str)]) -> (TempDir, Tree) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let tree = Tree::at(folder.path());
        (folder, tree)
    }

    #[test]
    fn files_are_read_below_the_root() {
        let (_folder, tree) =
            of(&[("/proc/number", "12\n"), ("/sys/choice", "always [madvise] never\n"), ("/no", "x")]);
        assert_eq!(tree.number("/proc/number"), Ok(12));
        assert_eq!(tree.chosen("/sys/choice").as_deref(), Ok("madvise"));
        assert_eq!(tree.chosen("/no").unwrap_err().0, "/no says \"x\", which is not understood");
        assert_eq!(tree.number("/no").unwrap_err().0, "/no says \"x\", which is not understood");
    }

    #[test]
    fn it_is_said_why_something_cannot_be_read() {
        let (folder, tree) = of(&[("/secret", "x"), ("/folder/file", "x")]);
        assert_eq!(tree.text("/gone").unwrap_err().0, "/gone does not exist");
        assert_eq!(tree.text("/secret/below").unwrap_err().0, "/secret/below does not exist");
        assert!(tree.text("/folder").unwrap_err().0.starts_with("/folder cannot be read ("));
        fs::set_permissions(folder.path().join("secret"), fs::Permissions::from_mode(0o000)).unwrap();
        // The superuser may read everything.
        if !rustix::process::geteuid().is_root() {
            assert_eq!(tree.text("/secret").unwrap_err().0, "/secret may not be read");
        }
    }

    #[test]
    fn lists_are_counted() {
        for (list, count) in [("0", 1), ("0-3", 4), ("0-3,8", 5), ("0-1,4-5", 4)] {
            assert_eq!(count_in_list(list), Some(count), "{list}");
        }
        for wrong in ["", "a", "3-0", "1-"] {
            assert_eq!(count_in_list(wrong), None, "{wrong}");
        }
    }
}
