//! Upkeep: memory goes back to the system in the background, on time and without spikes.
//!
//! * [`grid`] and [`timetable`]: each slot has one turn in an interval, in a window that it shares with nobody, while slots come and go, the interval
//!   changes and the clock jumps. So no two slots meet at the zone's lock because they tidy up.
//! * `own`: whoever comes along a slow path in the window of his slot takes the turn, a part at a time: arrays and depots of caches that nobody came along
//!   for, and the page list's surplus. Nobody is woken for it.
//! * [`step`]: where nobody comes along, the slot is *deserted*: what idles there goes back, in its window. Who does that is apart
//!   from what is done: the [`shepherd`], a thread of the runtime's own, or an embedder who calls [`tick()`].
//! * [`decay`]: pages of free runs that were idle for an interval go back to the kernel, in bounded calls, so many in a second, and fewer
//!   where the last ones were wanted again.
//!
//! A process with one thread has no shepherd: it does what is due on its own slow paths. One that lives shorter than some 50 ms never comes here.
//!
//! **Forks.** A child has no shepherd until it needs one. What another thread was in the middle of begins anew; what it had taken away of a slot, while it
//! drained it, is lost in the child as after every fork beside a drainer. **Signal handlers** may come here as any allocation does; they wait for nobody,
//! and make no thread.
//!
//! Source: the kernel's `vmstat_update` and `vmstat_shepherd`, and the review of the patch that spread them; see [`grid`].

pub mod decay;
pub mod grid;
mod own;
mod report;
pub mod shepherd;
mod state;
mod step;
pub mod timetable;

pub(crate) use own::tend;
pub use report::Report;
pub(crate) use shepherd::before_a_thread;
pub use shepherd::leave_to_the_last;
pub use step::{step, tick};

use crate::settings::{self, Refused};
use crate::slab::region::general;
use crate::slab::sharing;
use machine::clock;
use state::State;
pub(crate) use state::interval_ns;
use timetable::Turn;

/// When the next turn of a slot begins, by the machine's clock; 0: it has none, or somebody else looks.
pub(crate) fn next_turn_ns(slot: u32) -> u64 {
    let now_ns = clock::now_ns();
    let turn = State::known().and_then(|state| state.with(now_ns, |inside| inside.table.turn(slot)));
    match turn {
        Some(Turn::NotBeforeNs(at)) => at,
        Some(Turn::UntilNs(_)) => now_ns,
        Some(Turn::None) | None => 0,
    }
}

/// Sets what can be set about upkeep, by the name behind `upkeep.` in `settings::TABLE`, or `on` for `upkeep` itself. It takes effect at once.
pub fn set_knob(name: &str, value: u32) -> Result<(), Refused> {
    settings::set("upkeep", name, value)?;
    look_again();
    Ok(())
}

/// After something was set. Without memory for this, which is a few pages, there is no upkeep either.
pub(crate) fn look_again() {
    let Some(state) = sharing::enter().then(State::make).flatten() else { return };
    // Who waits for the time that the old value said looks again.
    (0..machine::slot::in_use()).for_each(|slot| general().watch(slot).look_now());
    state.shepherd.rouse();
    state.shepherd.ring();
}
