//! All cases on this machine: those of every machine, and those that only the host has.
//!
//! Some operations exist on the host only: malloc's entry points, which do what pop and push do behind two table
//! lookups ([`crate::entries`]), and kicks that a filter refuses.

use crate::{entries, filter};
use conformance::slot::{self, Operations};
use conformance::{Case, Outcome, cases};
use machine::kick::{self, Refused};

cases! {
    BY_ENTRIES of entries::OPERATIONS;
    "slot::pop by take_body" => |runner, entries| entries::installed(|| slot::popped(runner, entries)), {}
    "slot::push by put_body" => |runner, entries| entries::installed(|| slot::pushed(runner, entries)), {}
    "slot::compare_store with entries" => |runner, entries| entries::installed(|| slot::replaced(runner, entries)), {}
}

/// Where the system has no kicks: a filter sees to that.
const REFUSED: &[Case] = &[
    Case {
        name: "kick::register refused",
        planted: None,
        only: None,
        run: |_| refused(filter::refuse(libc::SYS_membarrier, libc::EPERM)),
    },
    Case { name: "kick::register refused", planted: Some("not refused"), only: None, run: |_| refused(true) },
];

/// All cases.
pub fn all() -> impl Iterator<Item = &'static Case> {
    cases().chain(BY_ENTRIES.iter().copied().flatten()).chain(REFUSED)
}

/// What a kick answers where the system has none.
fn refused(is_filtered: bool) -> Outcome {
    if !is_filtered {
        return Err("a system-call filter could not be set".into());
    }
    let answers = [kick::register(), kick::register(), kick::fence_all(), kick::restart(0)];
    if answers != [Err(Refused); 4] {
        return Err(format!("a system that refuses membarrier gave {answers:?}"));
    }
    match kick::counts() {
        (0, 2) => Ok("register and both kicks".into()),
        counts => Err(format!("no kick and 2 refusals were counted as {counts:?}")),
    }
}
