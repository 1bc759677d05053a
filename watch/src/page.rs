//! One page, copied: nothing that the process does afterwards changes what was read.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use commensal_runtime::observe::page::{MARK, Page, Snapshot, Unreadable, VERSION};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::folders;

/// What lies in one file is no longer than this. The longest page that a library of today makes has some 145 KiB: two copies of 288 caches, 256 slots, 64 groups and 80 locks.
const MOST_BYTES: u64 = 512 << 10;
/// How often it is copied again, as it was written meanwhile, and after what time.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(1);

/// A copy of a page, in which everything is of one moment.
#[derive(Debug)]
pub struct Copied {
    bytes: Vec<u8>,
}

/// Why there is no page to show, where more is to be known of it than the text.
#[derive(Debug)]
pub enum Unread {
    /// In this file is the beginning of a page, at most.
    NothingYet(String),
    /// A page that another version of the library has laid out.
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// By which version.
        version: u32,
    },
    /// There is no file: the reason.
    NoPage(String),
}

impl std::error::Error for Unread {}

impl fmt::Display for Unread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::NothingYet(name) => write!(
                out,
                "{name}: nothing was written there yet; expected a statistics page: look again in a moment, or remove the file if its process has ended"
            ),
            Unread::OtherVersion { path, version } => write!(
                out,
                "{}: a statistics page of version {version}, and this command reads version {VERSION}; use the command that came with the program's library",
                folders::shown(path)
            ),
            Unread::NoPage(why) => out.write_str(why),
        }
    }
}

impl Copied {
    /// Copies the page in a file; an error says what is there instead. Whether the process is there that could go on to write is asked before a page is looked at
    /// again.
    pub fn of(path: &Path, has_writer: bool) -> Result<Self> {
        let name = || folders::shown(path);
        let mut file = open(path).with_context(name)?;
        for _ in 0..if has_writer { TRIES } else { 1 } {
            match Self::try_once(&mut file).with_context(name)? {
                Ok(copied) => return Ok(copied),
                Err(Unreadable::Empty | Unreadable::Changing) => std::thread::sleep(PAUSE),
                Err(Unreadable::Version(version)) => {
                    return Err(Unread::OtherVersion { path: path.to_owned(), version }.into());
                }
                Err(why) => bail!("{}: {}; remove the file", name(), explained(why)),
            }
        }
        Err(Unread::NothingYet(name()).into())
    }

    fn try_once(file: &mut File) -> io::Result<Result<Self, Unreadable>> {
        let length = file.metadata()?.len().min(MOST_BYTES);
        // At once: it would grow, and be copied, again and again.
        let mut bytes = Vec::with_capacity(length as usize);
        io::Seek::rewind(file)?;
        file.take(length).read_to_end(&mut bytes)?;
        // Its mark comes last: zeroes, or a file without any, are a page that is being made.
        if bytes.iter().take(MARK.len()).all(|&byte| byte == 0) {
            return Ok(Err(Unreadable::Empty));
        }
        // What comes after the page is nothing that anybody wants to keep.
        match Page::of(&bytes).map(Page::length) {
            Ok(length) => bytes.truncate(length),
            Err(why) => return Ok(Err(why)),
        }
        bytes.shrink_to_fit();
        let (at, turn) = match Page::of(&bytes).and_then(Page::snapshot) {
            Ok(snapshot) => (snapshot.turn_at(), snapshot.turn()),
            Err(why) => return Ok(Err(why)),
        };
        let mut again = [0; 8];
        file.read_exact_at(&mut again, at as u64)?;
        Ok(if u64::from_ne_bytes(again) == turn { Ok(Copied { bytes }) } else { Err(Unreadable::Changing) })
    }

    /// For tests: a page that is whole.
    #[cfg(test)]
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Copied { bytes }
    }

    /// The page.
    pub fn page(&self) -> Page<'_> {
        Page::of(&self.bytes).expect("it was read before")
    }

    /// What the process said of itself.
    pub fn snapshot(&self) -> Snapshot<'_> {
        self.page().snapshot().expect("it was read before")
    }
}

/// Opens a file, if it is one: whoever may write in the directory could have put a pipe there, which is waited for, or a link.
fn open(path: &Path) -> Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    let is_link = matches!(&opened, Err(error) if Errno::from_io_error(error) == Some(Errno::LOOP));
    if is_link || opened.as_ref().is_ok_and(|file| file.metadata().is_ok_and(|there| !there.is_file())) {
        bail!("this is no file; expected a statistics page: whatever it is, remove it");
    }
    Ok(opened?)
}

fn explained(why: Unreadable) -> String {
    match why {
        Unreadable::Truncated { expected, .. } if expected > MOST_BYTES => {
            format!("a damaged statistics page: it should have {expected} bytes, and none has more than {MOST_BYTES}")
        }
        Unreadable::Truncated { bytes, expected } => format!(
            "a statistics page of {bytes} bytes that should have {expected}: something has cut it off, and it cannot be read"
        ),
        Unreadable::Damaged(what) => format!("a damaged statistics page: {what}"),
        _ => "this is no statistics page; expected one that a process under Commensal has written".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use commensal_runtime::observe::figures::{Figures, Slot};
    use commensal_runtime::observe::page::{Room, Text, Writer};
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    use std::collections::HashSet;
    use std::fs;
    use std::ptr::null_mut;
    use std::time::Instant;

    /// Its owner may append whatever he likes, or have it be said to be as long.
    #[test]
    fn bytes_beyond_the_page_are_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("17");
        let whole = sample::page(17, 1000, 0);
        fs::write(&path, &whole).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        let copied = Copied::of(&path, true).unwrap();
        assert_eq!((copied.bytes.len(), copied.bytes.capacity()), (whole.len(), whole.len()));
        assert_eq!(copied.page().process(), 17);
        let mut boasting = whole;
        boasting[24..32].copy_from_slice(&(MOST_BYTES + 1).to_ne_bytes());
        fs::write(&path, boasting).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        let said = format!("{:#}", Copied::of(&path, true).unwrap_err());
        assert!(said.contains("damaged statistics page: it should have 524289 bytes, and none has more"), "{said}");
    }

    /// With twice as many caches and slots as a process makes room for: that there are more of them must not be overlooked here.
    #[test]
    fn longest_page_is_below_the_limit() {
        let room = Room { caches: 2 * 288, slots: 2 * 256, groups: 64, locks: 80 };
        assert!((room.bytes() as u64) < MOST_BYTES, "{}", room.bytes());
    }

    /// Nor is anybody waited for: a pipe has no writer.
    #[test]
    fn page_that_is_not_a_regular_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("1")).unwrap();
        let page = at("page");
        fs::write(&page, sample::page(2, 1000, 0)).unwrap();
        std::os::unix::fs::symlink(&page, at("2")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("3"), rustix::fs::Mode::RUSR).unwrap();
        for name in ["1", "2", "3"] {
            let said = format!("{:#}", Copied::of(&at(name), true).unwrap_err());
            assert!(said.contains(&format!("/{name}: this is no file; expected a statistics page")), "{said}");
        }
        assert!(Copied::of(&page, true).is_ok());
    }

    #[test]
    fn what_is_no_page_of_this_version_is_named_without_control_characters() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("\u{1b}[2J\n17");
        let whole = sample::page(17, 1000, 0);
        let said = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = whole.clone();
            change(&mut bytes);
            fs::write(&path, bytes).unwrap();
            Copied::of(&path, false).map(|copied| copied.page().process()).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(said(&|_| {}), Ok(17));
        let next = VERSION + 1;
        let other = format!("of version {next}, and this command reads version {VERSION}; use the command");
        for (change, expected) in [
            (&sample::of_version(next) as &dyn Fn(&mut Vec<u8>), other.as_str()),
            (&|page| page.truncate(page.len() - 1), "something has cut it off"),
            (&|page| page[12] = 3, "damaged statistics page: there is no such copy"),
            (&|page| page[0] = b'C', "is no statistics page"),
            (&Vec::clear, "nothing was written there yet"),
            (&|page| page.fill(0), "nothing was written there yet"),
        ] {
            let said = said(change).unwrap_err();
            assert!(said.contains("/?[2J?17: ") && said.contains(expected), "{expected}: {said}");
            assert!(!said.contains(char::is_control), "{said:?}");
        }
    }

    /// A copy that is written while it is read is none.
    #[test]
    fn page_that_changes_is_copied_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("17");
        let mut bytes = sample::page(17, 1000, 0);
        let turn_at = Page::of(&bytes).unwrap().snapshot().unwrap().turn_at();
        let even = bytes[turn_at];
        bytes[turn_at] += 1;
        fs::write(&path, &bytes).unwrap();
        assert!(format!("{:#}", Copied::of(&path, true).unwrap_err()).contains("look again in a moment"));
        // On a busy machine the writer may come too late.
        let is_copied = || {
            fs::write(&path, &bytes).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(3 * PAUSE);
                    File::options().write(true).open(&path).unwrap().write_all_at(&[even], turn_at as u64).unwrap();
                });
                Copied::of(&path, true).is_ok()
            })
        };
        assert!((0..100).any(|_| is_copied()));
    }

    /// A process writes as it does, in bursts: both copies change while they are read. What was read is of one moment all the same.
    #[test]
    fn page_is_read_as_of_one_moment() {
        const ROOM: Room = Room { caches: 64, slots: 64, groups: 2, locks: 2 };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("17");
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len(ROOM.bytes() as u64).unwrap();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: nothing else lies there, and it is unmapped when nobody uses it.
        let memory = unsafe { mmap(null_mut(), ROOM.bytes(), protection, MapFlags::SHARED, &file, 0) }.unwrap();
        let mut writer = Writer::default();
        // SAFETY: as long as that, until the writer has ended.
        unsafe { writer.begin(memory.cast(), ROOM, 17, Text::of("sample"), 7) };
        let mut rounds = 1..;
        let mut write = || {
            let round = rounds.next().expect("there are enough");
            writer.start(round);
            writer.row::<Figures>(0).expect("there is room").in_use_bytes = round;
            for number in 0..64 {
                *writer.row(number).expect("there is room") = Slot { refills: round, ..Slot::NONE };
            }
            writer.finish(round);
        };
        write();
        let read = || {
            let (mut read, mut moments, start) = (0, HashSet::new(), Instant::now());
            while start.elapsed() < Duration::from_millis(500)
                || read < 20 && start.elapsed() < Duration::from_secs(600)
            {
                let Ok(copied) = Copied::of(&path, true) else { continue };
                let round = copied.snapshot().ended_ns();
                let slots: Vec<u64> = copied.snapshot().rows::<Slot>().map(|slot| slot.refills).collect();
                assert_eq!((copied.snapshot().figures().in_use_bytes, slots), (round, vec![round; 64]));
                read += 1;
                moments.insert(round);
            }
            (read, moments.len())
        };
        let (read, moments) = std::thread::scope(|scope| {
            let reader = scope.spawn(read);
            while !reader.is_finished() {
                (0..3).for_each(|_| write());
                std::thread::sleep(Duration::from_micros(5));
            }
            reader.join().unwrap()
        });
        // SAFETY: mapped above, and the writer is used no more.
        unsafe { munmap(memory, ROOM.bytes()) }.unwrap();
        assert!(read >= 20 && moments > 5, "{read} readings of {moments} moments");
    }
}
