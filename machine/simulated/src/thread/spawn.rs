//! Threads of the runtime itself.

use super::identity::without_signals;
use crate::{engine, sandbox};
use core::ffi::CStr;

#[derive(Debug)]
pub struct Work {
    pub name: &'static CStr,
    pub job: fn(),
}

/// Does nothing: there is nothing to look up.
pub fn prepare_to_spawn() {}

/// Starts a detached thread without handlers; a simulation does not wait for it. False: this failed.
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
