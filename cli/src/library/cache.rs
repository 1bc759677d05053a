//! Libraries as files in the user's cache directory, for the library that is embedded in the command.
//!
//! A file is named by its contents, so commands of several versions do not disturb each other. It appears complete or not at
//! all. Each use compares it with the embedded bytes, so the name need not be proof against forgery. Its directory must belong
//! to the user and be closed to writes of others, so it cannot be replaced between that comparison and the loader.

use std::fs::{self, DirBuilder, Permissions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

const WRITABLE_BY_OTHERS: u32 = 0o022;

/// A file in the user's cache that holds `library`.
pub fn store(library: &[u8]) -> Result<PathBuf, Failure> {
    let directory = directory()?;
    store_in(&directory, library).map_err(|error| {
        Failure::ours(format!(
            "cannot write the library to {} ({error}); set XDG_CACHE_HOME, or name a library in COMMENSAL_LIBRARY",
            directory.display()
        ))
    })
}

/// `$XDG_CACHE_HOME/commensal`; that variable must hold an absolute path or is ignored, as its specification says.
fn directory() -> Result<PathBuf, Failure> {
    let absolute = |variable| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("commensal"))
        .ok_or_else(|| {
            let line =
                "no directory to write the library to; set HOME or XDG_CACHE_HOME, or name a library in COMMENSAL_LIBRARY";
            Failure::ours(line)
        })
}

fn store_in(directory: &Path, library: &[u8]) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    check_directory(directory)?;
    let mut hasher = DefaultHasher::new();
    hasher.write(library);
    let path = directory.join(format!("libcommensal-{:016x}.so", hasher.finish()));
    if fs::read(&path).is_ok_and(|present| present == library) {
        return Ok(path);
    }
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(library)?;
    file.as_file().set_permissions(Permissions::from_mode(0o644))?;
    file.persist(&path)?;
    Ok(path)
}

fn check_directory(directory: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(directory)?;
    let owner = metadata.uid();
    let user = rustix::process::geteuid().as_raw();
    if !metadata.is_dir() {
        return Err(io::Error::other("it is not a directory"));
    }
    if owner != user {
        return Err(io::Error::other(format!("it belongs to user {owner}, and you are user {user}")));
    }
    if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(io::Error::other("others may write to it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_library_is_written_once_and_read_back() {
        let cache = tempfile::tempdir().unwrap();
        let directory = cache.path().join("a/b");
        let first = store_in(&directory, b"one").unwrap();
        let written = fs::metadata(&first).unwrap().ino();
        assert_eq!(store_in(&directory, b"one").unwrap(), first);
        assert_eq!(fs::metadata(&first).unwrap().ino(), written);
        assert_ne!(store_in(&directory, b"two").unwrap(), first);
        assert_eq!(fs::read(&first).unwrap(), b"one");
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn damaged_library_in_the_cache_is_replaced() {
        let cache = tempfile::tempdir().unwrap();
        let path = store_in(cache.path(), b"whole").unwrap();
        fs::write(&path, b"who").unwrap();
        assert_eq!(store_in(cache.path(), b"whole").unwrap(), path);
        assert_eq!(fs::read(&path).unwrap(), b"whole");
    }

    #[test]
    fn cache_directory_open_to_others_or_a_link_is_refused() {
        let cache = tempfile::tempdir().unwrap();
        let open = cache.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        assert!(store_in(&open, b"x").unwrap_err().to_string().contains("others may write"));
        let link = cache.path().join("link");
        std::os::unix::fs::symlink(cache.path(), &link).unwrap();
        assert!(store_in(&link, b"x").unwrap_err().to_string().contains("not a directory"));
    }
}
