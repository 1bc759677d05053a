//! One page, copied: nothing that the process does afterwards changes what was read.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use runtime::observe::page::{Page, Snapshot, Unreadable, VERSION};

/// What lies in one file is no longer than this.
const MOST_BYTES: u64 = 16 << 20;
/// How often it is copied again, as it was written meanwhile, and after what time.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(1);

/// A copy of a page, in which everything is of one moment.
#[derive(Debug)]
pub struct Copied {
    bytes: Vec<u8>,
}

impl Copied {
    /// Copies the page in a file; an error says what is there instead.
    pub fn of(path: &Path) -> Result<Self> {
        let name = || format!("{}", path.display());
        let mut file = File::open(path).with_context(name)?;
        for _ in 0..TRIES {
            match Self::try_once(&mut file) {
                Ok(Ok(copied)) => return Ok(copied),
                Ok(Err(Unreadable::Empty | Unreadable::Changing)) => std::thread::sleep(PAUSE),
                Ok(Err(why)) => bail!("{}: {}", name(), explained(why)),
                Err(error) => return Err(error).with_context(name),
            }
        }
        Err(anyhow!("{}: nothing was written there yet; look again in a moment", name()))
    }

    fn try_once(file: &mut File) -> io::Result<Result<Self, Unreadable>> {
        let mut bytes = Vec::new();
        io::Seek::rewind(file)?;
        file.take(MOST_BYTES).read_to_end(&mut bytes)?;
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

fn explained(why: Unreadable) -> String {
    match why {
        Unreadable::Foreign => {
            "this is no statistics page; expected one that a process under Commensal has written".to_owned()
        }
        Unreadable::Version(other) => format!(
            "a statistics page of version {other}, and this command reads version {VERSION}; use the command that came with the program's library"
        ),
        Unreadable::Truncated { bytes, expected } => {
            format!(
                "a statistics page of {bytes} bytes that should have {expected}: something has cut it off, and it cannot be read"
            )
        }
        Unreadable::Damaged(what) => format!("a damaged statistics page: {what}"),
        Unreadable::Empty | Unreadable::Changing => "a statistics page that is being written".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_no_page_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("17");
        let said = |contents: &[u8]| {
            fs::write(&path, contents).unwrap();
            format!("{:#}", Copied::of(&path).unwrap_err())
        };
        assert!(said(b"").contains("is no statistics page"), "{}", said(b""));
        assert!(said(b"hello, world").contains("is no statistics page"));
        let mark = |version: u32| [&b"cmstats\0"[..], &version.to_ne_bytes(), &[0; 500]].concat();
        assert!(said(&mark(9)).contains("version 9, and this command reads version 1"), "{}", said(&mark(9)));
        let cut = &mark(VERSION)[..100];
        assert!(said(cut).contains("100 bytes that should have"), "{}", said(cut));
        fs::remove_file(&path).unwrap();
        assert!(format!("{:#}", Copied::of(&path).unwrap_err()).contains("No such file"));
    }
}
