//! RCU: readers that register nothing, and grace periods.
//!
//! A reader *opens* a section ([`read`]) and ends it. An updater that takes something away first makes sure that no
//! reader can find it any more. Then it waits for a *grace period* ([`synchronize()`]): at its end, all sections that
//! were open at its beginning have ended.
//!
//! ```text
//!   updater            unlink ─▶ synchronize ├──────── grace period ────────┤ free
//!   reader A     ├─ may have found it ──────────────────┤
//!   reader B                              ├── finds it no more ───────┤
//! ```
//!
//! * [`Cell`] holds a value that many threads read and some replace. It does all of this by itself.
//! * With structures of your own, readers call [`read`]. Updaters call [`synchronize()`], [`defer_free`] or
//!   [`defer_drop`].
//! * [`TypesafeCache`] has objects that are reused without a grace period. Readers check that they have the right one.
//! * [`qsbr`] is for threads that read in a loop: their sections cost nothing.
//!
//! `domain` holds all state of the process (`grace`, `sections`, `watch`, `registered`, `queue`, `queues`, `worker`),
//! and repairs it in a fork child. [docs/design/rcu.md] has the argument, and the differences from the sources.
//!
//! Source of the algorithm: sleepable RCU in the Linux kernel (McKenney) counts by CPU and by period, and reads the
//! ends before the begins. The authors of liburcu and librseq (Desnoyers) have shown rows with restartable additions,
//! and fences that only the waiting side pays for.
//!
//! Everything goes on in a fork child. It waits for the sections that the forking thread had open; those of all other
//! threads are gone. Signal handlers may read on top of anything, but must not wait for grace periods.
//!
//! [docs/design/rcu.md]: https://github.com/commensal/commensal/blob/main/docs/design/rcu.md

mod cell;
mod deferred;
mod domain;
mod grace;
pub mod qsbr;
mod queue;
mod queues;
mod reader;
mod registered;
mod sections;
mod synchronize;
mod typesafe;
mod watch;
mod worker;

pub use cell::{Cell, Loaded, Replaced};
pub use deferred::{barrier, barrier_for, call, defer_drop, defer_free, waiting};
pub(crate) use deferred::{contention, has_worker, rouse_worker};
pub use grace::{Caller, Cookie, Pace};
pub use queue::Head;
pub use queues::Waiting;
pub use reader::{Open, ReadGuard, close, open, read};
pub(crate) use synchronize::{Standing, standing};
pub use synchronize::{grace_periods, is_over, set_knob, start, synchronize, synchronize_expedited, wait_for};
pub use typesafe::{Link, TypesafeBox, TypesafeCache};
pub(crate) use typesafe::{readers_are_absent, wait_for_readers};
