//! What lies where in the runtime's region, for traces.

use commensal::layout::{self, HEADER, Part};
use machine::slot::{AREA, MAX};
use machine::{root, simulation};

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
    let Some(within) = offset.checked_sub(HEADER) else { return Some(format!("runtime+{offset:#x}")) };
    let (slot, within) = (within / AREA, within % AREA);
    let part = layout::part_of(within);
    (slot < MAX).then(|| match part {
        Part::AllocationMagazine(id) => format!("slot {slot}.allocation[{id}]"),
        Part::FreeMagazine(id) => format!("slot {slot}.free[{id}]"),
        Part::Shard(id, offset) => format!("slot {slot}.shard[{id}]+{offset}"),
        Part::Other => format!("slot {slot}+{within:#x}"),
    })
}
