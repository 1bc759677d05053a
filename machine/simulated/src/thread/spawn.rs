//! Threads of the runtime's own.

use super::identity::without_signals;
use crate::{engine, sandbox};
use core::ffi::CStr;

/// What a thread of the runtime's own does.
#[derive(Debug)]
pub struct Work {
    /// Its name, for those who look at the process: up to 15 bytes.
    pub name: &'static CStr,
    /// All that it does.
    pub job: fn(),
}

/// Nothing has to be looked up.
pub fn prepare_to_spawn() {}

/// Starts a thread without handlers, which no thread joins: a simulation ends without it. False if it cannot.
pub fn spawn(work: &'static Work) -> bool {
    let Some(_passage) = sandbox::pass() else { return false };
    let name = work.name.to_string_lossy().into_owned();
    match engine::here() {
        Some(here) => {
            here.spawn(name, Box::new(work.job));
            true
        }
        None => without_signals(|| std::thread::Builder::new().name(name).spawn(work.job).is_ok()),
    }
}
