//! `commensal profile PID`: the heap profile of a running program.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use commensal_runtime::heap::control::SAMPLE;
use commensal_runtime::settings::TABLE;

use super::show::Table;
use super::warn;
use crate::control::{self, Control};
use crate::failure::Failure;

/// Options for a running program.
#[derive(Args)]
pub struct Running {
    /// Process id of a program under `commensal run`
    #[arg(required = true)]
    pid: Option<u32>,

    /// Begin to sample allocations, or change the mean gap
    #[arg(long, conflicts_with = "stop")]
    start: bool,

    /// Stop sampling; blocks that were sampled are told until they are freed
    #[arg(long)]
    stop: bool,

    /// With --start, the mean number of KiB that are allocated between two samples
    #[arg(long, value_name = "KIB", default_value = usual_gap(), requires = "start", value_parser = clap::value_parser!(u32).range(1..=4_194_303))]
    gap: u32,

    /// Write the profile to this file, and show nothing
    #[arg(short, long, value_name = "OUT", conflicts_with_all = ["start", "stop"])]
    output: Option<PathBuf>,

    /// Seconds to wait for the program to take the request
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    wait: u32,

    #[command(flatten)]
    table: Table,
}

/// The setting's default.
fn usual_gap() -> &'static str {
    let setting = TABLE.iter().find(|setting| setting.key == "profile.gap_kib");
    setting.expect("the table has it").default
}

/// Does what is asked.
pub fn running(request: &Running) -> Result<ExitCode, Failure> {
    let Some(pid) = request.pid else { return Err(Failure::usage("expected PID or a command such as show")) };
    let control = Control::of(pid, request.wait).map_err(Failure::of)?;
    if request.start || request.stop {
        let limit = if request.stop { 0 } else { request.gap };
        let outcome = control.ask(&control::Request { kind: SAMPLE, limit, ..Default::default() });
        return match outcome.map_err(Failure::of)? {
            1 => Ok(ExitCode::SUCCESS),
            _ => Err(Failure::ours(format!("process {pid} has no memory for a profile"))),
        };
    }
    let bytes = control.profile().map_err(Failure::of)?;
    drop(control);
    if let Some(path) = &request.output {
        return super::write(path, &bytes);
    }
    let opened = profiles::of_bytes(&bytes).map_err(Failure::of)?;
    let profile = opened.profile().map_err(Failure::of)?;
    if profile.samples.is_empty() {
        return Err(Failure::ours(format!(
            "process {pid} has no samples; commensal profile {pid} --start begins to sample"
        )));
    }
    warn(&opened.warnings);
    request.table.show(Path::new(&format!("process {pid}")), &opened.warnings, &profile)
}
