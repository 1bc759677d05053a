//! The runtime's region: one reservation of address space that everything else hangs from. `layout` draws it.
//!
//! It is made on the first allocation. The pages that are touched cost something: the header, one slot's area, one page
//! of the map, the metadata in use; all of it counts where address space is limited. Heaps up to 32 MiB never use huge
//! pages (a 2-MiB page for a program that needs 100 KiB is waste and a slow start); segments that come later follow the
//! system's setting.

use super::heap::{Heap, heap};
use crate::layout::{AREAS_END, HEADER, Region};
use crate::page_heap::{PageMap, Segment, reserve_aligned};
use crate::percpu::{Area, Preparation};
use machine::sync::{AtomicU64, Ordering};
use machine::{process, root, slot, vm};

/// Alignment of segments.
const UNIT: usize = 4 << 20;
const FIRST_SEGMENT: usize = UNIT;
/// Segment table, the first segment's descriptions, and magazines.
const FIRST_METADATA: usize = 512 << 10;

const _: () = assert!(Segment::description_bytes(FIRST_SEGMENT) + (256 << 10) <= FIRST_METADATA);

/// Makes the region and installs it. False: there is no address space for it.
#[cold]
pub(super) fn begin() -> bool {
    root::install(|| {
        let entries = PageMap::entries_for(process::memory(), process::address_space_limit());
        let bytes = FIRST_SEGMENT + FIRST_METADATA + AREAS_END + PageMap::bytes(entries);
        let segment = reserve_aligned(bytes, UNIT)?;
        let metadata = segment.wrapping_add(FIRST_SEGMENT);
        let base = metadata.wrapping_add(FIRST_METADATA);
        // The last magazine's worth of the metadata stays unused: a slot word that is draining names it.
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

/// Has the kernel show whose the memory is that the process has begun with: at its start, and before the second thread,
/// but not later, when it may have forbidden itself to ask.
pub fn name() {
    const BYTES: usize = FIRST_SEGMENT + FIRST_METADATA + AREAS_END;
    if root::is_installed() {
        let start = root::base().wrapping_sub(FIRST_METADATA + FIRST_SEGMENT);
        // SAFETY: mapped by `begin`, and ours.
        let _ = unsafe { vm::name(start, BYTES, c"commensal") };
    }
}

/// Prepares per-CPU memory for so many CPUs, as allocators of the eager school do at their start: every line of the
/// slots' areas, and the counters' rows. Nothing but time and memory comes of it. False: not all of it, for lack of
/// memory.
#[cold]
pub fn lay_out(cpus: usize) -> bool {
    const LINE: usize = 64;
    let region = Region::of_process();
    for line in 0..cpus * slot::AREA / LINE {
        let word: *mut AtomicU64 = region.at_offset(HEADER + line * LINE).cast();
        // A write, so that the line's page is there from now on. Compilers turn other operations that change nothing
        // into mere loads. SAFETY: the areas are committed; the word stays as it is.
        let _ = unsafe { (*word).compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed) };
    }
    Area::new(cpus, Preparation::ForAll { cpus }).is_some_and(|area| heap().central().tally().share_in(area))
}
