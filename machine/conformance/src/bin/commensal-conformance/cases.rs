//! All cases on this machine: those of every machine, and those that only the host has.
//!
//! The host's own are operations in a form that only the host has: malloc's entry points, which do what pop and push do behind
//! two table lookups ([`crate::entries`]); restartable sections with a bug inside ([`crate::sections`]); kicks that a
//! filter refuses.

use crate::{entries, filter, sections};
use commensal_machine_conformance::{Case, Outcome, cases, slot};
use machine::kick::{self, Refused};
use machine::slot::Mode;

const BY_IDS: Mode = Mode::ConcurrencyId;

const HOST: &[Case] = &[
    Case::machine("slot::take_entry", |runner| entries::installed(|| slot::popped(runner, &entries::operations()))),
    Case::machine("slot::put_entry", |runner| entries::installed(|| slot::pushed(runner, &entries::operations()))),
    Case::machine("slot entries together", |runner| {
        entries::installed(|| slot::replaced(runner, &entries::operations()))
    }),
    Case::machine("kick::register refused", |_| refused(|| filter::refuse(libc::SYS_membarrier, libc::EPERM))),
    Case::planted("kick::register refused", "not refused", |_| refused(|| true)),
    Case::planted("slot::pop", sections::NO_CHECK, |runner| slot::popped(runner, &sections::pop())).only(BY_IDS),
    Case::planted("slot::push", sections::NO_CHECK, |runner| slot::pushed(runner, &sections::push())).only(BY_IDS),
    Case::planted("slot::compare_store", sections::NO_CHECK, |runner| {
        slot::replaced(runner, &sections::compare_store())
    })
    .only(BY_IDS),
];

/// All cases.
pub fn all() -> impl Iterator<Item = &'static Case> {
    cases().chain(HOST)
}

/// What a kick answers where the system has none.
fn refused(refuse: impl FnOnce() -> bool) -> Outcome {
    if !refuse() {
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
