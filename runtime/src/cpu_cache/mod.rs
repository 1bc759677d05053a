//! The per-CPU caches: two magazines for each slot and cache.
//!
//! Allocating and freeing an object is one restartable operation on the calling thread's slot. Each cache has an
//! allocation magazine and a free magazine there, so a free does not feed the next allocation through memory. They
//! change places when one is empty and the other is filled. Below them lies the depot.
//!
//! A slow path first takes a magazine out of its slot word by one committing store. If anything fails afterwards,
//! because the thread migrated or another was faster, the magazine goes to the depot. So no path has to undo anything.

mod drain;
mod examine;
mod gap;
mod listener;
mod resize;
mod retire;
mod shortage;
mod shuffle;
mod slot_word;
mod slow_path;
mod tier;

pub use drain::{Drained, Reclaimed, Which};
pub use gap::{Claim, Gap, Kinds, MOST as MOST_OF_A_GAP, Means, begin_in, left_of_gap, means, usual_mean, wanted_mean};
pub use listener::{Notifier, Server};
pub use retire::RetireSlots;
pub use slot_word::{Side, SlotWord};
pub use tier::{At, CpuCaches, Watch};
