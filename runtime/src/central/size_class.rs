//! Size classes: steps of 16 bytes up to 128, then eight for each doubling up to 4 MiB.
//!
//! A request above 2^k is rounded up to the next multiple of 2^k / 8. So at most 12.5 % of an object is waste, beyond
//! the alignment to 16. Class 0 stands for large blocks and foreign memory.
//!
//! The class table leads to *small* classes, up to 32 KiB. *Middle* classes lie above, and consist of whole pages. The
//! last step, to 4 MiB, is twice as long: a byte of the page map can name no further class.

use crate::layout::{FIRST_IDS, IDS};

/// Requests above this are for middle classes.
pub const LARGEST: usize = TABLE[SMALL - 1] as usize;
/// Requests above this are large blocks.
pub const LARGEST_MIDDLE: usize = TABLE[CLASSES - 1] as usize;
/// Number of small classes, class 0 included.
pub const SMALL: usize = FIRST_IDS;
/// Number of classes, class 0 included.
pub const CLASSES: usize = IDS;
/// Bytes of a step of the table that maps a request to its class.
pub const STEP: usize = 16;
/// Entries of that table.
pub const STEPS: usize = LARGEST / STEP + 1;
/// The size that no class has.
const LEFT_OUT: usize = 15 << 18;

/// Bytes of each class's objects.
pub static SIZES: [u32; CLASSES] = TABLE;

const TABLE: [u32; CLASSES] = sizes();

/// A request above `BOUNDS[class]`, up to `BOUNDS[class + 1]`, is for this class; none is for class 0.
pub static BOUNDS: [u64; CLASSES + 1] = {
    let (mut bounds, mut class) = ([0; CLASSES + 1], 1);
    while class < CLASSES {
        bounds[class + 1] = TABLE[class] as u64;
        class += 1;
    }
    bounds
};

const fn sizes() -> [u32; CLASSES] {
    let (mut sizes, mut class, mut size) = ([0; CLASSES], 1, STEP);
    while class < CLASSES {
        sizes[class] = size as u32;
        let step = if size < 128 { STEP } else { 1 << (size.ilog2() - 3) };
        size += if size + step == LEFT_OUT { 2 * step } else { step };
        class += 1;
    }
    sizes
}

/// Bytes of a class's objects.
#[inline]
pub fn size(class: usize) -> usize {
    SIZES[class] as usize
}

/// The class for a request of `bytes`, which is at most [`LARGEST_MIDDLE`].
pub const fn class_for(bytes: usize) -> usize {
    if bytes > LEFT_OUT {
        return CLASSES - 1;
    }
    let rounded = if bytes == 0 { 1 } else { bytes };
    if rounded <= 128 {
        return rounded.div_ceil(STEP);
    }
    let doubling = (rounded - 1).ilog2();
    let eighth = (rounded - 1) >> (doubling - 3);
    8 + (doubling as usize - 7) * 8 + (eighth - 8) + 1
}

/// The smallest small class of at least `bytes` whose objects are aligned to `alignment`, a power of two up to a page.
#[inline]
pub fn class_for_aligned(bytes: usize, alignment: usize) -> Option<usize> {
    let least = Some(bytes.max(alignment)).filter(|&least| least <= LARGEST)?;
    (class_for(least)..SMALL).find(|&class| size(class) & (alignment - 1) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_gets_the_smallest_size_class_that_holds_it() {
        assert_eq!((LARGEST, LARGEST_MIDDLE), (32 << 10, 4 << 20));
        for bytes in (0..=LARGEST).chain((LARGEST..=LARGEST_MIDDLE).step_by(1023)).chain([LEFT_OUT, LARGEST_MIDDLE]) {
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
