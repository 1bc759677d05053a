//! How much a slot keeps of a class: from one array of a few objects up to a depot of full ones, by the class's heat.
//!
//! Pure functions of the class, its heat, and how many slots share.

use super::class;
use machine::slot;

/// Bytes of objects that a shard keeps in arrays, while no more than so many slots are in use; then they share.
const DEPOT_BUDGET: usize = 256 << 10;
const DEPOTS_AT_FULL_BUDGET: usize = 4;
/// More slots than this keep less each.
pub const MANY_SLOTS: u32 = 16;

/// Pointers that an array has room for: few while the class is cold, so that a program which uses many classes a little does not
/// wander through fresh memory.
pub fn batch(class: usize, heat: u32) -> usize {
    // Where every thread has a slot, many of them rest: they share what two score of them might have.
    let heat = if slot::in_use() > MANY_SLOTS && slot::mode() == slot::Mode::PerThread { heat.min(1) } else { heat };
    class::array_capacity(class).min(class::cold_capacity(class) << heat)
}

/// Arrays that a shard keeps: one while the class is cold, up to a budget of bytes when it is hot; where many slots share the
/// budget, perhaps none.
pub fn depot_limit(class: usize, heat: u32) -> usize {
    // None is, as long as all threads that came had none.
    let slots = slot::in_use().max(1);
    let budget = DEPOT_BUDGET / (slots as usize).div_ceil(DEPOTS_AT_FULL_BUDGET);
    (budget / (batch(class, heat) * class::size(class))).clamp(usize::from(slots <= MANY_SLOTS), 1 << heat)
}
