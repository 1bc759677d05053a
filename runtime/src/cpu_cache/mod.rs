//! The per-CPU caches: two magazines for each slot and cache, and what becomes of them.
//!
//! Taking and giving back an object is one restartable operation on the calling thread's slot. A slot has an allocation
//! magazine and a free magazine for each cache, so that a free does not feed the very next allocation through memory;
//! they change places when one is empty and the other filled. Beyond them lies the depot.
//!
//! A slow path makes a magazine its own first, by one committing store that takes it out of a slot's word, and then
//! works on it at leisure; whatever goes wrong afterwards (the thread migrated, another one was faster) ends with the
//! magazine in the depot. So no path has to undo anything.

mod bulk;
mod drain;
mod hook;
mod idle;
mod miss;
mod overflow;
mod refill;
mod resize;
mod retire;
mod slot_word;
mod tier;
mod vain_flush;

pub use drain::{Drained, Which};
pub use hook::{At, Watch};
pub use idle::Reclaimed;
pub use retire::RetireSlots;
pub use slot_word::{Side, SlotWord};
pub use tier::CpuCaches;
