//! The runtime's region: one reservation of address space that everything else hangs from.
//!
//! ```text
//!   │ first segment │ first metadata │ header │ slot areas │ page map                    │
//!   └─ aligned to 4 MiB              base     + 4 KiB      + 4 MiB     2 MiB, or as the machine's memory asks for
//! ```
//!
//! It is made on the first allocation. The pages that are touched cost something: the header, one slot's area, one page of the map, the metadata in use; all of it
//! counts where address space is limited. Heaps up to 32 MiB never use huge pages
//! (a 2-MiB page for a program that needs 100 KiB is waste and a slow start); segments that come later follow the system's
//! setting.

use super::{General, Slab};
use crate::page::{PAGE, PageMap, Segment, Zone, reserve_aligned};
use crate::percpu::{AREAS_END, Area, HEADER, Preparation, Region};
use machine::sync::{AtomicU64, Ordering};
use machine::{process, root, slot, vm};

/// Alignment of segments.
const UNIT: usize = 4 << 20;
const FIRST_SEGMENT: usize = UNIT;
/// Segment table, the first segment's descriptions, and arrays.
const FIRST_METADATA: usize = 512 << 10;

const _: () = assert!(size_of::<Slab>() <= HEADER);
const _: () = assert!((core::mem::offset_of!(Slab, zone) + Zone::BUSY).is_multiple_of(64));
const _: () = assert!(Segment::description_bytes(FIRST_SEGMENT) + (256 << 10) <= FIRST_METADATA);
const _: () = assert!(AREAS_END + PAGE <= root::BOOTSTRAP_BYTES);

/// Makes the region and installs it. False: there is no address space for it.
#[cold]
pub fn begin() -> bool {
    root::install(|| {
        let entries = PageMap::entries_for(process::memory(), process::address_space_limit());
        let bytes = FIRST_SEGMENT + FIRST_METADATA + AREAS_END + PageMap::bytes(entries);
        let segment = reserve_aligned(bytes, UNIT)?;
        let metadata = segment.wrapping_add(FIRST_SEGMENT);
        let base = metadata.wrapping_add(FIRST_METADATA);
        // The last array's worth of the metadata stays unused: see `array::DRAINING`.
        // SAFETY: the mapping is fresh and ours; zeroes are a valid slab.
        unsafe {
            vm::advise_huge(segment, bytes, vm::Huge::Avoid);
            let slab = &mut *base.cast::<Slab>();
            slab.zone.map.begin(entries);
            slab.begin();
            if !slab.zone.begin(
                base.wrapping_add(AREAS_END),
                (metadata, base.wrapping_sub(2 * slot::ARRAY)),
                (segment, FIRST_SEGMENT),
            ) || !slab.begin_registry()
            {
                vm::release(segment, bytes);
                return None;
            }
        }
        slot::initialise();
        Some(base)
    })
}

/// Has the kernel show whose the memory is that the process has begun with: at its start, and before the second thread, but not later, when it may have forbidden
/// itself to ask.
pub fn name() {
    const BYTES: usize = FIRST_SEGMENT + FIRST_METADATA + AREAS_END;
    if root::is_installed() {
        let start = root::base().wrapping_sub(FIRST_METADATA + FIRST_SEGMENT);
        // SAFETY: mapped by `begin`, and ours.
        let _ = unsafe { vm::name(start, BYTES, c"commensal") };
    }
}

/// Prepares per-CPU memory for so many CPUs, as allocators of the eager school do at their start: every line of the slots' areas, and the
/// counters' rows. Nothing but time and memory comes of it. False: not all of it, for lack of memory.
#[cold]
pub fn lay_out(cpus: usize) -> bool {
    const LINE: usize = 64;
    // SAFETY: as below.
    let region = unsafe { Region::at(root::base()) };
    for line in 0..cpus * slot::AREA / LINE {
        let word: *mut AtomicU64 = region.at_offset(slot::AREAS + line * LINE).cast();
        // A write, so that the line's page is there from now on. Compilers turn other operations that change nothing into mere loads.
        // SAFETY: the areas are committed; the word stays as it is.
        let _ = unsafe { (*word).compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed) };
    }
    Area::new(cpus, Preparation::ForAll { cpus }).is_some_and(|area| general().state().registry().tally.share_in(area))
}

/// The runtime's slab, or the stand-in before [`begin`].
#[inline(always)]
pub fn general() -> General<'static> {
    // SAFETY: the root's base is a runtime's or the stand-in.
    unsafe { General::of(Region::at(root::base())) }
}
