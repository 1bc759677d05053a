//! What lies where in the runtime's region, for traces.

use machine::slot::{AREA, AREAS, MAX};
use machine::{root, simulation};

/// Words of a slot that name arrays: what lies behind them in its area belongs to its shards.
const ARRAY_WORDS: usize = 2 * commensal::slab::class::CLASSES;

/// Says it.
pub fn of_heap() {
    simulation::set_namer(|at| {
        // SAFETY: reads a pointer, plainly: who asks for names makes no steps.
        let base = unsafe { root::BASE.as_ptr().read_volatile() };
        name(at.checked_sub(base.addr())?)
    });
}

/// The name of an offset in the region.
fn name(offset: usize) -> Option<String> {
    if offset < AREAS {
        return Some(format!("runtime+{offset:#x}"));
    }
    let (slot, within) = ((offset - AREAS) / AREA, (offset - AREAS) % AREA);
    match within / 8 {
        _ if slot >= MAX => None,
        word if word < ARRAY_WORDS => {
            let kind = if word % 2 == 0 { "take" } else { "give" };
            Some(format!("slot {slot}.{kind}[{}]", word / 2))
        }
        _ => Some(format!("slot {slot}.shards+{:#x}", within - ARRAY_WORDS * 8)),
    }
}
