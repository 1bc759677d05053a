//! The runtime's region: one reservation of address space for everything else. `layout` draws it.
//!
//! The first allocation makes it. It touches the header, one slot's area, one page of the map, and the metadata in use.
//! A limit of address space counts all of it. Heaps up to 32 MiB never use huge pages: a 2-MiB page is waste and a slow
//! start for a program that needs 100 KiB. Later segments follow the system's setting.

use super::heap::{Heap, heap};
use crate::layout::{AREAS_END, HEADER, Region};
use crate::page_heap::{PageMap, Segment, reserve_aligned};
use crate::percpu::{Area, Preparation};
use machine::sync::{AtomicU64, Ordering};
use machine::{process, root, slot, vm};

const UNIT: usize = 4 << 20;
const FIRST_SEGMENT: usize = UNIT;
/// Segment table, the first segment's descriptions, and magazines.
const FIRST_METADATA: usize = 512 << 10;

const _: () = assert!(Segment::description_bytes(FIRST_SEGMENT) + (256 << 10) <= FIRST_METADATA);

/// Makes the region and installs it. False: no address space.
#[cold]
pub(super) fn begin() -> bool {
    root::install(|| {
        let entries = PageMap::entries_for(process::memory(), process::address_space_limit());
        let bytes = FIRST_SEGMENT + FIRST_METADATA + AREAS_END + PageMap::bytes(entries);
        let segment = reserve_aligned(bytes, UNIT)?;
        let metadata = segment.wrapping_add(FIRST_SEGMENT);
        let base = metadata.wrapping_add(FIRST_METADATA);
        // The last magazine's worth of metadata stays unused, because a draining slot word names it.
        let extent = (metadata, base.wrapping_sub(2 * slot::ARRAY));
        // SAFETY: the mapping is fresh and ours; zeroes are a valid heap.
        unsafe {
            vm::advise_huge(segment, bytes, vm::Huge::Avoid);
            let map = base.wrapping_add(AREAS_END);
            if !(*base.cast::<Heap>()).begin((map, entries), extent, (segment, FIRST_SEGMENT)) {
                vm::release(segment, bytes);
                return None;
            }
        }
        slot::initialise();
        Some(base)
    })
}

/// Names the region's mapping, at the start and before the second thread; later the process may forbid the call.
pub fn name() {
    const BYTES: usize = FIRST_SEGMENT + FIRST_METADATA + AREAS_END;
    if root::is_installed() {
        let start = root::base().wrapping_sub(FIRST_METADATA + FIRST_SEGMENT);
        // SAFETY: `begin` mapped it, and it is ours.
        let _ = unsafe { vm::name(start, BYTES, c"commensal") };
    }
}

/// Prepares per-CPU memory for so many CPUs, like eager allocators: touches all lines of the slots' areas, and the
/// counters' rows. This costs time and memory, and changes nothing else. False: out of memory.
#[cold]
pub fn lay_out(cpus: usize) -> bool {
    const LINE: usize = 64;
    let region = Region::of_process();
    for line in 0..cpus * slot::AREA / LINE {
        let word: *mut AtomicU64 = region.at_offset(HEADER + line * LINE).cast();
        // A write, to make the page resident. Compilers turn other operations without effect into loads.
        // SAFETY: the areas are committed; the word keeps its value.
        let _ = unsafe { (*word).compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed) };
    }
    Area::new(cpus, Preparation::ForAll { cpus }).is_some_and(|area| heap().central().tally().share_in(area))
}
