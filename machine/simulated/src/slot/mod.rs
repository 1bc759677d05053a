//! Slots: the index of per-CPU data, and the restartable operations on it. The host's module documents them.

#[path = "../../../host/src/slot/fallback.rs"]
mod fallback;
mod given;
#[path = "../../../host/src/slot/layout.rs"]
mod layout;
#[path = "../../../host/src/slot/number.rs"]
mod number;
mod restartable;
mod section;
#[path = "../../../host/src/slot/words.rs"]
mod words;

pub(crate) use given::enter_section;
pub use layout::{
    AREA, AREAS, ARRAY, COUNTED_BESIDE, COUNTS, Counted, DRAWN, MARK, MAX, NOWHERE, Pair, ROW, Stored, WIDEST,
};
pub use number::{
    Mode, claim, count_as_used, current, current_if_given, in_use, initialise, mode, most, possible, while_dead,
};

pub(crate) fn names_of_state() -> impl Iterator<Item = (usize, usize, &'static str)> {
    number::names_of_state().chain(fallback::names_of_state())
}

pub use restartable::{
    change_and_push, change_places, compare_store, count, count_in, draw, load_pair, local_add, local_increment, pop,
    pop_ahead, push, replace_pair, store_pair,
};
#[doc(hidden)]
pub use section::{Aborted, Section, restartably};
pub use words::{compare_exchange, exchange, load};
