//! Bins: the free runs by length.
//!
//! | pages | bins |
//! |---|---|
//! | 1 to 15 | one for each length |
//! | 16 to 2^18 | eight for each doubling |
//!
//! A search begins in the bin of the wanted length, where runs may be too short. It looks at a bounded number of runs.

pub const BINS: usize = 16 + 8 * 14 + 1;
/// The longest run that bins hold, in pages: 1 GiB.
pub const LONGEST: u32 = 1 << 18;

pub fn bin_of(pages: u32) -> usize {
    debug_assert!((1..=LONGEST).contains(&pages));
    if pages < 16 {
        return pages as usize;
    }
    let doubling = pages.ilog2() - 4;
    16 + 8 * doubling as usize + ((pages >> (doubling + 1)) & 7) as usize
}

/// The bins that hold any runs.
#[derive(Debug)]
#[repr(C)]
pub struct Occupied([u64; BINS.div_ceil(64)]);

impl Occupied {
    pub fn set(&mut self, bin: usize, occupied: bool) {
        let bit = 1 << (bin % 64);
        if occupied {
            self.0[bin / 64] |= bit;
        } else {
            self.0[bin / 64] &= !bit;
        }
    }

    /// The first bin from `bin` on that holds something.
    pub fn next(&self, bin: usize) -> Option<usize> {
        let mut word = bin / 64;
        let mut bits = self.0.get(word)? & (u64::MAX << (bin % 64));
        while bits == 0 {
            word += 1;
            bits = *self.0.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// The last bin that holds something: the longest runs.
    pub fn last(&self) -> Option<usize> {
        let word = self.0.iter().rposition(|&bits| bits != 0)?;
        Some(word * 64 + 63 - self.0[word].leading_zeros() as usize)
    }

    pub fn clear(&mut self) {
        self.0.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_runs_are_in_later_bins() {
        let bins: std::vec::Vec<usize> = (1..=LONGEST).map(bin_of).collect();
        assert!(bins.windows(2).all(|pair| pair[0] == pair[1] || pair[0] + 1 == pair[1]));
        assert_eq!((bins[0], bins[LONGEST as usize - 1]), (1, BINS - 1));
    }

    #[test]
    fn occupied_bins_are_found_in_order() {
        let mut occupied = Occupied([0; BINS.div_ceil(64)]);
        assert_eq!((occupied.next(0), occupied.last()), (None, None));
        for bin in [3, 63, 64, BINS - 1] {
            occupied.set(bin, true);
        }
        assert_eq!([0, 4, 64, 65].map(|bin| occupied.next(bin)), [Some(3), Some(63), Some(64), Some(BINS - 1)]);
        occupied.set(BINS - 1, false);
        assert_eq!(occupied.last(), Some(64));
        assert_eq!(occupied.next(BINS + 63), None);
    }
}
