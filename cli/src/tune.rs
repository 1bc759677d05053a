//! `commensal tune`: changes how many objects of a cache each CPU keeps, in a running program.
//!
//! `run` gives each program a shared page: a file without a name among the program's descriptors. `tune` writes a request
//! there, and the program obeys when a thread next reaches a slow path of the library.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use commensal::heap::control::{MARK, NAME_BYTES, OFFSETS, REFUSED, REFUSED_BY_KERNEL};
use rustix::fs::{FlockOperation, MemfdFlags, SealFlags, fcntl_add_seals, flock, memfd_create};

use crate::failure::Failure;

/// The file's name in the list of descriptors.
const FILE: &str = "commensal-control";
const PAGE_BYTES: u64 = 4096;
const PAUSE: Duration = Duration::from_millis(5);

/// Change how many objects of a cache each CPU keeps, in a program under `commensal run`
#[derive(Args)]
pub struct Tune {
    /// Process id of the program
    pid: u32,

    /// Name of the cache in `commensal slabinfo PID`; malloc-64 is malloc's cache for 64 bytes
    cache: String,

    /// Most objects that each CPU keeps, up to 256
    limit: u32,

    /// Objects that move at once, 1 to 125 and at most LIMIT
    batch: u32,

    /// Seconds to wait for the program to take the request
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    wait: u32,
}

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

/// Asks, and prints the answer.
pub fn tune(request: &Tune) -> Result<ExitCode, Failure> {
    let Tune { pid, cache, limit, batch, .. } = request;
    if cache.len() > NAME_BYTES {
        return Err(Failure::usage(format!("CACHE has {} bytes; expected at most {NAME_BYTES}", cache.len())));
    }
    match answer(request).map_err(Failure::of)? {
        0 => {
            Err(Failure::ours(format!("process {pid} has no cache {cache}; commensal slabinfo {pid} lists its caches")))
        }
        REFUSED => Err(Failure::ours("expected a BATCH of 1 to 125, and a LIMIT from BATCH to 256")),
        REFUSED_BY_KERNEL => Err(Failure::ours(
            "the kernel refused membarrier, so magazines in use keep their size until the program replaces them",
        )),
        caches => {
            let many = if caches == 1 { "cache" } else { "caches" };
            println!("{caches} {many} {cache} of process {pid}: limit {limit}, batch {batch}");
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Writes the request, and waits for the answer.
fn answer(request: &Tune) -> Result<u32> {
    let page = open(request.pid)?;
    // Requests of two operators wait for each other.
    flock(&page, FlockOperation::LockExclusive).context("cannot lock the page of the process")?;
    let asked = ask(&page, request).context("cannot write the request")?;
    let until = Instant::now() + Duration::from_secs(request.wait.into());
    while read(&page, OFFSETS[2])? != asked {
        ensure!(
            Instant::now() <= until,
            "process {} has not taken the request within {} s, because no thread reached a slow path of the library; it \
             will when one does",
            request.pid,
            request.wait
        );
        std::thread::sleep(PAUSE);
    }
    read(&page, OFFSETS[3]).context("cannot read the answer")
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
