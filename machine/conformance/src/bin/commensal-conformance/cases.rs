//! All cases on this machine: those of every machine, and those that only the host has.
//!
//! The host's own are operations in a form that only the host has: malloc's entry points, which do what pop and push do behind
//! two table lookups ([`crate::entries`]); restartable sections that are drawn out ([`crate::sections`]); kicks that a
//! filter refuses.

use crate::sections::{LONG, NO_CHECK, RIGHT, SHORT, WRONG, drawn_out};
use crate::{entries, filter};
use commensal_machine_conformance::{Case, Outcome, Runner, cases, slot};
use machine::kick::{self, Refused};
use machine::slot::Mode;

const BY_IDS: Mode = Mode::ConcurrencyId;
const NO_RESTART: &str = "no restart";
const FENCE: &str = "a fence in place of the restart";

const HOST: &[Case] = &[
    Case::machine("slot::pop by take_entry", |runner| {
        entries::installed(|| slot::popped(runner, &entries::operations()))
    }),
    Case::machine("slot::push by put_entry", |runner| {
        entries::installed(|| slot::pushed(runner, &entries::operations()))
    }),
    Case::machine("slot::compare_store with entries", |runner| {
        entries::installed(|| slot::replaced(runner, &entries::operations()))
    }),
    Case::machine("kick::register refused", |_| refused(|| filter::refuse(libc::SYS_membarrier, libc::EPERM))),
    Case::planted("kick::register refused", "not refused", |_| refused(|| true)),
    Case::machine("slot::pop drawn out", |runner| drawn_out(SHORT, || slot::popped(runner, &RIGHT))).only(BY_IDS),
    Case::machine("slot::push drawn out", |runner| drawn_out(SHORT, || slot::pushed(runner, &RIGHT))).only(BY_IDS),
    Case::machine("slot::compare_store drawn out", |runner| drawn_out(SHORT, || slot::replaced(runner, &RIGHT)))
        .only(BY_IDS),
    Case::machine("slot::exchange drawn out", |runner| drawn_out(LONG, || slot::drained(runner, &RIGHT))).only(BY_IDS),
    Case::machine("slot::draw drawn out", |runner| drawn_out(SHORT, || slot::drawn(runner, &RIGHT))).only(BY_IDS),
    Case::machine("slot::replace_pair drawn out", |runner| drawn_out(SHORT, || slot::refilled(runner, &RIGHT)))
        .only(BY_IDS),
    Case::machine("slot::draw drawn out while cells are closed", |runner| {
        drawn_out(LONG, || slot::marked(runner, &RIGHT))
    })
    .only(BY_IDS),
    Case::planted("slot::draw drawn out", NO_CHECK, |runner| drawn_out(SHORT, || slot::drawn(runner, &WRONG)))
        .only(BY_IDS),
    Case::planted("slot::replace_pair drawn out", NO_CHECK, |runner| {
        let operations = slot::Operations { draw: RIGHT.draw, ..WRONG };
        drawn_out(SHORT, || slot::refilled(runner, &operations))
    })
    .only(BY_IDS),
    Case::planted("slot::draw drawn out while cells are closed", NO_RESTART, |runner| closed_by(runner, |_| Ok(())))
        .only(BY_IDS),
    Case::planted("slot::draw drawn out while cells are closed", FENCE, |runner| {
        closed_by(runner, |_| kick::fence_all())
    })
    .only(BY_IDS),
    Case::planted("slot::pop drawn out", NO_CHECK, |runner| drawn_out(SHORT, || slot::popped(runner, &WRONG)))
        .only(BY_IDS),
    Case::planted("slot::push drawn out", NO_CHECK, |runner| drawn_out(SHORT, || slot::pushed(runner, &WRONG)))
        .only(BY_IDS),
    Case::planted("slot::compare_store drawn out", NO_CHECK, |runner| {
        drawn_out(SHORT, || slot::replaced(runner, &WRONG))
    })
    .only(BY_IDS),
    Case::planted("slot::exchange drawn out", NO_RESTART, |runner| drained_by(runner, |_| Ok(()))).only(BY_IDS),
    Case::planted("slot::exchange drawn out", FENCE, |runner| drained_by(runner, |_| kick::fence_all())).only(BY_IDS),
];

/// All cases.
pub fn all() -> impl Iterator<Item = &'static Case> {
    cases().chain(HOST)
}

/// Drains drawn-out sections with something else than a restart.
fn drained_by(runner: &dyn Runner, restart: fn(u32) -> Result<(), Refused>) -> Outcome {
    drawn_out(LONG, || slot::drained(runner, &slot::Operations { restart, ..RIGHT }))
}

/// Closes cells with something else than a restart, while drawn-out sections draw from them.
fn closed_by(runner: &dyn Runner, restart: fn(u32) -> Result<(), Refused>) -> Outcome {
    drawn_out(LONG, || slot::marked(runner, &slot::Operations { restart, ..RIGHT }))
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
