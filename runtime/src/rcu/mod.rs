//! RCU: readers that register nothing, and grace periods.
//!
//! A reader *opens* a section ([`read`]) and ends it. Whoever wants to take something away first makes sure that nobody
//! can find it any more, and then waits for a *grace period* ([`synchronize`]): when it is over, all sections that were
//! open when it began have ended.
//!
//! ```text
//!   updater            unlink ─▶ synchronize ├──────── grace period ────────┤ free
//!   reader A     ├─ may have found it ──────────────────┤
//!   reader B                              ├── finds it no more ───────┤
//! ```
//!
//! | file | |
//! |---|---|
//! | `domain` | where sections are counted, by period and by slot, and what a fork child makes of that |
//! | `reader` | opening and ending a section: two restartable additions, or two atomic ones |
//! | `grace` | grace periods, which callers share |
//!
//! Readers count in the rows of the slots where they run: `begun` in the row of the slot where a section opens, and
//! `ended` in the same row, wherever the thread is by then. A grace period orders all running threads once
//! (`kick::fence_all`), and then looks at each row until it has ended as many sections as it began.
//! [docs/design/rcu.md] has the argument, and tells what is different from the sources.
//!
//! Source of the algorithm: counters by CPU and by period, of which the ends are read before the begins, are those of
//! sleepable RCU in the Linux kernel (McKenney); rows that are counted in by restartable additions, and fences that
//! only the waiting side pays for, were shown by liburcu's and librseq's authors (Desnoyers).
//!
//! In a fork child everything goes on: sections that the thread which forked had open are waited for there, those of
//! all others are gone. Signal handlers may read, on top of anything. They must not wait for grace periods.
//!
//! [docs/design/rcu.md]: https://github.com/commensal/commensal/blob/main/docs/design/rcu.md

mod cell;
mod deferred;
mod domain;
mod grace;
pub mod qsbr;
mod queue;
mod reader;
mod typesafe;
mod worker;

pub use cell::{Cell, Loaded, NotExchanged};
pub use deferred::{Waiting, barrier, barrier_for, call, call_of, contention, defer_drop, defer_free, waiting};
pub use grace::{
    Caller, Cookie, Pace, Standing, grace_periods, is_over, set_knob, standing, start, synchronize,
    synchronize_expedited, wait_for,
};
pub use queue::Head;
pub use reader::{Open, ReadGuard, close, open, read};
pub use typesafe::{Link, TypesafeBox, TypesafeCache};
pub(crate) use typesafe::{readers_are_absent, rouse_worker, wait_for_readers};
pub(crate) use worker::is_there as has_worker;
