//! How often something took how long: log-linear buckets, each doubling in 64 equal parts, so that a percentile is exact to 1.6 %. Recording
//! is one increment, and allocates nothing.
//!
//! Source: HdrHistogram.

/// Parts of a doubling, as a power of two.
const PART_BITS: u32 = 6;
const PARTS: u64 = 1 << PART_BITS;
/// Longer ones count as the last bucket, of some minutes.
const BUCKETS: usize = 34 << PART_BITS;

/// Counts of nanoseconds.
pub struct Histogram {
    counts: Vec<u64>,
    most_ns: u64,
}

impl Histogram {
    /// Without counts.
    pub fn new() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], most_ns: 0 }
    }

    /// Counts one.
    pub fn record(&mut self, ns: u64) {
        self.counts[bucket(ns).min(BUCKETS - 1)] += 1;
        self.most_ns = self.most_ns.max(ns);
    }

    /// Takes another one's counts in.
    pub fn add(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.most_ns = self.most_ns.max(other.most_ns);
    }

    /// The least that so many of a million do not exceed, to the bucket; 0 if there are no counts.
    pub fn percentile_ns(&self, of_million: u64) -> u64 {
        let total: u64 = self.counts.iter().sum();
        let wanted = (u128::from(total) * u128::from(of_million)).div_ceil(1_000_000) as u64;
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted && seen > 0
        });
        found.map_or(0, |bucket| last_of(bucket).min(self.most_ns))
    }

    /// The longest, exactly.
    pub fn most_ns(&self) -> u64 {
        self.most_ns
    }
}

/// Below twice the parts each value has its own; above, the doubling counts, and what follows the leading bit.
fn bucket(ns: u64) -> usize {
    let doubling = ns.max(PARTS).ilog2() - PART_BITS;
    ((u64::from(doubling) << PART_BITS) + (ns >> doubling)) as usize
}

/// The longest that a bucket counts.
fn last_of(bucket: usize) -> u64 {
    let doubling = (bucket as u64 >> PART_BITS).saturating_sub(1);
    ((bucket as u64 + 1 - (doubling << PART_BITS)) << doubling) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_and_are_narrow() {
        let mut first = 0;
        for at in 0..BUCKETS {
            let last = last_of(at);
            assert!(bucket(first) == at && bucket(last) == at, "bucket {at} counts {first} to {last}");
            assert!(last - first <= first / PARTS, "bucket {at} counts {first} to {last}");
            first = last + 1;
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_values() {
        let mut halves = [Histogram::new(), Histogram::new()];
        (1..=10_000).for_each(|ns| halves[ns as usize % 2].record(ns));
        let [mut all, odd] = halves;
        all.add(&odd);
        for (of_million, ns) in [(0, 1), (500_000, 5000), (999_000, 9990), (999_900, 9999), (1_000_000, 10_000)] {
            let found = all.percentile_ns(of_million);
            assert!((ns..=ns + ns / PARTS).contains(&found), "{of_million}: {found}");
        }
        assert_eq!(all.most_ns(), 10_000);
        all.record(u64::MAX);
        assert_eq!(all.most_ns(), u64::MAX);
        assert_eq!(Histogram::new().percentile_ns(999_000), 0);
    }
}
