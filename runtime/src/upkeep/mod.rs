//! Upkeep: returns memory to the system in the background, on time and without spikes.
//!
//! * [`grid`] and [`timetable`]: each slot has one turn per interval, in its own window, so maintenance of two slots
//!   never contends for the page heap's lock.
//! * `own`: a thread on a slow path in its slot's window takes the turn, a part at a time. No thread is woken for it.
//! * [`step`]: serves a *deserted* slot, which no thread uses. The `shepherd`, a background thread of the runtime,
//!   calls this, or an embedder does by [`tick()`].
//! * `pressure`: the control group was above its limits.
//! * `decay`: when pages of free runs go back to the kernel.
//!
//! A process with one thread has no shepherd: its slow paths do what is due, after its first 50 ms.
//!
//! **Forks.** A child has no shepherd until it needs one. Interrupted work of other threads begins again. Memory that
//! another thread was draining from a slot is lost in the child, as after every fork beside a drainer. **Signal
//! handlers** may get here like any allocation; they do not wait, and create no thread.
//!
//! Source: the kernel's `vmstat_update` and `vmstat_shepherd`, and the review of a patch to it; see [`grid`].

mod decay;
pub mod grid;
mod own;
mod pressure;
mod shepherd;
mod state;
mod step;
pub mod timetable;

pub(crate) use own::maintain;
pub(crate) use shepherd::before_a_thread;
pub use shepherd::leave_to_the_last;
pub use state::Report;
pub use step::{step, tick};

use crate::caches::{enter, heap, known_at, made_at};
use crate::settings::{self, Refused};
use machine::clock;
use machine::sync::{Ordering, fence};
use state::STATE;
pub(crate) use state::interval_ns;
use timetable::Turn;

/// When the next turn of a slot begins, by the machine's clock; 0: it has none, or another thread has the lock.
pub(crate) fn next_turn_ns(slot: u32) -> u64 {
    let now_ns = clock::now_ns();
    let turn = known_at(&STATE).and_then(|state| state.with(now_ns, |inside| inside.table.turn(slot)));
    match turn {
        Some(Turn::NotBeforeNs(at)) => at,
        Some(Turn::UntilNs(_)) => now_ns,
        Some(Turn::None) | None => 0,
    }
}

/// Sets a setting of upkeep. `name` is its key without `upkeep.`, such as `interval_ms`, or `on` for `upkeep`.
///
/// ```
/// use commensal_runtime::upkeep;
///
/// upkeep::set_knob("interval_ms", 250).expect("milliseconds, from 1");
/// assert!(upkeep::set_knob("interval_ms", 0).is_err());
/// ```
///
/// # Errors
/// There is no such setting, or the value is out of its range. Nothing has changed.
pub fn set_knob(name: &str, value: u32) -> Result<(), Refused> {
    settings::set("upkeep", name, value)?;
    look_again();
    Ok(())
}

/// Applies a changed setting. Without memory for the state, which is a few pages, there is no upkeep either.
pub(crate) fn look_again() {
    let Some(state) = enter().then(|| made_at(&STATE)).flatten() else { return };
    // Threads that wait for a time from the old value look again. Pairs with the fence in `own::maintain`.
    fence(Ordering::SeqCst);
    (0..machine::slot::in_use()).for_each(|slot| heap().cpu.watch(slot).look_now());
    state.shepherd.rouse();
    state.shepherd.ring();
}

/// Watches the control group at a path instead of the process's own.
pub(crate) fn watch_group(path: &str) {
    if let Some(state) = enter().then(|| made_at(&STATE)).flatten() {
        state.pressure.watch(path, &heap().page_heap().metadata);
    }
}
