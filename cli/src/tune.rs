//! `commensal tune`: changes how many objects of a cache each CPU keeps, or a limit, in a running program.

use std::process::ExitCode;

use clap::Args;
use commensal_runtime::heap::control::{LIMIT, NAME_BYTES, REFUSED, REFUSED_BY_KERNEL, TUNE};

use crate::control::{Control, Request};
use crate::failure::Failure;
use crate::places;

/// Change how many objects of a cache each CPU keeps, or a limit, in a program under `commensal run`
#[derive(Args)]
pub struct Tune {
    /// Process id of the program
    pid: u32,

    /// Name of the cache in `commensal slabinfo PID`; malloc-64 is malloc's cache for 64 bytes. Or `limit` or
    /// `limit.soft`, for a limit of the process
    cache: String,

    /// Most objects that each CPU keeps, up to 256; or MiB of the process, 0 for no limit
    limit: u32,

    /// Objects that move at once, 1 to 125 and at most LIMIT; not for a limit of the process
    batch: Option<u32>,

    /// Seconds to wait for the program to take the request
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    wait: u32,
}

/// Names of the limits, the soft one first, as the library numbers them.
const LIMITS: [&str; 2] = ["limit.soft", "limit"];

/// Asks to set a limit of the process.
fn set_limit(&Tune { pid, ref cache, limit, wait, .. }: &Tune) -> Result<ExitCode, Failure> {
    let request = Request { kind: LIMIT, limit, batch: u32::from(cache == LIMITS[1]), name: cache };
    match Control::of(pid, wait).and_then(|control| control.ask(&request)).map_err(Failure::of)? {
        0 => Err(Failure::ours(format!("process {pid} has no memory for its heap"))),
        _ => {
            let now = if limit == 0 { "none".into() } else { format!("{limit} MiB") };
            places::show(&format!("{cache} of process {pid}: {now}\n"), None)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Asks, and prints the answer.
pub fn tune(request: &Tune) -> Result<ExitCode, Failure> {
    let &Tune { pid, ref cache, limit, batch, wait } = request;
    if batch.is_none() && LIMITS.contains(&cache.as_str()) {
        return set_limit(request);
    }
    let Some(batch) = batch else {
        let expected =
            format!("no BATCH for {cache}; expected LIMIT and BATCH of a cache, or one of: {}", LIMITS.join(", "));
        return Err(Failure::usage(expected));
    };
    if cache.len() > NAME_BYTES {
        return Err(Failure::usage(format!("CACHE has {} bytes; expected at most {NAME_BYTES}", cache.len())));
    }
    let request = Request { kind: TUNE, limit, batch, name: cache };
    match Control::of(pid, wait).and_then(|control| control.ask(&request)).map_err(Failure::of)? {
        0 => {
            Err(Failure::ours(format!("process {pid} has no cache {cache}; commensal slabinfo {pid} lists its caches")))
        }
        REFUSED => Err(Failure::ours("expected a BATCH of 1 to 125, and a LIMIT from BATCH to 256")),
        REFUSED_BY_KERNEL => Err(Failure::ours(
            "the kernel refused membarrier, so magazines in use keep their size until the program replaces them",
        )),
        caches => {
            let many = if caches == 1 { "cache" } else { "caches" };
            places::show(&format!("{caches} {many} {cache} of process {pid}: limit {limit}, batch {batch}\n"), None)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
