//! Slots: the index of per-CPU data, and the restartable operations on it.
//!
//! With concurrency ids (Linux 6.3), a *slot* is the running thread's id (mm_cid). At any moment each running thread of
//! the process has a different one. They are dense, so a process with two threads on 256 CPUs uses two slots.
//! `restartable` says how sections begin again when the kernel aborts them.
//!
//! Without concurrency ids, the process is in *fallback mode*: each thread owns a slot (`fallback`), and the same
//! code works on it, without signals. A thread whose registration failed has no slot: each operation says "not here",
//! and the caller takes its locked path.

mod count;
mod entry;
mod fallback;
mod given;
mod layout;
mod number;
mod restartable;
mod row;
mod section;
mod words;

pub use count::{count, count_in};
#[doc(hidden)]
pub use given::{WORDS, own_cpu_word};
#[doc(hidden)]
pub use layout::AREA_SHIFT;
pub use layout::{
    AREA, AREAS, ARRAY, COUNTED_BESIDE, COUNTS, Counted, DRAWN, MARK, MAX, NOWHERE, Pair, ROW, Stored, WIDEST,
};
pub use number::{
    Mode, claim, count_as_used, current, current_if_given, in_use, initialise, mode, most, possible, while_dead,
};
pub use restartable::{change_and_push, change_places, compare_store, pop, pop_ahead, push};
pub use row::{draw, load_pair, local_add, local_increment, replace_pair, store_pair};
pub use words::{compare_exchange, exchange, load};
