//! Size classes: steps of 16 bytes up to 128, then eight for each doubling up to 32 KiB.
//!
//! A request above 2^k is rounded up to the next multiple of 2^k / 8. So at most 12.5 % of an object is waste, beyond
//! the alignment to 16. Class 0 stands for large blocks and foreign memory.

use crate::layout::IDS;

/// Requests above this are large blocks.
pub const LARGEST: usize = TABLE[CLASSES - 1] as usize;
/// Number of classes, class 0 included.
pub const CLASSES: usize = IDS;
/// Bytes of a step of the table that maps a request to its class.
pub const STEP: usize = 16;
/// Entries of that table.
pub const STEPS: usize = LARGEST / STEP + 1;

/// Bytes of each class's objects.
pub static SIZES: [u16; CLASSES] = TABLE;

const TABLE: [u16; CLASSES] = sizes();

/// A request above `BOUNDS[class]`, up to `BOUNDS[class + 1]`, is for this class; none is for class 0.
pub static BOUNDS: [u64; CLASSES + 1] = {
    let (mut bounds, mut class) = ([0; CLASSES + 1], 1);
    while class < CLASSES {
        bounds[class + 1] = TABLE[class] as u64;
        class += 1;
    }
    bounds
};

const fn sizes() -> [u16; CLASSES] {
    let (mut sizes, mut class, mut size) = ([0; CLASSES], 1, STEP);
    while class < CLASSES {
        sizes[class] = size as u16;
        size += if size < 128 { STEP } else { 1 << (size.ilog2() - 3) };
        class += 1;
    }
    sizes
}

/// Bytes of a class's objects.
#[inline]
pub fn size(class: usize) -> usize {
    SIZES[class] as usize
}

/// The class for a request of `bytes`, which is at most [`LARGEST`].
pub const fn class_for(bytes: usize) -> usize {
    let rounded = if bytes == 0 { 1 } else { bytes };
    if rounded <= 128 {
        return rounded.div_ceil(STEP);
    }
    let doubling = (rounded - 1).ilog2();
    let eighth = (rounded - 1) >> (doubling - 3);
    8 + (doubling as usize - 7) * 8 + (eighth - 8) + 1
}

/// The smallest class of at least `bytes` whose objects are aligned to `alignment`, a power of two up to a page.
#[inline]
pub fn class_for_aligned(bytes: usize, alignment: usize) -> Option<usize> {
    let least = Some(bytes.max(alignment)).filter(|&least| least <= LARGEST)?;
    (class_for(least)..CLASSES).find(|&class| size(class) & (alignment - 1) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_gets_the_smallest_size_class_that_holds_it() {
        assert_eq!(size(CLASSES - 1), LARGEST);
        for bytes in 0..=LARGEST {
            let class = class_for(bytes);
            assert!(size(class) >= bytes && size(class - 1) < bytes.max(1), "request {bytes}, class {class}");
            let is_bounded = BOUNDS[class] < bytes.max(1) as u64 && bytes as u64 <= BOUNDS[class + 1];
            assert!(is_bounded && BOUNDS[1] == 0, "request {bytes}, class {class}");
            let aligned = bytes.max(1).next_multiple_of(STEP);
            assert!((size(class) - aligned) * 8 <= size(class), "more than an eighth is waste: request {bytes}");
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
