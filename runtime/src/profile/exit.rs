//! Settings of the profile, and its file at exit.

use super::pprof::{At, write};
use super::reading::place;
use super::sampling::start;
use super::state::PLACE;
use crate::caches::known_at;
use crate::cpu_cache::wanted_mean;
use crate::misuse::Line;
use crate::settings::{self, ALL_PROCESSES, Key, LONGEST_PATH};
use core::ffi::CStr;
use core::fmt::{self, Write};
use machine::file::{self, File};
use machine::process::{self, Error};
use machine::root;

const PROFILE: Key = Key::of("profile");
const FILE: Key = Key::of("profile.file");

/// Sees to the file at exit if the settings say so. Samples begin with the heap, which may exist already; without a
/// heap a process has some KiB.
pub(crate) fn begin() {
    if wanted_mean() == 0 {
        return;
    }
    if root::is_installed() {
        start(wanted_mean());
    }
    if FILE.said().is_some() {
        process::keep_standard_error();
        process::at_exit(write_file);
    }
}

/// Writes the file, and tells of a failure. Processes that others started write none without a sample.
extern "C" fn write_file() {
    // SAFETY: it does not change any more.
    let known = known_at(&PLACE).map_or(&[][..], |profile| unsafe { &*profile.path.get() });
    let known = known.split(|&byte| byte == 0).next().filter(|path| !path.is_empty());
    // A program that was sampled may have written over its environment since.
    let Some(pattern) = known.or_else(|| settings::text_of("profile.file").map(str::as_bytes)) else { return };
    let named = PROFILE.get();
    let is_own = named != ALL_PROCESSES && named == u64::from(process::id());
    if !is_own && place(0).is_none() {
        return;
    }
    let path = Path::of(pattern, process::id(), is_own);
    let written = path.as_c().map_or(Err(0), |path| write_to(File::create(path)?.descriptor(), At::Exit));
    if let Err(number) = written {
        let mut line = Line::new();
        let _ = write!(line, "commensal: the heap profile cannot be written (error {number}) to ");
        process::complain(line.as_bytes());
        process::complain(path.as_bytes());
        process::complain(b"\n");
    }
}

/// Writes the profile to a descriptor.
///
/// As [`write()`].
///
/// # Errors
/// A number of `errno`. A part may have been written.
pub fn write_to(descriptor: i32, at: At) -> Result<(), i32> {
    let mut error = Error::OutOfMemory as i32;
    let mut to = |bytes: &[u8]| file::write(descriptor, bytes).map_err(|number| error = number).is_ok();
    let is_whole = write(&mut to, at);
    if is_whole { Ok(()) } else { Err(error) }
}

/// A path, and zeroes behind it.
struct Path {
    text: [u8; LONGEST_PATH + 32],
    used: usize,
}

impl Path {
    /// The path of a pattern for a process. Without `%p`, the number is added to paths that are not its own.
    fn of(pattern: &[u8], process: u32, is_own: bool) -> Self {
        let mut path = Path { text: [0; LONGEST_PATH + 32], used: 0 };
        let place = pattern.windows(2).position(|two| two == b"%p");
        path.put(place.and_then(|place| pattern.get(..place)).unwrap_or(pattern));
        let _ = match place {
            Some(_) => write!(path, "{process}"),
            None if !is_own => write!(path, ".{process}"),
            None => Ok(()),
        };
        path.put(place.and_then(|place| pattern.get(place + 2..)).unwrap_or(&[]));
        path
    }

    /// Drops what has no room.
    fn put(&mut self, bytes: &[u8]) {
        let end = self.text.len() - 1;
        for (to, &from) in self.text.iter_mut().take(end).skip(self.used).zip(bytes) {
            *to = from;
            self.used += 1;
        }
    }

    fn as_bytes(&self) -> &[u8] {
        self.text.get(..self.used).unwrap_or(&[])
    }

    fn as_c(&self) -> Option<&CStr> {
        CStr::from_bytes_until_nul(&self.text).ok()
    }
}

impl Write for Path {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Path;

    #[test]
    fn path_has_the_number_of_the_process_where_it_is_not_the_own() {
        let path = |pattern: &str, is_own| {
            std::string::String::from_utf8_lossy(Path::of(pattern.as_bytes(), 17, is_own).as_bytes()).into_owned()
        };
        assert_eq!(path("heap.pb.gz", true), "heap.pb.gz");
        assert_eq!(path("heap.pb.gz", false), "heap.pb.gz.17");
        for is_own in [true, false] {
            assert_eq!(path("heap.%p.pb.gz", is_own), "heap.17.pb.gz");
        }
        let long = "x".repeat(512);
        assert_eq!(path(&long, false), std::format!("{long}.17"));
    }
}
