//! Installs the library for C and C++ programs: the shared library, the archive, the headers, and what pkg-config and CMake read.
//!
//! ```text
//!   PREFIX/lib/libcommensal.so.0.1.0, libcommensal.a
//!         /lib/libcommensal.so.0, libcommensal.so, which lead there: for the loader, and for linkers
//!         /lib/pkgconfig/commensal.pc
//!         /lib/cmake/commensal/commensal-config.cmake, commensal-config-version.cmake
//!         /include/commensal.h, commensal.hpp
//! ```
//!
//! No file names the prefix: the descriptions find the rest from where they lie, so that a package can be made elsewhere (`--destdir`), and
//! moved. Each file takes the place of an older one at once, by renaming: programs that run keep the library that they have mapped.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::header;
use crate::library::{self, Library};

const PKG_CONFIG: &str = include_str!("commensal.pc.in");
const CMAKE: &str = include_str!("commensal-config.cmake.in");
const CMAKE_VERSION: &str = include_str!("commensal-config-version.cmake.in");

/// A file to install, with its place below the prefix.
struct Installed {
    place: String,
    what: What,
}

enum What {
    /// Contents and mode.
    File(Vec<u8>, u32),
    /// A symbolic link to a file in the same folder.
    Link(String),
}

/// Builds the library and installs it; below `destdir`, if there is one, as if that were the root. `libdir` is the
/// folder for libraries, from the prefix: `lib`, `lib64` or `lib/x86_64-linux-gnu`, as the distribution has it.
pub fn run(root: &Path, prefix: &Path, libdir: &str, destdir: Option<&Path>) -> Result<(), String> {
    of(&library::build(root)?, root, prefix, libdir, destdir)
}

/// The same of a library that is built.
pub fn of(built: &Library, root: &Path, prefix: &Path, libdir: &str, destdir: Option<&Path>) -> Result<(), String> {
    let place = placed(prefix, destdir)?;
    for file in files(built, root, libdir)? {
        let path = place.join(&file.place);
        write(&path, &file.what).map_err(|error| format!("{} cannot be installed: {error}", path.display()))?;
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

fn files(built: &Library, root: &Path, libdir: &str) -> Result<Vec<Installed>, String> {
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()));
    let described = |template: &str, soname: &str| {
        let version = env!("CARGO_PKG_VERSION");
        let up = libdir.split('/').map(|_| "..").collect::<Vec<_>>().join("/");
        let with_place = template.replace("@LIBDIR@", libdir).replace("@UP@", &up);
        with_place.replace("@VERSION@", version).replace("@SONAME@", soname).into_bytes()
    };
    let file = |place: &str, contents, mode| Installed { place: place.to_owned(), what: What::File(contents, mode) };
    let link = |name: &str, to: &str| Installed { place: format!("{libdir}/{name}"), what: What::Link(to.to_owned()) };
    let soname = library::soname(&built.shared)?;
    let full_name = format!("libcommensal.so.{}", env!("CARGO_PKG_VERSION"));
    Ok(vec![
        file(&format!("{libdir}/{full_name}"), read(&built.shared)?, 0o755),
        link(&soname, &full_name),
        link("libcommensal.so", &soname),
        file(&format!("{libdir}/libcommensal.a"), read(&built.archive)?, 0o644),
        file("include/commensal.h", read(&root.join(header::FILE))?, 0o644),
        file("include/commensal.hpp", read(&root.join(header::CXX_FILE))?, 0o644),
        file(&format!("{libdir}/pkgconfig/commensal.pc"), described(PKG_CONFIG, &soname), 0o644),
        file(&format!("{libdir}/cmake/commensal/commensal-config.cmake"), described(CMAKE, &soname), 0o644),
        file(
            &format!("{libdir}/cmake/commensal/commensal-config-version.cmake"),
            described(CMAKE_VERSION, &soname),
            0o644,
        ),
    ])
}

/// Writes a file beside its place, and renames it.
fn write(path: &Path, what: &What) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    match what {
        What::File(contents, mode) => {
            fs::write(&unfinished, contents)?;
            fs::set_permissions(&unfinished, Permissions::from_mode(*mode))?;
        }
        What::Link(to) => symlink(to, &unfinished)?,
    }
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
        let file = |text: &str| What::File(text.into(), 0o755);
        write(&path, &file("old")).unwrap();
        let held = fs::File::open(&path).unwrap();
        write(&path, &file("new")).unwrap();
        assert_eq!(io::read_to_string(held).unwrap(), "old");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o755);
        // A link takes the place of what an older version had there as a file.
        write(&folder.join("lib/libx.so.0"), &file("newest")).unwrap();
        write(&path, &What::Link("libx.so.0".into())).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "newest");
        assert_eq!(fs::read_dir(folder.join("lib")).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
