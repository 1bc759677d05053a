//! The process: its environment and limits, its messages, and its death.

use crate::file::{self, File};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
pub use crate::syscall::Error;
use crate::{sandbox, syscall};
use core::ffi::{CStr, c_char, c_int};

unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
    fn secure_getenv(name: *const c_char) -> *const c_char;
    fn getauxval(kind: u64) -> u64;
    fn __errno_location() -> *mut c_int;
    fn abort() -> !;
    fn atexit(function: extern "C" fn()) -> c_int;
    fn at_quick_exit(function: extern "C" fn()) -> c_int;
}

const STANDARD_ERROR: usize = 2;

/// The value of an environment variable; none in a program with raised privileges.
pub fn environment(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name ends with a zero byte.
    let value = unsafe { secure_getenv(name.as_ptr()) };
    // SAFETY: the result is null, or a string that is valid until the environment changes; we read it at once.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

/// Whether a variable is set, with raised privileges or not.
pub fn is_set(name: &CStr) -> bool {
    // SAFETY: the name ends with a zero byte.
    !unsafe { getenv(name.as_ptr()) }.is_null()
}

/// A value of the kernel's auxiliary vector; zero: absent.
pub(crate) fn auxiliary(kind: u64) -> u64 {
    // SAFETY: reads a table.
    unsafe { getauxval(kind) }
}

/// Random bits of this process image: the same at each call, also in fork children. Zero: addresses shall be the same
/// in each run, as under a debugger.
///
/// The kernel's bits are also the C library's secrets. So each of its two words hides the other.
pub fn randomness() -> u64 {
    const RANDOM: u64 = 25;
    const FILE_NAME: u64 = 31;
    /// End of the stack where the kernel does not randomise addresses. The name of the executed file lies at its top.
    const STACK_END: u64 = 0x7fff_ffff_f000;
    const LONGEST_NAME: u64 = 4096;
    let (random, name) = (auxiliary(RANDOM), auxiliary(FILE_NAME));
    if random == 0 || (STACK_END - LONGEST_NAME - 16..STACK_END).contains(&name) {
        return 0;
    }
    // SAFETY: the kernel put 16 bytes there, which no code changes.
    let [first, second] = unsafe { (random as *const [u64; 2]).read_unaligned() };
    (first ^ second.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// Sets `errno` for a failed call.
#[cold]
pub fn set_error(error: Error) {
    set_error_number(error as c_int);
}

/// The same for a number that a call of the kernel gave.
#[cold]
pub fn set_error_number(number: c_int) {
    // SAFETY: the location is this thread's own.
    unsafe { *__errno_location() = number };
}

pub(crate) fn error() -> c_int {
    // SAFETY: the location is this thread's own.
    unsafe { *__errno_location() }
}

/// Makes calls about mappings through the C library's functions, for libraries that replace these.
pub fn map_by_library() {
    syscall::go_by_library();
}

/// The copy of standard error by [`keep_standard_error`], and its file; 0: none.
static COPY: AtomicUsize = AtomicUsize::new(0);
static COPY_OF: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Copies standard error for messages at exit, because some programs close it before. Not inherited.
pub fn keep_standard_error() {
    const DUPLICATE_CLOSE_ON_EXEC: usize = 1030;
    const HIGH_ENOUGH: usize = 100;
    // SAFETY: makes a new descriptor.
    let copy = unsafe { syscall::call(syscall::FCNTL, [STANDARD_ERROR, DUPLICATE_CLOSE_ON_EXEC, HIGH_ENOUGH]) };
    if let Ok(copy) = copy {
        let file = file_of(copy).unwrap_or_default();
        COPY_OF.iter().zip(file).for_each(|(known, is)| known.store(is, Ordering::Relaxed));
        COPY.store(copy, Ordering::Relaxed);
    }
}

/// Device and number of a descriptor's file.
fn file_of(descriptor: usize) -> Option<[u64; 2]> {
    // SAFETY: asks about a descriptor.
    let [device, number, ..] = unsafe { syscall::status(syscall::FSTAT, descriptor) }?;
    Some([device, number])
}

/// The descriptor for messages: the copy, unless the program has closed or replaced it.
fn messages() -> usize {
    let copy = COPY.load(Ordering::Relaxed);
    let is_copy = copy != 0 && file_of(copy) == Some(COPY_OF.each_ref().map(|known| known.load(Ordering::Relaxed)));
    if is_copy { copy } else { STANDARD_ERROR }
}

/// Writes a message to standard error, unbuffered. Drops the rest after a failure.
pub fn complain(message: &[u8]) {
    let _ = file::write(messages() as i32, message);
}

/// Aborts the process.
#[cold]
pub fn die() -> ! {
    // SAFETY: nothing is left to protect.
    unsafe { abort() }
}

/// Has `function` called at a normal exit.
pub fn at_exit(function: extern "C" fn()) -> bool {
    // SAFETY: the function lives as long as the process.
    unsafe { atexit(function) == 0 }
}

/// The same, also at a `quick_exit`.
pub fn at_any_exit(function: extern "C" fn()) -> bool {
    // SAFETY: as above.
    at_exit(function) & unsafe { at_quick_exit(function) == 0 }
}

/// Ends the process at once, with all its threads, as the C library's `_exit` does.
#[unsafe(link_section = ".text.first")]
pub fn end(status: c_int) -> ! {
    loop {
        // SAFETY: nothing is left to protect.
        let _ = unsafe { syscall::make(syscall::EXIT_GROUP, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// The kernel's number of this process; in a sandbox, of the process that entered it.
pub fn id() -> u32 {
    // SAFETY: asks, changes nothing.
    unsafe { syscall::call(syscall::GETPID, []) }.map_or_else(|_| sandbox::process(), |id| id as u32)
}

/// Fails as a function of the C library does.
pub extern "C" fn fail(number: c_int) -> c_int {
    // SAFETY: the location is this thread's own.
    unsafe { *__errno_location() = number };
    -1
}

/// The C library's `prctl`.
///
/// # Safety
/// As for the system call.
pub unsafe fn control(option: c_int, [second, third, fourth, fifth]: [usize; 4]) -> c_int {
    // SAFETY: passed on.
    unsafe { as_asked(syscall::PRCTL, [option as usize, second, third, fourth, fifth, 0]) }
}

/// The C library's `unshare`.
pub fn unshare(flags: c_int) -> c_int {
    // SAFETY: no memory changes its owner.
    unsafe { as_asked(syscall::UNSHARE, [flags as usize, 0, 0, 0, 0, 0]) }
}

/// The C library's `setns`.
pub fn enter_namespace(descriptor: c_int, kind: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { as_asked(syscall::SETNS, [descriptor as usize, kind as usize, 0, 0, 0, 0]) }
}

/// A call that the program asked for; a sandbox does not refuse it.
unsafe fn as_asked(number: usize, arguments: [usize; 6]) -> c_int {
    // SAFETY: passed on.
    match unsafe { syscall::make(number, arguments) } {
        Ok(result) => result as c_int,
        Err(syscall::Errno(number)) => fail(number),
    }
}

/// Reads the start of a file into `buffer` without allocating; returns the part read.
#[unsafe(link_section = ".text.first")]
pub fn read_file<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let read = File::open(path).ok()?.read(buffer).ok()?;
    Some(&buffer[..read])
}

/// Copies a part of this process's memory that may not be mapped. False: not all of it is, or a sandbox forbids to ask.
pub fn read_memory(address: usize, to: &mut [u8]) -> bool {
    let parts = [[to.as_mut_ptr() as usize, to.len()], [address, to.len()]];
    let [own, other] = parts.each_ref().map(|part| part.as_ptr() as usize);
    // SAFETY: the kernel writes to `to`; an address that is not mapped is an error.
    let copied = unsafe { syscall::call(syscall::PROCESS_VM_READV, [id() as usize, own, 1, other, 1, 0]) };
    copied == Ok(to.len())
}

/// The calling thread's name, and zeroes behind it; none in a sandbox.
pub fn thread_name() -> [u8; 16] {
    const GET_NAME: usize = 16;
    let mut name = [0; 16];
    // SAFETY: the kernel writes at most 16 bytes, the last of which is zero.
    let _ = unsafe { syscall::call(syscall::PRCTL, [GET_NAME, name.as_mut_ptr() as usize]) };
    name
}

/// Number of the process's threads, the runtime's own included; none: unknown, as in a sandbox.
pub fn threads() -> Option<u32> {
    /// Links of an empty directory; each thread adds one.
    const OF_EMPTY: u64 = 2;
    // SAFETY: the path ends with a zero byte.
    let [_, _, links, ..] = unsafe { syscall::status(syscall::STAT, c"/proc/self/task".as_ptr() as usize) }?;
    links.checked_sub(OF_EMPTY).map(|threads| threads as u32)
}

/// Runs `work` and restores errno.
pub fn keeping_errno<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the location is this thread's own.
    unsafe {
        let location = __errno_location();
        let before = *location;
        let result = work();
        *location = before;
        result
    }
}

/// Whether the kernel gives huge pages to programs that did not ask; looked up once.
#[unsafe(link_section = ".text.first")]
pub fn prefers_huge_pages() -> bool {
    const NO: u64 = 1;
    const YES: u64 = 2;
    early_state! { static PREFERS: AtomicU64 = AtomicU64::new(0); }
    let prefers = once(&PREFERS, || {
        let mut text = [0; 64];
        let setting = read_file(c"/sys/kernel/mm/transparent_hugepage/enabled", &mut text);
        if setting.is_some_and(|setting| setting.starts_with(b"[always]")) { YES } else { NO }
    });
    prefers == YES
}

/// Whether the process's address space is limited, as by `ulimit -v` or `-d`; looked up once.
#[unsafe(link_section = ".text.first")]
pub fn limits_address_space() -> bool {
    const NO: u64 = 1;
    const YES: u64 = 2;
    const DATA: usize = 2;
    const ADDRESS_SPACE: usize = 9;
    early_state! { static LIMITS: AtomicU64 = AtomicU64::new(0); }
    let is_limited = |resource: usize| {
        let mut limit = [u64::MAX; 2];
        // SAFETY: the kernel writes 16 bytes.
        let _ = unsafe { syscall::call(syscall::PRLIMIT, [0, resource, 0, limit.as_mut_ptr() as usize]) };
        limit[0] != u64::MAX
    };
    once(&LIMITS, || if [DATA, ADDRESS_SPACE].into_iter().any(is_limited) { YES } else { NO }) == YES
}

/// Shows use and limit, in bytes, of each limited control group of the process: its own first, then the ancestors.
/// Shows none without a known limit. Takes some ten system calls, and six for each ancestor.
pub fn memory_of_groups(show: impl FnMut(u64, u64)) {
    let mut text = [0; 2048];
    let Some(groups) = read_file(c"/proc/self/cgroup", &mut text).and_then(|text| core::str::from_utf8(text).ok())
    else {
        return;
    };
    let fields = |line| {
        let mut fields = str::splitn(line, 3, ':');
        Some((fields.next()?, fields.next()?, fields.next()?))
    };
    // Version 1 may have a hierarchy for memory; version 2 has one for all.
    let first = groups.lines().filter_map(fields).find(|(_, kinds, _)| kinds.split(',').any(|kind| kind == "memory"));
    let second = || groups.lines().filter_map(fields).find(|(number, ..)| *number == "0");
    match (first, second()) {
        (Some((_, _, path)), _) => {
            show_limits("/sys/fs/cgroup/memory", path, ["/memory.usage_in_bytes", "/memory.limit_in_bytes"], show);
        }
        (None, Some((_, _, path))) => show_limits("/sys/fs/cgroup", path, ["/memory.current", "/memory.max"], show),
        (None, None) => {}
    }
}

/// Times that the process's control group of version 2 was above `memory.high` or at `memory.max`, or the nearest group
/// around it that counts. `folder`: that of another group. None: unknown. Some six system calls.
pub fn pressure_of_group(folder: Option<&str>) -> Option<u64> {
    if let Some(folder) = folder {
        return read_events(folder, "");
    }
    let mut text = [0; 2048];
    let groups = core::str::from_utf8(read_file(c"/proc/self/cgroup", &mut text)?).ok()?;
    let mut path = groups.lines().find_map(|line| line.strip_prefix("0::"))?.trim_end_matches('/');
    loop {
        let events = read_events("/sys/fs/cgroup", path);
        if events.is_some() {
            return events;
        }
        path = path.get(..path.rfind('/')?)?;
    }
}

/// The events of a group at a place and a path, as its file counts them.
fn read_events(place: &str, path: &str) -> Option<u64> {
    let mut text = [0; 512];
    let is_counted = |word: &str| matches!(word, "high" | "max");
    let count = |line: &str| line.split_once(' ').filter(|(word, _)| is_counted(word))?.1.parse::<u64>().ok();
    Some(read_text(&[place, path, "/memory.events"], &mut text)?.lines().filter_map(count).sum())
}

/// Shows use and limit from a group of the tree at `place` upwards. A container may have only its own part mounted.
fn show_limits(place: &str, path: &str, files: [&str; 2], mut show: impl FnMut(u64, u64)) {
    let mut path = path.trim_end_matches('/');
    loop {
        let [used, limit] = files.map(|file| read_number(&[place, path, file]));
        // Version 1 writes no limit as a large number, version 2 as a word.
        if let (Some(used), Some(limit)) = (used, limit.filter(|&limit| limit < 1 << 60)) {
            show(used, limit);
        }
        let Some(parent) = path.rfind('/') else { return };
        path = &path[..parent];
    }
}

#[unsafe(link_section = ".text.first")]
fn read_number(parts: &[&str]) -> Option<u64> {
    read_text(parts, &mut [0; 32])?.trim().parse().ok()
}

/// The start of the file whose path has these parts.
#[unsafe(link_section = ".text.first")]
fn read_text<'a>(parts: &[&str], text: &'a mut [u8]) -> Option<&'a str> {
    let (mut path, mut length) = ([0; 640], 0);
    for part in parts {
        path.get_mut(length..length + part.len())?.copy_from_slice(part.as_bytes());
        length += part.len();
    }
    let path = CStr::from_bytes_until_nul(path.get(..=length)?).ok()?;
    core::str::from_utf8(read_file(path, text)?).ok()
}

/// Bytes of the machine's memory; the kernel is asked once.
#[unsafe(link_section = ".text.first")]
pub fn memory() -> u64 {
    const TOTAL: usize = 4;
    const UNIT: usize = 13;
    early_state! { static MEMORY: AtomicU64 = AtomicU64::new(0); }
    once(&MEMORY, || {
        let mut information = [0_u64; 14];
        // SAFETY: the kernel writes 112 bytes.
        let _ = unsafe { syscall::call(syscall::SYSINFO, [information.as_mut_ptr() as usize]) };
        information[TOTAL].saturating_mul(information[UNIT] & u64::from(u32::MAX))
    })
}

/// An answer that stays the same; 0: not asked yet.
fn once(answer: &AtomicU64, ask: impl FnOnce() -> u64) -> u64 {
    // Relaxed: threads that ask at the same time store the same.
    match answer.load(Ordering::Relaxed) {
        0 => {
            let new = ask();
            answer.store(new, Ordering::Relaxed);
            new
        }
        known => known,
    }
}

#[cfg(test)]
mod tests {
    use super::show_limits;
    use std::format;
    use std::fs;
    use std::vec::Vec;

    #[test]
    fn limits_of_groups_around_the_own_one_count() {
        let root = std::env::temp_dir().join(format!("commensal-groups-{}", std::process::id()));
        let write = |folder: &str, file: &str, text: &str| {
            fs::create_dir_all(root.join(folder)).expect("a folder");
            fs::write(root.join(folder).join(file), text).expect("a file");
        };
        for (folder, used, limit) in [("", "400\n", "500\n"), ("pod", "300\n", "max\n"), ("pod/own", "200\n", "1000\n")]
        {
            write(folder, "current", used);
            write(folder, "max", limit);
        }
        let found = |path: &str| {
            let mut found = Vec::new();
            let place = root.to_str().expect("text");
            show_limits(place, path, ["/current", "/max"], |used, limit| found.push((used, limit)));
            found
        };
        let (own, outermost) = ((200, 1000), (400, 500));
        assert_eq!(found("/pod/own"), [own, outermost], "where there is none in between");
        assert_eq!(found("/pod/"), [outermost]);
        assert_eq!(found("/"), [outermost]);
        // As in a container that has only its group's part of the tree mounted.
        assert_eq!(found("/elsewhere/pod"), [outermost]);
        fs::remove_dir_all(&root).expect("the folder is ours");
    }
}
