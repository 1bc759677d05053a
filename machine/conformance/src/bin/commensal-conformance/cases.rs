//! All cases on this machine: those of every machine, and those that only the host has.
//!
//! The host's own are operations in a form that only the host has: malloc's entry points, which do what pop and push do behind
//! two table lookups ([`crate::entries`]); restartable sections that are drawn out ([`crate::sections`]); kicks that a
//! filter refuses.

use crate::sections::{LONG, RIGHT, SHORT, compare_store, draw, drawn_out, pop, push, replace_pair};
use crate::{entries, filter};
use conformance::case::BY_IDS;
use conformance::slot::{self, Operations};
use conformance::{Case, Outcome, cases};
use machine::kick::{self, Refused};

cases! {
    BY_ENTRIES of entries::OPERATIONS;
    "slot::pop by take_entry" => |runner, entries| entries::installed(|| slot::popped(runner, entries)), {}
    "slot::push by put_entry" => |runner, entries| entries::installed(|| slot::pushed(runner, entries)), {}
    "slot::compare_store with entries" => |runner, entries| entries::installed(|| slot::replaced(runner, entries)), {}
}

cases! {
    DRAWN_OUT of RIGHT;
    "slot::pop drawn out" in BY_IDS => |runner, it| drawn_out(SHORT, || slot::popped(runner, it)), {
        "no slot check" { pop: pop::<false>, push: push::<false> }
    }
    "slot::push drawn out" in BY_IDS => |runner, it| drawn_out(SHORT, || slot::pushed(runner, it)), {
        "no slot check" { pop: pop::<false>, push: push::<false> }
    }
    "slot::compare_store drawn out" in BY_IDS => |runner, it| drawn_out(SHORT, || slot::replaced(runner, it)), {
        "no slot check" { pop: pop::<false>, push: push::<false>, compare_store: compare_store::<false> }
    }
    "slot::exchange drawn out" in BY_IDS => |runner, it| drawn_out(LONG, || slot::drained(runner, it)), {
        "no restart" { restart: |_| Ok(()) }
        "a fence in place of the restart" { restart: |_| kick::fence_all() }
    }
    "slot::draw drawn out" in BY_IDS => |runner, it| drawn_out(SHORT, || slot::drawn(runner, it)), {
        "no slot check" { draw: draw::<false> }
    }
    "slot::replace_pair drawn out" in BY_IDS => |runner, it| drawn_out(SHORT, || slot::refilled(runner, it)), {
        "no slot check" { replace_pair: replace_pair::<false> }
    }
    "slot::draw drawn out while cells are closed" in BY_IDS =>
        |runner, it| drawn_out(LONG, || slot::marked(runner, it)), {
        "no restart" { restart: |_| Ok(()) }
        "a fence in place of the restart" { restart: |_| kick::fence_all() }
    }
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
    cases().chain(BY_ENTRIES.iter().chain(DRAWN_OUT).copied().flatten()).chain(REFUSED)
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
