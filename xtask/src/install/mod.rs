//! Installs the library for C and C++ programs: the shared library, the archive, the header, and what pkg-config and CMake read.
//!
//! ```text
//!   PREFIX/lib/libcommensal.so, libcommensal.a
//!         /lib/pkgconfig/commensal.pc
//!         /lib/cmake/commensal/commensal-config.cmake, commensal-config-version.cmake
//!         /include/commensal.h
//! ```
//!
//! No file names the prefix: the descriptions find the rest from where they lie, so that a package can be made elsewhere (`--destdir`), and
//! moved. Each file takes the place of an older one at once, by renaming: programs that run keep the library that they have mapped.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::{header, library};

const PKG_CONFIG: &str = include_str!("commensal.pc.in");
const CMAKE: &str = include_str!("commensal-config.cmake.in");
const CMAKE_VERSION: &str = include_str!("commensal-config-version.cmake.in");

/// A file to install: its place below the prefix, its contents and its mode.
struct Installed {
    place: &'static str,
    contents: Vec<u8>,
    mode: u32,
}

/// Builds the library and installs it; below `destdir`, if there is one, as if that were the root.
pub fn run(root: &Path, prefix: &Path, destdir: Option<&Path>) -> Result<(), String> {
    let place = placed(prefix, destdir)?;
    for file in files(root)? {
        let path = place.join(file.place);
        write(&path, &file).map_err(|error| format!("{} cannot be installed: {error}", path.display()))?;
        println!("installed {}", path.display());
    }
    Ok(())
}

/// Where the prefix lies now.
fn placed(prefix: &Path, destdir: Option<&Path>) -> Result<PathBuf, String> {
    let Some(destdir) = destdir else {
        return std::path::absolute(prefix).map_err(|error| format!("{}: {error}", prefix.display()));
    };
    let below = prefix.strip_prefix("/").map_err(|_| {
        format!("found the prefix {}, expected an absolute one where there is a --destdir", prefix.display())
    })?;
    Ok(destdir.join(below))
}

fn files(root: &Path) -> Result<Vec<Installed>, String> {
    let built = library::build(root)?;
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()));
    let described = |template: &str| template.replace("@VERSION@", env!("CARGO_PKG_VERSION")).into_bytes();
    let readable = |place, contents| Installed { place, contents, mode: 0o644 };
    Ok(vec![
        Installed { place: "lib/libcommensal.so", contents: read(&built.shared)?, mode: 0o755 },
        readable("lib/libcommensal.a", read(&built.archive)?),
        readable("include/commensal.h", read(&root.join(header::FILE))?),
        readable("lib/pkgconfig/commensal.pc", described(PKG_CONFIG)),
        readable("lib/cmake/commensal/commensal-config.cmake", described(CMAKE)),
        readable("lib/cmake/commensal/commensal-config-version.cmake", described(CMAKE_VERSION)),
    ])
}

/// Writes a file beside its place, and renames it.
fn write(path: &Path, file: &Installed) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    fs::write(&unfinished, &file.contents)?;
    fs::set_permissions(&unfinished, Permissions::from_mode(file.mode))?;
    fs::rename(&unfinished, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destdir_stands_for_the_root() {
        let placed = |prefix: &str, destdir: Option<&str>| placed(Path::new(prefix), destdir.map(Path::new));
        assert_eq!(placed("/usr/local", None).unwrap(), Path::new("/usr/local"));
        assert_eq!(placed("/usr/local", Some("/tmp/package")).unwrap(), Path::new("/tmp/package/usr/local"));
        assert_eq!(placed("here", None).unwrap(), std::env::current_dir().unwrap().join("here"));
        assert!(placed("usr/local", Some("/tmp/package")).unwrap_err().contains("expected an absolute one"));
    }

    #[test]
    fn descriptions_name_no_prefix_and_no_other_version() {
        for template in [PKG_CONFIG, CMAKE, CMAKE_VERSION] {
            assert!(!template.contains("/usr") && !template.contains(env!("CARGO_PKG_VERSION")), "{template}");
        }
        assert!(PKG_CONFIG.contains("Version: @VERSION@\n") && CMAKE_VERSION.contains("\"@VERSION@\""));
    }

    #[test]
    fn installed_file_replaces_an_older_one_as_a_new_file() {
        use std::os::unix::fs::MetadataExt;
        let folder = std::env::temp_dir().join(format!("commensal-xtask-install-{}", std::process::id()));
        let path = folder.join("lib/libx.so");
        let file = |text: &str| Installed { place: "lib/libx.so", contents: text.into(), mode: 0o755 };
        write(&path, &file("old")).unwrap();
        let held = fs::File::open(&path).unwrap();
        write(&path, &file("new")).unwrap();
        assert_eq!(io::read_to_string(held).unwrap(), "old");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o755);
        assert_eq!(fs::read_dir(folder.join("lib")).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
