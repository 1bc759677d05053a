//! Requests to a running program, by the page that `run` gives it: a file without a name among its descriptors.
//!
//! The program obeys when one of its threads next reaches a slow path of the library, or when the library's own thread
//! wakes up.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use commensal_runtime::heap::control::{MARK, NAME_BYTES, OFFSETS, PROFILE, ROOM};
use rustix::fs::{
    FallocateFlags, FlockOperation, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, flock, memfd_create,
};

/// The file's name in the list of descriptors.
const FILE: &str = "commensal-control";
const PAGE_BYTES: u64 = 4096;
const PAUSE: Duration = Duration::from_millis(5);

/// Makes a page for this process, or for the program that replaces it and inherits it. None if memory is short.
pub fn page_for_this_process() -> Option<OwnedFd> {
    let file = File::from(memfd_create(FILE, MemfdFlags::ALLOW_SEALING).ok()?);
    file.set_len(PAGE_BYTES).ok()?;
    // A file that can shrink could crash the program, which maps it.
    fcntl_add_seals(&file, SealFlags::SHRINK).ok()?;
    file.write_all_at(&MARK, 0).ok()?;
    file.write_all_at(&std::process::id().to_ne_bytes(), OFFSETS[0] as u64).ok()?;
    Some(file.into())
}

/// The setting that tells the library of a page.
pub fn setting(page: &OwnedFd) -> String {
    format!("control:{}", page.as_raw_fd())
}

/// A request: its kind, its numbers, and a name of at most [`NAME_BYTES`].
#[derive(Default)]
pub struct Request<'a> {
    pub kind: u32,
    pub limit: u32,
    pub batch: u32,
    pub name: &'a str,
}

/// The page of a program. Requests of two operators wait for each other.
pub struct Control {
    page: File,
    pid: u32,
    wait: Duration,
}

impl Control {
    /// The page of a process, which gets some seconds to answer a request.
    pub fn of(pid: u32, seconds: u32) -> Result<Self> {
        let page = open(pid)?;
        flock(&page, FlockOperation::LockExclusive).context("cannot lock the page of the process")?;
        Ok(Self { page, pid, wait: Duration::from_secs(seconds.into()) })
    }

    /// Writes a request, waits for the answer, and returns the outcome.
    pub fn ask(&self, request: &Request<'_>) -> Result<u32> {
        let Self { page, pid, wait } = self;
        let asked = write(page, request).context("cannot write the request")?;
        let until = Instant::now() + *wait;
        while read(page, OFFSETS[2])? != asked {
            ensure!(
                Instant::now() <= until,
                "process {pid} has not taken the request within {} s, because no thread reached a slow path of the \
                 library; it will when one does",
                wait.as_secs()
            );
            std::thread::sleep(PAUSE);
        }
        read(page, OFFSETS[3]).context("cannot read the answer")
    }

    /// The heap profile of the process, as the library writes it.
    pub fn profile(&self) -> Result<Vec<u8>> {
        const FIRST: u32 = 1 << 18;
        let mut room = FIRST;
        loop {
            // With memory: the program would die at a write without.
            fallocate(&self.page, FallocateFlags::empty(), PAGE_BYTES, room.into())
                .context("no memory for a profile")?;
            let fits = self.ask(&Request { kind: PROFILE, limit: room, ..Request::default() })? == 1;
            let bytes = read(&self.page, OFFSETS[8])?;
            if fits {
                let mut profile = vec![0; bytes as usize];
                self.page.read_exact_at(&mut profile, PAGE_BYTES).context("cannot read the profile")?;
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let _ = fallocate(&self.page, hole, PAGE_BYTES, room.into());
                return Ok(profile);
            }
            ensure!(bytes > room, "process {} had no memory to write its profile", self.pid);
            ensure!(
                bytes as usize <= ROOM,
                "the profile of process {} has {bytes} bytes; expected {ROOM} at most",
                self.pid
            );
            // It may grow until the next request.
            room = (bytes + bytes / 4).min(ROOM as u32);
        }
    }
}

/// The page of a process, or why there is none.
fn open(pid: u32) -> Result<File> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => anyhow!("no process {pid}"),
        _ => anyhow!("cannot look into process {pid} ({error})"),
    })?;
    let is_page = |path: &PathBuf| {
        let name = fs::read_link(path).unwrap_or_default();
        name.to_string_lossy().starts_with(&format!("/memfd:{FILE}"))
    };
    for path in entries.flatten().map(|entry| entry.path()).filter(is_page) {
        let Ok(page) = File::options().read(true).write(true).open(&path) else { continue };
        if read(&page, OFFSETS[0]).is_ok_and(|process| process == pid) {
            return Ok(page);
        }
    }
    bail!("process {pid} does not run under commensal run, or has closed its descriptors")
}

/// Writes a request; returns its number.
fn write(page: &File, request: &Request<'_>) -> io::Result<u32> {
    let mut name = [0; NAME_BYTES];
    name[..request.name.len()].copy_from_slice(request.name.as_bytes());
    let asked = read(page, OFFSETS[1])?.wrapping_add(1);
    for (offset, number) in [(OFFSETS[4], request.limit), (OFFSETS[5], request.batch), (OFFSETS[7], request.kind)] {
        page.write_all_at(&number.to_ne_bytes(), offset as u64)?;
    }
    page.write_all_at(&name, OFFSETS[6] as u64)?;
    page.write_all_at(&asked.to_ne_bytes(), OFFSETS[1] as u64)?;
    Ok(asked)
}

fn read(page: &File, offset: usize) -> io::Result<u32> {
    let mut number = [0; 4];
    page.read_exact_at(&mut number, offset as u64)?;
    Ok(u32::from_ne_bytes(number))
}
