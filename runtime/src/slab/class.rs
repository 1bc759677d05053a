//! Size classes: steps of 16 bytes up to 128, then eight for each doubling up to 32 KiB.
//!
//! Beyond what alignment to 16 asks for, at most 12.5 % of an object is waste: a request above 2^k is rounded up to the
//! next multiple of 2^k / 8. Class 0 is no class: large blocks and foreign memory.

use super::array::MOST_POINTERS;
use crate::page::PAGE;

/// Requests above this are large blocks.
pub const LARGEST: usize = 32 << 10;
/// Number of classes, class 0 included.
pub const CLASSES: usize = 73;
/// Steps of the table that finds the class of a request.
pub const STEP: usize = 16;
/// Entries of that table.
pub const STEPS: usize = LARGEST / STEP + 1;

/// Bytes of an array's worth of objects, at most.
const ARRAY_BUDGET: usize = 16 << 10;
/// The same for objects above 1 KiB: whoever uses those spends more time in them than in going for the next.
const ARRAY_BUDGET_ABOVE_1_KIB: usize = 8 << 10;
/// Objects above this many bytes are cut from spans of four granules.
const LARGE_SPAN_ABOVE: usize = 4096;

/// Bytes of an object of each class.
pub static SIZES: [u16; CLASSES] = sizes();

const fn sizes() -> [u16; CLASSES] {
    let mut sizes = [0; CLASSES];
    let mut class = 1;
    let mut size = STEP;
    while class < CLASSES {
        sizes[class] = size as u16;
        let step = if size < 128 { STEP } else { 1 << (size.ilog2() - 3) };
        size += step;
        class += 1;
    }
    sizes
}

/// Bytes of an object of a class.
#[inline]
pub fn size(class: usize) -> usize {
    SIZES[class] as usize
}

/// The class for a request of `bytes`, at most [`LARGEST`].
pub const fn class_for(bytes: usize) -> usize {
    let rounded = if bytes == 0 { 1 } else { bytes };
    if rounded <= 128 {
        return rounded.div_ceil(STEP);
    }
    let doubling = (rounded - 1).ilog2();
    let eighth = (rounded - 1) >> (doubling - 3);
    8 + (doubling as usize - 7) * 8 + (eighth - 8) + 1
}

/// The first class of at least `bytes` whose objects are all aligned to `alignment`, a power of two up to a page.
pub fn class_for_aligned(bytes: usize, alignment: usize) -> Option<usize> {
    let least = bytes.max(alignment);
    if least > LARGEST {
        return None;
    }
    (class_for(least)..CLASSES).find(|&class| size(class).is_multiple_of(alignment))
}

/// Objects that an array of a class holds at most.
#[inline]
pub fn array_capacity(class: usize) -> usize {
    CAPACITIES[class] as usize
}

/// Objects that an array of a class holds while the class is cold: half a page of them, or eight.
#[inline]
pub fn cold_capacity(class: usize) -> usize {
    COLD_CAPACITIES[class] as usize
}

static CAPACITIES: [u8; CLASSES] = capacities();
static COLD_CAPACITIES: [u8; CLASSES] = cold_capacities();

const fn cold_capacities() -> [u8; CLASSES] {
    let sizes = sizes();
    let mut capacities = [0; CLASSES];
    let mut class = 1;
    while class < CLASSES {
        let fitting = PAGE / 2 / sizes[class] as usize;
        capacities[class] = match fitting {
            0 => 1,
            1..8 => fitting as u8,
            _ => 8,
        };
        class += 1;
    }
    capacities
}

const fn capacities() -> [u8; CLASSES] {
    let sizes = sizes();
    let mut capacities = [0; CLASSES];
    let mut class = 1;
    while class < CLASSES {
        let size = sizes[class] as usize;
        let fitting = if size > 1 << 10 { ARRAY_BUDGET_ABOVE_1_KIB } else { ARRAY_BUDGET } / size;
        capacities[class] = match fitting {
            0..2 => 2,
            2..MOST_POINTERS => fitting as u8,
            _ => MOST_POINTERS as u8,
        };
        class += 1;
    }
    capacities
}

/// Granules of a span of a class.
pub fn span_granules(class: usize) -> u8 {
    if size(class) > LARGE_SPAN_ABOVE { 4 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_fits_the_smallest_class_that_holds_it() {
        assert_eq!(size(CLASSES - 1), LARGEST);
        for bytes in 0..=LARGEST {
            let class = class_for(bytes);
            assert!(size(class) >= bytes && size(class - 1) < bytes.max(1), "request {bytes}, class {class}");
        }
    }

    #[test]
    fn waste_beyond_alignment_is_at_most_an_eighth() {
        for bytes in 1..=LARGEST {
            let aligned = bytes.next_multiple_of(STEP);
            assert!((size(class_for(bytes)) - aligned) * 8 <= size(class_for(bytes)), "request {bytes}");
        }
    }

    #[test]
    fn aligned_requests_get_aligned_classes() {
        for alignment in (4..=12).map(|log| 1 << log) {
            for bytes in (1..=LARGEST).step_by(7) {
                let class = class_for_aligned(bytes, alignment).unwrap();
                assert!(size(class) >= bytes && size(class).is_multiple_of(alignment));
            }
        }
        assert_eq!(class_for_aligned(LARGEST + 1, 16), None);
    }
}
