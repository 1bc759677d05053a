//! `commensal tune`: changes how much each slot keeps of a cache, in a program that runs.
//!
//! `run` gives each program a page that it shares with whoever opens it: a file without a name, which is among the program's descriptors. The
//! request is written there, and the program does it when it next comes along a slow path of the library.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use commensal::heap::control::{MARK, NAME_BYTES, OFFSETS, REFUSED, REFUSED_BY_KERNEL};
use rustix::fs::{FlockOperation, MemfdFlags, SealFlags, fcntl_add_seals, flock, memfd_create};

use crate::failure::Failure;

/// What the file is called where descriptors are listed.
const FILE: &str = "commensal-control";
const PAGE_BYTES: u64 = 4096;
const PAUSE: Duration = Duration::from_millis(5);

/// Change how much each CPU keeps of a cache, in a program that runs under `commensal run`
#[derive(Args)]
pub struct Tune {
    /// The program's process
    pid: u32,

    /// The cache, as `run --slabinfo` names it; malloc-64 and its like are malloc's own
    cache: String,

    /// Objects that each CPU keeps at most
    limit: u32,

    /// Objects that move at once: 1 to 125, and at most LIMIT
    batch: u32,

    /// How long to wait until the program comes along
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    wait: u32,
}

/// Makes a page for this process, or the program that takes its place; it stays open there. None: there is no memory for one.
pub fn page_for_this_process() -> Option<OwnedFd> {
    let file = File::from(memfd_create(FILE, MemfdFlags::ALLOW_SEALING).ok()?);
    file.set_len(PAGE_BYTES).ok()?;
    // The program maps no file that somebody can take from under it.
    fcntl_add_seals(&file, SealFlags::SHRINK).ok()?;
    file.write_all_at(&MARK, 0).ok()?;
    file.write_all_at(&std::process::id().to_ne_bytes(), OFFSETS[0] as u64).ok()?;
    Some(file.into())
}

/// The setting that tells the library of a page.
pub fn setting(page: &OwnedFd) -> String {
    format!("control:{}", page.as_raw_fd())
}

/// Asks, and waits for the answer.
pub fn tune(request: &Tune) -> Result<ExitCode, Failure> {
    let failed = |what: String| Failure::ours(what);
    if request.cache.len() > NAME_BYTES {
        return Err(Failure::usage(format!("no cache has a name of {} letters", request.cache.len())));
    }
    let page = open(request.pid).map_err(failed)?;
    // Two operators ask one after the other.
    flock(&page, FlockOperation::LockExclusive)
        .map_err(|error| failed(format!("the page cannot be locked: {error}")))?;
    let asked = ask(&page, request).map_err(|error| failed(format!("the request cannot be written: {error}")))?;
    let until = Instant::now() + Duration::from_secs(request.wait.into());
    while read(&page, OFFSETS[2]).map_err(|error| failed(format!("the answer cannot be read: {error}")))? != asked {
        if Instant::now() > until {
            return Err(failed(format!(
                "process {} did not come along a slow path of the library within {} s; it does what was asked when it does, or wait longer by --wait",
                request.pid, request.wait
            )));
        }
        std::thread::sleep(PAUSE);
    }
    match read(&page, OFFSETS[3]).map_err(|error| failed(format!("the answer cannot be read: {error}")))? {
        0 => Err(failed(format!("process {} has no cache {}: `run --slabinfo` names those there are", request.pid, request.cache))),
        REFUSED => Err(failed("a batch has 1 to 125 objects, and a limit is at least one batch and at most 256".to_owned())),
        REFUSED_BY_KERNEL => Err(failed(
            "the kernel refused membarrier: arrays that are in use stay as they are until they are retired by themselves".to_owned(),
        )),
        caches => {
            let many = if caches == 1 { "cache" } else { "caches" };
            println!("{caches} {many} {} of process {}: limit {}, batch {}", request.cache, request.pid, request.limit, request.batch);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The page of a process; an error says why there is none.
fn open(pid: u32) -> Result<File, String> {
    let folder = PathBuf::from(format!("/proc/{pid}/fd"));
    let entries = fs::read_dir(&folder).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("there is no process {pid}"),
        _ => format!("process {pid} is not yours to tune: {error}"),
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
    Err(format!(
        "process {pid} does not run under `commensal run`, or has closed the descriptor by which it can be tuned"
    ))
}

/// Writes a request; returns its number.
fn ask(page: &File, request: &Tune) -> io::Result<u32> {
    let mut name = [0; NAME_BYTES];
    name[..request.cache.len()].copy_from_slice(request.cache.as_bytes());
    let asked = read(page, OFFSETS[1])?.wrapping_add(1);
    page.write_all_at(&request.limit.to_ne_bytes(), OFFSETS[4] as u64)?;
    page.write_all_at(&request.batch.to_ne_bytes(), OFFSETS[5] as u64)?;
    page.write_all_at(&name, OFFSETS[6] as u64)?;
    page.write_all_at(&asked.to_ne_bytes(), OFFSETS[1] as u64)?;
    Ok(asked)
}

fn read(page: &File, offset: usize) -> io::Result<u32> {
    let mut number = [0; 4];
    page.read_exact_at(&mut number, offset as u64)?;
    Ok(u32::from_ne_bytes(number))
}
