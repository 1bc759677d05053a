//! Memory that other processes may read: a mapped file in the user's runtime directory, named by the process.
//!
//! The directory is `commensal` in `$XDG_RUNTIME_DIR` or in `/run/user/UID`, else `/dev/shm/commensal-UID` or
//! `/tmp/commensal-UID`: the first that belongs to the user and is closed to others. `/tmp` is last because it often
//! lies on a disk, where writers may wait. The file has mode 0600. All its memory is allocated at once, so no write
//! fails for lack of memory. A normal exit [withdraws](withdraw) the file; after a crash it stays.
//!
//! The process writes to private memory, and [`update`] has the kernel copy parts into the file. If another process has
//! truncated the file, the kernel returns an error instead of killing the writer.
//!
//! Allocates nothing. Takes some twenty system calls. Two descriptors are open for a moment: do not call it in signal
//! handlers of programs that depend on free descriptor numbers.

use crate::process::{environment, id};
use crate::syscall::{self, Errno};
use crate::vm;
use core::ffi::CStr;
use core::fmt::{self, Write};
use core::ops::Range;
use core::ptr::null_mut;
use core::str::FromStr;
use core::sync::atomic::{AtomicU32, Ordering};

/// Longest path of a file, in bytes.
const PATH: usize = 160;
/// Longest usable value of [`VARIABLE`].
pub const LONGEST_NAMED: usize = 100;
/// Names the user's runtime directory, if there is one.
pub const VARIABLE: &CStr = c"XDG_RUNTIME_DIR";

/// A file's name: the process's number, after its PID namespace unless that is the machine's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// Number of the namespace; 0: unknown.
    pub namespace: u64,
    /// Number of the process.
    pub process: u32,
}

impl Name {
    /// The machine's own namespace, in which all processes have numbers (`PROC_PID_INIT_INO` in the kernel).
    pub const MACHINE: u64 = 0xefff_fffc;

    /// The name of a text; none if it is not the one way to write it.
    pub fn parse(text: &str) -> Option<Name> {
        fn number<N: FromStr>(text: &str) -> Option<N> {
            let is_written_so = text == "0" || text.starts_with(|first: char| matches!(first, '1'..='9'));
            if is_written_so { text.parse().ok() } else { None }
        }
        let Some((namespace, process)) = text.split_once('-') else {
            return Some(Name { namespace: Self::MACHINE, process: number(text)? });
        };
        let name = Name { namespace: number(namespace)?, process: number(process)? };
        (name.namespace != Self::MACHINE).then_some(name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace != Self::MACHINE {
            write!(out, "{}-", self.namespace)?;
        }
        self.process.fmt(out)
    }
}

/// The process's PID namespace; 0: unknown.
fn own_namespace() -> u64 {
    // SAFETY: the path ends with a zero.
    let status = unsafe { syscall::status(syscall::STAT, c"/proc/self/ns/pid".as_ptr() as usize) };
    status.map_or(0, |[_, number, ..]| number)
}

/// A publication. Zeroes: none.
#[derive(Debug)]
#[repr(C)]
pub struct Place {
    path: [u8; PATH],
    /// The file's mapping and the private memory, of the same size.
    file: *mut u8,
    own: *mut u8,
}

/// Folders with directories of users without a runtime directory.
pub const OTHERS: [&str; 2] = ["/dev/shm", "/tmp"];

const AT_FDCWD: usize = -100isize as usize;
const OPEN_FOLDER: usize = DIRECTORY | NO_FOLLOW | CLOSE_ON_EXEC;
const OPEN_NEW_FILE: usize = READ_WRITE | CREATE | EXCLUSIVE | NO_FOLLOW | CLOSE_ON_EXEC;
const READ_WRITE: usize = 2;
const CREATE: usize = 0o100;
const EXCLUSIVE: usize = 0o200;
const DIRECTORY: usize = 0o200_000;
const NO_FOLLOW: usize = 0o400_000;
const CLOSE_ON_EXEC: usize = 0o2_000_000;
const ONLY_OURS: usize = 0o700;
const ONLY_OURS_TO_READ: usize = 0o600;

/// Makes a file of `bytes` zeroes, and returns the private memory.
///
/// # Errors
/// The reason, in words.
pub fn publish(place: &mut Place, bytes: usize) -> Result<*mut u8, &'static str> {
    let (folder, path) = folder().ok_or(
        "no directory that is this user's alone: neither $XDG_RUNTIME_DIR/commensal nor /run/user/UID/commensal \
         nor commensal-UID in /dev/shm or /tmp",
    )?;
    let mut path = path;
    let start = path.length;
    let is_named = write!(path, "/{}\0", Name { namespace: own_namespace(), process: id() }).is_ok();
    let name = path.text.as_ptr().wrapping_add(start + 1);
    // Before the file, which a failure would leave behind.
    let own = vm::reserve(null_mut(), bytes, vm::Access::ReadWrite).ok_or("there is no memory");
    let mapped = own.and_then(|_| match is_named {
        // SAFETY: the name ends with a zero.
        true => unsafe { map_new_file(folder, name, bytes) },
        false => Err("the directory's name is too long"),
    });
    syscall::close(folder);
    let own = own?;
    // SAFETY: the mapping is ours, and no other code has seen it.
    let file = mapped.inspect_err(|_| unsafe { _ = vm::release(own, bytes) })?;
    *place = Place { path: path.text, file, own };
    Ok(own)
}

/// Copies a part of the private memory to the file, if there is one. False: another process has truncated the file.
pub fn update(place: &Place, part: Range<usize>) -> bool {
    const BAD_ADDRESS: Errno = Errno(14);
    if place.file.is_null() {
        return true;
    }
    let (from, to, bytes) = (place.own.wrapping_add(part.start), place.file.wrapping_add(part.start), part.len());
    let parts = [[from as usize, bytes], [to as usize, bytes]];
    let [own, others] = parts.each_ref().map(|part| part.as_ptr() as usize);
    // SAFETY: copies from one mapping of ours to another.
    match unsafe { syscall::call(syscall::PROCESS_VM_WRITEV, [id() as usize, own, 1, others, 1]) } {
        Ok(copied) => copied == bytes,
        Err(BAD_ADDRESS) => false,
        Err(_) => {
            // In a sandbox.
            // SAFETY: as above.
            unsafe { to.copy_from_nonoverlapping(from, bytes) };
            true
        }
    }
}

/// Removes the file; mappings stay. In a sandbox, which may forbid that, sets the `u32` at this offset of the file to 1
/// instead. Async-signal-safe. Again, or without a file: nothing.
pub fn withdraw(place: &Place, mark_at: usize) {
    if place.file.is_null() {
        return;
    }
    // SAFETY: the path ends with a zero.
    let removed = unsafe { syscall::call(syscall::UNLINKAT, [AT_FDCWD, place.path.as_ptr() as usize]) };
    if removed == Err(Errno::NOT_PERMITTED) {
        // Relaxed: nothing is read after it.
        // SAFETY: in the file's mapping, which stays; other processes only read there.
        unsafe { (*place.file.add(mark_at).cast::<AtomicU32>()).store(1, Ordering::Relaxed) };
    }
}

/// Directories for a user's files, in the order of trial; `named` is the value of [`VARIABLE`]. Readers use this too.
pub fn candidates(user: u32, named: Option<&str>) -> impl Iterator<Item = Path> {
    let named = named.filter(|folder| folder.starts_with('/') && folder.len() <= LONGEST_NAMED);
    let of_session = named.and_then(|folder| Path::of(format_args!("{folder}/commensal")));
    let of_user = Path::of(format_args!("/run/user/{user}/commensal"));
    let of_nobody = OTHERS.map(|folder| Path::of(format_args!("{folder}/commensal-{user}")));
    [of_session, of_user].into_iter().chain(of_nobody).flatten()
}

fn folder() -> Option<(usize, Path)> {
    // SAFETY: asks, changes nothing.
    let user = unsafe { syscall::call(syscall::GETEUID, []) }.ok()? as u32;
    let named = environment(VARIABLE).and_then(|folder| folder.to_str().ok());
    candidates(user, named).find_map(|path| Some((open_folder(&path, user)?, path)))
}

/// Opens a directory, or makes it. None: this failed, or others may enter it.
fn open_folder(path: &Path, user: u32) -> Option<usize> {
    let at = path.text.as_ptr() as usize;
    // SAFETY: the path ends with a zero; an existing directory stays as it is.
    let folder = unsafe {
        let _ = syscall::call(syscall::MKDIRAT, [AT_FDCWD, at, ONLY_OURS]);
        syscall::call(syscall::OPENAT, [AT_FDCWD, at, OPEN_FOLDER]).ok()?
    };
    // SAFETY: asks about a descriptor.
    let status = unsafe { syscall::status(syscall::FSTAT, folder) };
    if status.is_some_and(|[_, _, _, mode, ..]| (mode >> 32) as u32 == user && mode & 0o077 == 0) {
        return Some(folder);
    }
    syscall::close(folder);
    None
}

/// # Safety
/// The name ends with a zero.
unsafe fn map_new_file(folder: usize, name: *const u8, bytes: usize) -> Result<*mut u8, &'static str> {
    // A write beyond this limit would kill the program.
    if file_size_limit() < bytes as u64 {
        return Err("files must not be so large (ulimit -f)");
    }
    let remove = || {
        // SAFETY: passed on.
        let _ = unsafe { syscall::call(syscall::UNLINKAT, [folder, name as usize]) };
    };
    // A process with the same number may have left one.
    remove();
    // SAFETY: passed on.
    let file = unsafe { syscall::call(syscall::OPENAT, [folder, name as usize, OPEN_NEW_FILE, ONLY_OURS_TO_READ]) }
        .map_err(|_| "the file cannot be made")?;
    let mapped = if allocate(file, bytes) {
        // SAFETY: the file is ours, and zeroes are promised.
        unsafe { crate::vm::share(file as i32, bytes) }.ok_or("the file cannot be mapped")
    } else {
        Err("there is no memory for the file")
    };
    syscall::close(file);
    if mapped.is_err() {
        remove();
    }
    mapped
}

fn allocate(file: usize, bytes: usize) -> bool {
    const INTERRUPTED: Errno = Errno(4);
    loop {
        // SAFETY: changes a file that is ours.
        match unsafe { syscall::call(syscall::FALLOCATE, [file, 0, 0, bytes]) } {
            Err(INTERRUPTED) => {}
            done => return done.is_ok(),
        }
    }
}

fn file_size_limit() -> u64 {
    const FILE_SIZE: usize = 1;
    let mut limit = [0_u64; 2];
    // SAFETY: the kernel writes the two limits.
    let _ = unsafe { syscall::call(syscall::PRLIMIT, [0, FILE_SIZE, 0, limit.as_mut_ptr() as usize]) };
    limit[0]
}

/// A path, followed by zeroes.
#[derive(Debug)]
pub struct Path {
    text: [u8; PATH],
    length: usize,
}

impl Path {
    /// None: too long.
    fn of(path: fmt::Arguments<'_>) -> Option<Self> {
        let mut own = Path { text: [0; PATH], length: 0 };
        own.write_fmt(path).ok()?;
        Some(own)
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.text[..self.length]).unwrap_or("")
    }
}

impl Write for Path {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        // The last byte stays zero.
        self.text[..PATH - 1].get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

impl Place {
    /// No publication.
    pub const fn nowhere() -> Self {
        Place { path: [0; PATH], file: null_mut(), own: null_mut() }
    }

    /// Path of the file; empty: none.
    pub fn path(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.path).unwrap_or(c"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::PathBuf;

    #[test]
    fn published_memory_is_in_the_file_until_it_is_withdrawn() {
        let mut place = Place::nowhere();
        publish(&mut place, 8192).expect("there is a directory");
        let path = PathBuf::from(OsStr::from_bytes(place.path().to_bytes()));
        let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino());
        let name = path.file_name().and_then(OsStr::to_str).and_then(Name::parse);
        assert_eq!(name, Some(Name { namespace, process: std::process::id() }));
        let status = fs::metadata(&path).expect("it is there");
        assert_eq!((status.len(), status.mode() & 0o777, status.blocks()), (8192, 0o600, 16));
        fs::File::options().write(true).open(&path).and_then(|file| file.set_len(0)).expect("it is ours");
        assert!(!update(&place, 0..8));
        let mut again = Place::nowhere();
        publish(&mut again, 4096).expect("it takes the place of the one before");
        assert_eq!(fs::metadata(&path).expect("it is there").len(), 4096);
        withdraw(&again, 8);
        assert!(!path.exists());
    }

    #[test]
    fn name_is_written_in_one_way() {
        let name = |namespace, process| Some(Name { namespace, process });
        for (text, expected) in [
            ("17", name(Name::MACHINE, 17)),
            ("4026532001-2", name(4_026_532_001, 2)),
            ("0-5", name(0, 5)),
            ("4026531836-17", None),
            ("017", None),
            ("+17", None),
            ("01-17", None),
            ("5-017", None),
            ("5-", None),
            ("-5", None),
            ("5-6-7", None),
            ("4294967296", None),
            ("x17", None),
            ("", None),
        ] {
            assert_eq!(Name::parse(text), expected, "{text}");
            if let Some(name) = expected {
                assert_eq!(std::format!("{name}"), text);
            }
        }
    }

    #[test]
    fn directory_of_the_variable_comes_first_if_it_is_usable() {
        let long = std::format!("/{}", "x".repeat(LONGEST_NAMED));
        let found = |named| {
            candidates(7, named).map(|path| std::string::String::from(path.as_str())).collect::<std::vec::Vec<_>>()
        };
        let others = ["/run/user/7/commensal", "/dev/shm/commensal-7", "/tmp/commensal-7"];
        assert_eq!(found(Some("/mine")), [&["/mine/commensal"][..], &others].concat());
        for left_alone in [None, Some("mine"), Some(""), Some(&*long)] {
            assert_eq!(found(left_alone), others, "{left_alone:?}");
        }
        assert_eq!(found(Some(&long[..LONGEST_NAMED])).len(), 4);
    }

    #[test]
    fn folders_that_others_may_enter_are_not_used() {
        let root = std::env::temp_dir().join(std::format!("commensal-folders-{}", std::process::id()));
        fs::create_dir_all(&root).expect("a folder");
        // SAFETY: asks.
        let user = unsafe { syscall::call(syscall::GETEUID, []) }.expect("never fails") as u32;
        let opens = |name: &str, user| {
            let path = Path::of(format_args!("{}/{name}", root.display())).expect("short enough");
            open_folder(&path, user).map(syscall::close).is_some()
        };
        assert!(opens("made", user) && opens("made", user));
        assert!(!opens("made", user + 1), "it is somebody else's");
        fs::set_permissions(root.join("made"), fs::Permissions::from_mode(0o750)).expect("it is ours");
        assert!(!opens("made", user), "a group may enter");
        fs::create_dir(root.join("own")).expect("a folder");
        fs::set_permissions(root.join("own"), fs::Permissions::from_mode(0o700)).expect("it is ours");
        symlink(root.join("own"), root.join("link")).expect("a link");
        assert!(opens("own", user) && !opens("link", user) && !opens("no/such", user));
        assert!(Path::of(format_args!("{}", "x".repeat(PATH))).is_none());
        fs::remove_dir_all(&root).expect("the folder is ours");
    }
}
